"""The text of a draft on its way into notes: a start note, then numbered chunks."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone import ids
from ledgerstone.codec import encode_json
from ledgerstone.commands.nodes import NewNote
from ledgerstone.errors import InvalidValue
from ledgerstone.intake.checks import default_owner
from ledgerstone.intake.content import Content
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import message

FLUSH_S = 0.25
FLUSH_CHARS = 2048
ROLE = "assistant"


class DraftBuffer:
    """What was written, and what of it is not yet kept."""

    def __init__(self, content: Content, lease: AnyLease | None, fields: dict[str, Any]) -> None:
        self._content = content
        self._id = ids.check_id(fields["id"], "id") if "id" in fields else ids.new_id()
        self._owner = default_owner() if lease is None else lease.owner
        self._fields: dict[str, Any] = {}
        self._text: list[str] = []
        self._pending: list[str] = []
        self._pending_chars = 0
        self._chunks = 0
        self._unsent: NewNote | None = None
        self.set(**fields)

    @property
    def id(self) -> str:
        """The id the message will have."""
        return self._id

    @property
    def text(self) -> str:
        """Everything written so far."""
        return "".join(self._text)

    def set(self, **fields: Any) -> None:
        """Fields that are known only later, such as usage or finish_reason."""
        message(ROLE, None, **{**fields, "id": self._id})
        if "parts" in fields or "parent" in fields:
            raise InvalidValue("parts", "a draft grows by its text only")
        self._fields |= {name: value for name, value in fields.items() if name != "id"}

    @property
    def _is_full(self) -> bool:
        return self._pending_chars >= FLUSH_CHARS

    @property
    def _is_kept(self) -> bool:
        """Whether everything written was sent."""
        return not self._pending and self._unsent is None

    def _add(self, token: str) -> None:
        if not isinstance(token, str):
            raise InvalidValue("token", f"text expected, got {type(token).__name__}")
        self._text.append(token)
        self._pending.append(token)
        self._pending_chars += len(token)

    def _start(self) -> NewNote:
        """The note that says whose draft it is."""
        fields = msgspec.to_builtins(self._fields)
        body = {"role": ROLE, "owner": self._owner, "fields": fields}
        return NewNote(self._id, DRAFT_PREFIX + "start", encode_json(body, "draft"))

    def _chunk(self) -> NewNote | None:
        """The next chunk to keep; the same one until `_sent`."""
        if self._unsent is None and self._pending:
            key = f"{DRAFT_PREFIX}{self._chunks:08d}"
            self._unsent = NewNote(self._id, key, encode_json("".join(self._pending), "draft"))
            self._pending.clear()
            self._pending_chars = 0
        return self._unsent

    def _sent(self) -> None:
        self._unsent = None
        self._chunks += 1

    def _finish(self) -> None:
        """Add the finished message to the turn, under the draft's id; its notes go then."""
        self._content.add(message(ROLE, self.text, **self._fields, id=self._id))
        self._content.extend("drop_drafts", (self._id,))
