"""Canonical bytes: one form for each value, nothing lost, nothing revived, everything bounded."""

from __future__ import annotations

import datetime
import decimal
import enum
import json
import math
import tracemalloc
import uuid
from random import Random
from typing import Any

import msgspec
import pytest

from ledgerstone import codec
from ledgerstone.codec import (
    BODY_BYTES_MAX,
    DEPTH_MAX,
    check_json,
    decode_json,
    decode_struct,
    encode_given,
    encode_json,
    encode_struct,
    parse_strict,
    sha256,
)
from ledgerstone.errors import InvalidValue
from ledgerstone.records.messages import MessageBody
from ledgerstone.records.parts import Text


def nested(depth: int, inside: Any = None, *, kind: str = "list") -> Any:
    """So many containers in each other; the innermost holds `inside`, or nothing."""
    value: Any = ([] if kind == "list" else {}) if inside is None else _wrap(inside, kind)
    for _ in range(depth - 1):
        value = _wrap(value, kind)
    return value


def _wrap(value: Any, kind: str) -> Any:
    return [value] if kind == "list" else {"k": value}


# --- canonical form


def test_keys_are_sorted_and_no_space_is_wasted() -> None:
    assert encode_json({"b": 1, "a": [1, 2.5, None, True]}, "x") == b'{"a":[1,2.5,null,true],"b":1}'
    assert encode_json({"b": 1, "a": 2}, "x") == encode_json({"a": 2, "b": 1}, "x")


class _Text(str):
    pass


class _Count(int):
    pass


class _Share(float):
    """As numpy's float64 is one."""


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        (_Text("a"), "a"),
        ({"k": [_Count(3), _Share(2.5)]}, {"k": [3, 2.5]}),
        ({_Text("k"): _Text("\ud800")}, {"k": "\ud800"}),
        ({"k": _Count(1 << 80)}, {"k": 1 << 80}),
    ],
)
def test_subclasses_of_text_and_numbers_are_what_they_are_below(given: Any, plain: Any) -> None:
    assert encode_json(given, "x") == encode_json(plain, "x")


def test_a_subclass_that_is_not_finite_is_refused() -> None:
    with pytest.raises(InvalidValue, match="not JSON"):
        encode_json({"k": _Share("nan")}, "x")


def test_keys_are_sorted_by_code_point_at_every_level() -> None:
    keys = ["", " ", "A", "a", "aa", "é", "\u2603", "\uffff", "\U0001f600", "$set", "a.b", "\x00"]
    Random(3).shuffle(keys)
    data = encode_json({key: {key: 1, "m": 0} for key in keys}, "x")
    assert list(json.loads(data)) == sorted(keys)
    assert data == encode_json({key: {"m": 0, key: 1} for key in sorted(keys)}, "x")


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        -1,
        "",
        "text",
        "nul \x00 in text",
        "control \x01\x1f\x7f\x85",
        "é ☃ 😀 \u2028 \ufffe \uffff",
        -0.0,
        0.1,
        1e308,
        5e-324,
        1e16,
        123456789.123456789,
        2**53 + 1,
        2**63 - 1,
        2**63,
        2**64 - 1,
        2**64,
        -(2**63),
        -(2**63) - 1,
        10**400,
        [],
        {},
        [[], {}, [{}]],
        {"": {"": ""}},
        "lone \ud800 surrogate",
        {"\udfff": ["\ud83d", "x"]},
        {"big": 10**30, "lone": "\ud800", "float": 1e16},
    ],
    ids=lambda value: ascii(value)[:24],
)
def test_what_goes_in_comes_out(value: Any) -> None:
    data = encode_json(value, "x")
    again = decode_json(data)
    assert again == value
    assert type(again) is type(value)
    assert encode_json(again, "x") == data
    assert parse_strict(data, "x") == value


def test_minus_zero_keeps_its_sign() -> None:
    assert math.copysign(1, decode_json(encode_json(-0.0, "x"))) == -1
    assert encode_json(-0.0, "x") != encode_json(0.0, "x")


def test_numbers_that_look_alike_stay_apart() -> None:
    assert len({encode_json(value, "x") for value in (1, 1.0, True, "1")}) == 4


def test_a_surrogate_is_escaped_and_valid_utf_8_is_stored() -> None:
    data = encode_json({"a": "\ud800é"}, "x")
    assert data == b'{"a":"\\ud800\\u00e9"}'
    data.decode("utf-8")
    assert encode_json("é", "x") == '"é"'.encode()


def test_a_pair_of_surrogates_is_not_the_character() -> None:
    """Python keeps them apart; joined by an escape they would come back as one."""
    pair = "\ud83d\ude00"
    again = decode_json(encode_json(pair, "x"))
    assert again in (pair, "😀")
    assert encode_json(again, "x") == encode_json("😀", "x") or again == pair


def test_random_values_have_one_form(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    for _ in range(300):
        value = random_value(random, 4)
        data = encode_json(value, "x")
        assert decode_json(data) == value
        assert encode_json(shuffled(value, random), "x") == data


def random_value(random: Random, depth: int) -> Any:
    kind = random.randrange(9 if depth else 6)
    if kind == 0:
        return random.choice([None, True, False])
    if kind == 1:
        return random.randint(-(10**25), 10**25)
    if kind == 2:
        return random.uniform(-1e9, 1e9)
    if kind < 6:
        return "".join(chr(random.choice([65, 0, 233, 9731, 128512, 55296])) for _ in range(4))
    if kind == 6:
        return [random_value(random, depth - 1) for _ in range(random.randrange(4))]
    return {f"{random.random()}": random_value(random, depth - 1) for _ in range(3)}


def shuffled(value: Any, random: Random) -> Any:
    if isinstance(value, dict):
        keys = random.sample(list(value), len(value))
        return {key: shuffled(value[key], random) for key in keys}
    if isinstance(value, list):
        return [shuffled(item, random) for item in value]
    return value


# --- what is refused


class Color(enum.Enum):
    RED = "red"


class Point(msgspec.Struct):
    x: int


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        b"bytes",
        {1, 2},
        object(),
        datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC),
        decimal.Decimal("1.5"),
        uuid.UUID(int=1),
        Color.RED,
        Point(1),
        {1: "int key"},
        {None: "none key"},
        {b"x": 1},
        10**5000,
        -(10**5000),
    ],
    ids=lambda value: type(value).__name__,
)
@pytest.mark.parametrize("place", ["whole", "in a list", "in an object", "beside a null"])
def test_what_is_not_json_is_refused_where_it_stands(value: Any, place: str) -> None:
    wrapped: dict[str, tuple[Any, str]] = {
        "whole": (value, "body"),
        "in a list": ([1, value], "body[1]"),
        "in an object": ({"a": {"b": value}}, "body.a.b"),
        "beside a null": ([None, value, "\ud800"], "body[1]"),
    }
    given, where = wrapped[place]
    with pytest.raises(InvalidValue) as caught:
        encode_json(given, "body")
    assert caught.value.field == where


def test_a_tuple_is_a_list() -> None:
    assert encode_json({"a": (1, (2,))}, "x") == b'{"a":[1,[2]]}'


# --- bounds


@pytest.mark.parametrize("kind", ["list", "object"])
@pytest.mark.parametrize("inside", [None, 1, "text"], ids=["empty", "number", "text"])
def test_depth_64_goes_and_65_does_not(kind: str, inside: Any) -> None:
    """The same line for every writer and reader, whatever stands beside the deep part."""
    fits = nested(DEPTH_MAX, inside, kind=kind)
    deep = nested(DEPTH_MAX + 1, inside, kind=kind)
    assert decode_json(encode_json(fits, "x")) == fits
    assert parse_strict(json.dumps(fits), "x") == fits
    check_json(fits, "x")
    for refuse in (
        lambda: encode_json(deep, "x"),
        lambda: parse_strict(json.dumps(deep), "x"),
        lambda: check_json(deep, "x"),
    ):
        with pytest.raises(InvalidValue, match="deeper than 64"):
            refuse()


def test_depth_does_not_depend_on_the_way_it_is_encoded() -> None:
    """Surrogates, and many brackets in a row, take other branches of the encoder."""
    fits = nested(DEPTH_MAX - 1, 1)
    besides: list[Any] = ["x", "\ud800", [[] for _ in range(100)], 10**30]
    for beside in besides:
        assert decode_json(encode_json([fits, beside], "x")) == [fits, beside]
        with pytest.raises(InvalidValue):
            encode_json([nested(DEPTH_MAX, 1), beside], "x")


def test_a_bomb_of_brackets_is_refused_quickly() -> None:
    with pytest.raises(InvalidValue):
        parse_strict("[" * 100_000 + "]" * 100_000, "x")
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidValue):
        encode_json(deep, "x")


def test_16_mib_goes_and_one_byte_more_does_not() -> None:
    fits = "a" * (BODY_BYTES_MAX - 2)
    assert len(encode_json(fits, "x")) == BODY_BYTES_MAX
    assert parse_strict(f'"{fits}"', "x") == fits
    for value in (fits + "a", "é" * (BODY_BYTES_MAX // 2), "\ud800" * (BODY_BYTES_MAX // 6 + 1)):
        with pytest.raises(InvalidValue, match="bytes, at most"):
            encode_json(value, "x")
    with pytest.raises(InvalidValue, match="bytes, at most"):
        parse_strict(f'"{fits}a"', "x")


def test_the_size_of_text_is_counted_in_bytes() -> None:
    text = '"' + "é" * (BODY_BYTES_MAX // 2) + '"'
    with pytest.raises(InvalidValue, match="at most"):
        parse_strict(text, "x")


# --- the strict parser


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("NaN", "NaN"),
        ("[Infinity]", "Infinity"),
        ('{"a":-Infinity}', "Infinity"),
        ("1e999", "range"),
        ("[-1e999]", "range"),
        ('{"a":1,"a":2}', "twice"),
        ('[{"b":{"a":1,"a":1}}]', "twice"),
        ("", "not JSON"),
        ("{", "not JSON"),
        ("{'a':1}", "not JSON"),
        ("[1,]", "not JSON"),
        ("01", "not JSON"),
        ('"a\nb"', "not JSON"),
        ("1 2", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b'"\xff"', "not JSON"),
        ("9" * 5000, "not JSON"),
    ],
    ids=lambda value: ascii(value)[:20],
)
def test_the_strict_parser_refuses(text: str | bytes, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason) as caught:
        parse_strict(text, "body")
    assert caught.value.field.startswith("body")


def test_the_strict_parser_reads_what_is_right() -> None:
    assert parse_strict(' {"a" : [1, 2.5e3, "\\ud800", null]} ', "x") == {
        "a": [1, 2500.0, "\ud800", None]
    }


def test_broken_bytes_are_an_error_and_not_a_guess() -> None:
    for data in (b"", b"{", b"nope", b'{"a":}', b"\xff"):
        with pytest.raises(ValueError):  # noqa: PT011
            decode_json(data)


# --- records


class Thing(msgspec.Struct, omit_defaults=True):
    name: str
    data: Any = None


def test_a_record_is_written_in_order_of_its_fields_and_free_objects_sorted() -> None:
    decoder = msgspec.json.Decoder(Thing)
    for thing in (Thing("x"), Thing("é", {"b": 1, "a": [1]}), Thing("\ud800", "\udfff")):
        data = encode_struct(thing, "x")
        assert decode_struct(decoder, data) == thing
        assert next(iter(json.loads(data))) == "name"
    assert encode_struct(Thing("x", {"b": 1, "a": 2}), "x") == b'{"name":"x","data":{"a":2,"b":1}}'
    odd = encode_struct(Thing("\ud800", {"b": 1, "a": 2}), "x")
    assert odd == b'{"name":"\\ud800","data":{"a":2,"b":1}}'


def test_the_type_of_a_part_comes_first() -> None:
    """Whoever decodes a part must know its type to read the rest in one go."""
    data = encode_struct(MessageBody(role="user", parts=[Text("hi")]), "x")
    assert data == b'{"role":"user","parts":[{"type":"text","text":"hi"}]}'


def test_a_record_has_the_same_bound() -> None:
    with pytest.raises(InvalidValue, match="at most"):
        encode_struct(Thing("a" * BODY_BYTES_MAX), "x")


@pytest.mark.parametrize("seed", range(50))
def test_a_bound_is_exact_to_the_byte(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is refused before it is encoded would have been refused after."""
    random = Random(seed)

    def draw(depth: int) -> Any:
        kinds = [None, True, -7, 2**70, 0.5, "", "é\n", "\ud800", "text" * random.randrange(9)]
        if depth and random.random() < 0.7:
            inner = [draw(depth - 1) for _ in range(random.randrange(6))]
            return inner if random.random() < 0.5 else {f"k{n}": v for n, v in enumerate(inner)}
        return random.choice(kinds)

    value = [draw(4) for _ in range(4)]
    both: list[Any] = [(encode_json, value), (encode_struct, Thing("x", value))]
    for encode, given in both:
        data = encode(given, "x")
        monkeypatch.setattr(codec, "BODY_BYTES_MAX", len(data))
        assert encode(given, "x") == data
        monkeypatch.setattr(codec, "BODY_BYTES_MAX", len(data) - 1)
        with pytest.raises(InvalidValue, match="at most"):
            encode(given, "x")
        monkeypatch.undo()


@pytest.mark.parametrize(
    "value",
    [
        "x" * (8 * BODY_BYTES_MAX),
        ["x" * BODY_BYTES_MAX] * 8,
        {"a": [{"b": ("x" * BODY_BYTES_MAX,) * 8}]},
        [0] * BODY_BYTES_MAX,
        Thing("x", ["x" * BODY_BYTES_MAX] * 8),
        b"x" * (8 * BODY_BYTES_MAX),
        bytearray(8 * BODY_BYTES_MAX),
        memoryview(bytes(8 * BODY_BYTES_MAX)),
    ],
    ids=["text", "list", "nested", "numbers", "record", "bytes", "bytearray", "memoryview"],
)
def test_what_is_far_too_long_is_not_encoded(value: Any) -> None:
    encode: Any = encode_given if isinstance(value, Thing) else encode_json
    tracemalloc.start()
    try:
        with pytest.raises(InvalidValue, match=r"at least .* bytes, at most"):
            encode(value, "x")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_text_from_outside_is_not_copied_to_be_measured() -> None:
    text = "x" * (8 * BODY_BYTES_MAX)
    tracemalloc.start()
    try:
        with pytest.raises(InvalidValue, match="at most"):
            parse_strict(text, "x")
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_what_is_checked_and_not_yet_encoded_has_the_same_bound() -> None:
    """A list of two times the same, fifty times: walking all of it would take years."""
    value: list[Any] = ["x"]
    for _ in range(50):
        value = [value, value]
    with pytest.raises(InvalidValue, match=r"at least .* bytes, at most"):
        check_json(value, "x")


def test_a_value_within_itself_is_refused_at_once() -> None:
    ring: list[Any] = []
    ring += [ring, ring, {"a": ring}]
    with pytest.raises(InvalidValue, match="nested deeper"):
        encode_json(ring, "x")


def test_a_record_that_does_not_fit_is_an_error() -> None:
    decoder = msgspec.json.Decoder(Thing)
    for data in (b'{"name":1}', b"[]", b"{", b'{"name":"\\ud800"', b'{"data":"\\ud800"}'):
        with pytest.raises(ValueError):  # noqa: PT011
            decode_struct(decoder, data)


def test_a_name_is_the_hash_of_its_bytes() -> None:
    assert sha256(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
