"""Any command in one transaction: lock, run the shared handler, commit.

A connection that is lost before COMMIT was sent left nothing behind, so the command runs again.
When it is lost around COMMIT, the server is asked what became of the transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ledgerstone.backends.postgres_clock import ServerClock
from ledgerstone.backends.postgres_errors import AGAIN, FOREIGN, translate
from ledgerstone.backends.postgres_locks import locks_of
from ledgerstone.backends.postgres_pool import Pool
from ledgerstone.backends.postgres_port import (
    ConnectionLost,
    DeadlineOver,
    NotConnected,
    PgConnection,
    ServerSaid,
)
from ledgerstone.backends.postgres_reads import AskedForMore, may_be_brief, read_briefly
from ledgerstone.backends.postgres_tx import PgTx, statements
from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command, Query
from ledgerstone.errors import LedgerstoneError, NotSupported, OutcomeUnknown
from ledgerstone.sql.handlers import READS, WRITES

ROUNDS = 8
FIRST_PAUSE_S = 0.005
ASK_PAUSE_S = 0.05


class Interactive:
    """Commands and queries of one face, one transaction each."""

    def __init__(
        self, pool: Pool, where: str, limit_s: float, clock: ServerClock, *, brief: bool
    ) -> None:
        self.pool = pool
        self.where = where
        self.limit_s = limit_s
        self._clock = clock
        # One statement, without a transaction around it, can not say whose rows it may see.
        self._brief = brief

    async def write(self, command: Command[Any]) -> Any:
        """The answer; an error of ours, and then nothing was written, or OutcomeUnknown."""
        ends_s = monotonic_s() + self.limit_s
        try:
            return await self._rounds(command, ends_s)
        except LedgerstoneError:
            raise
        except FOREIGN as error:
            raise translate(error, self.where) from error

    async def _rounds(self, command: Command[Any], ends_s: float) -> Any:
        """Run the command until it ends, or others were faster too often."""
        for n in range(1, ROUNDS + 1):
            try:
                return await self._once(command, ends_s)
            except (ConnectionLost, NotConnected, ServerSaid) as error:
                said = isinstance(error, ServerSaid)
                if n == ROUNDS or (said and error.sqlstate not in AGAIN):
                    raise
                if not said:
                    self.pool.forget_idle()
                pause_s = FIRST_PAUSE_S * 2**n
                if isinstance(error, DeadlineOver) or monotonic_s() + pause_s > ends_s:
                    raise
                await self.pool.driver.pause(pause_s)
        raise AssertionError("the last round answers or raises")

    async def _once(self, command: Command[Any], ends_s: float) -> Any:
        connection = await self.pool.borrow(ends_s)
        try:
            answer, xid = await self._run(connection, command, ends_s)
            try:
                await connection.script("COMMIT", max(ends_s - monotonic_s(), 0.001))
                return answer
            except ConnectionLost as error:
                lost = error
        finally:
            self.pool.give_back(connection)
        if await self._was_committed(xid, ends_s, lost):
            return answer
        raise ConnectionLost("the server did not commit") from lost

    async def _run(
        self, connection: PgConnection, command: Command[Any], ends_s: float
    ) -> tuple[Any, int]:
        """Everything but the COMMIT; what fails is rolled back."""
        handler = WRITES.get(type(command))
        if handler is None:
            raise NotSupported(type(command).__name__, "postgres")
        locks = locks_of(command)
        tx = PgTx(connection, ends_s, locks.sessions)
        try:
            await connection.script("BEGIN", tx.left_s())
            row = await tx.one(
                "begin_command",
                command.tenant,
                locks.sessions,
                locks.runs,
                locks.tickets,
                locks.executions,
                locks.shared,
                locks.alone,
                self._clock.given_us(),
            )
            assert row is not None
            tx.now_us, xid = row
            self._clock.seen(tx.now_us)
            return await handler(tx, command), xid
        except BaseException:
            await _roll_back(connection, tx)
            raise

    async def _was_committed(self, xid: int, ends_s: float, lost: ConnectionLost) -> bool:
        """What became of a transaction whose COMMIT got no answer."""
        self.pool.forget_idle()
        while True:
            status = await self._status(xid, ends_s, lost)
            if status != "in progress":
                break
            if monotonic_s() + ASK_PAUSE_S > ends_s:
                raise OutcomeUnknown("the commit is still under way; repeat the call") from lost
            await self.pool.driver.pause(ASK_PAUSE_S)
        if status is None:
            raise OutcomeUnknown("the server no longer knows this transaction") from lost
        return status == "committed"

    async def _status(self, xid: int, ends_s: float, lost: ConnectionLost) -> str | None:
        while True:
            try:
                connection = await self.pool.borrow(ends_s)
                try:
                    rows = await PgTx(connection, ends_s).all("xact_status", xid)
                    return None if not rows else rows[0][0]
                finally:
                    self.pool.give_back(connection)
            except (ConnectionLost, NotConnected, ServerSaid, LedgerstoneError):
                if monotonic_s() + ASK_PAUSE_S > ends_s:
                    raise OutcomeUnknown(
                        f"the connection to {self.where} was lost around the commit; repeat the "
                        "call to learn its outcome"
                    ) from lost
                await self.pool.driver.pause(ASK_PAUSE_S)

    async def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """All queries from one snapshot; a lost connection is replaced once."""
        ends_s = monotonic_s() + self.limit_s
        try:
            try:
                return await self._read(queries, ends_s)
            except (ConnectionLost, NotConnected) as error:
                if isinstance(error, DeadlineOver):
                    raise
                self.pool.forget_idle()
                return await self._read(queries, ends_s)
        except LedgerstoneError:
            raise
        except FOREIGN as error:
            raise translate(error, self.where) from error

    async def _read(self, queries: Sequence[Query[Any]], ends_s: float) -> list[Any]:
        connection = await self.pool.borrow(ends_s)
        tx = PgTx(connection, ends_s)
        try:
            if self._brief and len(queries) == 1 and may_be_brief(queries[0]):
                with suppress(AskedForMore):
                    now_us = self._clock.now_us()
                    return [await read_briefly(connection, queries[0], now_us, ends_s)]
            await connection.script(_SNAPSHOT, tx.left_s())
            answers = []
            for query in queries:
                handler = READS.get(type(query))
                if handler is None:
                    raise NotSupported(type(query).__name__, "postgres")
                row = await tx.one("begin_read", query.tenant)
                assert row is not None
                self._clock.seen(row[0])
                tx.now_us = self._clock.now_us()
                answers.append(await handler(tx, query))
            await connection.script("COMMIT", tx.left_s())
            return answers
        except BaseException:
            await _roll_back(connection, tx)
            raise
        finally:
            self.pool.give_back(connection)

    async def ask(self, query: str) -> list[tuple[Any, ...]]:
        """All rows of one statement without arguments."""
        ends_s = monotonic_s() + self.limit_s
        try:
            connection = await self.pool.borrow(ends_s)
            try:
                return await connection.fetch(statements()[query].text, (), self.limit_s)
            finally:
                self.pool.give_back(connection)
        except FOREIGN as error:
            raise translate(error, self.where) from error


_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


async def _roll_back(connection: PgConnection, tx: PgTx) -> None:
    """End the transaction; a connection that can not is let go."""
    if not connection.is_open:
        return
    try:
        await connection.script("ROLLBACK", tx.left_s())
    except (ConnectionLost, ServerSaid):
        connection.drop()
