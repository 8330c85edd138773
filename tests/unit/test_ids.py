"""Ids: the shape and order of those we make, and what we take from others."""

from __future__ import annotations

import itertools
import threading
import uuid
from typing import Any

import pytest

from ledgerstone.clock import wall_ns
from ledgerstone.errors import InvalidValue
from ledgerstone.ids import (
    ID_CHARS_MAX,
    LABEL_CHARS_MAX,
    check_id,
    check_label,
    check_name,
    derive,
    new_id,
    new_ids,
)


def test_a_new_id_is_a_uuid_of_version_7() -> None:
    before_ms = wall_ns() // 1_000_000
    made = new_id()
    parsed = uuid.UUID(made)
    assert str(parsed) == made
    assert parsed.version == 7
    assert parsed.variant == uuid.RFC_4122
    assert before_ms <= parsed.int >> 80 <= wall_ns() // 1_000_000
    assert check_id(made, "id") == made


def test_ids_of_one_draw_rise_and_keep_their_shape() -> None:
    made = new_ids(20_000)
    assert made == sorted(made)
    assert len(set(made)) == len(made)
    assert all(uuid.UUID(one).version == 7 for one in made[:: len(made) // 50])


@pytest.mark.parametrize("noise", [b"\xff" * 8, bytes(8), b"\x00\x00" + b"\xff" * 6])
def test_ids_of_one_draw_stay_in_their_last_field(noise: bytes) -> None:
    """Wherever the counter begins, it neither wraps nor touches the random part before it."""
    made = new_ids(3, noise)
    assert made == sorted(made)
    numbers = [uuid.UUID(one).int for one in made]
    assert numbers == list(range(numbers[0], numbers[0] + 3))
    assert {one >> 48 for one in numbers} == {numbers[0] >> 48}
    assert all(uuid.UUID(one).version == 7 for one in made)
    assert all(uuid.UUID(one).variant == uuid.RFC_4122 for one in made)


def test_ids_made_one_after_the_other_rise_with_the_clock() -> None:
    made = [new_id() for _ in range(2_000)]
    stamps = [uuid.UUID(one).int >> 64 for one in made]
    assert stamps == sorted(stamps)


def test_a_hundred_thousand_ids_are_all_different() -> None:
    """Made by eight threads, so that many fall on the same tick."""
    made: list[list[str]] = [[] for _ in range(8)]

    def draw(mine: list[str]) -> None:
        mine.extend(new_id() for _ in range(6_500))
        mine.extend(itertools.chain.from_iterable(new_ids(5) for _ in range(1_200)))

    threads = [threading.Thread(target=draw, args=(mine,)) for mine in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    everything = list(itertools.chain.from_iterable(made))
    assert len(everything) == 100_000
    assert len(set(everything)) == 100_000


def test_no_ids_are_no_ids() -> None:
    assert new_ids(0) == []


# --- derived ids


def test_derived_ids_are_stable_and_valid() -> None:
    first = derive("thread", "ns", "checkpoint")
    assert first == derive("thread", "ns", "checkpoint")
    # Written down, because stores keep them: this must never change.
    assert derive() == "d-4oymiquy7qobjgx36tejs35zeqt24qpemsnzgtfeswmrw6csxbkq"
    assert derive("a") != derive("A")
    assert check_id(first, "id") == first
    assert len(derive("x" * 1_000_000)) == len(first) <= ID_CHARS_MAX


def test_different_parts_never_give_the_same_id() -> None:
    """Where one part ends matters; so do empty parts, NUL, surrogates and numbers of parts."""
    words = ["", "a", "b", "ab", "\x00", "\ud800", "é", "e\u0301", "a\x00b", "1", "/"]
    parts = [combo for n in range(4) for combo in itertools.product(words, repeat=n)]
    made = {derive(*combo) for combo in parts}
    assert len(made) == len(parts)


def test_lengths_that_look_like_text_do_not_mix() -> None:
    eight = (1).to_bytes(8, "big").decode("latin-1")
    assert derive("a", "b") != derive("a" + eight + "b")
    assert derive(eight) != derive("", "")


# --- ids of others

GOOD: list[Any] = [
    "a",
    "x" * ID_CHARS_MAX,
    "a/b",
    "a_b",
    "../../etc/passwd",
    "'; drop table nodes; --",
    " leading and trailing ",
    "\u00a0",
    "\u3000wide",
    "é",
    "日本語",
    "😀" * 100,
    "e\u0301",
    "\u200d\u200b",
    "\ufeff",
    "%00",
    "$set.a.b",
    "0",
]
BAD: list[Any] = [
    "",
    "x" * (ID_CHARS_MAX + 1),
    "a\x00b",
    "a\nb",
    "tab\t",
    "\x1b[31m",
    "\x7f",
    "\x80",
    "\x9f",
    "\ud800",
    "ok\udfff",
    None,
    1,
    1.5,
    True,
    b"bytes",
    ["a"],
    {"id": "a"},
    object(),
]


@pytest.mark.parametrize("value", GOOD, ids=lambda value: ascii(value)[:16])
def test_any_printable_text_is_an_id(value: str) -> None:
    assert check_id(value, "id") == value


@pytest.mark.parametrize("value", BAD, ids=lambda value: ascii(value)[:16])
def test_what_is_no_id_is_refused_by_name(value: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        check_id(value, "session")
    assert caught.value.field == "session"
    assert len(str(caught.value)) < 200, "the bad value itself is not repeated"


def test_a_uuid_is_taken_for_its_text() -> None:
    value = uuid.uuid4()
    assert check_id(value, "id") == str(value)


def test_labels_may_be_empty_and_longer_names_may_not() -> None:
    assert check_label("", "label") == ""
    assert check_label("x" * LABEL_CHARS_MAX, "label")
    assert check_name("x" * LABEL_CHARS_MAX, "branch")
    for check in (check_label, check_name):
        for value in ("x" * (LABEL_CHARS_MAX + 1), "a\x00", "\ud800", None, uuid.uuid4()):
            with pytest.raises(InvalidValue):
                check(value, "x")
    with pytest.raises(InvalidValue):
        check_name("", "branch")
