"""Tools whose calls are written down before they are made, so that none is made twice unnoticed."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from copy import copy
from math import isfinite
from typing import Any

from agents import FunctionTool, ToolOutputFileContent, ToolOutputImage, ToolOutputText
from msgspec import UNSET
from pydantic import ValidationError

from ledgerstone import ids
from ledgerstone.adapters.openai_agents.history import BranchHistory, settled
from ledgerstone.adapters.openai_agents.unfinished_calls import (
    CallTracker,
    CallUnresolved,
    check,
    check_under_way,
    is_result_stored,
    output_id,
)
from ledgerstone.adapters.sync_async import StoreRunner, of
from ledgerstone.errors import ExecutionUnresolved, InvalidValue, NotSupported
from ledgerstone.intake.executions import error_text
from ledgerstone.records.executions import Execution

STRUCTURED = (ToolOutputText, ToolOutputImage, ToolOutputFileContent)


def once(
    tool: FunctionTool, history: BranchHistory, runner: StoreRunner, tracker: CallTracker
) -> FunctionTool:
    """A copy of the tool with a guard around its calls."""
    if not isinstance(tool, FunctionTool):
        raise InvalidValue("tool", f"a FunctionTool expected, got {type(tool).__name__}")
    if getattr(tool, "_is_agent_tool", False):
        # It may stop in the middle with questions of its own; that is no result.
        raise NotSupported("once() around an agent", hint="wrap the tools of that agent")
    made = copy(tool)
    made.on_invoke_tool = Once(made.on_invoke_tool, tool.qualified_name, history, runner, tracker)
    if callable(tool.needs_approval):
        made.needs_approval = _policy(tool, tool.needs_approval)
    return made


class Once:
    """Calls a tool unless its answer is known; refuses while a call has no outcome."""

    def __init__(
        self,
        inner: Callable[[Any, str], Awaitable[Any]],
        name: str,
        history: BranchHistory,
        runner: StoreRunner,
        tracker: CallTracker,
    ) -> None:
        self._inner = inner
        self._name = name
        self._history = history
        self._runner = runner
        self._tracker = tracker

    async def __call__(self, context: Any, arguments: str) -> Any:
        # A resumed run has not asked for its history; here it is seen that it is the one in hand.
        self._tracker.run = getattr(context, "usage", None)
        execution = await settled(
            self._runner.run_async(self._begin(context.tool_call_id, arguments))
        )
        if execution.status == "succeeded":
            return execution.result
        if execution.ticket is not None:
            arguments = _arguments_of(execution, arguments)
        try:
            return await self._made(execution, context, arguments)
        except BaseException:
            # If it was cancelled, nobody knows how far it came: this process no more than others.
            self._tracker.mine.discard(execution.id)
            raise

    async def _made(self, execution: Execution, context: Any, arguments: str) -> Any:
        """The call, with its outcome written down."""
        try:
            result = await self._inner(context, arguments)
        except Exception as error:
            await self._finish(execution, error=error_text(error))
            raise
        await self._finish(execution, result=stored(result))
        return result

    async def _begin(self, call_id: str, arguments: str) -> Execution:
        """The intent, made durable; or the outcome that the call had before."""
        history, tracker = self._history, self._tracker
        executions = history.store.executions
        await history.ensure()
        await check(history, tracker, call_id)
        id = ids.new_id()
        tracker.call_begins(id)
        try:
            begun = await of(
                executions.start(
                    history.session,
                    id=id,
                    message=output_id(history.branch),
                    lease=history.lease,
                    **self._call(call_id, arguments),
                )
            )
            if begun.status == "failed":
                begun = await self._again(begun)
            if not begun.resolved:
                await self._check_again(begun)
        except ExecutionUnresolved as error:
            tracker.mine.discard(id)
            raise CallUnresolved(error.execution, error.call_id) from None
        except BaseException:
            tracker.mine.discard(id)
            raise
        if begun.message_id is not None and not await is_result_stored(history, begun):
            tracker.outputs[call_id] = begun
        return begun

    async def _check_again(self, begun: Execution) -> None:
        """Now that others see this call: of two that began at one moment, at most one is made."""
        try:
            await check_under_way(self._history, self._tracker, begun.call_id)
        except CallUnresolved as error:
            finish, lease = self._history.store.executions.finish, self._history.lease
            await of(finish(begun.id, error=f"not called: {error}", lease=lease))
            raise

    async def _again(self, failed: Execution) -> Execution:
        """Begin a failed call once more, unless somebody else did at the same moment."""
        again = await of(self._history.store.executions.retry(failed.id, lease=self._history.lease))
        if again.attempts != failed.attempts + 1:
            raise ExecutionUnresolved(again.id, again.call_id)
        self._tracker.call_begins(again.id)
        return again

    def _call(self, call_id: str, arguments: str) -> dict[str, Any]:
        ticket = self._tracker.approved.get(call_id)
        given: dict[str, Any] = {"call_id": call_id}
        if ticket is None:
            return {**given, "tool": self._name, "arguments": parsed(arguments)}
        if ticket.decision is None or ticket.decision.arguments is UNSET:
            given["arguments"] = parsed(arguments)
        return {**given, "ticket": ticket.id}

    async def _finish(self, execution: Execution, **outcome: Any) -> None:
        finish = self._history.store.executions.finish

        async def work() -> None:
            await of(finish(execution.id, lease=self._history.lease, **outcome))

        await settled(self._runner.run_async(work()))


def stored(result: Any) -> Any:
    """What a tool answered, as the model sees it; the SDK takes it for the answer again."""
    if isinstance(result, list | tuple):
        blocks = [_block(one) for one in result]
        return blocks if blocks and None not in blocks else str(result)
    block = _block(result)
    return str(result) if block is None else block


def _block(value: Any) -> dict[str, Any] | None:
    """A block of content; None for what the SDK shows as text, as it does with a tool's own
    {"type": "file", ...}.
    """
    if isinstance(value, STRUCTURED):
        return value.model_dump(mode="json", exclude_none=True)
    if isinstance(value, dict) and "type" in value:
        for model in STRUCTURED:
            with suppress(ValidationError):
                return model.model_validate(value).model_dump(mode="json", exclude_none=True)
    return None


def parsed(arguments: str) -> Any:
    """The arguments of a call as a value, or as the text that they are when that is not JSON."""
    try:
        return json.loads(arguments, parse_constant=_finite, parse_float=_finite)
    except ValueError:
        return arguments


def _finite(text: str) -> float:
    """Python reads NaN, Infinity and 1e999 from what should be JSON; a store takes none of them."""
    value = float(text)
    if not isfinite(value):
        raise ValueError(text)
    return value


def _arguments_of(execution: Execution, given: str) -> str:
    """The text of the approved arguments: as the model wrote it, unless somebody edited them."""
    if execution.arguments == parsed(given):
        return given
    if isinstance(execution.arguments, str):
        return execution.arguments
    return json.dumps(execution.arguments)


def _policy(tool: FunctionTool, asked: Callable[..., Awaitable[bool]]) -> Any:
    """The tool's own rule of approval, with the SDK's rule for what it cannot judge by.

    The SDK asks a person when checking the arguments would change them. It looks for that at the
    tool's own invoker, which is not to be seen behind the guard.
    """
    prepare = getattr(tool.on_invoke_tool, "prepare_arguments", None)

    async def needs_approval(context: Any, arguments: dict[str, Any], call_id: str) -> bool:
        if prepare is not None:
            prepared = prepare(json.dumps(arguments), tool.name)
            if prepared is not None and not prepared.unchanged:
                return True
        return await asked(context, arguments, call_id)

    return needs_approval
