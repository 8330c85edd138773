"""Filters say what a naive reader of them would say; namespaces are told apart by segments."""

from __future__ import annotations

from fractions import Fraction
from random import Random
from typing import Any

from ledgerstone.codec import encode_json
from ledgerstone.rules import matching, namespaces

KEYS = ("a", "b", "c")
SCALARS: tuple[Any, ...] = (None, True, False, 0, 1, 1.0, -2.5, "", "a", "b", "1", 10**20)


def some_value(random: Random, depth: int = 3) -> Any:
    choice = random.randrange(4 if depth else 1)
    if choice == 2:
        return [some_value(random, depth - 1) for _ in range(random.randrange(3))]
    if choice == 3:
        return {key: some_value(random, depth - 1) for key in KEYS if random.random() < 0.6}
    return random.choice(SCALARS)


def some_filter(random: Random) -> dict[str, Any]:
    return {
        ".".join(random.choices(KEYS, k=random.randrange(1, 4))): some_condition(random)
        for _ in range(random.randrange(4))
    }


def some_condition(random: Random) -> Any:
    if random.random() < 0.3:
        return some_value(random)
    names = random.sample(("$eq", "$ne", "$gt", "$gte", "$lt", "$lte"), random.randrange(1, 3))
    found: dict[str, Any] = {name: some_value(random, 1) for name in names}
    if random.random() < 0.3:
        found["$in"] = [some_value(random, 1) for _ in range(3)]
    if random.random() < 0.3:
        found["$nin"] = [some_value(random, 1) for _ in range(3)]
    if random.random() < 0.3:
        found["$exists"] = random.random() < 0.5
    return found


def reads(given: dict[str, Any], value: Any) -> bool:
    """The documentation, word by word, without the code under test."""
    for path, condition in given.items():
        place, there = value, True
        for name in path.split("."):
            there = isinstance(place, dict) and name in place
            if not there:
                break
            place = place[name]
        asked = condition
        if not isinstance(asked, dict) or all(key[0] != "$" for key in asked):
            asked = {"$eq": condition}
        if not all(holds(there, place, name, operand) for name, operand in asked.items()):
            return False
    return True


def holds(there: bool, place: Any, name: str, operand: Any) -> bool:
    if name == "$exists":
        return there == operand
    if name in ("$ne", "$nin"):
        return not holds(there, place, {"$ne": "$eq", "$nin": "$in"}[name], operand)
    if name == "$in":
        return any(holds(there, place, "$eq", one) for one in operand)
    if not there:
        return False
    if name == "$eq":
        return shape(place) == shape(operand)
    sorts = [
        "bool" if isinstance(one, bool) else
        "number" if isinstance(one, (int, float)) else type(one).__name__
        for one in (place, operand)
    ]  # fmt: skip
    if sorts not in (["number"] * 2, ["str"] * 2):
        return False
    return {
        "$gt": place > operand, "$gte": place >= operand,
        "$lt": place < operand, "$lte": place <= operand,
    }[name]  # fmt: skip


def shape(value: Any) -> Any:
    """Values that compare equal exactly when they are the same JSON."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return type(value).__name__, value
    if isinstance(value, (int, float)):
        return "number", Fraction(value)
    if isinstance(value, dict):
        return "object", sorted((key, shape(item)) for key, item in value.items())
    return "list", [shape(item) for item in value]


def test_filters_hold_as_they_read(seed: int) -> None:
    print(f"seed {seed}")
    random = Random(seed)
    held = 0
    for _ in range(20_000):
        given, value = some_filter(random), some_value(random)
        parsed = matching.parse_filter(given)
        wanted = reads(given, value)
        assert matching.matches(parsed, value) is wanted, (given, value)
        held += wanted
        travelled = matching.decode_filter(matching.encode_filter(parsed))
        assert matching.matches(travelled, value) is wanted, (given, value)
    assert 2_000 < held < 18_000, "the draws say little"


def test_a_parsed_filter_is_plain_json() -> None:
    parsed = matching.parse_filter({"a.b": {"$gt": 1}, "c": {"d": None}})
    assert encode_json(parsed, "filter") == b'[[["a","b"],"$gt",1],[["c"],"$eq",{"d":null}]]'
    assert matching.encode_filter(matching.parse_filter({})) is None


def test_namespaces_sort_as_their_segments_do(seed: int) -> None:
    random = Random(seed)
    letters = [" ", "!", "a", "b", "ab", "a b", "ä", "\U0010ffff", "0", "%", "_", ".", "/"]
    drawn = [tuple(random.choices(letters, k=random.randrange(5))) for _ in range(300)]
    texts = {one: namespaces.join(one) for one in drawn}
    assert sorted(texts, key=lambda one: texts[one].encode()) == sorted(texts)
    for one in drawn:
        assert namespaces.split(texts[one]) == one
        end = namespaces.end_of(texts[one])
        for other in drawn:
            below = other[: len(one)] == one
            assert texts[other].startswith(texts[one]) is below
            assert (texts[one] <= texts[other] and (end is None or texts[other] < end)) is below
