"""Canonical JSON: the only form in which bodies are stored, hashed and compared.

UTF-8, no spaces, the keys of free objects sorted, the fields of our own records in their own order
with the type first (docs/adr/0005). msgspec writes and reads it, with two exceptions it cannot do:
lone surrogates take the standard library's escaped form, and NaN or Infinity are refused
(msgspec would write null in silence). Nothing here revives objects: data in, data out.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable
from itertools import chain
from typing import Any, NoReturn, TypeVar

import msgspec
from msgspec.structs import astuple

from ledgerstone.errors import InvalidValue

BODY_BYTES_MAX = 16 * 1024 * 1024
DEPTH_MAX = 64
INT_DIGITS_MAX = 4000
SHA256_CHARS = 64

T = TypeVar("T")

_CONTAINERS = (dict, list, tuple)
_SIMPLE = frozenset((str, bool, type(None)))
_LEAVES = frozenset((type(None), bool, int, float, msgspec.UnsetType))
_LISTS = (list, tuple)
_Struct = msgspec.Struct
_ENTRY_BYTES = len('"":0,')
_ITEM_BYTES = len("0,")
_TOO_DEEP = 2 * DEPTH_MAX
_TEXTS = (str, bytes, bytearray, memoryview)
_ONLY_TEXT = frozenset((str,))
_SMALL_INT = 1 << 53
_HEX = frozenset("0123456789abcdef")


def _plain(value: object) -> object:
    """Subclasses of text and numbers (numpy's float64 is one) as what they are below."""
    for kind in (str, float, int):
        if isinstance(value, kind):
            return str.__str__(value) if isinstance(value, str) else kind(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=_plain)
_decoder = msgspec.json.Decoder()


def encode_given(value: msgspec.Struct, field: str) -> bytes:
    """A record with parts that nobody looked at yet, as canonical bytes."""
    _refuse_long(value, field)
    return encode_struct(value, field)


def encode_struct(value: msgspec.Struct, field: str) -> bytes:
    """A typed record whose free parts were checked before, as canonical bytes."""
    try:
        data = _encoder.encode(value)
    except UnicodeEncodeError:
        builtins = msgspec.to_builtins(value, order="deterministic", enc_hook=_plain)
        data = _escaped(builtins, field)
    if len(data) > BODY_BYTES_MAX:
        _refuse_size(len(data), field)
    return data


def encode_json(value: object, field: str) -> bytes:
    """Any JSON value as canonical bytes, or InvalidValue naming the field."""
    _refuse_long(value, field)
    try:
        data = _encoder.encode(value)
        if _decoder.decode(data) != value or _maybe_deep(data):
            check_json(value, field)
    except (UnicodeEncodeError, TypeError, ValueError, RecursionError, OverflowError):
        check_json(value, field)
        data = _escaped(msgspec.to_builtins(value, order="sorted", enc_hook=_plain), field)
    if len(data) > BODY_BYTES_MAX:
        _refuse_size(len(data), field)
    return data


def decode_json(data: bytes) -> Any:
    """What encode_json wrote; ValueError when the bytes are not JSON."""
    try:
        return _decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return json.loads(data)


def decode_struct(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """What encode_struct wrote; ValueError or msgspec.ValidationError when it does not fit."""
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.convert(json.loads(data), decoder.type)


def parse_strict(text: str | bytes, field: str) -> Any:
    """JSON from outside: refuses NaN, Infinity, duplicate keys, depth over 64 and over 16 MiB."""
    size = len(text)
    if isinstance(text, str) and size <= BODY_BYTES_MAX:
        size = len(text.encode("utf-8", "surrogatepass"))
    if size > BODY_BYTES_MAX:
        _refuse_size(size, field)

    def refuse_constant(name: str) -> NoReturn:
        raise InvalidValue(field, f"{name} is not JSON")

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise InvalidValue(field, "an object names the same key twice")
        return found

    def finite(digits: str) -> float:
        number = float(digits)
        if math.isinf(number):
            raise InvalidValue(field, f"{digits[:20]} is beyond the range of a float")
        return number

    try:
        value = json.loads(
            text, parse_constant=refuse_constant, parse_float=finite, object_pairs_hook=unique
        )
    except RecursionError:
        raise InvalidValue(field, f"nested deeper than {DEPTH_MAX}") from None
    except ValueError as error:
        raise InvalidValue(field, f"not JSON: {error}") from None
    check_json(value, field)
    return value


def check_json(value: object, field: str) -> None:
    """InvalidValue naming the exact place where a value is not plain, finite, bounded JSON."""
    kind = type(value)
    if kind in _SIMPLE:
        return
    _refuse_long(value, field)
    flaw = _object_flaw(value, 1) if kind is dict else _flaw(value, 1)  # type: ignore[arg-type]
    if flaw is not None:
        raise InvalidValue(field + flaw[0], flaw[1])


def _flaw(value: object, depth: int) -> tuple[str, str] | None:
    """Where below a value something is wrong, and what; the path is only built when it is."""
    if isinstance(value, _CONTAINERS):
        if depth > DEPTH_MAX:
            return "", f"nested deeper than {DEPTH_MAX}"
        if isinstance(value, dict):
            return _object_flaw(value, depth)
        for n, item in enumerate(value):
            flaw = None if type(item) in _SIMPLE else _flaw(item, depth + 1)
            if flaw is not None:
                return f"[{n}]{flaw[0]}", flaw[1]
        return None
    return _leaf_flaw(value)


def _object_flaw(value: dict[Any, Any], depth: int) -> tuple[str, str] | None:
    if not _ONLY_TEXT.issuperset(map(type, value)):
        flaw = _key_flaw(value)
        if flaw is not None:
            return flaw
    for key, item in value.items():
        kind = type(item)
        if kind in _SIMPLE or (kind is int and -_SMALL_INT < item < _SMALL_INT):
            continue
        flaw = _flaw(item, depth + 1)
        if flaw is not None:
            return f".{key[:64]}{flaw[0]}", flaw[1]
    return None


def _key_flaw(value: dict[Any, Any]) -> tuple[str, str] | None:
    """Subclasses of text may differ and still be written alike."""
    texts = [str.__str__(key) for key in value if isinstance(key, str)]
    if len(set(texts)) < len(texts):
        return "", "an object names the same key twice"
    for key in value:
        if not isinstance(key, str):
            return "", f"object keys must be text, got {type(key).__name__}"
    return None


def _leaf_flaw(value: object) -> tuple[str, str] | None:
    if isinstance(value, int):
        if value.bit_length() > INT_DIGITS_MAX * 3:
            return "", f"an integer has more than about {INT_DIGITS_MAX} digits"
        return None
    if isinstance(value, float):
        return None if math.isfinite(value) else ("", f"{value} is not JSON")
    return None if isinstance(value, str) else ("", f"{type(value).__name__} is not JSON")


def sha256(data: bytes) -> str:
    """The hex name of content."""
    return hashlib.sha256(data).hexdigest()


def is_sha256(name: str) -> bool:
    """Whether a text can be the hex name of content."""
    return len(name) == SHA256_CHARS and _HEX.issuperset(name)


def _escaped(value: object, field: str) -> bytes:
    """The standard library's form of a value whose keys are in order already."""
    try:
        text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(field, str(error)) from None
    return text.encode("ascii")


def _maybe_deep(data: bytes) -> bool:
    # Fewer opening brackets than the limit cannot nest deeper than it: the usual, cheap answer.
    return data.count(b"[") + data.count(b"{") > DEPTH_MAX


def _refuse_long(value: object, field: str) -> None:
    """InvalidValue for what is too long in its shortest form, before any of it is encoded."""
    try:
        left = _room_left(value, BODY_BYTES_MAX, 0)
    except RecursionError:  # Too deep, which is for others to say.
        return
    if left < 0:
        least = BODY_BYTES_MAX - left
        raise InvalidValue(field, f"at least {least} bytes, at most {BODY_BYTES_MAX} allowed")


def _room_left(value: Any, room: int, depth: int) -> int:
    """What a value leaves of the room at most: characters count as a byte; stops below zero."""
    items: Iterable[Any]
    if isinstance(value, dict):
        room -= _ENTRY_BYTES * len(value)
        items = chain(value, value.values())
    elif isinstance(value, _LISTS):
        room -= _ITEM_BYTES * len(value)
        items = value
    elif isinstance(value, _Struct):
        items = _given(astuple(value))
    else:
        return room - len(value) if isinstance(value, _TEXTS) else room
    if depth > _TOO_DEEP:
        raise RecursionError
    for item in items:
        kind = type(item)
        if kind is str:
            room -= len(item)
        elif kind not in _LEAVES:
            if room < 0:
                break
            room = _room_left(item, room, depth + 1)
    return room


def _given(values: tuple[Any, ...]) -> Iterable[Any]:
    """Without most of what takes no room; not all objects can say whether they are true."""
    try:
        return list(filter(None, values))
    except Exception:
        return values


def _refuse_size(size: int, field: str) -> NoReturn:
    raise InvalidValue(field, f"{size} bytes, at most {BODY_BYTES_MAX} allowed")
