"""Ids: opaque text of 1 to 255 characters, made by the client, UUIDv7 by default.

Ids are untrusted input. They are checked here once, bound as parameters below, and never
become a path or a piece of SQL.
"""

from __future__ import annotations

import base64
import hashlib
import os

from ledgerstone.clock import wall_ns
from ledgerstone.errors import InvalidValue

ID_CHARS_MAX = 255
LABEL_CHARS_MAX = 1024
RANDOM_BYTES = 8
_NS_PER_MS = 1_000_000
_FRACTION_BITS = 12
_COUNTER_MASK = (1 << 48) - 1
_LAST_MASK = 0xFF
_LAST = [f"{n:02x}" for n in range(_LAST_MASK + 1)]


def new_id() -> str:
    """A UUIDv7: ordered by time to a quarter of a microsecond, then random."""
    return new_ids(1)[0]


def new_ids(count: int, random: bytes | None = None) -> list[str]:
    """Several UUIDv7 at once, strictly ordered: they share their time and count up from there.

    The last 48 bits begin at random and count, so making a whole turn's ids costs little more than
    making one. Ids are names, not secrets: who knows one may guess its neighbours. `random` are
    8 bytes of the caller's, when it had to ask for some anyway.
    """
    noise = int.from_bytes(random or os.urandom(RANDOM_BYTES), "big")
    ms, rest_ns = divmod(wall_ns(), _NS_PER_MS)
    fraction = (rest_ns << _FRACTION_BITS) // _NS_PER_MS
    first = noise & _COUNTER_MASK
    if (first & _LAST_MASK) + count > _LAST_MASK and first >= count:
        first -= count
    time = (ms << 16 | 0x7000 | fraction).to_bytes(8, "big").hex()
    rest = ((0x8000 | noise >> 50) << 48 | first).to_bytes(8, "big").hex()
    head = f"{time[:8]}-{time[8:12]}-{time[12:]}-{rest[:4]}-"
    last = first & _LAST_MASK
    if last + count <= len(_LAST):
        # The usual few differ in their last two digits only.
        head += rest[4:14]
        return [head + digits for digits in _LAST[last : last + count]]
    return [f"{head}{n:012x}" for n in range(first, first + count)]


def derive(*parts: str) -> str:
    """One stable id from several texts of any length; different parts never give the same id."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return "d-" + base64.b32encode(digest.digest()).decode().rstrip("=").lower()


def check_id(value: object, field: str) -> str:
    """The id as text, or InvalidValue naming the field."""
    if type(value) is not str and _is_uuid(value):
        return str(value)
    return _check_text(value, field, ID_CHARS_MAX, empty=False)


def _is_uuid(value: object) -> bool:
    from uuid import UUID  # Here: it loads `platform`, and most programs never need it.

    return isinstance(value, UUID)


def check_label(value: object, field: str) -> str:
    """A label, branch name or note key: up to 1024 characters."""
    return _check_text(value, field, LABEL_CHARS_MAX, empty=True)


def check_name(value: object, field: str) -> str:
    """A label that may not be empty."""
    return _check_text(value, field, LABEL_CHARS_MAX, empty=False)


def _check_text(value: object, field: str, longest: int, *, empty: bool) -> str:
    if not isinstance(value, str):
        raise InvalidValue(field, f"text expected, got {type(value).__name__}")
    if not value and not empty:
        raise InvalidValue(field, "must not be empty")
    if len(value) > longest:
        raise InvalidValue(field, f"{len(value)} characters, at most {longest} allowed")
    if not value.isprintable() and _has_forbidden(value):
        raise InvalidValue(field, "control characters and lone surrogates are not allowed")
    return value


def _has_forbidden(value: str) -> bool:
    # isprintable() is the cheap test; it also refuses harmless spaces, so look closer here.
    return any(ord(c) < 32 or 127 <= ord(c) < 160 or 0xD800 <= ord(c) < 0xE000 for c in value)
