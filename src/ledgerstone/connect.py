"""From a url to an open backend; the only file that knows all of them."""

from __future__ import annotations

import os

from ledgerstone.clock import Clock, SystemClock
from ledgerstone.errors import InvalidValue, NotSupported
from ledgerstone.ports.backend import Backend

DURABILITIES = ("none", "process", "power")
_KNOWN = "a path, sqlite:///path, file:///directory or memory://"
_LATER = {
    "postgresql": "the PostgreSQL backend comes with a later release",
    "postgres": "the PostgreSQL backend comes with a later release",
}
_FORMS = {
    "sqlite": "write sqlite:///relative.db or sqlite:////absolute.db",
    "file": "write file:///absolute/directory or file:relative/directory",
}


def open_backend(
    url: str | os.PathLike[str],
    *,
    durability: str | None = None,
    clock: Clock | None = None,
    blobs: object = None,
    vectors: object = None,
    pool_size: int | None = None,
) -> Backend:
    """Open what the url names, blocking.

    InvalidValue for a url nobody knows, NotSupported for what a later release brings or the
    backend can not give; anything the backend finds wrong with the place itself comes from it.
    """
    check_options(durability, blobs, vectors, pool_size)
    scheme, rest = _split(url)
    if scheme == "memory":
        from ledgerstone.backends.memory import open_memory

        return open_memory(durability=durability, clock=clock or SystemClock())
    if scheme == "sqlite":
        from ledgerstone.backends.sqlite import open_sqlite

        return open_sqlite(rest, durability=durability, clock=clock or SystemClock())
    if scheme == "file":
        from ledgerstone.backends.file import open_file

        return open_file(rest, durability=durability, clock=clock or SystemClock())
    raise NotSupported(f"{scheme}:// stores", hint=_LATER[scheme])


def check_options(durability: object, blobs: object, vectors: object, pool_size: object) -> None:
    """InvalidValue or NotSupported for options that no backend of this release takes."""
    if durability is not None and durability not in DURABILITIES:
        raise InvalidValue("durability", f"{durability!r} is none of {', '.join(DURABILITIES)}")
    if pool_size is not None and (type(pool_size) is not int or pool_size < 1):
        raise InvalidValue("pool_size", "a positive integer expected")
    if pool_size is not None:
        raise NotSupported("pool_size=", hint="only server databases have a pool")
    if blobs is not None:
        raise NotSupported("blobs=", hint="blob stores come with a later release")
    if vectors is not None:
        raise NotSupported("vectors=", hint="vector search comes with a later release")


def _split(url: str | os.PathLike[str]) -> tuple[str, str]:
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
            raise InvalidValue("url", _FORMS["sqlite"])
        return "sqlite", url
    if scheme == "memory":
        if rest:
            raise InvalidValue("url", f"memory:// takes no name, got {rest!r}")
        return scheme, ""
    if scheme == "sqlite":
        return scheme, _sqlite_path(rest)
    if scheme in _LATER:
        return scheme, rest
    raise InvalidValue("url", f"unknown scheme {scheme!r}; give {_KNOWN}")


def is_folder(url: str) -> bool:
    """Whether the url names a directory of journals."""
    return url.startswith("file:")


def folder_path(url: str) -> str:
    """The directory of a file url: absolute after slashes, as in a browser, else relative."""
    from urllib.parse import unquote

    rest = unquote(url.removeprefix("file:"))
    host = rest.startswith("//") and not rest.startswith("///")
    if not rest.strip("/") or host or "\0" in rest:
        raise InvalidValue("url", _FORMS["file"])
    return "/" + rest.lstrip("/") if rest.startswith("/") else rest


def _sqlite_path(rest: str) -> str:
    # As elsewhere: three slashes lead to a relative path, four to an absolute one.
    from urllib.parse import unquote

    path = unquote(rest.removeprefix("/"))
    if not rest.startswith("/") or not path or "\0" in path:
        raise InvalidValue("url", _FORMS["sqlite"])
    return path
