"""A turn inside a transaction that the caller began, and that the caller ends.

The connection is theirs: what we set on it is set back, what fails is taken back to a savepoint,
so their transaction goes on; and nothing of it reaches what this process keeps in mind.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command
from ledgerstone.engines.postgres.drivers.clock import ServerClock
from ledgerstone.engines.postgres.drivers.errors import AGAIN, FOREIGN, translate
from ledgerstone.engines.postgres.drivers.port import ConnectionLost, PgConnection, Row, ServerSaid
from ledgerstone.engines.postgres.drivers.urls import Target
from ledgerstone.engines.postgres.interactive import lock_and_run
from ledgerstone.engines.postgres.transaction import PgTx
from ledgerstone.errors import InvalidValue, LedgerstoneError

ROUNDS = 3
_MARK = "SAVEPOINT ledgerstone_turn"
_KEEP = "RELEASE SAVEPOINT ledgerstone_turn"
_BACK = "ROLLBACK TO SAVEPOINT ledgerstone_turn"

Identity = Callable[[], Awaitable[list[Row]]]


class Joiner:
    """Runs commands on connections of the caller."""

    def __init__(self, target: Target, clock: ServerClock) -> None:
        self._target = target
        self._clock = clock
        self._home: Row | None = None

    def blocking(self, connection: object) -> PgConnection:
        """The caller's connection as ours see one; InvalidValue when it is none."""
        from ledgerstone.engines.postgres.drivers.psycopg import join_blocking

        return join_blocking(connection)

    def on_loop(self, connection: object) -> PgConnection:
        """The same for one of an event loop: asyncpg's, or psycopg's."""
        from ledgerstone.engines.postgres.drivers.asyncpg import join_asyncpg
        from ledgerstone.engines.postgres.drivers.psycopg import join_async

        return join_asyncpg(connection) or join_async(connection)

    async def join(self, command: Command[Any], connection: PgConnection, home: Identity) -> Any:
        """Carry it out in their transaction; an error leaves that as it was before."""
        ends_s = monotonic_s() + self._target.statement_timeout_s
        try:
            if self._home is None:
                self._home = (await home())[0]
            for n in range(1, ROUNDS + 1):
                try:
                    return await self._once(command, connection, ends_s, strict=n > 1)
                except ServerSaid as error:
                    if n == ROUNDS or error.sqlstate not in AGAIN:
                        raise
        except LedgerstoneError:
            raise
        except FOREIGN as error:
            raise translate(error, self._target.shown) from error
        raise AssertionError("the last round answers or raises")

    async def _once(
        self, command: Command[Any], connection: PgConnection, ends_s: float, *, strict: bool
    ) -> Any:
        tx = PgTx(connection, ends_s)
        await connection.script(_MARK, tx.left_s())
        try:
            before = await self._enter(tx)
            done = await lock_and_run(tx, command, self._clock, strict=strict)
            await tx.one("join_set", *before)
            await connection.script(_KEEP, tx.left_s())
        except BaseException:
            await self._go_back(connection)
            raise
        return done.answer

    async def _enter(self, tx: PgTx) -> tuple[str, str, str]:
        """Make sure of the place, and set what our statements need; what was set before."""
        row = await tx.one("join_look")
        assert row is not None
        path, limit, tenant, *place = row
        if tuple(place) != self._home:
            raise InvalidValue(
                "connection", f"it leads to another database than {self._target.shown}"
            )
        # Temporary tables of the caller's must not stand before ours.
        ours = f'"{self._target.schema}", pg_temp'
        limit_ms = round(1000 * self._target.statement_timeout_s)
        await tx.one("join_set", ours, f"{limit_ms}ms" if limit == "0" else limit, tenant)
        return path, limit, tenant

    async def _go_back(self, connection: PgConnection) -> None:
        """To the savepoint, which also sets back what was set. Not if the connection is lost."""
        limit_s = self._target.statement_timeout_s
        try:
            await connection.script(_BACK, limit_s)
            await connection.script(_KEEP, limit_s)
        except (ConnectionLost, ServerSaid):
            return
