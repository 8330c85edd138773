"""The text of a draft on its way into notes: a start note, then numbered chunks."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone import ids
from ledgerstone.codec import encode_json
from ledgerstone.commands.nodes import NewNote
from ledgerstone.errors import InvalidValue
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.messages import Message, message

FLUSH_S = 0.25
FLUSH_CHARS = 2048
ROLE = "assistant"


class DraftBuffer:
    """What was written, and what of it is not yet kept."""

    def __init__(self, owner: str, fields: dict[str, Any]) -> None:
        self.id = ids.check_id(fields["id"], "id") if "id" in fields else ids.new_id()
        self._owner = owner
        self._fields: dict[str, Any] = {}
        self._text: list[str] = []
        self._pending: list[str] = []
        self._pending_chars = 0
        self._chunks = 0
        self._unsent: NewNote | None = None
        self.set(fields)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def is_full(self) -> bool:
        return self._pending_chars >= FLUSH_CHARS

    @property
    def is_kept(self) -> bool:
        """Whether everything written was sent."""
        return not self._pending and self._unsent is None

    def set(self, fields: dict[str, Any]) -> None:
        """Fields of the message to be, checked now."""
        message(ROLE, None, **{**fields, "id": self.id})
        if "parts" in fields or "parent" in fields:
            raise InvalidValue("parts", "a draft grows by its text only")
        self._fields |= {name: value for name, value in fields.items() if name != "id"}

    def write(self, token: str) -> None:
        if not isinstance(token, str):
            raise InvalidValue("token", f"text expected, got {type(token).__name__}")
        self._text.append(token)
        self._pending.append(token)
        self._pending_chars += len(token)

    def start(self) -> NewNote:
        """The note that says whose draft it is."""
        fields = msgspec.to_builtins(self._fields)
        body = {"role": ROLE, "owner": self._owner, "fields": fields}
        return NewNote(self.id, DRAFT_PREFIX + "start", encode_json(body, "draft"))

    def chunk(self) -> NewNote | None:
        """The next chunk to keep; the same one until `sent`."""
        if self._unsent is None and self._pending:
            key = f"{DRAFT_PREFIX}{self._chunks:08d}"
            self._unsent = NewNote(self.id, key, encode_json("".join(self._pending), "draft"))
            self._pending.clear()
            self._pending_chars = 0
        return self._unsent

    def sent(self) -> None:
        """The chunk is kept."""
        self._unsent = None
        self._chunks += 1

    def message(self) -> Message:
        """The finished message, under the draft's id."""
        return message(ROLE, self.text, **self._fields, id=self.id)
