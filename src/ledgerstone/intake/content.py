"""What a commit will carry, while it is collected: everything is encoded once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import force_setattr, replace

from ledgerstone import ids
from ledgerstone.codec import encode_given
from ledgerstone.commands.turns import NewNode
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.blobs import named_blobs
from ledgerstone.intake.runs import run_fields
from ledgerstone.records.messages import (
    Message,
    MessageBody,
    to_message,
    unnamed_message,
)
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.parts import Text, to_parts
from ledgerstone.records.runs import RUN_STATUSES, Run
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
        self._spare: list[tuple[str, bytes]] = []
        self.messages: list[Message] = []
        self.nodes: list[NewNode] = []
        self.more: dict[str, Any] = {}

    def is_empty(self) -> bool:
        return not self.nodes and not self.more

    def draw(self) -> tuple[str, bytes]:
        return self._spare.pop() if self._spare else self._draw_more()

    def _draw_more(self) -> tuple[str, bytes]:
        self._spare = bodies.fresh_names()
        return self._spare.pop()

    def say(self, role: str, content: object, fields: dict[str, Any]) -> Message:
        if fields:
            return self.add(unnamed_message(role, content, **fields))
        named: Any = role  # The callers are methods named after the roles.
        if type(content) is str:
            return self.put(MessageBody(role=named, parts=[Text(content)]))
        body = MessageBody(role=named, parts=to_parts(content, "parts"))  # type: ignore[arg-type]
        self.name_blobs(named_blobs(body))
        return self.put(body)

    def add(self, value: object, on_path: bool = True) -> Message:
        given = value if isinstance(value, Message) else to_message(value, "message")
        id, salt = self.draw()
        if given.id:
            id = ids.check_id(given.id, "id")
        node = bodies.message_node(given, id, salt, self.run_id)
        if not on_path:
            node = replace(node, on_path=False)
        self.name_blobs(named_blobs(given.body))
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

    def name_blobs(self, refs: Iterable[str]) -> None:
        """Bytes that a message refers to stay as long as the session does."""
        for ref in refs:
            if ref not in self.more.get("blobs", ()):
                self.extend("blobs", (ref,))

    def put(self, body: MessageBody) -> Message:
        """Add a new message; the blobs that it names are the caller's to add."""
        id, salt = self._spare.pop() if self._spare else self._draw_more()
        data = encode_given(body, "message")
        run_id = self.run_id
        self.nodes.append(NewNode(id, MESSAGE, ROLE_NUMBERS[body.role], data, salt, "", run_id))
        made = Message(body=body, id=id, session=self.session, run_id=run_id)
        self.messages.append(made)
        return made

    def _name_run(self, run_id: str) -> None:
        """Set the run, also of nodes added before: nobody else has seen them yet."""
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
