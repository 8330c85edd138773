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

from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Command, Query
from ledgerstone.commands.leases import ReleaseLease
from ledgerstone.commands.work import EnqueueWork, ListWork
from ledgerstone.engines.postgres.drivers.port import Slot
from ledgerstone.engines.postgres.drivers.slots import Slots, wait_on_loop
from ledgerstone.engines.postgres.planned.deadlines import (
    answered_s,
    begin_time,
    drop_overdue,
    due_s,
    over,
    waits_until_s,
)
from ledgerstone.engines.postgres.planned.queue import PendingCommand
from ledgerstone.errors import (
    AccessDenied,
    LedgerstoneError,
    NotADatabase,
    OutcomeUnknown,
    Unavailable,
)
from ledgerstone.records.work import Batch
from ledgerstone.trampoline import run_now

if TYPE_CHECKING:
    import asyncio

QUEUE_MAX = 1024
"""How many commands of an event loop are planned, sent or answered; the others wait outside."""
AT_ONCE = 32
"""How many waiters are woken in one round of an event loop."""
LOOK_S = 1.0
"""Poll interval of a waiting thread, in seconds: does another one still send?"""


class Slow(Protocol):
    """The interactive way, over the same pool."""

    async def write(
        self, command: Command[Any], ends_s: float | None = None, *, unsure: bool = False
    ) -> Any: ...

    async def read(self, queries: Sequence[Query[Any]]) -> list[Any]: ...


class SendingQueue(Protocol):
    """Commands that wait, the call that carries a group of them out, and what became of them."""

    limit_s: float
    strict: bool
    """Whether waiting is a part of that time; else one waits while the server answers others."""
    waiting: deque[PendingCommand]
    ended: list[PendingCommand]

    def admit(self, job: PendingCommand) -> None: ...

    def take(self) -> list[PendingCommand]: ...

    async def call(self, group: Sequence[PendingCommand]) -> Any: ...

    def settle(
        self, group: Sequence[PendingCommand], judged: Any, *, unsure: bool = False
    ) -> None: ...

    def withdraw(self, job: PendingCommand) -> bool: ...


class BlockingFlusher:
    """Commands of all threads, over one connection at a time.

    One of the threads that wait sends for all of them. Whoever is answered goes at once, and the
    right to send is handed to one that still waits: so those who are woken gather behind a call,
    and not behind each other.
    """

    def __init__(self, line: SendingQueue, slow: Slow) -> None:
        self._line = line
        self._slow = slow
        self._gate = threading.Lock()
        self._sender: PendingCommand | None = None
        """Whose thread sends; one that is done begins no call any more, whether it said so or not.
        What stands here is changed only behind the gate."""
        self._sent: list[PendingCommand] = []
        """What is in a call now. Its sender may be done before: by its deadline, or sent the slow
        way by another that gave up."""
        self._answered_s = 0.0

    def write(self, command: Command[Any]) -> Any:
        """Carry out one command, and whatever else waits, in the caller's thread."""
        job = PendingCommand(command, monotonic_s() + self._line.limit_s)
        try:
            with self._gate:
                self._admit(job)
            self._see_through(job)
        except BaseException:
            with self._gate:
                self._abandon(job)
            raise
        return self._answer(job)

    def write_many(self, commands: Sequence[Command[Any]]) -> list[Any]:
        """Carry out commands together: the answer of each, or its error in its place."""
        ends_s = monotonic_s() + self._line.limit_s
        jobs = [PendingCommand(command, ends_s) for command in commands]
        found: list[Any] = []
        try:
            with self._gate:
                for job in jobs:
                    self._admit(job)
            for job in jobs:
                try:
                    self._see_through(job)
                    found.append(self._answer(job))
                except LedgerstoneError as error:
                    found.append(error)
        except BaseException:
            with self._gate:
                for job in jobs:
                    if not job.done:
                        self._abandon(job)
            raise
        return found

    def _admit(self, job: PendingCommand) -> None:
        self._line.admit(job)
        if job.done:
            self._line.ended.remove(job)

    def _see_through(self, job: PendingCommand) -> None:
        """Until a command that was admitted is done: wait for who sends, or send."""
        with self._gate:
            if job.done:
                return
            sends = self._is_free()
            if sends:
                self._sender = job
            else:
                job.future = threading.Lock()
                job.future.acquire()
        try:
            if not sends:
                self._wait(job)
            while not job.done:
                self._send(job)
        except BaseException:
            # Before it stops, so that another one is told to send.
            with self._gate:
                self._abandon(job)
            raise
        finally:
            if self._sender is job:
                self._stop(job)

    def _answer(self, job: PendingCommand) -> Any:
        if job.slow:
            return run_now(_carry_out(job, self._slow, strict=self._line.strict))
        if job.error is not None:
            raise job.error
        return job.answer

    def _is_free(self) -> bool:
        return not self._sent and (self._sender is None or self._sender.done)

    def _wait(self, job: PendingCommand) -> None:
        """Until the command is done, or this thread is to send."""
        bell = job.future
        while not bell.acquire(timeout=min(max(self._left_s(job), 0), LOOK_S)):
            with self._gate:
                if job.done or self._sender is job:
                    return
                if self._is_free():
                    # Whoever was to send was stopped before it could hand that on.
                    self._sender = job
                    return
                if self._left_s(job) <= 0:
                    raise over(began=not self._abandon(job) or job.unsure)

    def _left_s(self, job: PendingCommand) -> float:
        return due_s(self._line, job, self._answered_s) - monotonic_s()

    def _abandon(self, job: PendingCommand) -> bool:
        """Nobody waits for it any more; False when it was begun."""
        job.future, job.ends_s = None, 0.0
        return job not in self._sent and self._line.withdraw(job)

    def _send(self, job: PendingCommand) -> None:
        line = self._line
        with self._gate:
            drop_overdue(line, self._answered_s)
            group = self._sent = [] if job.done else line.take()
            begin_time(line, group)
        judged, unsure = None, True
        try:
            if group:
                # Whatever else goes wrong in there is said by the slow way.
                with suppress(Exception):
                    judged, unsure = run_now(line.call(group)), False
                    self._answered_s = answered_s(judged, self._answered_s)
        finally:
            # After a Ctrl-C too: nobody may wait for ever, whoever was in that call.
            with self._gate:
                line.settle(group, judged, unsure=unsure)
                self._sent = []
                bells = self._hand_on(job)
            for bell in bells:
                bell.release()

    def _stop(self, job: PendingCommand) -> None:
        """The sender's thread goes on with something else before its command is done."""
        with self._gate:
            waiting = self._line.waiting
            # What a Ctrl-C left over while the answers were read.
            left = [one for one in self._sent if not one.done and one not in waiting]
            self._line.settle(left, None, unsure=True)
            self._sent = []
            bells = self._hand_on(job) if self._sender is job else []
        for bell in bells:
            bell.release()

    def _hand_on(self, job: PendingCommand) -> list[Any]:
        """The bells of all that are done, and, when the sender is, of one that sends after it."""
        line = self._line
        ended, line.ended = line.ended, []
        bells = [one.future for one in ended if one.future is not None and one is not job]
        if not (job.done or line.waiting):
            # Its place in the line was lost to a Ctrl-C: the slow way is right for everything.
            line.withdraw(job)
            job.slow = job.done = True
        if job.done or job.ends_s == 0.0:
            self._sender = next((one for one in line.waiting if one.future is not None), None)
            if self._sender is not None:
                # The last to be woken: what the others send next may go along.
                bells.append(self._sender.future)
        return bells


class AsyncFlusher:
    """Commands of one event loop, over one connection at a time."""

    def __init__(self, line: SendingQueue, slow: Slow) -> None:
        import asyncio  # Here: a blocking program need not import it.

        self._loop = asyncio.get_running_loop()
        self._line = line
        self._slow = slow
        self._came: list[PendingCommand] = []
        """Not yet in the line. Planned all at once, a command costs a third less than between other
        things, each of which drives the other's code out of the processor's caches."""
        self._sender: asyncio.Task[None] | None = None
        self._slow_ones: set[asyncio.Task[None]] = set()
        self._inside = Slots(QUEUE_MAX)
        self._answered_s = 0.0

    async def begin(self, command: Command[Any]) -> asyncio.Future[Any]:
        """Wait until there is room, outside, where nothing is planned yet; what it will answer."""
        line, start_s = self._line, monotonic_s()
        due = lambda: waits_until_s(line, start_s, self._answered_s)  # noqa: E731
        place = await wait_on_loop(self._inside, due)
        if place is None:
            raise over(began=False)
        return self.start(command, place, start_s if line.strict else None)

    def start(
        self, command: Command[Any], place: Slot | None = None, start_s: float | None = None
    ) -> asyncio.Future[Any]:
        """Let it wait for the next call; what it will answer. Cancelling the future does not touch
        the command."""
        ends_s = (start_s or monotonic_s()) + self._line.limit_s
        future: asyncio.Future[Any] = self._loop.create_future()
        job = PendingCommand(command, ends_s, future=future, place=place)
        self._came.append(job)
        if self._sender is None:
            # It begins after this round of the loop: all that its tasks send by then is one group.
            self._sender = self._loop.create_task(self._serve())
        elif len(self._came) == 1:
            # While the server works.
            self._loop.call_soon(self._admit)
        return future

    def _admit(self) -> None:
        came, self._came = self._came, []
        for job in came:
            self._line.admit(job)
        if self._line.ended:
            self._deliver()

    async def _serve(self) -> None:
        line = self._line
        try:
            while line.waiting or self._came:
                self._admit()
                drop_overdue(line, self._answered_s)
                group = line.take()
                begin_time(line, group)
                judged, unsure = None, True
                try:
                    if group:
                        # Whatever else goes wrong in there is said by the slow way.
                        with suppress(Exception):
                            judged, unsure = await line.call(group), False
                            self._answered_s = answered_s(judged, self._answered_s)
                finally:
                    line.settle(group, judged, unsure=unsure)
                    self._deliver()
        finally:
            self._sender = None

    def _deliver(self) -> None:
        """Tell some at a time: while the server works on what they send next, the others wake."""
        ended, self._line.ended = self._line.ended, []
        self._tell_some(ended)

    def _tell_some(self, ended: list[PendingCommand]) -> None:
        for job in ended[:AT_ONCE]:
            if job.slow:
                task = self._loop.create_task(self._go_slow(job))
                self._slow_ones.add(task)
                task.add_done_callback(self._slow_ones.discard)
            else:
                _tell(job, job.answer, job.error)
        if len(ended) > AT_ONCE:
            self._loop.call_soon(self._tell_some, ended[AT_ONCE:])

    async def _go_slow(self, job: PendingCommand) -> None:
        try:
            answer = await _carry_out(job, self._slow, strict=self._line.strict)
        except BaseException as error:
            _tell(job, None, error)
            if not isinstance(error, Exception):
                raise
        else:
            _tell(job, answer, None)


def _tell(job: PendingCommand, answer: Any, error: BaseException | None) -> None:
    future, place = job.future, job.place
    if place is not None:
        place.leave()
    if future.done():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(answer)


async def _carry_out(job: PendingCommand, slow: Slow, *, strict: bool) -> Any:
    """The interactive way. A command that may be there already is repeated, which finds it by its
    turn, token or id; when that cannot be done, nobody knows."""
    command = job.command
    try:
        if job.unsure and isinstance(command, EnqueueWork):
            return await _find_batch(command, slow)
        ends_s = job.ends_s if strict or job.began else None
        answer = await slow.write(command, ends_s, unsure=job.unsure)
    except (Unavailable, AccessDenied, NotADatabase) as error:
        if not job.unsure:
            raise
        raise OutcomeUnknown(
            f"the connection was lost while the command was under way ({error})"
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
