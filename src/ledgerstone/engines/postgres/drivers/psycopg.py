"""The blocking driver: psycopg. Its coroutines never wait, so the trampoline can drive them."""

from __future__ import annotations

import re
import struct
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any, TypeVar

import psycopg
from psycopg import _cmodule, generators, pq, waiting
from psycopg.abc import PQGen
from psycopg.adapt import AdaptersMap, Dumper, Loader
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.types.string import StrDumperUnknown

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.pool import BehindPooler
from ledgerstone.engines.postgres.drivers.port import (
    BadText,
    Blobs,
    ConnectionLost,
    DeadlineOver,
    Ints,
    NotConnected,
    PgConnection,
    Row,
    ServerSaid,
    Slot,
    Texts,
    first_connected,
    from_column,
    is_ending,
    to_column,
)
from ledgerstone.engines.postgres.drivers.slots import Slots, wait_in_thread
from ledgerstone.engines.postgres.drivers.urls import Target
from ledgerstone.errors import InvalidValue

CHECK_INTERVAL_S = 0.1
A = TypeVar("A")


class _Over(Exception):
    """No answer in time."""


class _Raw(psycopg.Connection[Row]):
    """A connection whose waits end in time, also at Ctrl-C: nothing is said to the server then."""

    limit_s = 60.0

    def wait(
        self, gen: PQGen[Any], interval: float = CHECK_INTERVAL_S, timeout: float | None = None
    ) -> Any:
        limit_s = self.limit_s if timeout is None else timeout
        bounded = _until(gen, monotonic_s() + limit_s)
        return waiting.wait(bounded, self.pgconn.socket, min(CHECK_INTERVAL_S, max(limit_s, 0)))


def _until(gen: Generator[Any, Any, A], ends_s: float) -> Generator[Any, Any, A]:
    """The same, until the time is over; whoever waits for it wakes it now and then."""
    try:
        wanted = next(gen)
        while True:
            ready = yield wanted
            if not ready and monotonic_s() >= ends_s:
                raise _Over
            wanted = gen.send(ready)
    except StopIteration as done:
        value: A = done.value
        return value


def has_rows(cursor: psycopg.RawCursor[Row] | psycopg.AsyncRawCursor[Row]) -> bool:
    """Whether the last statement was one that answers with rows."""
    return cursor.pgresult is not None and cursor.pgresult.nfields > 0


class PsycopgConnection:
    """One connection."""

    def __init__(self, raw: _Raw, *, prepare: bool) -> None:
        self.raw = raw
        self._prepare = prepare
        self._cursor = psycopg.RawCursor(raw, row_factory=tuple_row)
        self.opened_s = self.used_s = monotonic_s()
        self.place: Slot | None = None

    @property
    def is_open(self) -> bool:
        return not self.raw.closed

    @property
    def is_clean(self) -> bool:
        return self.raw.pgconn.transaction_status == pq.TransactionStatus.IDLE

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        self._execute(text, arguments, timeout_s)
        return self._cursor.fetchall() if has_rows(self._cursor) else []

    async def script(self, text: str, timeout_s: float) -> None:
        self._execute(text, None, timeout_s)

    def notices(self) -> list[str]:
        """What NOTIFYs brought until now, without waiting."""
        found = []
        try:
            self.raw.pgconn.consume_input()
            while (notice := self.raw.pgconn.notifies()) is not None:
                found.append(bytes(notice.extra).decode())
        except psycopg.Error as error:
            raise self._judge(error) from error
        return found

    def drop(self) -> None:
        if not self.raw.closed:
            self.raw.pgconn.finish()

    def _execute(self, text: str, arguments: Sequence[Any] | None, timeout_s: float) -> None:
        """One statement, with what the driver raises said in the words of the port."""
        self.raw.limit_s = timeout_s
        prepare = self._prepare and arguments is not None
        try:
            self._cursor.execute(text, arguments, prepare=prepare, binary=arguments is not None)
        except _Over as error:
            self.drop()
            raise DeadlineOver(f"no answer within {timeout_s:.3g} s") from error
        except UnicodeEncodeError as error:
            raise BadText(str(error)) from error
        except psycopg.Error as error:
            raise self._judge(error) from error
        except BaseException:
            # Ctrl-C, for one: what was sent cannot be taken back on this connection.
            self.drop()
            raise

    def _judge(self, error: psycopg.Error) -> Exception:
        if isinstance(error, psycopg.DataError) and isinstance(error.__cause__, UnicodeEncodeError):
            return BadText(str(error))
        if self.raw.closed or is_ending(error.sqlstate):
            self.drop()
            return ConnectionLost(str(error).strip())
        if error.sqlstate is None and not isinstance(error, _OF_ARGUMENTS):
            self.drop()
            return ConnectionLost(str(error).strip())
        if error.sqlstate is None:
            return ServerSaid("22000", str(error))
        diag = error.diag
        message = diag.message_primary or str(error)
        return ServerSaid(error.sqlstate, message, diag.constraint_name or "")


_OF_ARGUMENTS = (psycopg.DataError, psycopg.ProgrammingError, psycopg.NotSupportedError)
_PASSING = re.compile(
    "starting up|shutting down|in recovery mode|not (yet )?accepting connections|"
    "too many (clients|connections)|connection slots are reserved|no more connections allowed"
)
_GONE = re.compile(
    "refused|reset by peer|closed the connection|timeout|timed out|No such file|unreachable|"
    "terminating connection|Broken pipe|session is (read-only|not read-only)|hot standby"
)


def _not_connected(error: psycopg.Error | _Over, waited_s: float) -> NotConnected:
    """libpq tells why it could not connect as text only."""
    if isinstance(error, _Over):
        return NotConnected(f"no answer within {waited_s:.3g} s", gone=True)
    text = str(error).strip()
    return NotConnected(
        text,
        error.sqlstate or "",
        passing=bool(_PASSING.search(text)),
        gone=bool(_GONE.search(text)),
    )


class PsycopgDriver:
    """Makes connections for any thread; at most `size` are in use at once."""

    name = "psycopg"

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._places = Slots(size)

    async def connect(self, timeout_s: float) -> PgConnection:
        connection = await first_connected(self._target.addresses, self._connect, timeout_s)
        return connection if self._target.prepare else BehindPooler(connection, self._target.lead)

    async def _connect(
        self, host: str | None, port: str | None, timeout_s: float
    ) -> PsycopgConnection:
        try:
            raw = self._open(host, port, timeout_s)
        except (psycopg.Error, _Over) as error:
            raise _not_connected(error, timeout_s) from error
        return PsycopgConnection(raw, prepare=self._target.prepare)

    def _open(self, host: str | None, port: str | None, timeout_s: float) -> _Raw:
        given = {"host": host, "port": port, "options": self._target.options}
        given["fallback_application_name"] = "ledgerstone"
        conninfo = make_conninfo(self._target.dsn, **{k: v for k, v in given.items() if v})
        bounded = _until(generators.connect(conninfo), monotonic_s() + timeout_s)
        raw = _Raw(waiting.wait_conn(bounded, min(CHECK_INTERVAL_S, max(timeout_s, 0))))
        raw.autocommit = True
        raw.prepare_threshold = 0 if self._target.prepare else None
        raw.prepared_max = None
        teach(raw.adapters)
        return raw

    async def enter(self, due: Callable[[], float], *, first: bool) -> Slot | None:
        return wait_in_thread(self._places, due, first=first)

    async def pause(self, seconds: float) -> None:
        time.sleep(seconds)  # noqa: ASYNC251 (this driver blocks)


class _Whole(Dumper):
    """Integers as untyped text: the server infers the type, as it does for the other driver."""

    oid = 0

    def dump(self, obj: Any) -> bytes:
        return b"%d" % obj


# The same, compiled, where the driver has it: a turn has thirty of them.
_whole: type[Dumper] = getattr(_cmodule._psycopg, "_IntOrSubclassDumper", _Whole)


class _Array(Dumper):
    """A list in the binary form of an array; psycopg would write it as text."""

    format = pq.Format.BINARY
    element_oid = 0

    def dump(self, obj: Any) -> bytes:
        if not obj:
            return _ARRAY_EMPTY.pack(0, 0, self.element_oid)
        head = _ARRAY_HEAD.pack(1, 1, self.element_oid, len(obj), 1)
        return head + b"".join(self.items(obj))

    def items(self, obj: Any) -> list[bytes]:
        return [_NULL if item is None else _LENGTH.pack(len(item)) + item for item in obj]


_ARRAY_HEAD, _ARRAY_EMPTY = struct.Struct(">iiIii"), struct.Struct(">iiI")
_LENGTH, _LONG, _NULL = struct.Struct(">i"), struct.Struct(">iq"), b"\xff\xff\xff\xff"


class _Ints(_Array):
    oid, element_oid = 1016, 20

    def items(self, obj: Ints) -> list[bytes]:
        pack = _LONG.pack
        return [_NULL if item is None else pack(8, item) for item in obj]


class _Texts(_Array):
    oid, element_oid = 1015, 1043

    def items(self, obj: Texts) -> list[bytes]:
        return super().items([None if item is None else item.encode() for item in obj])


class _Blobs(_Array):
    oid, element_oid = 1001, 17


class _Text(StrDumperUnknown):
    def dump(self, obj: str) -> Any:
        return super().dump(to_column(obj))


class _TextLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Any) -> str:
        text = str(data, "utf-8")
        return from_column(text) if "\x01" in text else text


def teach(adapters: AdaptersMap) -> None:
    """How values travel: whole numbers untyped, sums as int, text with what no column can hold."""
    adapters.register_dumper(int, _whole)
    adapters.register_dumper(bool, _whole)
    adapters.register_dumper(str, _Text)
    adapters.register_dumper(Ints, _Ints)
    adapters.register_dumper(Texts, _Texts)
    adapters.register_dumper(Blobs, _Blobs)
    adapters.register_loader("text", _TextLoader)
    adapters.register_loader("numeric", _NumericLoader)


class _NumericLoader(Loader):
    format = pq.Format.BINARY

    def load(self, data: Any) -> int:
        """Base 10000 digits, most significant first; only whole numbers are ever summed."""
        raw = bytes(data)
        count, weight, sign, _ = (int.from_bytes(raw[n : n + 2], "big") for n in (0, 2, 4, 6))
        value = 0
        for n in range(count):
            value = value * 10_000 + int.from_bytes(raw[8 + 2 * n : 10 + 2 * n], "big")
        value *= 10_000 ** (weight + 1 - count) if count else 1
        return -value if sign else value


class _Cursor(psycopg.RawCursor[Row]):
    """Values travel as ours do, whatever the caller's connection was taught."""

    def __init__(self, raw: psycopg.Connection[Any]) -> None:
        super().__init__(raw, row_factory=tuple_row)
        self._adapters = AdaptersMap(psycopg.adapters)
        teach(self._adapters)


class _AsyncCursor(psycopg.AsyncRawCursor[Row]):
    def __init__(self, raw: psycopg.AsyncConnection[Any]) -> None:
        super().__init__(raw, row_factory=tuple_row)
        self._adapters = AdaptersMap(psycopg.adapters)
        teach(self._adapters)


class JoinedPsycopg(PsycopgConnection):
    """The blocking one. It is never dropped: that is the caller's to do."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw, prepare=False)
        self._cursor = _Cursor(raw)

    def drop(self) -> None:
        return


class JoinedAsyncPsycopg(JoinedPsycopg):
    """The one of an event loop."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw)
        self._waiting = _AsyncCursor(raw)

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        await self._wait(text, arguments)
        return await self._waiting.fetchall() if has_rows(self._waiting) else []

    async def script(self, text: str, timeout_s: float) -> None:
        await self._wait(text, None)

    async def _wait(self, text: str, arguments: Sequence[Any] | None) -> None:
        binary = arguments is not None
        try:
            await self._waiting.execute(text, arguments, prepare=False, binary=binary)
        except psycopg.Error as error:
            raise self._judge(error) from error


def join_blocking(connection: object) -> PgConnection:
    """InvalidValue for anything but a psycopg.Connection that is in a transaction."""
    if not isinstance(connection, psycopg.Connection):
        raise InvalidValue(
            "connection", f"a psycopg.Connection expected, got {type(connection).__name__}"
        )
    _check_transaction(connection)
    return JoinedPsycopg(connection)


def join_async(connection: object) -> PgConnection:
    """The same for a psycopg.AsyncConnection."""
    if not isinstance(connection, psycopg.AsyncConnection):
        raise InvalidValue(
            "connection",
            "an asyncpg.Connection or a psycopg.AsyncConnection expected, got "
            f"{type(connection).__name__}",
        )
    _check_transaction(connection)
    return JoinedAsyncPsycopg(connection)


def _check_transaction(raw: psycopg.Connection[Any] | psycopg.AsyncConnection[Any]) -> None:
    if raw.closed:
        raise InvalidValue("connection", "it is closed")
    status = raw.info.transaction_status
    if status == TransactionStatus.INERROR:
        raise InvalidValue("connection", "its transaction has failed; roll it back first")
    # Without autocommit the first statement begins a transaction by itself.
    if status == TransactionStatus.IDLE and raw.autocommit:
        raise InvalidValue("connection", "it is in no transaction; begin one first")
    if status == TransactionStatus.ACTIVE:
        raise InvalidValue("connection", "it is in use")
