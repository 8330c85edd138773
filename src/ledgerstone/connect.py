"""From a url to an open backend and its equipment; the only file that knows all of them."""

from __future__ import annotations

import os
import threading
import warnings
from contextlib import suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ledgerstone.clock import Clock, SystemClock
from ledgerstone.commands.transfer import IsCopyUnfinished
from ledgerstone.engines.file.urls import folder_path, is_folder
from ledgerstone.errors import InvalidValue, LedgerstoneError, NotSupported
from ledgerstone.ports.backend import Backend

if TYPE_CHECKING:
    from ledgerstone.ports.blobs import BlobPlace
    from ledgerstone.ports.vectors import VectorEngine
    from ledgerstone.rules.prices import Prices

DURABILITIES = ("none", "process", "power")
_KNOWN = "a path, sqlite:///path, file:///directory, memory:// or postgresql://host/database"
_SERVERS = ("postgresql", "postgres")
_HALF = ("memory:", "postgresql:", "postgres:", "postgresql//", "postgres//")
_SQLITE_FORM = "write sqlite:///relative.db or sqlite:////absolute.db"


def open_backend(
    url: str | os.PathLike[str],
    *,
    durability: str | None = None,
    clock: Clock | None = None,
    pool_size: int | None = None,
    read_only: bool = False,
    accept_loss: bool = False,
) -> Backend:
    """Open what the url names, blocking; `read_only` refuses every write and makes none itself.

    InvalidValue for a url nobody knows, NotSupported for what the backend cannot give; anything
    the backend finds wrong with the place itself comes from it.
    """
    scheme, rest = split_url(url)
    _check_options(durability, pool_size, scheme)
    if read_only:
        return _open_read_only(scheme, rest, clock, pool_size)
    if accept_loss and scheme != "sqlite":
        raise NotSupported("accept_loss=", hint="only a SQLite file has a log that can be lost")
    if scheme == "memory":
        from ledgerstone.engines.memory.backend import open_memory

        return open_memory(durability=durability, clock=clock or SystemClock())
    if scheme == "sqlite":
        from ledgerstone.engines.sqlite.backend import open_sqlite

        return open_sqlite(
            rest, durability=durability, clock=clock or SystemClock(), accept_loss=accept_loss
        )
    if scheme == "file":
        from ledgerstone.engines.file.backend import open_file

        return open_file(rest, durability=durability, clock=clock or SystemClock())
    from ledgerstone.engines.postgres.backend import open_postgres

    return open_postgres(
        f"postgresql://{rest}", durability=durability, clock=clock, pool_size=pool_size
    )


def _open_read_only(scheme: str, rest: str, clock: Clock | None, pool_size: int | None) -> Backend:
    from ledgerstone.engines.read_only import ReadOnlyBackend, ReadOnlyNearStore

    if scheme == "memory":
        hint = "a new store in memory has nothing to read; open it without"
        raise NotSupported("read_only=True", "memory", hint)
    if scheme == "sqlite":
        from ledgerstone.engines.sqlite.read_only import open_sqlite_read_only

        return open_sqlite_read_only(rest, clock or SystemClock())
    if scheme == "file":
        from ledgerstone.engines.file.read_only import open_file_read_only

        return ReadOnlyBackend(open_file_read_only(rest, clock or SystemClock()))
    from ledgerstone.engines.postgres.backend import open_postgres

    url = f"postgresql://{rest}"
    server = open_postgres(url, clock=clock, pool_size=pool_size, read_only=True)
    return ReadOnlyNearStore(server)


def warn_of_unfinished_copy(backend: Backend, tenant: str) -> None:
    """Warn when a copy into this tenant was begun and has not ended: it is no store to work with.

    What cannot be read is left to whoever reads it next.
    """
    with suppress(LedgerstoneError):
        if backend.read([IsCopyUnfinished(tenant=tenant)])[0]:
            warnings.warn(
                f"a copy into tenant {tenant!r} of this store was begun and has not ended; run "
                "`ledgerstone copy` again before you work with it",
                stacklevel=5,
            )


class Equipment:
    """What a store has besides its backend: a place for bytes, an engine for vectors, prices.

    Each is made when it is first asked for, since most programs need few of them; a place that
    the caller named is opened, and proved, at once.
    """

    def __init__(
        self,
        backend: Backend,
        *,
        blobs: str | os.PathLike[str] | None = None,
        vectors: str | None = None,
        prices: object = None,
        read_only: bool = False,
    ) -> None:
        self._backend = backend
        self._read_only = read_only
        self._blobs = blobs
        self._vectors = vectors
        self._prices = prices
        self._making = threading.Lock()
        self.indexes: dict[tuple[str, str], Any] = {}
        """What vector searches keep between calls, by tenant and model."""
        self.unbudgeted: set[str] = set()
        """Tenants that had no budget when last looked at; their turns begin without a read."""
        if blobs is not None:
            _ = self.place
        if vectors is not None:
            _ = self.engine
        if prices is not None:
            _ = self.prices

    @cached_property
    def place(self) -> BlobPlace:
        """Where bytes live; a named one is probed here."""
        from ledgerstone.blobs.opening import open_place

        with self._making:  # Two threads that ask at once must not open it twice.
            if "place" not in self.__dict__:
                self.__dict__["place"] = open_place(
                    self._backend, self._blobs, read_only=self._read_only
                )
        opened: BlobPlace = self.__dict__["place"]
        return opened

    @cached_property
    def engine(self) -> VectorEngine:
        """Who compares vectors."""
        from ledgerstone.vectors.opening import open_engine

        return open_engine(self._vectors, self._backend)

    @cached_property
    def prices(self) -> Prices:
        """What models cost."""
        from ledgerstone.rules.prices import open_prices

        return open_prices(self._prices)

    def close(self) -> None:
        """Let go of the place; the backend is somebody else's."""
        place = self.__dict__.get("place")
        if place is not None:
            place.close()
        self.indexes.clear()


def _check_options(durability: object, pool_size: object, scheme: str) -> None:
    """InvalidValue or NotSupported for options that the backend does not take."""
    if durability is not None and durability not in DURABILITIES:
        raise InvalidValue("durability", f"{durability!r} is none of {', '.join(DURABILITIES)}")
    if pool_size is not None and (type(pool_size) is not int or pool_size < 1):
        raise InvalidValue("pool_size", "a positive integer expected")
    if pool_size is not None and scheme not in _SERVERS:
        raise NotSupported("pool_size=", hint="only server databases have a pool")


def split_url(url: str | os.PathLike[str]) -> tuple[str, str]:
    """The scheme of a url and what follows it, of a file or folder its path; InvalidValue."""
    if isinstance(url, os.PathLike):
        url = os.fspath(url)
    if not isinstance(url, str):
        raise InvalidValue("url", f"text or a path expected, got {type(url).__name__}")
    if not url or "\0" in url:
        raise InvalidValue("url", f"give {_KNOWN}")
    if is_folder(url):
        return "file", folder_path(url)
    scheme, colon, rest = url.partition("://")
    if not colon:
        if url.startswith("sqlite:"):
            raise InvalidValue("url", _SQLITE_FORM)
        # Not the name of a file, whatever is missing; it may hold a password and is not shown.
        if url.startswith(_HALF):
            raise InvalidValue("url", f":// is missing; give {_KNOWN}")
        return "sqlite", url
    if scheme == "memory":
        if rest:
            raise InvalidValue("url", f"memory:// takes no name, got {rest!r}")
        return scheme, ""
    if scheme == "sqlite":
        return scheme, _sqlite_path(rest)
    if scheme in _SERVERS:
        return scheme, rest
    raise InvalidValue("url", f"unknown scheme {scheme!r}; give {_KNOWN}")


def _sqlite_path(rest: str) -> str:
    # As elsewhere: three slashes lead to a relative path, four to an absolute one.
    from urllib.parse import unquote

    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path or "\0" in path:
        raise InvalidValue("url", _SQLITE_FORM)
    return path
