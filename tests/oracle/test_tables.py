"""Tables: order, prefixes, and a transaction that leaves no trace when it fails."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.oracle.model.state import State
from tests.oracle.model.tables import SortedKeys, Table, UndoLog


def open_table() -> Table[Any, Any]:
    log = UndoLog()
    log.entries = []
    return Table("rows", log)


def test_keys_stay_in_order_through_random_changes(seed: int) -> None:
    chance = random.Random(seed)
    keys: SortedKeys[tuple[int, int]] = SortedKeys()
    known: set[tuple[int, int]] = set()
    for _ in range(6000):
        key = (chance.randrange(9), chance.randrange(900))
        if key in known and chance.random() < 0.7:
            keys.remove(key)
            known.remove(key)
        elif key not in known:
            keys.add(key)
            known.add(key)
    ordered = sorted(known)
    assert list(keys.upwards(())) == ordered
    for border in [(0, 0), (4, 450), (8, 899), (99, 0)]:
        assert list(keys.upwards(border)) == [key for key in ordered if key >= border]
        assert list(keys.downwards(border)) == [key for key in reversed(ordered) if key < border]


def test_a_scan_sees_exactly_its_prefix_in_both_directions() -> None:
    table = open_table()
    for key in [("a", "x"), ("a", "xy"), ("a", "y"), ("b", "a"), ("ab", "z")]:
        table.insert(key, key[1])
    assert [row for _, row in table.scan(("a",))] == ["x", "xy", "y"]
    assert [row for _, row in table.scan(("a",), reverse=True)] == ["y", "xy", "x"]
    assert [row for _, row in table.scan(("a",), since=("a", "xy"))] == ["xy", "y"]
    assert [row for _, row in table.scan(("a",), since=("a", "xy"), reverse=True)] == ["y", "xy"]
    assert [row for _, row in table.scan()] == ["x", "xy", "y", "z", "a"]
    assert table.last(("b",)) == "a"
    assert table.last(("c",)) is None


def test_changes_need_the_right_key_and_a_transaction() -> None:
    table = open_table()
    table.insert((1,), "one")
    with pytest.raises(KeyError):
        table.insert((1,), "again")
    with pytest.raises(KeyError):
        table.update((2,), "two")
    with pytest.raises(KeyError):
        table.delete((2,))
    with pytest.raises(RuntimeError):
        State().values.insert((1, "a"), b"")


def test_a_rollback_restores_rows_and_order() -> None:
    state = State()
    state.begin()
    for name in "acd":
        state.branches.insert((1, name), 1)
    assert state.commit() == [("branches", (1, name)) for name in "acd"]
    before = list(state.branches.scan())
    state.begin()
    state.branches.insert((1, "b"), 2)
    state.branches.update((1, "a"), 9)
    state.branches.delete((1, "a"))
    state.branches.insert((1, "a"), 7)
    state.branches.delete((1, "d"))
    state.branches.delete((1, "b"))
    assert state.next_number("work", 1) == 1
    state.rollback()
    assert list(state.branches.scan()) == before
    assert len(state.counters) == 0


def test_only_one_transaction_is_open() -> None:
    state = State()
    state.begin()
    with pytest.raises(RuntimeError):
        state.begin()
    state.branches.insert((1, "a"), 1)
    state.undo()
    assert len(state.branches) == 0
    state.branches.insert((1, "a"), 1)
    state.commit()
    assert len(state.branches) == 1
