"""Sends planned commands in groups: while one call is under way, the next one gathers.

Nobody waits for a group to fill. `BlockingFlusher` serves all threads of a process, and whoever
comes first sends for everybody; `AsyncFlusher` serves one event loop.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from ledgerstone.backends.postgres_line import Job
from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command, Query
from ledgerstone.commands.leases import ReleaseLease
from ledgerstone.commands.work import EnqueueWork, ListWork
from ledgerstone.errors import LedgerstoneError, OutcomeUnknown, Timeout, Unavailable
from ledgerstone.records.work import Batch
from ledgerstone.trampoline import run_now

if TYPE_CHECKING:
    import asyncio

AT_ONCE = 32
"""How many waiters are woken in one round of an event loop."""


class Slow(Protocol):
    """The interactive way of the same face."""

    async def write(
        self, command: Command[Any], ends_s: float | None = None, *, unsure: bool = False
    ) -> Any: ...

    async def read(self, queries: Sequence[Query[Any]]) -> list[Any]: ...


class Gathering(Protocol):
    """Commands that wait, the call that carries a group of them out, and what became of them."""

    limit_s: float
    waiting: deque[Job]
    ended: list[Job]

    def admit(self, job: Job) -> None: ...

    def take(self) -> list[Job]: ...

    async def call(self, group: Sequence[Job]) -> Any: ...

    def settle(self, group: Sequence[Job], judged: Any, *, unsure: bool = False) -> None: ...

    def withdraw(self, job: Job) -> bool: ...


class BlockingFlusher:
    """Commands of all threads, over one connection at a time."""

    def __init__(self, line: Gathering, slow: Slow) -> None:
        self._line = line
        self._slow = slow
        self._gate = threading.Lock()
        self._sending = threading.Lock()

    def write(self, command: Command[Any]) -> Any:
        """Carry out one command, and whatever else waits, in the caller's thread."""
        job = Job(command, monotonic_s() + self._line.limit_s)
        with self._gate:
            self._line.admit(job)
        try:
            if not job.done:
                self._send_until_done(job)
        except BaseException:
            with self._gate:
                self._line.withdraw(job)
            raise
        if job.slow:
            return run_now(_carry_out(job, self._slow))
        if job.error is not None:
            raise job.error
        return job.answer

    def _send_until_done(self, job: Job) -> None:
        if not self._sending.acquire(timeout=max(job.ends_s - monotonic_s(), 0)):
            with self._gate:
                began = not (job.done or self._line.withdraw(job))
            if not job.done or job.error is None:
                raise _over(began=began)
            return
        try:
            while not job.done:
                self._send()
        finally:
            self._sending.release()

    def _send(self) -> None:
        line = self._line
        with self._gate:
            _drop_overdue(line)
            group = line.take()
        judged, unsure = None, True
        try:
            if group:
                # Whatever else goes wrong in there is said by the slow way.
                with suppress(Exception):
                    judged, unsure = run_now(line.call(group)), False
        finally:
            # After a Ctrl-C too: nobody may wait for ever, whoever was in that call.
            with self._gate:
                line.settle(group, judged, unsure=unsure)
                line.ended.clear()


class AsyncFlusher:
    """Commands of one event loop, over one connection at a time."""

    def __init__(self, line: Gathering, slow: Slow) -> None:
        self._line = line
        self._slow = slow
        self._sender: asyncio.Task[None] | None = None
        self._slow_ones: set[asyncio.Task[None]] = set()

    async def write(self, command: Command[Any]) -> Any:
        """Cancelling the wait does not touch the command."""
        import asyncio

        loop = asyncio.get_running_loop()
        job = Job(command, monotonic_s() + self._line.limit_s)
        future = job.future = loop.create_future()
        self._line.admit(job)
        if self._line.ended:
            self._deliver(loop)
        if self._sender is None and self._line.waiting:
            # It begins after this round of the loop: all that its tasks send by then is one group.
            self._sender = loop.create_task(self._serve(loop))
        return await future

    async def _serve(self, loop: asyncio.AbstractEventLoop) -> None:
        line = self._line
        try:
            while line.waiting:
                _drop_overdue(line)
                group = line.take()
                judged, unsure = None, True
                try:
                    if group:
                        # Whatever else goes wrong in there is said by the slow way.
                        with suppress(Exception):
                            judged, unsure = await line.call(group), False
                finally:
                    line.settle(group, judged, unsure=unsure)
                    self._deliver(loop)
        finally:
            self._sender = None

    def _deliver(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell some at a time: while the server works on what they send next, the others wake."""
        ended, self._line.ended = self._line.ended, []
        self._tell_some(loop, ended)

    def _tell_some(self, loop: asyncio.AbstractEventLoop, ended: list[Job]) -> None:
        for job in ended[:AT_ONCE]:
            if job.slow:
                task = loop.create_task(self._go_slow(job))
                self._slow_ones.add(task)
                task.add_done_callback(self._slow_ones.discard)
            else:
                _tell(job, job.answer, job.error)
        if len(ended) > AT_ONCE:
            loop.call_soon(self._tell_some, loop, ended[AT_ONCE:])

    async def _go_slow(self, job: Job) -> None:
        try:
            answer = await _carry_out(job, self._slow)
        except BaseException as error:
            _tell(job, None, error)
            if not isinstance(error, Exception):
                raise
        else:
            _tell(job, answer, None)


def _drop_overdue(line: Gathering) -> None:
    """Who waited until the time was over is told so, and not sent."""
    now_s = monotonic_s()
    if line.waiting and line.waiting[0].ends_s <= now_s:
        for job in [job for job in line.waiting if job.ends_s <= now_s]:
            job.error = _over(began=job.unsure)
            line.withdraw(job)


def _over(*, began: bool) -> LedgerstoneError:
    if began:
        return OutcomeUnknown("the server did not answer in time; repeat the call")
    return Timeout("the time for this call is over; nothing was sent")


def _tell(job: Job, answer: Any, error: BaseException | None) -> None:
    future = job.future
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)


async def _carry_out(job: Job, slow: Slow) -> Any:
    """The interactive way. A command that may be there already is repeated, which finds it by its
    turn, token or id; when that can not be done, nobody knows."""
    command = job.command
    try:
        if job.unsure and isinstance(command, EnqueueWork):
            return await _find_batch(command, slow)
        answer = await slow.write(command, job.ends_s, unsure=job.unsure)
    except Unavailable as error:
        if not job.unsure:
            raise
        raise OutcomeUnknown(
            f"the connection was lost while the command was under way ({error}); repeat the call"
        ) from error
    if job.unsure and isinstance(command, ReleaseLease) and answer is False:
        raise OutcomeUnknown("the lease is gone: by this call, or before it")
    return answer


async def _find_batch(command: EnqueueWork, slow: Slow) -> Batch:
    """A batch that may have been queued: when it is not there, it may also have been done."""
    wanted = command.batch
    query = ListWork(tenant=command.tenant, session=wanted.session)
    batches: list[Batch] = (await slow.read([query]))[0]
    for batch in batches:
        if batch.id == wanted.id:
            return batch
    raise OutcomeUnknown(
        "the connection was lost while the batch was queued, and it is not there now: it may have "
        "been taken and done"
    )
