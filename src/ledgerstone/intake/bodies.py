"""Messages and nodes as the commit carries them: encoded once, when they are added."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from ledgerstone import ids
from ledgerstone.codec import check_json, decode_json, encode_given, encode_json, sha256
from ledgerstone.commands.nodes import NewNote, NewValue
from ledgerstone.commands.turns import NewNode
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.messages import Message, MessageBody, to_message, unnamed_message
from ledgerstone.records.nodes import COMPACTION_LABEL, MESSAGE, Node, Opaque
from ledgerstone.records.parts import ToolResult
from ledgerstone.records.turns import Placed
from ledgerstone.rules.bodies import ROLE_NUMBERS

SALT_BYTES = 16
NAMES_PER_DRAW = 6
"""Four messages, a run and the turn itself: the usual turn draws its ids at once."""
_RANDOM_BYTES = ids.RANDOM_BYTES + NAMES_PER_DRAW * SALT_BYTES
_salts = Struct(f"{SALT_BYTES}s" * NAMES_PER_DRAW).unpack_from
_ENVELOPE = frozenset(("id", "run_id", "created_us", "parent", "parts"))
_Parent = str | None | UnsetType


def salt() -> bytes:
    """Randomness that keeps a commitment from being guessed back."""
    return os.urandom(SALT_BYTES)


def fresh_names() -> list[tuple[str, bytes]]:
    """NAMES_PER_DRAW ids with a salt each, the first one last: whoever pops gets them in order."""
    random = os.urandom(_RANDOM_BYTES)
    fresh = ids.new_ids(NAMES_PER_DRAW, random[: ids.RANDOM_BYTES])
    fresh.reverse()
    return list(zip(fresh, _salts(random, ids.RANDOM_BYTES), strict=True))


def tool_body(call_id: object, content: object, fields: dict[str, Any]) -> MessageBody | None:
    """The body of a plain tool result, or None when its fields want the full check."""
    if type(call_id) is not str or (fields and fields.keys() != {"tool_name"}):
        return None
    name = fields.get("tool_name")
    if name is not None and type(name) is not str:
        return None
    if type(content) is not str:
        check_json(content, "content")
    part = ToolResult(call_id, content, name)
    return MessageBody(role="tool", parts=[part], tool_call_id=call_id, tool_name=name)


def encode_body(body: MessageBody) -> bytes:
    """Canonical bytes; a body built by hand is looked at closer where msgspec would be silent."""
    try:
        data = encode_given(body, "message")
    except TypeError as error:
        raise InvalidValue("message", str(error)) from None
    if b"null" in data:
        check_json(msgspec.to_builtins(body), "message")
    return data


def plain(body: MessageBody) -> Any:
    """A body as the JSON value that a node of kind message shows."""
    return decode_json(encode_body(body))


def message_node(
    given: Message, id: str, salt: bytes, run_id: str | None, body: bytes | None = None
) -> NewNode:
    """The node of a message. The parent counts for new messages only, not for stored ones."""
    role = ROLE_NUMBERS.get(given.body.role)
    if role is None:
        raise InvalidValue("role", f"{given.body.role!r:.40} is no role")
    return NewNode(
        id,
        MESSAGE,
        role,
        encode_body(given.body) if body is None else body,
        salt,
        COMPACTION_LABEL if given.body.is_compaction else "",
        given.run_id or run_id,
        None,
        None,
        (),
        given.created_us,
        UNSET if given.parent is None or given.ord else given.parent,
    )


def message_nodes(given: Sequence[Message], run_id: str | None) -> tuple[str, list[NewNode]]:
    """A turn id and the nodes of several messages: ids and salts are drawn at once."""
    count = len(given)
    fresh = ids.new_ids(count + 1)
    salts = os.urandom(SALT_BYTES * count)
    nodes = []
    for n, one in enumerate(given):
        id = ids.check_id(one.id, "id") if one.id else fresh[n + 1]
        nodes.append(message_node(one, id, salts[SALT_BYTES * n : SALT_BYTES * (n + 1)], run_id))
    return fresh[0], nodes


def to_messages(values: Iterable[object], field: str = "messages") -> list[Message]:
    """Messages and dictionaries as messages."""
    if isinstance(values, Message | dict | str):
        raise InvalidValue(field, "a list of messages expected")
    return [to_message(value, f"{field}[{n}]") for n, value in enumerate(values)]


def placed_messages(
    session: str, given: Iterable[Message], places: Iterable[tuple[NewNode, Placed]]
) -> list[Message]:
    """The messages as the commit placed them."""
    return [
        Message(
            body=one.body,
            id=place.id,
            session=session,
            ord=place.ord,
            seq=place.seq,
            parent=place.parent,
            run_id=node.run_id,
            created_us=place.created_us,
        )
        for one, (node, place) in zip(given, places, strict=True)
    ]


def any_node(
    kind: str,
    body: object,
    *,
    id: IdRef | None = None,
    label: str = "",
    run_id: object = None,
    meta: dict[str, Any] | None = None,
    values: Iterable[str] = (),
    created_us: int = 0,
    parent: Any = UNSET,
    on_path: bool = True,
) -> NewNode:
    """A node of any kind but message, checked and encoded."""
    if kind == MESSAGE:
        raise InvalidValue("kind", "a message is added as a message, not as a node")
    data, format_ = encode_any(body, "body")
    where: _Parent = UNSET if parent is UNSET else checks.maybe_id(parent, "parent")
    return NewNode(
        ids.new_id() if id is None or id == "" else checks.record_id(id, "id"),
        ids.check_name(kind, "kind"),
        None,
        data,
        salt(),
        ids.check_label(label, "label"),
        checks.maybe_id(run_id, "run_id"),
        encode_json(checks.json_object(meta, "meta"), "meta") if meta else None,
        format_,
        checks.digests(values, "values"),
        checks.whole(created_us, "created_us"),
        where,
        checks.flag(on_path, "on_path"),
    )


def node_of(given: Node, on_path: bool) -> NewNode:
    """The node to append for a Node record; the parent counts for new ones only."""
    return any_node(
        given.kind,
        given.body,
        id=given.id,
        label=given.label,
        run_id=given.run_id,
        meta=given.meta,
        values=given.values,
        created_us=given.created_us,
        parent=UNSET if given.ord else given.parent,
        on_path=on_path,
    )


def encode_any(body: object, field: str) -> tuple[bytes, str | None]:
    """JSON as canonical bytes, or foreign bytes with their format."""
    if isinstance(body, Opaque):
        return body.data, body.format
    return encode_json(body, field), None


def new_note(node: Any, key: str, body: object, values: Iterable[str] = ()) -> NewNote:
    """A note, checked and encoded."""
    if ids.check_name(key, "key").startswith(DRAFT_PREFIX):
        raise InvalidValue("key", f"keys under {DRAFT_PREFIX!r} belong to drafts")
    data, format_ = encode_any(body, "body")
    return NewNote(
        checks.record_id(node, "node"), key, data, format_, checks.digests(values, "values")
    )


def new_value(data: object) -> NewValue:
    """Bytes as they are, anything else as canonical JSON, named by content."""
    raw = data if isinstance(data, bytes) else encode_json(data, "value")
    return NewValue(sha256(raw), raw)


def amendment_patch(fields: dict[str, Any]) -> bytes:
    """The changed fields of a message, each checked as a new message's would be."""
    if not fields:
        raise InvalidValue("fields", "name at least one field to change")
    for name in fields:
        if name in ("role", "origin_role") or (name in _ENVELOPE and name != "parts"):
            raise InvalidValue(name, "this field of a message never changes")
        if name == "content":
            raise InvalidValue(name, "what a message says are its `parts`, text or parts")
    body = unnamed_message("user", **fields).body
    if "parts" in fields and fields["parts"] is None:
        raise InvalidValue("parts", "text or parts expected, got None")
    return encode_json({name: msgspec.to_builtins(getattr(body, name)) for name in fields}, "patch")
