"""Values that many encodings lose, through every place that takes something from a user.

`VALUES` are JSON, `TEXTS` are text; `value_places` says where they go. A value comes back as the
same canonical bytes, or it is refused with an `InvalidValue` that names the field: `try_values`
says which, so that backends can be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ledgerstone.api_sync.store import Store
from ledgerstone.codec import BODY_BYTES_MAX, DEPTH_MAX, encode_json, sha256
from ledgerstone.errors import InvalidValue
from ledgerstone.records.messages import user
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.faults.value_places import Place

ROOM_BYTES = 300
"""What a record may add around a value before it is too long."""


class Twin(str):
    """A text that is equal to no other: two of them are two keys of one dictionary."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)


def nested(levels: int) -> Any:
    """So many lists in each other."""
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


TEXTS: dict[str, str] = {
    "empty": "",
    "NUL": "a\x00b",
    "NUL alone": "\x00",
    "controls": "".join(map(chr, range(1, 32))) + "\x7f\x85",
    "lone high surrogate": "before \ud83d after",
    "lone low surrogate": "\udc00",
    "a pair the wrong way round": "\ude00\ud83d",
    "outside the first plane": "\U0001f468\u200d\U0001f469 \U0010ffff",
    "combining": "e\u0301 is not \u00e9, \u212b is not \u00c5",
    "many combining": "e" + "\u0301" * 60,
    "right to left": "\u05e9\u05dc\u05d5\u05dd \u200f\u202eabc\u202c\u2066x\u2069",
    "byte order mark": "\ufeffx\ufffe\uffff",
    "line ends": "a\nb\r\nc\rd\u2028e\u2029f",
    "spaces": "  two before, one after ",
    "an operator": "$set",
    "a dotted name": "a.b",
    "a dunder": "__class__",
    "a prototype": "__proto__",
    "a number": "1",
    "an escape": "\\u0000 \\ud800 \\",
    "quotes": "\"'`",
    "255 characters": "\u00e4" * 255,
    "256 characters": "\u00e4" * 256,
    "1024 characters": "x" * 1024,
    "1025 characters": "x" * 1025,
    "4096 characters": "\u6f22" * 4096,
    "4097 characters": "\u6f22" * 4097,
}
VALUES: dict[str, Any] = {
    **{f"text: {name}": text for name, text in TEXTS.items()},
    "null": None,
    "true is not one": [True, 1, 1.0],
    "2^53 + 1": 2**53 + 1,
    "2^63 - 1": 2**63 - 1,
    "2^63": 2**63,
    "-2^63 - 1": -(2**63) - 1,
    "2^64": 2**64,
    "10^400": 10**400,
    "10^5000": 10**5000,
    "-0.0": -0.0,
    "0.1 + 0.2": 0.1 + 0.2,
    "1e308": 1e308,
    "the largest float": 1.7976931348623157e308,
    "5e-324": 5e-324,
    "1e16": 1e16,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "keys of a query": {"$set": 1, "$where": 2, "a.b": 3, "a": {"b": 4}},
    "an empty key": {"": 1},
    "keys of an object": {"__class__": "os.system", "__proto__": {}, "py/object": "x"},
    "keys that are numbers": {"10": 1, "9": 2, "1e0": 3},
    "a key with NUL": {"a\x00b": 1},
    "a key with a lone surrogate": {"\ud800": 1},
    "keys that look alike": {"\u00e9": 1, "e\u0301": 2},
    "keys in no order": {"b": 1, "a": 2, "B": 3, "\U0001f600": 4, "\uffff": 5},
    "one key twice": {Twin("a"): 1, Twin("a"): 2},
    "a key that is no text": {1: 2},
    "bytes": b"x",
    "a tuple": (1, (2,)),
    "a set": {1},
    "an object": object(),
    "a type": int,
    "empty things": [[], {}, "", [{}]],
    "the deepest": nested(DEPTH_MAX - 4),
    "too deep": nested(DEPTH_MAX + 1),
    "far too deep": nested(5000),
}
LARGE: dict[str, str] = {
    "16 MiB": "x" * (BODY_BYTES_MAX - ROOM_BYTES),
    "more than 16 MiB": "x" * (BODY_BYTES_MAX + 1),
}


class Kept(msgspec.Struct, frozen=True):
    """It came back, with this digest of its canonical bytes."""

    digest: str


class Refusal(msgspec.Struct, frozen=True):
    """It was not taken."""

    field: str
    reason: str


Result = Kept | Refusal


def try_values(
    bed: Bed, values: Mapping[str, Any], places: Mapping[str, Place]
) -> Iterable[tuple[str, str, Result | str]]:
    """(value, place, what came of it); a text instead of a result is a violation.

    Every pair has a tenant of its own, and everything is read after the store was opened anew.
    """
    written: list[tuple[str, str, Refusal | None]] = []
    for value_name, value in values.items():
        for place_name, place in places.items():
            store = bed.store.for_tenant(f"{value_name} {place_name}")
            store.messages.append("s", user("first", id="first"), create=True)
            written.append((value_name, place_name, _refusal(place, store, value)))
    bed.reopen()
    for value_name, place_name, refusal in written:
        place = places[place_name]
        store = bed.store.for_tenant(f"{value_name} {place_name}")
        yield value_name, place_name, _result(place, store, values[value_name], refusal)


def _refusal(place: Place, store: Store, value: Any) -> Refusal | None:
    try:
        place.write(store, value)
    except InvalidValue as error:
        return Refusal(error.field, error.reason)
    except Exception as error:
        return Refusal("", f"raised {type(error).__name__}: {error!s:.200}")
    return None


def _result(place: Place, store: Store, value: Any, refusal: Refusal | None) -> Result | str:
    if refusal is None:
        return _kept(place, store, value)
    if not refusal.field:
        return refusal.reason
    if not refusal.field.startswith(place.fields):
        return f"refused, but it blames {refusal.field}"
    if store.messages.history("s") != [store.messages.get("first", session="s")]:
        return "refused, but something of it was kept"
    return refusal


def _kept(place: Place, store: Store, value: Any) -> Result | str:
    try:
        found = encode_json(place.read(store), "found")
    except Exception as error:
        return f"reading raised {type(error).__name__}: {error!s:.200}"
    try:
        wanted = encode_json(value, "value")
    except InvalidValue as error:
        return f"kept as {found[:60]!r}, though {error.reason}"
    if found != wanted:
        return f"came back as {found[:60]!r}, was {wanted[:60]!r}"
    if not store.admin.verify("s").ok:
        return "verify finds a defect"
    return Kept(sha256(found))
