"""Turning stored bytes into records; what does not decode is Corrupt, never a default."""

from __future__ import annotations

import json
from typing import Any, TypedDict, TypeVar

import msgspec

from ledgerstone.codec import decode_json, decode_struct, sha256
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.messages import ROLES, MessageBody, Visibility
from ledgerstone.records.nodes import Opaque
from ledgerstone.records.parts import read_part
from ledgerstone.records.turns import Checkpoint

T = TypeVar("T")

ROLE_NUMBERS: dict[str, int] = {role: n for n, role in enumerate(ROLES, start=1)}
ROLE_NAMES: dict[int, str] = dict(enumerate(ROLES, start=1))

# Who reads thousands of bodies calls these two by himself: `read_body` is a call more for each.
decode_body = msgspec.json.Decoder(MessageBody).decode
UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError)


_manifests = msgspec.json.Decoder(Checkpoint)


def read_body(data: bytes, where: str) -> MessageBody:
    """A stored message body."""
    try:
        return decode_body(data)
    except UNREADABLE:
        return read_loosely(data, None, where)


class _Shown(msgspec.Struct):
    visibility: Visibility | None = None


_decode_shown = msgspec.json.Decoder(_Shown).decode


def visibility_of(data: bytes, where: str) -> Visibility:
    """Who sees a stored message, without reading the rest of its body."""
    try:
        return _decode_shown(data).visibility or "all"
    except UNREADABLE:
        return read_loosely(data, None, where).visibility or "all"


def read_amended(data: bytes, patch: bytes, where: str) -> MessageBody:
    """A stored message body as its newest amendment shows it."""
    return read_loosely(data, read_json(patch, "amendments", where, "patch"), where)


def read_any(data: bytes, format: str | None, where: str) -> Any:
    """A stored node body of any kind."""
    if format is not None:
        return Opaque(format, data)
    return read_json(data, "nodes", where, "body")


def read_meta(data: bytes | None, where: str) -> dict[str, Any]:
    """The small filterable fields of a node."""
    return read_object(data, "nodes", where, "meta")


def read_json(data: bytes, table: str, key: str, field: str) -> Any:
    """A stored JSON value."""
    try:
        return decode_json(data)
    except (ValueError, TypeError) as error:
        raise Corrupt(table, key, field, str(error)) from None


def read_struct(
    decoder: msgspec.json.Decoder[T], data: bytes | None, table: str, key: str, field: str = "body"
) -> T:
    """A stored record; Corrupt, naming the row, when it does not decode."""
    try:
        return decode_struct(decoder, data or b"")
    except (ValueError, InvalidValue) as error:
        raise Corrupt(table, key, field, str(error)) from None


def read_object(data: bytes | None, table: str, key: str, field: str) -> dict[str, Any]:
    """A stored JSON object; empty when nothing is stored."""
    found = {} if data is None else read_json(data, table, key, field)
    if not isinstance(found, dict):
        raise Corrupt(table, key, field, f"an object expected, got {type(found).__name__}")
    return found


class _Effects(TypedDict, total=False):
    """What a commit did besides adding nodes, as far as it is read again."""

    amend: list[tuple[int, int, str]]
    branch: tuple[str, int]
    branches: list[tuple[str, int]]
    checkpoint: str
    documents: dict[str, str]
    executions: list[tuple[str, str]]
    gone: list[tuple[int, int]]
    over_budget: list[str]
    popped: list[int]
    state: dict[str, Any]
    superseded: int
    tickets: list[tuple[str, str]]
    tombstoned: list[int]


def read_effects(data: bytes | None, turn: str) -> dict[str, Any]:
    """The effects of a stored turn."""
    effects = read_object(data, "turns", turn, "effects")
    try:
        msgspec.convert(effects, _Effects)
    except msgspec.ValidationError as error:
        raise Corrupt("turns", turn, "effects", str(error)) from None
    return effects


def read_loosely(data: bytes, changes: dict[str, Any] | None, where: str) -> MessageBody:
    """The slow way: parts we do not know stay as they are, surrogates come back."""
    try:
        fields = json.loads(data)
        if changes is not None:
            fields = {**fields, **changes}
        parts = fields.pop("parts", [])
        body = msgspec.convert(fields, MessageBody)
        if not isinstance(parts, list) or any(not isinstance(part, dict) for part in parts):
            raise ValueError("parts are not a list of objects")
    except (ValueError, AttributeError, TypeError, msgspec.ValidationError) as error:
        raise Corrupt("nodes", where, "body", str(error)) from None
    return msgspec.structs.replace(body, parts=[read_part(part) for part in parts])


def checkpoint_refs(session: str, ref: str | None, data: bytes | None) -> set[str]:
    """The values that the manifest `ref` names, itself included.

    Corrupt when it cannot be read or is another one: better nothing is removed than what the
    real one names.
    """
    if ref is None:
        return set()
    manifest = read_struct(_manifests, data, "documents", session, "checkpoint")
    if sha256(data or b"") != ref:
        raise Corrupt("documents", session, "checkpoint", "it is not the one of the head")
    named = (ref, manifest.tool_state, manifest.plugins, manifest.execution)
    return {one for one in named if one is not None}
