"""Metadata filters: whole-value equality is a byte comparison, subset match is this."""

from __future__ import annotations

import re
from typing import Any

from ledgerstone.codec import check_json, encode_json
from ledgerstone.errors import InvalidValue

_KEY = re.compile(r"[A-Za-z0-9_]{1,64}\Z")


def check_filter(value: object, field: str) -> dict[str, Any] | None:
    """A subset filter, or InvalidValue: keys come from a closed grammar."""
    if value is None:
        return None
    if not isinstance(value, dict):
        raise InvalidValue(field, f"an object expected, got {type(value).__name__}")
    for key in value:
        if not isinstance(key, str) or not _KEY.match(key):
            raise InvalidValue(field, f"filter keys are letters, digits and _, got {key!r:.70}")
    check_json(value, field)
    return value


def contains(whole: Any, part: Any) -> bool:
    """Whether `part` is a subset of `whole`: objects by key, everything else by equality."""
    if isinstance(part, dict):
        return isinstance(whole, dict) and all(
            key in whole and contains(whole[key], item) for key, item in part.items()
        )
    # True == 1 in Python but not in JSON, so compare what would be stored.
    return encode_json(whole, "value") == encode_json(part, "value")
