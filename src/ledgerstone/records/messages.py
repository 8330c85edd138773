"""A message: an envelope that the store fills, and a body that the caller wrote."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from ledgerstone import ids
from ledgerstone.codec import check_json
from ledgerstone.errors import InvalidValue
from ledgerstone.records import Created
from ledgerstone.records.parts import AnyPart, Text, ToolCall, ToolResult, TypedPart, to_parts
from ledgerstone.records.usage import Cost, Usage

Role = Literal["system", "user", "assistant", "tool"]
Visibility = Literal["all", "internal"]
ROLES: tuple[Role, ...] = get_args(Role)
FOREIGN_ROLES: dict[str, Role] = {
    "developer": "system",
    "human": "user",
    "ai": "assistant",
    "model": "assistant",
    "function": "tool",
}
FINISH_REASONS = ("stop", "length", "tool_calls", "content_filter", "error", "interrupted")


class Compaction(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a compaction message remembers."""

    tail_start_id: str | None = None
    previous_compaction_id: str | None = None
    summary_text: str | None = None


class MessageBody(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True, gc=False):
    """What is stored and hashed of a message; no ids and no times of the store are in it.

    Messages are made by the thousand and hold plain data, so the cycle collector leaves them alone
    (gc=False): loading a long history takes half the time.
    """

    role: Role
    parts: list[TypedPart] = []
    name: str | None = None
    tool_call_id: str | None = None
    tool_name: str | None = None
    visibility: Visibility | None = None
    model: str | None = None
    provider: str | None = None
    usage: Usage | None = None
    cost: Cost | None = None
    finish_reason: str | None = None
    duration_ms: int | None = None
    completed_us: int | None = None
    stats: dict[str, Any] | None = None
    metadata: dict[str, Any] | None = None
    step_index: int | None = None
    parent_type: str | None = None
    is_compaction: bool = False
    is_summary: bool = False
    compaction: Compaction | None = None
    origin_role: str | None = None
    extra: dict[str, Any] | None = None


class Message(Created, msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One message as stored; a new one has no place yet.

    `drawn`: the id was drawn when the message was made, not given: a list that has the same
    content under another id has it already.
    """

    body: MessageBody
    id: str = ""
    session: str = ""
    ord: int = 0
    seq: int = 0
    parent: str | None = None
    run_id: str | None = None
    created_us: int = 0
    updated_us: int | None = None
    deleted_us: int | None = None
    version: int = 0
    drawn: bool = False

    @property
    def role(self) -> Role:
        return self.body.role

    @property
    def parts(self) -> list[AnyPart]:
        return self.body.parts  # type: ignore[return-value]

    @property
    def text(self) -> str:
        """All text parts, joined."""
        return "".join(part.text for part in self.body.parts if isinstance(part, Text))

    @property
    def tool_calls(self) -> list[ToolCall]:
        return [part for part in self.body.parts if isinstance(part, ToolCall)]

    @property
    def usage(self) -> Usage | None:
        return self.body.usage

    @property
    def metadata(self) -> dict[str, Any]:
        return self.body.metadata or {}

    @property
    def visibility(self) -> Visibility:
        """Whether a person may see it too, or only the model."""
        return self.body.visibility or "all"

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else self.text[:57] + "..."
        return f"<Message {self.seq} {self.role}: {text!r}>"

    def _repr_html_(self) -> str:
        return f"<b>{self.role}</b> <pre>{_escape(self.text)}</pre>"


def message(role: str, content: object = None, **fields: Any) -> Message:
    """A new message from text or parts; unknown roles and fields are InvalidValue.

    It has its id from here on, so appending the same object again stores nothing twice.
    """
    made = unnamed_message(role, content, **fields)
    return made if made.id else msgspec.structs.replace(made, id=ids.new_id(), drawn=True)


def unnamed_message(role: str, content: object = None, **fields: Any) -> Message:
    """A new message whose id is empty unless it is given: whoever stores it draws one."""
    known = FOREIGN_ROLES.get(role, role)
    if known not in ROLES:
        raise InvalidValue("role", f"{role!r} is none of {', '.join(ROLES)}")
    if known != role:
        fields.setdefault("origin_role", role)
    if fields.get("visibility") == "all":
        del fields["visibility"]  # The default is left out, so saying it must not change the body.
    envelope = {name: fields.pop(name) for name in _GIVEN if name in fields}
    parts = to_parts(fields.pop("parts", content), "parts")
    unknown = set(fields) - _FIELDS
    if unknown:
        raise InvalidValue(sorted(unknown)[0], "a message has no such field")
    for name in ("metadata", "extra", "stats"):
        if fields.get(name) is not None:
            _check_object(fields[name], name)
            if not fields[name]:
                del fields[name]  # Nothing said is the same content as an empty object.
    try:
        body = msgspec.convert({**fields, "role": known, "parts": []}, MessageBody)
    except msgspec.ValidationError as error:
        raise InvalidValue("message", str(error)) from None
    if body.usage is not None:
        body.usage.check("usage")
    body = msgspec.structs.replace(body, parts=parts)
    return Message(body=body, **_check_envelope(envelope))


def user(content: object = None, **fields: Any) -> Message:
    """A new user message."""
    return message("user", content, **fields)


def assistant(content: object = None, **fields: Any) -> Message:
    """A new assistant message."""
    return message("assistant", content, **fields)


def system(content: object = None, **fields: Any) -> Message:
    """A new system message."""
    return message("system", content, **fields)


def tool_result(call_id: str, content: object = None, **fields: Any) -> Message:
    """A new tool message that answers one call."""
    name = fields.get("tool_name")
    part = ToolResult(call_id, content, name, bool(fields.pop("is_error", False)))
    return message("tool", [part], tool_call_id=call_id, **fields)


def tool_call(name: str, arguments: object = None, *, id: str | None = None) -> ToolCall:
    """A tool-call part for an assistant message."""
    check_json(arguments, "arguments")
    return ToolCall(id or ids.new_id(), ids.check_name(name, "name"), arguments)


def to_message(value: object, field: str) -> Message:
    """A Message, or a {"role", "content"} dictionary as frameworks keep them, as a Message."""
    if isinstance(value, Message):
        return value
    if isinstance(value, Mapping):
        given = dict(value)
        role = given.pop("role", None)
        if not isinstance(role, str):
            raise InvalidValue(f"{field}.role", "a message needs a text role")
        content = given.pop("content", None)
        return unnamed_message(role, content, **given)
    raise InvalidValue(field, f"a message or a dict expected, got {type(value).__name__}")


_FIELDS = set(MessageBody.__struct_fields__)
_GIVEN = ("id", "run_id", "created_us", "parent")


def _check_envelope(given: dict[str, Any]) -> dict[str, Any]:
    for name in ("id", "run_id", "parent"):
        if given.get(name) is not None:
            given[name] = ids.check_id(given[name], name)
    created = given.get("created_us", 0)
    if type(created) is not int or not 0 <= created < 1 << 62:
        raise InvalidValue("created_us", "integer microseconds expected")
    return {name: value for name, value in given.items() if value is not None}


def _check_object(value: object, field: str) -> None:
    if not isinstance(value, dict):
        raise InvalidValue(field, f"an object expected, got {type(value).__name__}")
    check_json(value, field)


def _escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
