"""What the PostgreSQL backend needs of a driver; asyncpg and psycopg each give it.

Methods are coroutines in both. Those of the blocking driver never wait for anything but the
network, inside a call, so the trampoline can drive everything that is built on them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol, TypeAlias, TypeVar

from ledgerstone.clock import monotonic_s

A = TypeVar("A")
Row: TypeAlias = tuple[Any, ...]


class ServerSaid(Exception):
    """The server refused a statement; the connection still stands."""

    def __init__(self, sqlstate: str, message: str, constraint: str = "") -> None:
        super().__init__(f"{sqlstate}: {message}")
        self.sqlstate = sqlstate
        self.message = message
        self.constraint = constraint


class ConnectionLost(Exception):
    """The connection is gone: nobody knows whether what was sent was carried out."""


class DeadlineOver(ConnectionLost):
    """No answer in time; the connection was given up."""


class NotConnected(Exception):
    """No connection could be made; nothing was sent. `sqlstate` when the server said why.

    `passing`: the server is there and will take connections before long. `gone`: nobody answers;
    that passes as well when there was a server a moment ago.
    """

    def __init__(
        self, message: str, sqlstate: str = "", *, passing: bool = False, gone: bool = False
    ) -> None:
        super().__init__(message)
        self.message = message
        self.sqlstate = sqlstate
        self.passing = passing or sqlstate in _PASSING
        self.gone = gone


async def first_connected(
    addresses: Sequence[tuple[str | None, str | None]],
    connect: Callable[[str | None, str | None, float], Awaitable[A]],
    timeout_s: float,
) -> A:
    """A connection to the first address that takes us; each gets its share of the time.

    NotConnected with what every address answered.
    """
    ends_s, failed = monotonic_s() + timeout_s, list[NotConnected]()
    for n, (host, port) in enumerate(addresses):
        try:
            return await connect(host, port, (ends_s - monotonic_s()) / (len(addresses) - n))
        except NotConnected as error:
            failed.append(error)
    raise NotConnected(
        "; ".join(error.message for error in failed),
        failed[-1].sqlstate,
        passing=any(error.passing for error in failed),
        gone=any(error.gone for error in failed),
    ) from failed[-1]


_PASSING = ("57P03", "57P01", "57P02", "53300")


class BadText(Exception):
    """A text that UTF-8 cannot express."""


class Slot:
    """A place in a pool. It comes back when it is left, at the latest when nobody knows it.

    So a Ctrl-C at any moment costs no place for good.
    """

    __slots__ = ("_release",)

    def __init__(self, release: Callable[[], object]) -> None:
        self._release: Callable[[], object] | None = release

    def leave(self) -> None:
        release, self._release = self._release, None
        if release is not None:
            release()

    def __del__(self) -> None:
        self.leave()


class PgConnection(Protocol):
    """One connection, used by one command at a time."""

    opened_s: float
    used_s: float
    place: Slot | None

    @property
    def is_open(self) -> bool: ...

    @property
    def is_clean(self) -> bool:
        """Open, with no transaction and no statement under way."""
        ...

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        """All rows of one statement; none of one that has no answer."""
        ...

    async def script(self, text: str, timeout_s: float) -> None:
        """Statements without arguments and without answers: BEGIN, COMMIT, migrations."""
        ...

    def drop(self) -> None:
        """Let go at once, whatever is under way; the server notices by itself."""
        ...


class PgDriver(Protocol):
    """Makes connections, and waits in a thread or on an event loop."""

    name: str

    async def connect(self, timeout_s: float) -> PgConnection: ...

    async def enter(self, due: Callable[[], float], *, first: bool) -> Slot | None:
        """A place in the pool, in the order of asking; None when none was left until `due`."""
        ...

    async def pause(self, seconds: float) -> None: ...


class Ints(list[int | None]):
    """An argument of type bigint[]; each driver writes these three as fast as it can."""


class Texts(list[str | None]):
    """varchar[]: unlike others, these texts are sent as they are."""


class Blobs(list[bytes | None]):
    """bytea[]."""


_NUL = str.maketrans({"\0": "\x01\x01", "\x01": "\x01\x02"})


def to_column(text: str) -> str:
    """Text as a text column can hold it: NUL is written as two others, and the order stays."""
    if "\0" in text or "\x01" in text:
        return text.translate(_NUL)
    return text


def from_column(text: str) -> str:
    """The way back."""
    if "\x01" in text:
        return text.replace("\x01\x01", "\0").replace("\x01\x02", "\x01")
    return text


def is_ending(sqlstate: str | None) -> bool:
    """Whether the server ends the connection with these words."""
    return bool(sqlstate) and str(sqlstate)[:2] in ("08", "57") and sqlstate != "57014"
