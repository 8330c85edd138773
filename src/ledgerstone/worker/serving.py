"""One piece of work: the handler is called, and the claim settled by how it ends."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias

from ledgerstone.api.store import AsyncStore
from ledgerstone.api_sync.store import Store
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import (
    ClaimLost,
    Fenced,
    InvalidValue,
    LeaseExpired,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.intake.work import error_text
from ledgerstone.records.work import Holding
from ledgerstone.worker.context import BlockingContext, Bury, Context, Later
from ledgerstone.worker.threads import Call

Handler: TypeAlias = Callable[[Context], Awaitable[Any]] | Callable[[BlockingContext], Any]


class Tell(Protocol):
    """Says to whoever watches what happened."""

    def __call__(self, name: str, **fields: Any) -> None: ...


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
        self.store, self._blocking = _faces(store)
        self._handler: Any = handler
        self._is_async = _is_async(handler)
        self._timeout_s = timeout_s
        self._tell = tell
        self._stopping = stopping

    async def serve(self, holding: Holding, threads: list[Call]) -> None:
        """Run the handler and settle the claim."""
        lease, claim = holding
        context: Context | BlockingContext
        if self._is_async:
            context = Context(self.store, lease, claim, self._stopping)
        else:
            context = BlockingContext(self._blocking, lease, claim, self._stopping)
        began_s = monotonic_s()
        self._tell("taken", **_named(context))
        try:
            if isinstance(context, BlockingContext):
                threads.append(self._start(context))
                await self._timed(threads[-1].result())
            else:
                await context.finish(await self._timed(self._handler(context)))
        except asyncio.CancelledError as error:
            self._judge_cancelled(context, error)
            await self._fail(context, error)
        except Later as error:
            if not await self.store.work.abandon(claim, delay_s=error.delay_s):
                raise ClaimLost(context.session, claim.id) from None
            self._tell("later", **_named(context), delay_s=error.delay_s)
        except Bury as error:
            await self._fail(context, error.reason, bury=True)
        except LeaseExpired as error:
            if error.session != context.session:
                await self._fail(context, error)
            else:
                raise Fenced(error.session, error.fence, error.fence) from error
        except Exception as error:
            if isinstance(error, Fenced) and error.session == context.session:
                raise
            await self._fail(context, error)
        else:
            self._tell("done", **_named(context), seconds=monotonic_s() - began_s)
        finally:
            context.ended = True

    def _start(self, context: BlockingContext) -> Call:
        def work() -> None:
            context.finish(self._handler(context))

        return Call(work, f"ledgerstone-worker-{context.session}")

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


def _reason(error: str | BaseException) -> str:
    """What is kept of an error, even of one that can not say what it is."""
    try:
        return error_text(error)
    except Exception:
        return type(error).__name__


def _is_async(handler: object) -> bool:
    if not callable(handler):
        raise InvalidValue("handler", f"a function expected, got {type(handler).__name__}")
    call = getattr(handler, "__call__", None)  # noqa: B004
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(call)


def _faces(store: AsyncStore | Store) -> tuple[AsyncStore, Store]:
    """Both faces of one store, which is the caller's to close."""
    handle = store._handle
    given: dict[str, Any] = {"tenant": handle.tenant, "clock": handle.clock}
    if isinstance(store, AsyncStore):
        return store, Store(handle.backend, **given)
    return AsyncStore(handle.backend, **given), store
