"""Tools whose calls are written down before they are made, so that none is made twice unnoticed.

The framework stores a run when it ends. A process that is killed before that leaves executions
whose results are in no message, and a model that is asked again would ask for the same once more,
under new ids. So nothing is called while such calls of a session are not accounted for.
"""

from __future__ import annotations

from asyncio import CancelledError
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from inspect import isawaitable
from itertools import takewhile
from typing import Any, TypeAlias, TypeVar

from agent_framework import (
    Content,
    FunctionInvocationContext,
    FunctionMiddleware,
    Message,
    MiddlewareFailure,
    MiddlewareTermination,
)
from pydantic_core import to_jsonable_python

from ledgerstone import ids
from ledgerstone.adapters.agent_framework import messages as form
from ledgerstone.adapters.agent_framework.history import APP, LedgerHistoryProvider, session_of
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of, runs_async
from ledgerstone.codec import encode_json
from ledgerstone.errors import Conflict, ExecutionUnresolved, InvalidValue, LedgerstoneError
from ledgerstone.intake.executions import error_text
from ledgerstone.records.executions import Execution

T = TypeVar("T")
Position: TypeAlias = tuple[int, int] | None
"""Where a history stands: its incarnation and revision."""
FindCalls: TypeAlias = Callable[[str], Awaitable[list[Execution]]]
SESSIONS_KEPT = 1024
PAGE = 500
REWRITES = frozenset({"pop", "clear", "replace", "checkpoint"})
"""Commits that take messages away: what happened before one is nobody's surprise."""


class CallsLeft(Conflict):
    """Tools were called by a process that is gone, and the history does not know of it."""

    def __init__(self, session: str, calls: Sequence[Execution]) -> None:
        names = ", ".join(f"{one.tool} {one.call_id}" for one in calls)
        super().__init__(
            f"session {session!r}: the results of {len(calls)} calls are not in the history "
            f"({names}); await middleware.recover({session!r}) puts them there"
        )
        self.session = session
        self.calls = list(calls)


class LedgerToolMiddleware(FunctionMiddleware):
    """Runs tools as executions of the session: Agent(..., middleware=[..., this one as the last]).

    It needs a LedgerHistoryProvider over the same store, and its `user`. `tools` names those that
    act on the world; without it all are written down. When a call cannot be made safely the run
    ends with MiddlewareFailure, and its cause is ExecutionUnresolved, CallsLeft or another error
    of the store.
    """

    def __init__(
        self, store: AnyStore, *, tools: Iterable[str] | None = None, user: str | None = None
    ) -> None:
        self._runner = StoreRunner(store)
        self._store = store
        self._tools = None if tools is None else _names(tools)
        self._user = user
        self._history = LedgerHistoryProvider(store, user=user)
        self._own: OrderedDict[str, tuple[Position, set[str]]] = OrderedDict()

    async def process(
        self, context: FunctionInvocationContext, call_next: Callable[[], Awaitable[None]]
    ) -> None:
        """Call the tool unless its answer is known."""
        if self._tools is not None and context.function.name not in self._tools:
            await call_next()
            return
        begun = await self._or_end_run(context, self._begin(context))
        if begun.status == "succeeded":
            context.result = decode_result(begun.result)
            return
        try:
            await call_next()
        except Exception as error:
            if isawaitable(context.result):
                context.result = None  # The framework leaves the call itself there.
            await self._or_end_run(context, self._finish(begun, _outcome(error, context.result)))
            if isinstance(error, MiddlewareFailure):
                self._own.pop(begun.session, None)  # The run ends, and what others of it did.
            raise
        except BaseException:
            # Cancelled in the middle: as after a crash, nobody knows.
            self._own.pop(begun.session, None)
            raise
        await self._or_end_run(
            context, self._finish(begun, {"result": encode_result(context.result)})
        )

    async def recover(self, session_id: str) -> list[Execution]:
        """Tell the history what is known of calls that were left behind, in one commit.

        For when no other process works on the session. ExecutionUnresolved when nobody knows what
        came of one: say so first, with `store.executions.finish`.
        """
        session = session_of(session_id)
        calls, waiting = await self._resolved(session)
        results = [
            message
            for call in calls
            for message in _result_messages(call, is_asked=_provider_id(call) in waiting)
        ]
        await self._history.save_messages(session, results)
        return calls

    @runs_async
    async def _resolved(self, session: str) -> tuple[list[Execution], set[str]]:
        """Calls that were left behind with their outcomes, and what the history waits for."""
        calls = await self._unfinished(session)
        for one in calls:
            if not one.resolved:
                raise ExecutionUnresolved(one.id, one.call_id)
        path = await of(self._store.messages.history(session)) if calls else []
        waits: Counter[str] = Counter()
        for kind, _, call_id in form.calls(path):
            waits[call_id] += 1 if kind == "function_call" else -1
        return calls, {call_id for call_id, count in waits.items() if count > 0}

    async def _or_end_run(
        self, context: FunctionInvocationContext, work: Coroutine[Any, Any, T]
    ) -> T:
        """End the run on errors: one that the model is told of would make it try again.

        The run is not stored then, so its calls are left behind as those of a dead process are.
        """
        try:
            return await self._runner.run_async(work)
        except (LedgerstoneError, CancelledError) as error:
            if context.session is not None:
                self._own.pop(context.session.session_id, None)
            if isinstance(error, CancelledError):
                raise
            raise MiddlewareFailure(str(error)) from error

    async def _begin(self, context: FunctionInvocationContext) -> Execution:
        """The intent, made durable; or the outcome that the call had before."""
        session = session_of(None if context.session is None else context.session.session_id)
        said = context.metadata
        name = _name(said.get("function_call_occurrence_id"), said["call_id"])
        id = _id(session, name)
        at, find = await self._position(session)
        await self._check(session, id, find)
        self._remembered(session, at).add(id)
        begun = await of(
            self._store.executions.start(
                session,
                id=id,
                call_id=name,
                tool=context.function.name,
                arguments=to_jsonable_python(context.arguments, fallback=str),
                once=True,
            )
        )
        if begun.status == "failed":
            begun = await self._retry(begun)
        if begun.status != "succeeded":
            try:
                # Once more, now that others see this call: of two at once at most one is made.
                await self._check(session, id, find)
            except Conflict as error:
                await self._finish(begun, {"error": f"not called: {error_text(error)}"})
                raise
        return begun

    async def _retry(self, failed: Execution) -> Execution:
        """Begin a failed call once more, unless somebody else did at the same moment."""
        retried = await of(self._store.executions.retry(failed.id))
        if retried.attempts != failed.attempts + 1:
            raise ExecutionUnresolved(retried.id, retried.call_id)
        return retried

    async def _finish(self, begun: Execution, outcome: dict[str, Any]) -> None:
        await of(self._store.executions.finish(begun.id, **outcome))

    async def _position(self, session: str) -> tuple[Position, FindCalls]:
        """Where the history stands, and which calls have to be looked at before another one.

        While it stands where it stood no run has ended, and what is under way is enough. When it
        moved, a process that is gone by now may have begun and left a run since.
        """
        if session not in self._own:
            await of(self._store.sessions.ensure(session, app=APP, user=self._user))
        head = await of(self._store.sessions.head(session))
        at = None if head is None else (head.incarnation, head.revision)
        known = self._own.get(session)
        return at, self._under_way if known is not None and known[0] == at else self._unfinished

    async def _check(self, session: str, id: str, find: FindCalls) -> None:
        """ExecutionUnresolved or CallsLeft unless the calls of others are accounted for."""
        found = await find(session)
        # Taken after looking: another call of this process may have begun meanwhile.
        own = self._own.get(session, (None, set[str]()))[1]
        left = [one for one in found if one.id not in own and one.id != id]
        for one in left:
            if not one.resolved:
                raise ExecutionUnresolved(one.id, one.call_id)
        if left:
            raise CallsLeft(session, left)

    def _remembered(self, session: str, at: Position) -> set[str]:
        """The calls of this process."""
        own = self._own.setdefault(session, (at, set()))[1]
        self._own[session] = (at, own)
        with suppress(KeyError):
            self._own.move_to_end(session)
        if len(self._own) > SESSIONS_KEPT:
            self._own.popitem(last=False)
        return own

    async def _under_way(self, session: str) -> list[Execution]:
        """Calls that have no outcome."""
        found = await of(self._store.executions.unresolved(session=session))
        return [one for one in found if _is_ours(one)]

    async def _unfinished(self, session: str) -> list[Execution]:
        """Calls since the last one that the history knows, oldest first."""
        made = await of(self._store.executions.list(session=session))
        calls = [one for one in made if _is_ours(one) and one.status != "failed"]
        if not calls:
            return []
        path = await of(self._store.messages.history(session, deleted=True))
        answered = {
            _name(id, call) for kind, id, call in form.calls(path) if kind == "function_result"
        }

        def is_unknown(call: Execution) -> bool:
            return answered.isdisjoint((call.call_id, _provider_id(call)))

        unknown = list(takewhile(is_unknown, reversed(calls)))
        return await self._since_rewrite(session, unknown[::-1]) if unknown else []

    async def _since_rewrite(self, session: str, calls: list[Execution]) -> list[Execution]:
        """Those that began after messages were last taken away on purpose."""
        revision = last_us = 0
        while page := await of(
            self._store.turns.list(session, after_revision=revision, limit=PAGE)
        ):
            revision = page[-1].revision
            last_us = max([last_us, *(one.created_us for one in page if one.kind in REWRITES)])
        return [one for one in calls if one.started_us > last_us]


def encode_result(result: Any) -> Any:
    """What a tool answered, as the model sees it."""
    if isinstance(result, list) and all(isinstance(one, Content) for one in result):
        return [one.to_dict() for one in result]
    return result if isinstance(result, str) else str(result)


def decode_result(result: Any) -> Any:
    """The answer again; somebody who looked may also have said it in words of their own."""
    if isinstance(result, list) and all(isinstance(one, dict) and "type" in one for one in result):
        with suppress(TypeError, ValueError):
            return [Content.from_dict(one) for one in result]
    return result if isinstance(result, str) else encode_json(result, "result").decode()


def _outcome(error: Exception, result: Any) -> dict[str, Any]:
    """What came of a call that raised: one that ends the run may answer all the same."""
    if isinstance(error, MiddlewareTermination):
        answer = error.result if result is None else result
        if answer is not None:
            return {"result": encode_result(answer)}
    return {"error": error_text(error)}


def _result_messages(call: Execution, *, is_asked: bool) -> list[Message]:
    """A result as the framework would have stored it, after its call if that is not there."""
    raw = _provider_id(call)
    id = call.call_id.removesuffix(raw).strip() or None
    answer = Content.from_function_result(raw, id=id, result=decode_result(call.result))
    asked = Content.from_function_call(raw, call.tool, arguments=call.arguments, id=id)
    told = Message("tool", [answer])
    return [told] if is_asked else [Message("assistant", [asked]), told]


def _names(tools: object) -> frozenset[str]:
    """InvalidValue for what would guard nothing, without a word: one text, or the tools."""
    if isinstance(tools, str) or not isinstance(tools, Iterable):
        raise InvalidValue("tools", f"a list of names expected, got {type(tools).__name__}")
    return frozenset(ids.check_name(one, f"tools[{n}]") for n, one in enumerate(tools))


def _name(id: str | None, call_id: str) -> str:
    """A call by the framework's id for it, since providers use theirs again, and by theirs."""
    name = call_id if id is None else f"{id} {call_id}"
    return name if len(name) <= ids.ID_CHARS_MAX else ids.derive(id or "", call_id)


def _provider_id(call: Execution) -> str:
    """The provider's id of a call."""
    return call.call_id.partition(" ")[2] or call.call_id


def _id(session: str, name: str) -> str:
    return ids.derive("agent-framework", "call", session, name)


def _is_ours(one: Execution) -> bool:
    return one.id == _id(one.session, one.call_id)
