"""What a turn collects before it is committed: no I/O, everything encoded once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import force_setattr, replace

from ledgerstone import ids
from ledgerstone.codec import encode_given, encode_json
from ledgerstone.commands.turns import Amendment, NewCheckpoint, NewNode
from ledgerstone.commands.work import Completion
from ledgerstone.errors import InvalidValue, SessionBindingMismatch
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.blobs import blobs_of_patch, named_blobs
from ledgerstone.intake.runs import run_fields
from ledgerstone.intake.work import Keywords, check_keywords, claim_record, new_batch
from ledgerstone.records.document import scrub_config
from ledgerstone.records.messages import (
    Message,
    MessageBody,
    to_message,
    tool_result,
    unnamed_message,
)
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.parts import Text, to_parts
from ledgerstone.records.runs import RUN_STATUSES, Run
from ledgerstone.records.turns import Checkpoint, HydratedCheckpoint
from ledgerstone.records.work import Claim
from ledgerstone.rules.bodies import ROLE_NUMBERS


class Content:
    """The parts of one turn.

    `nodes` in order, `messages` as given to the caller, and in `more` everything else the
    commit carries, by the name of the command's field.
    """

    __slots__ = ("_spare", "messages", "more", "nodes", "run_id", "session")

    def __init__(self, session: str, run_id: str | None) -> None:
        self.session = session
        self.run_id = run_id
        self.empty()

    def empty(self) -> None:
        """Forget what was collected."""
        self._spare: list[tuple[str, bytes]] = []
        self.messages: list[Message] = []
        self.nodes: list[NewNode] = []
        self.more: dict[str, Any] = {}

    def is_empty(self) -> bool:
        """Whether committing this would say nothing."""
        return not self.nodes and not self.more

    def draw(self) -> tuple[str, bytes]:
        """A fresh id and a salt."""
        return self._spare.pop() if self._spare else self._draw_more()

    def _draw_more(self) -> tuple[str, bytes]:
        self._spare = bodies.fresh_names()
        return self._spare.pop()

    def say(self, role: str, content: object, fields: dict[str, Any]) -> Message:
        """Add a message of one role."""
        if fields:
            return self.add(unnamed_message(role, content, **fields))
        named: Any = role  # The callers are methods named after the roles.
        if type(content) is str:
            return self._put(MessageBody(role=named, parts=[Text(content)]))
        body = MessageBody(role=named, parts=to_parts(content, "parts"))  # type: ignore[arg-type]
        blobs = named_blobs(body)
        if blobs:
            self._name_blobs(blobs)
        return self._put(body)

    def answer(self, call_id: str, content: object, fields: dict[str, Any]) -> Message:
        """Add the result of a tool call."""
        body = bodies.tool_body(call_id, content, fields)
        if body is None:
            return self.add(tool_result(call_id, content, **fields))
        if type(content) is list:
            self._name_blobs(named_blobs(body))
        return self._put(body)

    def add(self, value: object, on_path: bool = True) -> Message:
        """Add a message or a {"role", "content"} dictionary."""
        given = value if isinstance(value, Message) else to_message(value, "message")
        id, salt = self.draw()
        if given.id:
            id = ids.check_id(given.id, "id")
        node = bodies.message_node(given, id, salt, self.run_id)
        if not on_path:
            node = replace(node, on_path=False)
        self._name_blobs(named_blobs(given.body))
        made = Message(
            body=given.body,
            id=id,
            session=self.session,
            run_id=node.run_id,
            created_us=node.created_us,
        )
        self.nodes.append(node)
        self.messages.append(made)
        return made

    def extend(self, name: str, items: Iterable[Any]) -> None:
        """Add to one of the command's lists."""
        found = (*self.more.get(name, ()), *items)
        if found:
            self.more[name] = found

    def add_value(self, data: object) -> str:
        """Keep bytes or JSON once by content; answers the name."""
        value = bodies.new_value(data)
        if all(value.digest != other.digest for other in self.more.get("values", ())):
            self.extend("values", (value,))
        return value.digest

    def amend(self, node: Any, fields: dict[str, Any]) -> None:
        patch = bodies.amendment_patch(fields)
        amendment = Amendment(checks.record_id(node, "id"), patch, bodies.salt())
        self.extend("amendments", (amendment,))
        self._name_blobs(blobs_of_patch(fields))

    def merge_state(self, patch: dict[str, Any]) -> None:
        checks.json_object(patch, "state")
        self.more["state"] = {**self.more.get("state", {}), **patch}

    def set_run(self, status: str, fields: dict[str, Any]) -> Run:
        """The run of this turn; a second call adds to the first."""
        state = checks.one_of(status, RUN_STATUSES, "status")
        if fields:
            fields = run_fields(fields)
        if self.run_id is None:
            self._name_run(self.draw()[0])
        old = self.more.get("run")
        if old is None:
            given: dict[str, Any] = {**fields, "id": self.run_id, "status": state}
            run = Run(session=self.session, **given)
        else:
            run = replace(old, status=state, **fields)
        self.more["run"] = run
        return run

    def complete(self, claim: Claim) -> None:
        given = claim_record(claim)
        if given.session != self.session:
            raise SessionBindingMismatch(self.session, given.session)
        self.extend("complete", (Completion(given.id, given.token),))

    def enqueue(
        self, session: str | None, payloads: tuple[Any, ...], id: str | None, how: Keywords
    ) -> str:
        """Work that comes with the commit, here or in another session; answers the batch's id."""
        name = self.draw()[0] if id is None else id
        batch = new_batch(session or self.session, payloads, id=name, **check_keywords(how))
        self.extend("enqueue", (batch,))
        return batch.id

    def set_head(self, config: Any, frames: Any, current_frame: Any) -> None:
        if config is not UNSET:
            self.more["config"] = encode_json(scrub_config(config), "config")
        if frames is UNSET and current_frame is UNSET:
            return
        if not isinstance(frames, list):
            raise InvalidValue("frames", "frames are stored whole: give the list")
        current = "" if current_frame is UNSET else ids.check_label(current_frame, "current_frame")
        self.more["frames"] = encode_json({"frames": frames, "current": current}, "frames")

    def set_checkpoint(self, given: HydratedCheckpoint) -> Checkpoint:
        """Values that are given become values of the session, absent ones keep their reference."""
        revision = given.plugins_revision
        manifest = Checkpoint(
            turn_state=checks.json_object(given.turn_state, "turn_state"),
            tool_state=self._component(given.tool_state, given.tool_state_ref, "tool_state_ref"),
            plugins=self._component(given.plugins, given.plugins_ref, "plugins_ref"),
            plugins_revision=None if revision is None else checks.whole(revision, "revision"),
            execution=self._component(given.execution, given.execution_ref, "execution_ref"),
        )
        data = encode_given(manifest, "checkpoint")
        self.more["checkpoint"] = NewCheckpoint(bodies.new_value(data).digest, manifest, data)
        return manifest

    def _component(self, value: object, ref: str | None, field: str) -> str | None:
        if value is not None:
            return self.add_value(value)
        return None if ref is None else checks.digests((ref,), field)[0]

    def _name_blobs(self, refs: Iterable[str]) -> None:
        """Bytes that a message refers to stay as long as the session does."""
        for ref in refs:
            if ref not in self.more.get("blobs", ()):
                self.extend("blobs", (ref,))

    def _put(self, body: MessageBody) -> Message:
        id, salt = self._spare.pop() if self._spare else self._draw_more()
        data = encode_given(body, "message")
        run_id = self.run_id
        self.nodes.append(NewNode(id, MESSAGE, ROLE_NUMBERS[body.role], data, salt, "", run_id))
        made = Message(body=body, id=id, session=self.session, run_id=run_id)
        self.messages.append(made)
        return made

    def _name_run(self, run_id: str) -> None:
        """From now on, and for what was added before: nobody else has seen those nodes yet."""
        self.run_id = run_id
        for node in self.nodes:
            if node.run_id is None:
                force_setattr(node, "run_id", run_id)
        for ticket in self.more.get("tickets", ()):
            force_setattr(ticket, "run_id", run_id)
        for entry in self.more.get("usage", ()):
            force_setattr(entry, "run_id", run_id)


def id_list(values: Iterable[Any], field: str) -> list[str]:
    """Several ids or records; one alone is taken as well."""
    if isinstance(values, str | msgspec.Struct):
        values = (values,)
    return [checks.record_id(value, field) for value in values]
