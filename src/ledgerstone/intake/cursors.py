"""Opaque cursors: where a page ended, signed and hidden by a key of the store.

A cursor is bound to the list it came from: tenant, call, filters, order. What it says is encrypted,
since a position in the feed would tell a tenant how much the others commit.
"""

from __future__ import annotations

import base64
from hashlib import blake2b, sha256
from hmac import compare_digest
from typing import Any

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.errors import InvalidValue

TAG_BYTES = 15
"""Length of the signature. With BLOCK_BYTES it fills groups of base64: no padding in a url."""
BLOCK_BYTES = 24
"""Places are padded to a multiple of this, so that the length tells nothing of a position."""
STREAM_BYTES = 64
"""What one call of the hash function gives."""
CHARS_MAX = 16_384


def scope(*parts: Any) -> bytes:
    """The digest of what makes a list this list: tenant, kind, filters, order, incarnation."""
    plain = [part.hex() if isinstance(part, bytes) else part for part in parts]
    return sha256(encode_json(plain, "filter")).digest()


def encode(key: bytes, list_scope: bytes, place: tuple[int | str, ...]) -> str:
    """The cursor after the item at this place of the list."""
    plain = encode_json(place, "cursor")
    plain += b" " * (-len(plain) % BLOCK_BYTES)
    tag = _tag(key, list_scope, plain)
    return base64.urlsafe_b64encode(tag + _masked(key, tag, plain)).decode()


def decode(key: bytes, list_scope: bytes, cursor: str) -> tuple[Any, ...]:
    """The place in a cursor; InvalidValue when this key did not sign it for this list."""
    if not isinstance(cursor, str):
        raise InvalidValue("cursor", f"text expected, got {type(cursor).__name__}")
    try:
        raw = base64.urlsafe_b64decode(cursor[:CHARS_MAX])
    except ValueError:
        raw = b""
    tag, hidden = raw[:TAG_BYTES], raw[TAG_BYTES:]
    plain = _masked(key, tag, hidden)
    # One spelling only: base64 also decodes other alphabets and stray characters.
    ours = base64.urlsafe_b64encode(raw).decode() == cursor
    if not ours or not compare_digest(tag, _tag(key, list_scope, plain)):
        raise InvalidValue(
            "cursor",
            "not a cursor of this list: it was changed, or comes from another call, filter, tenant "
            "or store; start without a cursor",
        )
    return tuple(decode_json(plain.rstrip()))


def _tag(key: bytes, list_scope: bytes, plain: bytes) -> bytes:
    signed = blake2b(list_scope + plain, key=key, digest_size=TAG_BYTES, person=b"cursor tag")
    return signed.digest()


def _masked(key: bytes, tag: bytes, data: bytes) -> bytes:
    """Encrypt or decrypt: exclusive or with a stream that the key makes of the tag."""
    blocks = (tag + n.to_bytes(4) for n in range(-(-len(data) // STREAM_BYTES)))
    stream = b"".join(blake2b(block, key=key, person=b"cursor mask").digest() for block in blocks)
    return bytes(a ^ b for a, b in zip(data, stream, strict=False))
