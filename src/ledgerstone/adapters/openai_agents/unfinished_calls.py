"""Tool calls that a dead process left behind: made, but not told to the model.

The SDK stores a turn when all its tools have answered. A process that is killed before that leaves
executions whose results are in no message. A model that is asked again would ask for the same once
more, under new ids, so they have to be found first.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agents import AgentsException
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.adapters.openai_agents.history import BranchHistory
from ledgerstone.adapters.openai_agents_items import Item, kept
from ledgerstone.adapters.sync_async import of
from ledgerstone.commands.nodes import GetMessage
from ledgerstone.errors import Conflict, ExecutionUnresolved
from ledgerstone.records.executions import Execution
from ledgerstone.records.messages import Message
from ledgerstone.records.tickets import Ticket
from ledgerstone.records.turns import TurnInfo

CHUNK = 50
PAGE = 500
MARK_CHARS = 16
BLOCKS = ("text", "image", "file")
REWRITES = frozenset({"pop", "clear", "replace", "checkpoint"})
"""Commits that take messages away on purpose; calls that went with them are not missing."""


class CallUnresolved(ExecutionUnresolved, AgentsException):
    """ExecutionUnresolved, of a kind that the SDK hands on as it is instead of wrapping it."""


class CallsLeft(Conflict, AgentsException):
    """Tools were called by a process that is gone, and the history does not know of it."""

    def __init__(self, session: str, calls: Sequence[str]) -> None:
        super().__init__(
            f"session {session!r}: the results of {len(calls)} calls are not in the history "
            f"({', '.join(calls)}); await session.recover() puts them there"
        )
        self.session = session
        self.calls = list(calls)


@dataclass
class CallTracker:
    """What this process knows about the tool calls of a session."""

    approved: dict[str, Ticket] = field(default_factory=dict)
    """Tickets that the resumed state goes on with, by call id."""
    resumed: set[str] = field(default_factory=set)
    """Calls that the resumed state knows of: it will tell the model about them."""
    own: set[str] = field(default_factory=set)
    """Executions of the current run: it will tell the model about them."""
    mine: set[str] = field(default_factory=set)
    """Executions that this process began and has finished or still runs."""
    outputs: dict[str, Execution] = field(default_factory=dict)
    """Calls whose results are not stored yet, by call id; each names the message of its result."""
    checked: bool = False
    run: object = None
    """The current run, identified by the usage object of its Runner."""

    def run_begins(self, run: object) -> None:
        """A run asks for its history, so the run before will store nothing more.

        Nor will a state that was loaded: the Runner does not ask when it resumes one.
        """
        if run is self.run:
            return
        self.run = run
        if self.outputs or self.resumed:
            for known in (self.outputs, self.own, self.resumed, self.approved):
                known.clear()
            self.checked = False

    def call_begins(self, id: str) -> None:
        """A call of the current run is about to be made."""
        self.own.add(id)
        self.mine.add(id)

    def with_ids(self, messages: Sequence[Message]) -> list[Message]:
        """The messages, those that tell a result under the id that was foreseen for it.

        The calls of an agent that serves as a tool are told by its answer: it gets the last's id.
        """
        inner = self._inner(messages)[-1:]
        outputs, found = dict(self.outputs), []
        for one in messages:
            call = outputs.pop(one.body.tool_call_id or "", None)
            if call is None and one.role == "tool" and inner:
                call = inner.pop()
            found.append(one if call is None else replace(one, id=call.message_id or ""))
        return found

    def forget_stored(self, messages: Sequence[Message]) -> None:
        """Forget calls whose results are stored; the same result again is another message."""
        inner = self._inner(messages)
        if inner and any(one.id == inner[-1].message_id for one in messages):
            for call in inner:
                self.outputs.pop(call.call_id, None)
        for one in messages:
            self.outputs.pop(one.body.tool_call_id or "", None)

    def _inner(self, messages: Sequence[Message]) -> list[Execution]:
        """Calls whose results are none of these messages, oldest first.

        As the store has them: calls at once may be noted here in another order.
        """
        told = {one.body.tool_call_id for one in messages}
        found = [call for key, call in list(self.outputs.items()) if key not in told]
        return sorted(found, key=lambda call: (call.created_us, call.id))


async def check(history: BranchHistory, tracker: CallTracker, call_id: str) -> None:
    """CallsLeft or CallUnresolved while calls of another process or run are unaccounted for."""
    await check_under_way(history, tracker, call_id)
    if tracker.checked:
        return
    found = await _unfinished(history, tracker)
    calls = [one.call_id for one in found if one.id not in tracker.own and one.call_id != call_id]
    if calls:
        raise CallsLeft(history.session, calls)
    tracker.checked = True


async def check_under_way(history: BranchHistory, tracker: CallTracker, call_id: str) -> None:
    """CallUnresolved while a call of another process or run has no outcome."""
    for one in await of(history.store.executions.unresolved(session=history.session)):
        if one.id in tracker.mine or one.call_id == call_id:
            continue
        # One that is told has timed out, and the model knows as much.
        if one.message_id is None or not await is_result_stored(history, one):
            raise CallUnresolved(one.id, one.call_id)


async def recover(history: BranchHistory, tracker: CallTracker) -> list[Execution]:
    """Tell the history what is known of calls that were left behind, in one commit.

    CallUnresolved when nobody knows what came of one.
    """
    calls = await _unfinished(history, tracker)
    for one in calls:
        if not one.resolved:
            raise CallUnresolved(one.id, one.call_id)
    if calls:
        path = await of(history.store.messages.history(history.session, branch=history.branch))
        asked = {call.id for message in path for call in message.tool_calls}
        await history.add([made for one in calls for made in _messages(one, one.call_id in asked)])
    for one in calls:
        tracker.outputs.pop(one.call_id, None)
    tracker.checked = True
    return calls


def output_id(branch: str) -> str:
    """An id for the message with a result, which shows the branch that it is meant for."""
    return f"{_mark(branch)}{ids.new_id()}"


def _mark(branch: str) -> str:
    return "" if branch == "main" else ids.derive("branch", branch)[:MARK_CHARS] + "."


def _is_of(call: Execution, branch: str) -> bool:
    mark, dot, _ = (call.message_id or "").rpartition(".")
    return call.message_id is not None and mark + dot == _mark(branch)


async def is_result_stored(history: BranchHistory, execution: Execution) -> bool:
    """Whether a message with its result was stored, also if it was hidden since."""
    (found,) = await _stored(history, [execution.message_id or ""])
    return found is not None


async def _unfinished(history: BranchHistory, tracker: CallTracker) -> list[Execution]:
    """Calls since the last one that the history knows, oldest first."""
    made = await of(history.store.executions.list(session=history.session))
    ours = [one for one in made if _is_of(one, history.branch)]
    found: list[Execution] = []
    for end in range(len(ours), 0, -CHUNK):
        chunk = ours[max(end - CHUNK, 0) : end]
        known = await _stored(history, [one.message_id or "" for one in chunk])
        for one, message in zip(reversed(chunk), reversed(known), strict=True):
            if message is not None:
                return await _without_result(history, found)
            if one.status != "failed" and one.call_id not in tracker.resumed:
                found.insert(0, one)
    return await _without_result(history, found)


async def _stored(history: BranchHistory, names: Sequence[str]) -> list[Message | None]:
    where = history.where
    return list(await of(history.store.read(*(GetMessage(**where, id=name) for name in names))))


async def _without_result(history: BranchHistory, calls: list[Execution]) -> list[Execution]:
    """Those that no message tells of, nor one that another object of the session wrote."""
    if not calls:
        return []
    path = await of(history.store.messages.history(history.session, branch=history.branch))
    told = {message.body.tool_call_id for message in path}
    return await _since_rewrite(history, [one for one in calls if one.call_id not in told], path)


async def _since_rewrite(
    history: BranchHistory, calls: list[Execution], path: list[Message]
) -> list[Execution]:
    """Those whose surroundings were not taken away on purpose since they began."""
    if not calls:
        return []
    head = await of(history.store.sessions.head(history.session))
    end = 0 if head is None else head.revision
    taken: list[tuple[int, int]] = []
    while end > 0:
        start = max(end - PAGE, 0)
        page = await _commits(history, start, end)
        for leaf, one in page:
            since_us = await _taken(history, path, leaf, one)
            if since_us is not None:
                taken.append((since_us, one.created_us))
        if not page or page[0][1].created_us < calls[0].started_us:
            break
        end = start
    return [call for call in calls if not any(a <= call.started_us <= b for a, b in taken)]


async def _commits(
    history: BranchHistory, start: int, end: int
) -> list[tuple[str | None, TurnInfo]]:
    """Those after `start`, up to `end`, each with the leaf that main had before it."""
    after = max(start - 1, 0)
    found = await of(
        history.store.turns.list(history.session, after_revision=after, limit=end - after)
    )
    leaves = [one.leaf for one in found]
    if start:
        return list(zip(leaves, found[1:], strict=False))
    return list(zip([None, *leaves], found, strict=False))


async def _taken(
    history: BranchHistory, path: list[Message], before: str | None, one: TurnInfo
) -> int | None:
    """How old the oldest is that a commit took off the branch; None when it took nothing there.

    It tells the leaf of main, so that is certain. On another branch it left that at what its path
    has still from before; of two branches that stood at one place, it may have been the other.
    """
    is_main = history.branch == "main"
    if one.kind not in REWRITES or (one.leaf == before) == is_main:
        return None
    made = await of(history.store.turns.get(history.session, one.turn))
    if made is None:
        return 0
    older = [None, *(message.id for message in path if message.created_us <= one.created_us)]
    if not is_main and made.leaf != older[-1]:
        return None
    # Only a pop says what it took: an input that was taken back says nothing of calls before it.
    found = await _stored(history, made.affected)
    return min((0 if message is None else message.created_us for message in found), default=0)


def _messages(call: Execution, is_asked: bool) -> list[Message]:
    """A call and its result as the SDK would have stored them."""
    asked: Item = {
        "type": "function_call",
        "call_id": call.call_id,
        "name": call.tool,
        "arguments": json.dumps(call.arguments),
    }
    told: Item = {
        "type": "function_call_output",
        "call_id": call.call_id,
        "output": call.result if isinstance(call.result, str) else _output(call.result),
    }
    *before, last = kept([told] if is_asked else [asked, told])
    return [*before, replace(last, id=call.message_id or "")]


def _output(result: Any) -> Any:
    """Blocks of a result in the words of an item; what else somebody found out, as text."""
    blocks = result if isinstance(result, list) else [result]
    if blocks and all(isinstance(one, dict) and one.get("type") in BLOCKS for one in blocks):
        return [{**one, "type": f"input_{one['type']}"} for one in blocks]
    return json.dumps(result)
