"""The async driver: asyncpg. Every connection belongs to the event loop it was made on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.pool import BehindPooler
from ledgerstone.engines.postgres.drivers.port import (
    BadText,
    ConnectionLost,
    DeadlineOver,
    NotConnected,
    PgConnection,
    Row,
    ServerSaid,
    Slot,
    first_connected,
    from_column,
    is_ending,
    to_column,
)
from ledgerstone.engines.postgres.drivers.slots import Slots, wait_on_loop
from ledgerstone.engines.postgres.drivers.urls import Target
from ledgerstone.errors import InvalidValue

STATEMENT_CACHE = 512
_OF_DRIVER = (asyncpg.InterfaceError, asyncpg.InternalClientError)
_FAILED = (asyncpg.PostgresError, *_OF_DRIVER, OSError, ValueError)


class AsyncpgConnection:
    """One connection."""

    def __init__(self, raw: asyncpg.Connection) -> None:
        self.raw = raw
        self.opened_s = self.used_s = monotonic_s()
        self.place: Slot | None = None

    @property
    def is_open(self) -> bool:
        return not self.raw.is_closed()

    @property
    def is_clean(self) -> bool:
        return not (self.raw.is_closed() or self.raw.is_in_transaction())

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        rows = await self._guarded(self.raw.fetch, text, arguments, timeout_s)
        return [tuple(row) for row in rows]

    async def script(self, text: str, timeout_s: float) -> None:
        await self._guarded(self.raw.execute, text, (), timeout_s)

    def drop(self) -> None:
        if not self.raw.is_closed():
            self.raw.terminate()

    async def _guarded(
        self, call: Callable[..., Any], text: str, arguments: Sequence[Any], timeout_s: float
    ) -> Any:
        """The call, with what the driver raises said in the words of the port."""
        try:
            if list in map(type, arguments):
                arguments = [*map(_sent, arguments)]
            return await call(text, *arguments, timeout=timeout_s)
        except asyncpg.PostgresError as error:
            if self.raw.is_closed() or is_ending(error.sqlstate):
                self.drop()
                raise ConnectionLost(str(error)) from error
            constraint = getattr(error, "constraint_name", None) or ""
            raise ServerSaid(error.sqlstate or "", str(error), constraint) from error
        except TimeoutError as error:
            self.drop()
            raise DeadlineOver(f"no answer within {timeout_s:.3g} s") from error
        except UnicodeEncodeError as error:
            raise BadText(str(error)) from error
        except asyncpg.DataError as error:
            raise _bad_argument(error) from error
        except (*_OF_DRIVER, OSError) as error:
            self.drop()
            raise ConnectionLost(f"{type(error).__name__}: {error}") from error
        except BaseException:
            # A cancelled task: what was sent cannot be taken back on this connection.
            self.drop()
            raise


def _sent(argument: Any) -> Any:
    """The driver asks our codec for a text, but not for the texts of a list."""
    if type(argument) is not list:
        return argument
    return [to_column(item) if isinstance(item, str) else item for item in argument]


def _bad_argument(error: Exception) -> Exception:
    if isinstance(error.__cause__, UnicodeEncodeError):
        return BadText(str(error))
    return ServerSaid("22000", str(error))


class AsyncpgDriver:
    """Makes connections on one event loop; at most `size` are in use at once."""

    name = "asyncpg"

    def __init__(self, target: Target, size: int) -> None:
        self._target = target
        self._places = Slots(size)

    async def connect(self, timeout_s: float) -> PgConnection:
        connection = await first_connected(self._target.addresses, self._connect, timeout_s)
        return connection if self._target.prepare else BehindPooler(connection, self._target.lead)

    async def _connect(
        self, host: str | None, port: str | None, timeout_s: float
    ) -> AsyncpgConnection:
        try:
            async with asyncio.timeout(timeout_s):
                return AsyncpgConnection(await self._open(host, port))
        except _FAILED as error:
            raise _not_connected(error, timeout_s) from error

    async def _open(self, host: str | None, port: str | None) -> asyncpg.Connection:
        target = self._target
        raw = await asyncpg.connect(
            target.async_dsn,
            host=host,
            port=port and int(port),
            server_settings=target.settings,
            statement_cache_size=STATEMENT_CACHE if target.prepare else 0,
        )
        try:
            if target.prepare:
                await _teach(raw)
            else:
                async with raw.transaction():
                    await _teach(raw)
        except BaseException:
            raw.terminate()
            raise
        return raw

    async def enter(self, due: Callable[[], float], *, first: bool) -> Slot | None:
        return await wait_on_loop(self._places, due, first=first)

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def _not_connected(error: BaseException, waited_s: float) -> NotConnected:
    if isinstance(error, TimeoutError):
        return NotConnected(f"no answer within {waited_s:.3g} s", gone=True)
    text = str(error) or type(error).__name__
    if isinstance(error, asyncpg.PostgresError):
        state = error.sqlstate or ""
        return NotConnected(text, state, gone=state.startswith("08"))
    # The old primary is gone, and no other has taken over yet.
    waiting = isinstance(error, OSError | asyncpg.TargetServerAttributeNotMatched)
    return NotConnected(text, gone=waiting)


async def _teach(raw: asyncpg.Connection) -> None:
    """How values travel: sums as int, text with what a text column cannot hold."""
    await raw.set_type_codec(
        "numeric", schema="pg_catalog", encoder=str, decoder=int, format="text"
    )
    await raw.set_type_codec(
        "text", schema="pg_catalog", encoder=to_column, decoder=from_column, format="text"
    )


class JoinedAsyncpg(AsyncpgConnection):
    """Values are translated here: a codec would stay on the caller's connection.

    It is never dropped: that is the caller's to do.
    """

    async def fetch(self, text: str, arguments: Sequence[Any], timeout_s: float) -> list[Row]:
        rows = await super().fetch(text, _out(arguments), timeout_s)
        return [tuple(map(_in, row)) for row in rows]

    def drop(self) -> None:
        return


def _out(arguments: Sequence[Any]) -> list[Any]:
    found: list[Any] = []
    for value in arguments:
        if isinstance(value, str):
            found.append(to_column(value))
        elif isinstance(value, list | tuple):
            found.append(_out(value))
        else:
            found.append(value)
    return found


def _in(value: Any) -> Any:
    if isinstance(value, str):
        return from_column(value)
    return int(value) if isinstance(value, Decimal) else value


def join_asyncpg(connection: object) -> PgConnection | None:
    """None when it is none of asyncpg's; InvalidValue when it is in no transaction."""
    if not isinstance(connection, asyncpg.Connection | PoolConnectionProxy):
        return None
    if connection.is_closed():
        raise InvalidValue("connection", "it is closed")
    if not connection.is_in_transaction():
        raise InvalidValue("connection", "it is in no transaction; begin one first")
    return JoinedAsyncpg(connection)
