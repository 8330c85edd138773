"""Any command in one transaction: lock, run the shared handler, commit.

A connection that is lost before COMMIT was sent left nothing behind, so the command runs again.
When it is lost around COMMIT, planned/outcomes.py finds out what became of it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command, Query
from ledgerstone.engines.postgres.brief_reads import AskedForMore, brief_rows, may_be_brief
from ledgerstone.engines.postgres.drivers.clock import ServerClock
from ledgerstone.engines.postgres.drivers.errors import FOREIGN, needs_fresh, repeats, translate
from ledgerstone.engines.postgres.drivers.pool import Pool
from ledgerstone.engines.postgres.drivers.port import (
    ConnectionLost,
    PgConnection,
    Row,
    ServerSaid,
    Slot,
)
from ledgerstone.engines.postgres.locks import locks_of
from ledgerstone.engines.postgres.planned.outcomes import Outcomes, Sent
from ledgerstone.engines.postgres.planned.session_cache import SessionCache, learn_made
from ledgerstone.engines.postgres.rows import PostgresRows
from ledgerstone.engines.postgres.transaction import PgTx
from ledgerstone.engines.postgres.writing import WritingRows
from ledgerstone.errors import LedgerstoneError
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.sessions import HEADS, SESSIONS
from ledgerstone.tables.transaction import Tx

if TYPE_CHECKING:
    import asyncio


import msgspec

from ledgerstone.engines.postgres.overrides import OWN
from ledgerstone.engines.postgres.writing import NumberWanted
from ledgerstone.errors import NotSupported
from ledgerstone.handlers.registry import Handler, handler_of

ROUNDS = 8
LOST_ROUNDS = 50
"""Maximum attempts: after conflicts with others, and after lost connections."""
FIRST_PAUSE_S = 0.005
LAST_PAUSE_S = 0.5
COMMIT_SHARE = 0.75
"""Of the time that is left: the rest is for asking what became of a COMMIT without an answer."""
FAREWELL_S = 2.0

W = TypeVar("W")
A = TypeVar("A")


class Interactive:
    """Commands and queries over one pool, one transaction each."""

    def __init__(self, pool: Pool, where: str, clock: ServerClock, *, brief: bool) -> None:
        self.pool = pool
        self.where = where
        self.heads: SessionCache | None = None
        self._clock = clock
        self._outcomes = Outcomes(pool, where)
        # One statement, without a transaction around it, cannot say whose rows it may see.
        self._brief = brief

    async def write(
        self,
        command: Command[Any],
        ends_s: float | None = None,
        *,
        unsure: bool = False,
        place: Slot | None = None,
    ) -> Any:
        """The answer; an error of ours, and then nothing was written, or OutcomeUnknown.

        `ends_s`: the deadline, when some of the time has been spent already. `unsure`: the command
        may have been carried out already, over a connection that was lost. `place`: of the pool,
        when the caller has one already.
        """
        return await self._again(self._once, command, ends_s, lost=unsure, place=place)

    async def begin(self, command: Command[Any]) -> asyncio.Future[Any]:
        """Wait for a place on the running loop, then go on whether somebody waits or not."""
        import asyncio

        start_s = monotonic_s()
        place = await self.pool.enter()
        ends_s = self.pool.patience.ends_s(start_s)
        work = self.write(command, ends_s, place=place)
        return asyncio.shield(asyncio.get_running_loop().create_task(work))

    async def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """All queries from one snapshot."""
        return await self._again(self._read, queries)

    async def ask(self, query: str) -> list[tuple[Any, ...]]:
        """All rows of one statement without arguments."""
        return await self._again(self._ask, query)

    async def _again(
        self,
        work: Callable[[W, float, Before], Coroutine[Any, Any, A]],
        what: W,
        ends_s: float | None = None,
        *,
        lost: bool = False,
        place: Slot | None = None,
    ) -> A:
        """In its turn, which it keeps until the end; what has begun elsewhere goes first."""
        start_s = monotonic_s()
        if place is None:
            place = await self.pool.enter(ends_s, first=ends_s is not None)
        try:
            if ends_s is None:
                ends_s = self.pool.patience.ends_s(start_s)
            return await self._repeated(work, what, ends_s, lost)
        finally:
            place.leave()

    async def _repeated(
        self,
        work: Callable[[W, float, Before], Coroutine[Any, Any, A]],
        what: W,
        ends_s: float,
        lost: bool,
    ) -> A:
        """Until it is done, the time is over, or others were faster too often."""
        before = Before(lost=lost)
        try:
            for n in range(1, LOST_ROUNDS + 1):
                try:
                    return await work(what, ends_s, before)
                except (ConnectionLost, ServerSaid) as error:
                    pause_s = min(FIRST_PAUSE_S * 2**n, LAST_PAUSE_S) * (0.5 + random.random())
                    last = n >= (LOST_ROUNDS if isinstance(error, ConnectionLost) else ROUNDS)
                    if last or not repeats(error) or monotonic_s() + pause_s > ends_s:
                        raise
                    if needs_fresh(error):
                        before.lost = True
                        self.pool.forget_idle()
                        self._outcomes.doubt()
                before.again = True
                await self.pool.driver.pause(pause_s)
        except LedgerstoneError:
            raise
        except FOREIGN as error:
            raise translate(error, self.where) from error
        raise AssertionError("the last round answers or raises")

    async def _once(self, command: Command[Any], ends_s: float, before: Before) -> Any:
        connection = await self.pool.connection(ends_s)
        lost = None
        try:
            answer, sent = await self._run(connection, command, ends_s, before)
            try:
                left_s = max(ends_s - monotonic_s(), 0.001)
                await connection.script("COMMIT", left_s * COMMIT_SHARE)
            except ConnectionLost as error:
                lost = error
        finally:
            self.pool.give_back(connection)
        if lost is not None:
            await self._outcomes.find_out(sent, command, ends_s, lost)
        elif sent.made is not None and self.heads is not None:
            learn_made(self.heads, command, answer, sent.made, sent.xid)
        return answer

    async def _run(
        self, connection: PgConnection, command: Command[Any], ends_s: float, before: Before
    ) -> tuple[Any, Sent]:
        """Everything but the COMMIT; what fails is rolled back."""
        tx = PgTx(connection, ends_s)
        try:
            await connection.script("BEGIN", tx.left_s())
            cluster = await self._outcomes.cluster(tx)
            done = await lock_and_run(tx, command, self._clock, strict=before.lost or before.again)
            if before.lost:
                # What it found already done may be on this server only: then its end waits.
                await tx.one("wait_for_standby")
            return done.answer, Sent(done.xid, done.timeline, *cluster, done.made)
        except Exception as error:
            await _roll_back(connection, tx, error)
            raise

    async def _read(
        self, queries: Sequence[Query[Any]], ends_s: float, before: Before
    ) -> list[Any]:
        connection = await self.pool.connection(ends_s)
        tx = PgTx(connection, ends_s)
        try:
            if self._brief and len(queries) == 1 and may_be_brief(queries[0]):
                with suppress(AskedForMore):
                    rows = await brief_rows(tx, queries[0])
                    return [await answer(Tx(rows, self._clock.now_us()), queries[0])]
            await connection.script(_SNAPSHOT, tx.left_s())
            answers = [await self._answer(tx, query) for query in queries]
            with suppress(ConnectionLost):  # Nothing hangs on it any more.
                await connection.script("COMMIT", min(tx.left_s(), FAREWELL_S))
            return answers
        except Exception as error:
            await _roll_back(connection, tx, error)
            raise
        finally:
            self.pool.give_back(connection)

    async def _answer(self, tx: PgTx, query: Query[Any]) -> Any:
        # Row-level security asks for the tenant; else only the time is missing now and then.
        if not self._brief or not self._clock.is_fresh():
            row = await tx.one("begin_read", query.tenant)
            assert row is not None
            self._clock.seen(row[0])
        return await answer(Tx(PostgresRows(tx, query.tenant), self._clock.now_us()), query)

    async def _ask(self, query: str, ends_s: float, before: Before) -> list[tuple[Any, ...]]:
        connection = await self.pool.connection(ends_s)
        try:
            left_s = max(ends_s - monotonic_s(), 0.001)
            return await connection.fetch(load("postgres")[query].text, (), left_s)
        finally:
            self.pool.give_back(connection)


class Done(NamedTuple):
    """An answer, the transaction it was made in, and the head of a session that was made."""

    answer: Any
    xid: int
    timeline: str
    made: Row | None


async def lock_and_run(
    tx: PgTx, command: Command[Any], clock: ServerClock, *, strict: bool
) -> Done:
    """Run a command in the transaction that is open."""
    locks = locks_of(command)
    row = await tx.one(
        "begin_command",
        command.tenant,
        locks.sessions,
        locks.runs,
        locks.tickets,
        locks.executions,
        locks.dead,
        locks.shared,
        locks.alone,
        clock.given_us(),
    )
    assert row is not None
    now_us, xid, timeline, locked = row
    clock.seen(now_us)
    rows = WritingRows(tx, command.tenant, locked, locks.sessions)
    found, done = await carry_out(rows, command, now_us, strict=strict)
    return Done(found, xid, timeline, _made(done))


def _made(tx: Tx) -> Row | None:
    """Number, fence and time of the head of a session that was made."""
    for (number,) in tx.inserted.get(SESSIONS, ()):
        head = tx.writes[HEADS][number,]
        return number, head.fence, head.updated_us
    return None


_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


async def _roll_back(connection: PgConnection, tx: PgTx, why: Exception) -> None:
    """End the transaction; a connection that cannot do so at once is let go.

    After a Ctrl-C or a cancelled task nothing is awaited: the pool lets the connection go.
    """
    if needs_fresh(why):
        connection.drop()
    if connection.is_clean or not connection.is_open:
        return
    try:
        await connection.script("ROLLBACK", min(tx.left_s(), FAREWELL_S))
    except (ConnectionLost, ServerSaid):
        connection.drop()


class Before(msgspec.Struct):
    """What became of earlier tries of a command: over a lost connection, or any."""

    lost: bool = False
    again: bool = False


async def answer(tx: Tx, query: Query[Any]) -> Any:
    """Answer one query."""
    return await _handler(query)(tx, query)


async def carry_out(
    rows: WritingRows, command: Command[Any], now_us: int, *, strict: bool
) -> tuple[Any, Tx]:
    """The answer to a command, and what was written for it."""
    found, tx = await _decide(rows, command, now_us, strict=strict)
    await rows.flush(tx)
    return found, tx


async def _decide(
    rows: WritingRows, command: Command[Any], now_us: int, *, strict: bool
) -> tuple[Any, Tx]:
    """Let the handler decide; what it refuses on an assumption it has to decide once more.

    A row that is assumed to be new and is not is found by its index: then the caller starts again.
    """
    while True:
        tx = Tx(rows, now_us, strict=strict)
        try:
            return await _handler(command)(tx, command), tx
        except NumberWanted:
            await rows.more_numbers()
        except LedgerstoneError:
            if not tx.assumed:
                raise
            strict = True


def _handler(asked: Command[Any] | Query[Any]) -> Handler[Any, Any]:
    kind = type(asked)
    handler = OWN.get(kind) or handler_of(kind)
    if handler is None:
        raise NotSupported(kind.__name__, "postgres")
    return handler
