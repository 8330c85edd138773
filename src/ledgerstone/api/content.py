"""What a turn collects before it is committed: no I/O, everything encoded once."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api import bodies, checks
from ledgerstone.codec import encode_json, encode_struct
from ledgerstone.commands.nodes import NewNote, NewValue
from ledgerstone.commands.turns import Amendment, NewCheckpoint, NewNode
from ledgerstone.errors import InvalidValue, SessionBindingMismatch
from ledgerstone.records.messages import Message, message, to_message, tool_result
from ledgerstone.records.nodes import Node
from ledgerstone.records.runs import RUN_STATUSES, Run
from ledgerstone.records.turns import Checkpoint, HydratedCheckpoint
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.records.work import Claim

IDS_PER_DRAW = 5
_RUN_JSON = ("input", "output", "error", "state")
_RUN_GIVEN = frozenset(Run.__struct_fields__) - {"id", "session", "status", "incarnation"}


class Content:
    """The parts of one turn. Ids and salts are drawn in small batches."""

    def __init__(self, session: str, run_id: str | None) -> None:
        self.session = session
        self.run_id = run_id
        self._spare: list[tuple[str, bytes]] = []
        self.empty()

    def empty(self) -> None:
        """Forget what was collected."""
        self._spare.clear()
        self.messages: list[Message] = []
        self.nodes: list[NewNode] = []
        self.amendments: list[Amendment] = []
        self.tombstones: list[str] = []
        self.values: dict[str, NewValue] = {}
        self.notes: list[NewNote] = []
        self.usage: list[UsageEntry] = []
        self.attached: list[str] = []
        self.completed: list[str] = []
        self.dropped: list[str] = []
        self.patch: dict[str, Any] | None = None
        self.run: Run | None = None
        self.config: bytes | None = None
        self.frames: bytes | None = None
        self.checkpoint: NewCheckpoint | None = None

    def is_empty(self) -> bool:
        """Whether committing this would say nothing."""
        lists = (self.nodes, self.amendments, self.tombstones, self.values, self.notes, self.usage)
        more = (self.attached, self.completed, self.dropped)
        ones = (self.patch, self.run, self.config, self.frames, self.checkpoint)
        return not (any(lists) or any(more)) and all(one is None for one in ones)

    def draw(self) -> tuple[str, bytes]:
        """A fresh id and a salt."""
        if not self._spare:
            size = bodies.SALT_BYTES
            salts = os.urandom(size * IDS_PER_DRAW)
            cuts = (salts[n : n + size] for n in range(0, len(salts), size))
            self._spare = list(zip(ids.new_ids(IDS_PER_DRAW), cuts, strict=True))[::-1]
        return self._spare.pop()

    def say(self, role: str, content: object, fields: dict[str, Any]) -> Message:
        """Add a message of one role."""
        body = bodies.body_of(role, content, fields)
        if body is None:
            return self.add(message(role, content, **fields))
        return self.add(Message(body=body))

    def answer(self, call_id: str, content: object, fields: dict[str, Any]) -> Message:
        """Add the result of a tool call."""
        body = bodies.tool_body(call_id, content, fields)
        if body is None:
            return self.add(tool_result(call_id, content, **fields))
        return self.add(Message(body=body, run_id=self.run_id))

    def add(self, value: object) -> Message:
        """Add a message or a {"role", "content"} dictionary."""
        given = value if isinstance(value, Message) else to_message(value, "message")
        id, salt = self.draw()
        if given.id:
            id = ids.check_id(given.id, "id")
        node = bodies.message_node(given, id, salt, self.run_id)
        made = Message(
            body=given.body,
            id=id,
            session=self.session,
            run_id=node.run_id,
            created_us=given.created_us,
        )
        self.nodes.append(node)
        self.messages.append(made)
        return made

    def add_node(self, node: NewNode) -> Node:
        """Add a node of any other kind."""
        self.nodes.append(node)
        return Node(id=node.id, kind=node.kind, session=self.session, label=node.label)

    def add_value(self, data: object) -> str:
        """Keep bytes or JSON once by content; answers the name."""
        value = bodies.new_value(data)
        self.values[value.digest] = value
        return value.digest

    def amend(self, node: Any, fields: dict[str, Any]) -> None:
        id = checks.record_id(node, "id")
        patch = bodies.amendment_patch(fields)
        self.amendments.append(Amendment(id, patch, os.urandom(bodies.SALT_BYTES)))

    def merge_state(self, patch: dict[str, Any]) -> None:
        checks.json_object(patch, "state")
        self.patch = patch if self.patch is None else {**self.patch, **patch}

    def set_run(self, status: str, fields: dict[str, Any]) -> Run:
        """The run of this turn; a second call adds to the first."""
        checks.one_of(status, RUN_STATUSES, "status")
        unknown = fields.keys() - _RUN_GIVEN
        if unknown:
            raise InvalidValue(sorted(unknown)[0], "a run has no such field")
        if fields:
            check_run(fields)
        if self.run_id is None:
            self.run_id = ids.new_id()
        old = self.run or Run(id=self.run_id, session=self.session)
        self.run = replace(old, status=status, **fields)
        return self.run

    def use(self, entry: UsageEntry) -> None:
        self.usage.append(entry)

    def complete(self, claim: Claim | str) -> None:
        if isinstance(claim, Claim) and claim.session != self.session:
            raise SessionBindingMismatch(self.session, claim.session)
        self.completed.append(checks.record_id(claim, "claim"))

    def set_head(self, config: Any, frames: Any, current_frame: Any) -> None:
        if config is not UNSET:
            self.config = encode_json(config, "config")
        if frames is UNSET and current_frame is UNSET:
            return
        if not isinstance(frames, list):
            raise InvalidValue("frames", "frames are stored whole: give the list")
        current = "" if current_frame is UNSET else ids.check_label(current_frame, "current_frame")
        self.frames = encode_json({"frames": frames, "current": current}, "frames")

    def set_checkpoint(self, given: HydratedCheckpoint) -> NewCheckpoint:
        """Values that are given become values of the session, absent ones keep their reference."""
        manifest = Checkpoint(
            turn_state=checks.json_object(given.turn_state, "turn_state"),
            tool_state=self._component(given.tool_state, given.tool_state_ref, "tool_state_ref"),
            plugins=self._component(given.plugins, given.plugins_ref, "plugins_ref"),
            plugins_revision=given.plugins_revision,
            execution=self._component(given.execution, given.execution_ref, "execution_ref"),
        )
        data = encode_struct(manifest, "checkpoint")
        ref = bodies.new_value(data).digest
        self.checkpoint = NewCheckpoint(ref, manifest, data)
        return self.checkpoint

    def _component(self, value: object, ref: str | None, field: str) -> str | None:
        if value is not None:
            return self.add_value(value)
        return None if ref is None else checks.digests((ref,), field)[0]

    def stamped_nodes(self) -> tuple[NewNode, ...]:
        """The nodes; those added before the run had an id belong to it as well."""
        run_id = self.run_id
        if self.run is None or all(node.run_id is not None for node in self.nodes):
            return tuple(self.nodes)
        return tuple(
            node if node.run_id is not None else replace(node, run_id=run_id)
            for node in self.nodes
        )


def check_run(fields: Mapping[str, Any]) -> None:
    """InvalidValue unless the fields of a run have the right types."""
    for name in _RUN_JSON:
        if fields.get(name) is not None:
            encode_json(fields[name], name)
    if "details" in fields:
        checks.json_object(fields["details"], "details")
    try:
        msgspec.convert({**fields, "id": "-", "session": "-"}, Run)
    except msgspec.ValidationError as error:
        raise InvalidValue("run", str(error)) from None


def usage_entry(
    model: str,
    usage: Usage | Mapping[str, int],
    cost: Cost | None,
    source: str,
    provider: str | None,
) -> UsageEntry:
    """One use of a model, checked."""
    if not isinstance(usage, Usage):
        try:
            usage = msgspec.convert(usage, Usage)
        except msgspec.ValidationError as error:
            raise InvalidValue("usage", str(error)) from None
    usage.check("usage")
    if cost is not None and not (isinstance(cost, Cost) and type(cost.nano) is int):
        raise InvalidValue("cost", "a Cost in integer nano-units expected")
    return UsageEntry(
        ids.check_name(model, "model"),
        usage,
        ids.check_label(source, "source"),
        None if provider is None else ids.check_label(provider, "provider"),
        cost,
    )


def id_list(values: Iterable[Any], field: str) -> list[str]:
    """Several ids or records; one alone is taken as well."""
    if isinstance(values, str | msgspec.Struct):
        values = (values,)
    return [checks.record_id(value, field) for value in values]
