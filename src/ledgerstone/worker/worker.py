"""The worker: slots that wait for work, one after the other, and serve it side by side."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    ExitStack,
    contextmanager,
    suppress,
)
from typing import Any, TypeAlias

from ledgerstone.api.loop_async import settled
from ledgerstone.api.store import AsyncStore
from ledgerstone.api_sync.store import Store
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import (
    AccessDenied,
    Fenced,
    InvalidValue,
    LedgerstoneError,
    Misuse,
    NotSupported,
    StoreClosed,
    Timeout,
)
from ledgerstone.intake import checks
from ledgerstone.intake.work import error_text
from ledgerstone.records.work import Holding
from ledgerstone.worker.serving import Handler, Service, ThreadCall

OnEvent: TypeAlias = Callable[[str, dict[str, Any]], object]

SIGNALS = (signal.SIGTERM, signal.SIGINT)
TAKEN_MAX = 10**12
"""More pieces of work than one worker ever takes."""
CANCEL_WAIT_S = 5.0
"""How long a handler that was cancelled may take for it; then it is left behind."""


class Worker:
    """Calls `handler` for every piece of work of a queue, `concurrency` at a time.

    An async handler gets a Context, a plain function a BlockingContext and a thread. One that
    returns has done the work; one that raises, or takes longer than `timeout_s`, failed, and the
    work comes again until it had its attempts. `Later` and `Bury` say otherwise, and after
    ExecutionUnresolved it waits, uncounted, until somebody decides about the tool call. While it
    runs, its lease is kept alive; when the lease is lost it is cancelled and nothing is written.

    `on_event(name, fields)`: taken, done, failed, buried, later, parked, fenced, abandoned, idle,
    error.
    """

    def __init__(
        self,
        store: AsyncStore | Store,
        handler: Handler,
        *,
        queue: str = "default",
        concurrency: int = 4,
        ttl_s: float = 60.0,
        max_batches: int = 1,
        owner: str | None = None,
        timeout_s: float | None = None,
        grace_s: float = 30.0,
        poll_s: float = 1.0,
        on_event: OnEvent | None = None,
        handle_signals: bool = True,
    ) -> None:
        limit_s = None if timeout_s is None else checks.seconds(timeout_s, "timeout_s")
        self._service = Service(store, handler, limit_s, self._tell, self._is_stopping)
        self._store = self._service.store
        self._concurrency = checks.positive(concurrency, "concurrency")
        self._owner = checks.default_owner() if owner is None else checks.text(owner, "owner")
        self._asked: dict[str, Any] = {"queue": queue, "ttl_s": ttl_s, "max": max_batches}
        self._queue = queue
        self._grace_s = checks.seconds(grace_s, "grace_s")
        self._poll_s = checks.seconds(poll_s, "poll_s")
        if not self._poll_s:
            raise InvalidValue("poll_s", "more than 0 expected")
        self._on_event = on_event
        self._handle_signals = handle_signals
        self._loop: asyncio.AbstractEventLoop | None = None
        self._taken = TAKEN_MAX
        self._hold(0.0)  # Refuses wrong values here, not in the first slot.
        self._taken = 0

    async def run(self) -> None:
        """Work until `stop()`, SIGTERM or SIGINT.

        Then no new work is taken. Handlers under way get `grace_s` to end; what is not done then
        is cancelled and handed back, uncounted. A second signal does not wait.
        """
        with self._signals():
            await self._work(drain=False)

    async def run_until_idle(self) -> int:
        """Do what is due now, and what that leads to; answers how many pieces it were."""
        await self._work(drain=True)
        return self._served

    def run_blocking(self) -> None:
        """The same as `run`, for a program without an event loop."""
        asyncio.run(self.run())

    def stop(self) -> None:
        """Ask the worker to end; from any thread. Asked twice it does not wait for handlers."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # The loop is closed: it ended already.
                loop.call_soon_threadsafe(self._stop)

    # --- the frame

    async def _work(self, *, drain: bool) -> None:
        if self._loop is not None:
            raise Misuse("this worker is running already; make another one")
        self._loop = asyncio.get_running_loop()
        self._drain = drain
        self._stopping, self._hurry = asyncio.Event(), asyncio.Event()
        self._freed = asyncio.Event()
        self._wait_lock = asyncio.Lock()
        self._waiting: set[asyncio.Task[None]] = set()
        self._busy = self._ended = self._served = 0
        self._said_idle = False
        self._expiry_s = 0.0
        slots = [asyncio.create_task(self._slot()) for _ in range(self._concurrency)]
        try:
            await _first_of(self._stopping, slots)
            self._stopping.set()
            for slot in self._waiting:
                slot.cancel()
            await _all_of(slots, self._hurry, self._grace_s)
        finally:
            self._stopping.set()
            for slot in slots:
                slot.cancel()
            await asyncio.wait(slots, timeout=CANCEL_WAIT_S)
            await settled()
            self._loop = None
        for slot in slots:
            if slot.done() and not slot.cancelled():
                slot.result()

    def _stop(self) -> None:
        if self._stopping.is_set():
            self._hurry.set()
        self._stopping.set()

    @contextmanager
    def _signals(self) -> Iterator[None]:
        """Only the main thread can be told of signals."""
        loop = asyncio.get_running_loop()
        listens = self._handle_signals and threading.current_thread() is threading.main_thread()
        installed: list[signal.Signals] = []
        with suppress(RuntimeError):  # Some platforms have loops that cannot.
            for number in SIGNALS if listens else ():
                loop.add_signal_handler(number, self.stop)
                installed.append(number)
        try:
            yield
        finally:
            for number in installed:
                loop.remove_signal_handler(number)

    # --- one slot

    async def _slot(self) -> None:
        while not self._stopping.is_set():
            try:
                await self._serve_next()
            except Fenced as error:
                self._tell("fenced", session=error.session)
            except LedgerstoneError as error:
                if isinstance(error, StoreClosed | NotSupported | AccessDenied):
                    raise
                self._tell("error", error=error_text(error))
                await self._sleep()

    async def _serve_next(self) -> None:
        threads: list[ThreadCall] = []
        try:
            with ExitStack() as around:
                async with AsyncExitStack() as stack:
                    with self._may_be_cancelled():
                        holding = await self._find(stack)
                    if holding is not None:
                        # Until lease and claim are given back, which is after the handler.
                        around.enter_context(self._is_busy())
                        await self._service.serve(holding, threads)
                        self._served += 1
        finally:
            # A thread that nobody waits for any more still is one of `concurrency`.
            for call in threads if not self._stopping.is_set() else ():
                with self._may_be_cancelled():
                    await call.ended()

    async def _find(self, stack: AsyncExitStack) -> Holding | None:
        """Work that is there, or that comes within `poll_s`; None when there is none so far."""
        await self._settle_expired()
        with self._is_busy():
            holding = await self._enter(stack, 0.0)
        if holding is None:
            # One slot waits for all of them, so that one piece of work wakes one.
            async with self._wait_lock:
                if self._drain:
                    holding = await self._find_until_idle(stack)
                else:
                    self._tell_idle()
                    holding = await self._enter(stack, self._poll_s)
        if holding is not None:
            self._said_idle = False
        return holding

    async def _find_until_idle(self, stack: AsyncExitStack) -> Holding | None:
        """What is due now, or comes while a neighbour is at work; with neither, the worker ends."""
        while not self._stopping.is_set():
            seen, ended = await self._store._handle.backend.achanged(-1, 0), self._ended
            holding = await self._enter(stack, 0.0)
            if holding is not None:
                return holding
            self._tell_idle()
            if self._busy:
                await self._wait_for_change(seen)
                await self._settle_expired()
            elif ended == self._ended:
                self._stopping.set()
        return None

    async def _wait_for_change(self, seen: int) -> None:
        """Until something is committed, no neighbour is at work any more, or `poll_s` are over."""
        self._freed.clear()
        waits = [
            asyncio.create_task(self._freed.wait()),
            asyncio.ensure_future(self._store._handle.backend.achanged(seen, self._poll_s)),
        ]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()

    async def _enter(self, stack: AsyncExitStack, wait_s: float) -> Holding | None:
        try:
            return await stack.enter_async_context(self._hold(wait_s))
        except Timeout:
            return None

    def _tell_idle(self) -> None:
        """Once, until there was work again."""
        if not self._said_idle:
            self._said_idle = True
            self._tell("idle")

    def _hold(self, wait_s: float) -> AbstractAsyncContextManager[Holding]:
        # Another owner each time: a handler that is late must not take its neighbour's lease again.
        self._taken += 1
        owner = f"{self._owner}/{self._taken}"
        return self._store.work.hold(**self._asked, owner=owner, wait_s=wait_s)

    async def _settle_expired(self) -> None:
        """Tickets whose time is over are decided by whoever looks; about every `poll_s`."""
        if monotonic_s() >= self._expiry_s:
            self._expiry_s = monotonic_s() + self._poll_s
            await self._store.tickets.expire(queue=self._queue)

    async def _sleep(self) -> None:
        with self._may_be_cancelled():
            await asyncio.sleep(self._poll_s)

    @contextmanager
    def _is_busy(self) -> Iterator[None]:
        """While a slot has work, or is about to get some, there may be more of it soon."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self._ended += 1
            if not self._busy:
                self._freed.set()

    @contextmanager
    def _may_be_cancelled(self) -> Iterator[None]:
        """While a slot has nothing to lose, stopping need not wait for it."""
        task = asyncio.current_task()
        assert task is not None, "a coroutine runs inside a task"
        self._waiting.add(task)
        try:
            yield
        finally:
            self._waiting.discard(task)

    def _is_stopping(self) -> bool:
        return self._stopping.is_set()

    def _tell(self, name: str, **fields: Any) -> None:
        if self._on_event is not None:
            with suppress(Exception):  # Whoever watches must not break what is watched.
                self._on_event(name, fields)


async def _first_of(event: asyncio.Event, tasks: list[asyncio.Task[None]]) -> None:
    """Until the event is set, or one of the tasks ends."""
    told = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({told, *tasks}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()


async def _all_of(tasks: list[asyncio.Task[None]], hurry: asyncio.Event, grace_s: float) -> None:
    """Until all tasks ended, the time is over, or somebody is in a hurry."""
    told = asyncio.create_task(hurry.wait())
    done = asyncio.create_task(asyncio.wait(tasks, timeout=grace_s))
    try:
        await asyncio.wait({told, done}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        told.cancel()
        done.cancel()
