"""Opaque cursors: where a page ended, bound to the very list it came from."""

from __future__ import annotations

import base64
from hashlib import sha256
from typing import Any

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.errors import InvalidValue

SCOPE_BYTES = 9
CHECK_BYTES = 6


def scope(*parts: Any) -> bytes:
    """The digest of what makes a list this list: tenant, kind, filters, order, incarnation."""
    return sha256(encode_json(parts, "filter")).digest()[:SCOPE_BYTES]


def encode(list_scope: bytes, key: tuple[int | str, ...]) -> str:
    """The cursor after the item with this key."""
    payload = list_scope + encode_json(key, "cursor")
    return base64.urlsafe_b64encode(_check(payload) + payload).decode().rstrip("=")


def decode(cursor: str, list_scope: bytes) -> list[Any]:
    """The key in a cursor; InvalidValue when it is damaged or of another list."""
    if not isinstance(cursor, str):
        raise InvalidValue("cursor", f"text expected, got {type(cursor).__name__}")
    try:
        raw = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)
    except ValueError:
        raise InvalidValue("cursor", "not a cursor of this store") from None
    check, payload = raw[:CHECK_BYTES], raw[CHECK_BYTES:]
    if len(payload) <= SCOPE_BYTES or check != _check(payload):
        raise InvalidValue("cursor", "not a cursor of this store, or damaged")
    if payload[:SCOPE_BYTES] != list_scope:
        raise InvalidValue("cursor", "it belongs to another list; start without a cursor")
    key = decode_json(payload[SCOPE_BYTES:])
    if not isinstance(key, list):
        raise InvalidValue("cursor", "not a cursor of this store, or damaged")
    return key


def _check(payload: bytes) -> bytes:
    return sha256(b"ledgerstone cursor\0" + payload).digest()[:CHECK_BYTES]
