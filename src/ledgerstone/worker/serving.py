"""One piece of work: the handler is called, and the claim settled by how it ends."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from ledgerstone.api.store import AsyncStore
from ledgerstone.api.usage import may_begin
from ledgerstone.api_sync.store import Store
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import (
    BudgetExceeded,
    ClaimLost,
    ExecutionNotFound,
    ExecutionUnresolved,
    Fenced,
    InvalidValue,
    LeaseExpired,
    SessionBindingMismatch,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.intake.work import error_text
from ledgerstone.records.work import Holding
from ledgerstone.worker.context import BlockingContext, Bury, Context, Later

BUDGET_PAUSE_S = 60.0
"""How long work waits before a used-up budget is looked at again, in seconds."""
_SHARED = ("tenant", "clock", "equipment")
"""What the async and the blocking store share besides the backend."""

Handler: TypeAlias = Callable[[Context], Awaitable[Any]] | Callable[[BlockingContext], Any]


class Tell(Protocol):
    """Reports an event to the worker's observer."""

    def __call__(self, name: str, **fields: Any) -> None: ...


class ThreadCall:
    """A blocking call beside the event loop, in a thread that never keeps the process alive.

    A thread cannot be cancelled: cancelling `result` leaves it running, and `ended` tells when it
    is over. An executor's threads are waited for when the interpreter ends, so a handler that hangs
    would keep a worker from ending; these are left behind.
    """

    def __init__(self, work: Callable[[], None], name: str) -> None:
        loop = asyncio.get_running_loop()
        self._over: asyncio.Future[BaseException | None] = loop.create_future()
        context = contextvars.copy_context()

        def run() -> None:
            error: BaseException | None = None
            try:
                context.run(work)
            except BaseException as raised:  # Whatever it is, it belongs to the one who waits.
                error = raised
            with suppress(RuntimeError):  # The loop is closed: nobody waits any more.
                loop.call_soon_threadsafe(self._tell, error)

        threading.Thread(target=run, name=name, daemon=True).start()

    def _tell(self, error: BaseException | None) -> None:
        self._over.set_result(error)

    async def result(self) -> None:
        """Wait for the end, and raise what the call raised."""
        error = await asyncio.shield(self._over)
        if error is not None:
            raise error

    async def ended(self) -> None:
        """Wait for the end, however it was."""
        await asyncio.wait((self._over,))


class Service:
    """Serves work that somebody holds; several at once."""

    def __init__(
        self,
        store: AsyncStore | Store,
        handler: Handler,
        timeout_s: float | None,
        tell: Tell,
        stopping: Callable[[], bool],
    ) -> None:
        self.store, self._blocking = _both_stores(store)
        self._handler: Any = handler
        self._is_async = _is_async(handler)
        self._timeout_s = timeout_s
        self._tell = tell
        self._stopping = stopping

    async def serve(self, holding: Holding, threads: list[ThreadCall]) -> None:
        lease, claim = holding
        context: Context | BlockingContext
        if self._is_async:
            context = Context(self.store, lease, claim, self._stopping)
        else:
            context = BlockingContext(self._blocking, lease, claim, self._stopping)
        began_s = monotonic_s()
        self._tell("taken", **_named(context))
        try:
            await may_begin(self.store._handle, context.session)
            if isinstance(context, BlockingContext):
                threads.append(self._start(context))
                await self._timed(threads[-1].result())
            else:
                await context.finish(await self._timed(self._handler(context)))
        except asyncio.CancelledError as error:
            self._judge_cancelled(context, error)
            await self._fail(context, error)
        except Later as error:
            await self._postpone(context, error.delay_s)
        except Bury as error:
            await self._fail(context, error.reason, bury=True)
        except ExecutionUnresolved as error:
            await self._park(context, error)
        except Exception as error:
            _refuse_lost(context, error)
            if isinstance(error, BudgetExceeded) and error.asked == 0 and not context.committed:
                # Nothing is wrong with the work and nothing was spent: no attempt counts.
                await self._postpone(context, BUDGET_PAUSE_S, error=_reason(error))
            else:
                await self._fail(context, error)
        else:
            self._tell("done", **_named(context), seconds=monotonic_s() - began_s)
        finally:
            context.ended = True

    def _start(self, context: BlockingContext) -> ThreadCall:
        def work() -> None:
            context.finish(self._handler(context))

        return ThreadCall(work, f"ledgerstone-worker-{context.session}")

    async def _timed(self, work: Awaitable[Any]) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s) as limit:
                return await work
        except TimeoutError:
            if limit.expired():
                raise TimeoutError(f"the handler took longer than {self._timeout_s} s") from None
            raise

    def _judge_cancelled(
        self, context: Context | BlockingContext, error: asyncio.CancelledError
    ) -> None:
        """Raise it again unless the handler cancelled itself, which is a failure like others."""
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            if getattr(context.lease, "lost", None) is None:
                self._tell("abandoned", **_named(context))
            raise error

    async def _postpone(
        self, context: Context | BlockingContext, delay_s: float, **told: str
    ) -> None:
        """Hand the work back, uncounted; it comes again after a while."""
        if not await self.store.work.abandon(context.claim, delay_s=delay_s):
            raise ClaimLost(context.session, context.claim.id) from None
        self._tell("later", **_named(context), delay_s=delay_s, **told)

    async def _park(self, context: Context | BlockingContext, error: ExecutionUnresolved) -> None:
        """The work waits, uncounted, until somebody decides about the tool call."""
        if context.committed:
            await self._fail(context, error)
            return
        try:
            batches = await self.store.work.park(context.claim, waiting_for=error)
        except (ExecutionNotFound, SessionBindingMismatch):
            await self._fail(context, error)
            return
        if any(batch.waiting_for for batch in batches):
            self._tell("parked", **_named(context), execution=error.execution)
        else:
            self._tell("later", **_named(context), delay_s=0)

    async def _fail(
        self, context: Context | BlockingContext, error: str | BaseException, *, bury: bool = False
    ) -> None:
        reason = _reason(error)
        try:
            left = await self.store.work.fail(context.claim, reason, bury=bury)
        except (Fenced, SessionDeleted, SessionNotFound) as lost:
            if not context.committed:
                raise ClaimLost(context.session, context.claim.id) from lost
            # It was done before the handler failed: there is nothing to do again.
            self._tell("done", **_named(context), error=reason)
            return
        self._tell("failed" if left else "buried", **_named(context), error=reason)


def _named(context: Context | BlockingContext) -> dict[str, Any]:
    """Which work an event is about; never what is in it."""
    return {
        "session": context.session,
        "batches": [batch.id for batch in context.batches],
        "attempts": context.attempts,
    }


def _refuse_lost(context: Context | BlockingContext, error: Exception) -> None:
    """Fenced when the error says that the lease of this very work is lost."""
    if isinstance(error, Fenced) and error.session == context.session:
        raise error
    if isinstance(error, LeaseExpired) and error.session == context.session:
        raise Fenced(error.session, error.fence, error.fence) from error


def _reason(error: str | BaseException) -> str:
    """What is kept of an error, even of one that cannot say what it is."""
    try:
        return error_text(error)
    except Exception:
        return type(error).__name__


def _is_async(handler: object) -> bool:
    if not callable(handler):
        raise InvalidValue("handler", f"a function expected, got {type(handler).__name__}")
    call = getattr(handler, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _both_stores(store: AsyncStore | Store) -> tuple[AsyncStore, Store]:
    """The async and the blocking store on one backend; closing it is up to the caller."""
    handle = store._handle
    given: dict[str, Any] = {name: getattr(handle, name) for name in _SHARED}
    if isinstance(store, AsyncStore):
        return store, Store(handle.backend, **given)
    return AsyncStore(handle.backend, **given), store
