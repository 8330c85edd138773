"""What sends commands: for all blocking threads of a process, or for one event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ledgerstone.clock import Clock
from ledgerstone.commands import Command
from ledgerstone.engines.postgres.drivers.clock import ServerClock
from ledgerstone.engines.postgres.drivers.pool import Pool
from ledgerstone.engines.postgres.drivers.port import PgDriver
from ledgerstone.engines.postgres.drivers.slots import Patience
from ledgerstone.engines.postgres.drivers.urls import Target
from ledgerstone.engines.postgres.interactive import Interactive
from ledgerstone.engines.postgres.planned.flusher import (
    SendingQueue,
    Slow,
)
from ledgerstone.engines.postgres.planned.queue import CommandQueue, takes
from ledgerstone.engines.postgres.planned.work_queue import WorkQueue, is_queued
from ledgerstone.errors import (
    LedgerstoneError,
    NotSupported,
)
from ledgerstone.trampoline import run_now

if TYPE_CHECKING:
    import asyncio

HEAD_WAIT_MS = 2000


class Connections:
    """The connections of all blocking threads, or of one event loop.

    `hot` has a connection of its own, so that readers cannot starve it.
    """

    def __init__(
        self,
        make_driver: Callable[[Target, int], PgDriver],
        make_flusher: Callable[[SendingQueue, Slow], Any],
        target: Target,
        clock: Clock | None,
        *,
        known: bool,
    ) -> None:
        limit_s = target.statement_timeout_s
        self.clock = ServerClock(clock)
        self.anchor: AsyncGenerator[None, None] | None = None
        patience = Patience(limit_s, target.connect_timeout_s, target.strict)
        self.pool = Pool(make_driver(target, target.pool_size), patience, known=known)
        self.slow = Interactive(self.pool, target.shown, self.clock, brief=not target.rls)
        # What waits for a head waits for all that is behind it.
        hot = msgspec.structs.replace(target, lock_timeout_ms=HEAD_WAIT_MS)
        self._hot_pool = Pool(make_driver(hot, 1), patience, known=True)
        line = CommandQueue(
            self._hot_pool,
            limit_s,
            self.clock,
            rls=target.rls,
            single=target.prepare,
            strict=target.strict,
        )
        self.slow.heads = line.heads
        self.hot = make_flusher(line, self.slow)
        self._queue_pool = Pool(make_driver(target, 1), patience, known=True)
        single = target.prepare and not target.rls
        queue = WorkQueue(
            self._queue_pool,
            limit_s,
            self.clock,
            line.heads,
            line.claims,
            single=single,
            strict=target.strict,
        )
        self.queue = make_flusher(queue, self.slow)

    def fast(self, command: Command[Any]) -> Any:
        """What carries the command out in one round trip; None when nothing does."""
        if takes(command):
            return self.hot
        return self.queue if is_queued(command) else None

    async def begin(self, command: Command[Any]) -> asyncio.Future[Any]:
        """What a command will answer, when it is its turn; cancelled before, it is not begun."""
        begun: asyncio.Future[Any] = await (self.fast(command) or self.slow).begin(command)
        return begun

    def write_many(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """What each of many commands answers, or its error in its place, in as few round trips as
        their groups need; for blocking threads."""
        found: list[Any] = [None] * len(commands)
        senders: dict[Any, list[int]] = {}
        for n, command in enumerate(commands):
            senders.setdefault(self.fast(command), []).append(n)
        for sender, places in senders.items():
            mine = [commands[n] for n in places]
            answers = self._one_by_one(mine) if sender is None else sender.write_many(mine)
            for n, answer in zip(places, answers, strict=True):
                found[n] = answer
        return found

    def _one_by_one(self, commands: Sequence[Command[Any]]) -> list[Any]:
        found: list[Any] = []
        for command in commands:
            try:
                found.append(run_now(self.slow.write(command)))
            except LedgerstoneError as error:
                found.append(error)
        return found

    async def awrite_many(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """The same on an event loop."""
        begun: list[asyncio.Future[Any]] = []
        found: list[Any] = []
        try:
            for command in commands:
                begun.append(await self._begun(command))
            for one in begun:
                try:
                    found.append(await one)
                except LedgerstoneError as error:
                    found.append(error)
        finally:
            # Nobody waits for these any more; the commands go on.
            for one in begun[len(found) :]:
                one.cancel()
        return found

    async def _begun(self, command: Command[Any]) -> asyncio.Future[Any]:
        try:
            return await self.begin(command)
        except LedgerstoneError as error:
            import asyncio

            refused: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            refused.set_exception(error)
            return refused

    def close(self) -> None:
        self._hot_pool.close()
        self._queue_pool.close()
        self.pool.close()


def blocking_driver(target: Target, size: int = 1) -> PgDriver:
    """NotSupported when it is not installed."""
    try:
        from ledgerstone.engines.postgres.drivers.psycopg import PsycopgDriver
    except ImportError as error:
        raise _driver_missing("psycopg") from error
    return PsycopgDriver(target, size)


def async_driver(target: Target, size: int = 1) -> PgDriver:
    """The same for the running event loop."""
    try:
        from ledgerstone.engines.postgres.drivers.asyncpg import AsyncpgDriver
    except ImportError as error:
        raise _driver_missing("asyncpg") from error
    return AsyncpgDriver(target, size)


def _driver_missing(name: str) -> NotSupported:
    return NotSupported(
        "postgresql:// stores", hint=f"{name} is missing: pip install 'ledgerstone[postgres]'"
    )
