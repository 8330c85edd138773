"""Memories: values by namespace and key, their ends, and what a turn remembers."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.errors import InvalidValue, LeaseHeld
from ledgerstone.records.memories import Forget, Memory, Remember
from ledgerstone.testing.bed import Bed

ANN = ("users", "ann")


def names(found: list[Memory]) -> list[tuple[Any, ...]]:
    return [(*one.namespace, one.key) for one in found]


class TestMemories:
    def test_a_value_comes_back_as_it_was_put(self, backend: Bed) -> None:
        value = {"city": "Oslo", "visits": [1, 2.5, None, True], "größe": "ø"}
        made = backend.store.memories.put(ANN, "home", value)
        assert (made.namespace, made.key, made.value) == (ANN, "home", value)
        now = backend.clock.now_us()
        assert (made.created_us, made.updated_us, made.expires_us) == (now, now, None)
        assert backend.store.memories.get(ANN, "home") == made
        assert backend.reopen().memories.get(ANN, "home") == made

    def test_a_second_put_replaces_all_but_the_time_of_the_first(self, backend: Bed) -> None:
        store = backend.store
        first = store.memories.put(ANN, "home", "Oslo", ttl_s=60)
        backend.clock.advance(5)
        second = store.memories.put(ANN, "home", "Bergen")
        assert (second.value, second.expires_us) == ("Bergen", None)
        assert (second.created_us, second.updated_us) == (first.created_us, backend.clock.now_us())

    def test_if_absent_the_first_one_stays(self, backend: Bed) -> None:
        store = backend.store
        first = store.memories.put(ANN, "home", "Oslo", if_absent=True)
        assert store.memories.put(ANN, "home", "Bergen", if_absent=True) == first
        assert store.memories.get(ANN, "home") == first

    def test_deleting_is_idempotent(self, backend: Bed) -> None:
        store = backend.store
        store.memories.put(ANN, "home", "Oslo")
        assert store.memories.delete(ANN, "home") is True
        assert store.memories.get(ANN, "home") is None
        assert store.memories.delete(ANN, "home") is False

    def test_text_is_one_segment_and_the_root_is_a_namespace(self, backend: Bed) -> None:
        store = backend.store
        store.memories.put("users", "k", 1)
        store.memories.put((), "k", 2)
        found = store.memories.get(("users",), "k")
        assert found is not None
        assert found.value == 1
        assert [one.value for one in store.memories.search()] == [2, 1]

    def test_a_namespace_is_below_another_by_segments(self, backend: Bed) -> None:
        """Of texts that only begin alike, none is below the other: that let users of a peer read
        the memories of others.
        """
        store = backend.store
        spaces = [("a",), ("a", "b"), ("a", "b", "c"), ("a", "bc"), ("a.b",), ("ab",), ("a%",)]
        for n, namespace in enumerate(spaces):
            store.memories.put(namespace, "k", n)
        below = {
            (): set(spaces),
            ("a",): {("a",), ("a", "b"), ("a", "b", "c"), ("a", "bc")},
            ("a", "b"): {("a", "b"), ("a", "b", "c")},
            ("a.b",): {("a.b",)},
            ("a", "b", "c"): {("a", "b", "c")},
            ("%",): set(),
            ("a_",): set(),
        }
        for prefix, wanted in below.items():
            assert {one.namespace for one in store.memories.search(prefix)} == wanted
            assert {one.namespace for one in store.memories.iter(prefix)} == wanted
            assert set(store.memories.namespaces(match=prefix)) == wanted

    def test_lists_are_complete_and_in_order(self, backend: Bed) -> None:
        store = backend.store
        wanted = sorted((f"s{n % 7}", f"k{n:04}") for n in range(1203))
        store.memories.batch([Remember((space,), key, key) for space, key in wanted])
        assert names(list(store.memories.iter())) == wanted
        assert names(store.memories.search(limit=5, offset=600)) == wanted[600:605]
        assert (
            names(store.memories.search("s3", limit=2))
            == [one for one in wanted if one[0] == "s3"][:2]
        )

    def test_namespaces_are_listed_cut_and_matched(self, backend: Bed) -> None:
        store = backend.store
        for space in (("a",), ("a", "x", "notes"), ("a", "y", "notes"), ("b", "x"), ("ab",), ()):
            store.memories.put(space, "k1", 0)
            store.memories.put(space, "k2", 0)
        listed = store.memories.namespaces
        assert listed() == [
            (), ("a",), ("a", "x", "notes"), ("a", "y", "notes"), ("ab",), ("b", "x")
        ]  # fmt: skip
        assert listed(max_depth=1) == [(), ("a",), ("ab",), ("b",)]
        assert listed(match="a", max_depth=2) == [("a",), ("a", "x"), ("a", "y")]
        assert listed(suffix="notes") == [("a", "x", "notes"), ("a", "y", "notes")]
        assert listed(suffix=("notes",), max_depth=1) == [("a",)]
        assert listed(suffix=("x",)) == [("b", "x")]
        assert listed(limit=2, offset=1) == [("a",), ("a", "x", "notes")]
        assert listed(match=("a", "x"), max_depth=1) == [("a",)]

    def test_a_batch_happens_whole_or_not_at_all(self, backend: Bed) -> None:
        store = backend.store
        store.memories.put(ANN, "old", 1)
        answers = store.memories.batch(
            [Remember(ANN, "new", 2), Forget(ANN, "old"), Forget(ANN, "never")]
        )
        assert answers[1:] == [True, False]
        assert answers[0] == store.memories.get(ANN, "new")
        with pytest.raises(InvalidValue):
            store.memories.batch(
                [
                    Remember(ANN, "third", 3, vector=[1, 2], model="m"),
                    Remember(ANN, "fourth", 4, vector=[1], model="m"),
                ]
            )
        assert names(store.memories.search()) == [(*ANN, "new")]
        assert store.memories.batch([]) == []

    def test_tenants_do_not_see_each_other(self, backend: Bed) -> None:
        red, blue = backend.open("red"), backend.open("blue")
        red.memories.put(ANN, "k", "red", vector=[1, 0])
        blue.memories.put(ANN, "k", "blue", vector=[1, 0, 0])
        assert [one.value for one in red.memories.search(vector=[1, 0])] == ["red"]
        assert blue.memories.delete(ANN, "k") is True
        assert blue.memories.namespaces() == []
        assert [one.value for one in red.memories.search()] == ["red"]


class TestEndsOfMemories:
    def test_what_has_ended_looks_absent_everywhere(self, backend: Bed) -> None:
        store = backend.store
        store.memories.put(ANN, "short", 1, ttl_s=10, vector=[1, 0])
        store.memories.put(("other",), "long", 2, ttl_s=20, vector=[1, 0])
        backend.clock.advance(9.999999)
        assert store.memories.get(ANN, "short") is not None
        backend.clock.advance(0.000001)
        assert store.memories.get(ANN, "short") is None
        assert names(store.memories.search()) == [("other", "long")]
        assert names(store.memories.search(vector=[1, 0])) == [("other", "long")]
        assert names(list(store.memories.iter(ANN))) == []
        assert store.memories.namespaces() == [("other",)]
        assert store.memories.get(ANN, "short", touch=True) is None
        assert store.memories.delete(ANN, "short") is False

    def test_a_put_over_an_ended_one_is_a_new_one(self, backend: Bed) -> None:
        store = backend.store
        store.memories.put(ANN, "k", 1, ttl_s=10)
        backend.clock.advance(10)
        made = store.memories.put(ANN, "k", 2, ttl_s=10, if_absent=True)
        assert (made.value, made.created_us) == (2, backend.clock.now_us())

    def test_touching_lets_the_time_begin_anew(self, backend: Bed) -> None:
        store = backend.store
        made = store.memories.put(ANN, "k", 1, ttl_s=10)
        backend.clock.advance(6)
        assert store.memories.get(ANN, "k") == made
        touched = store.memories.get(ANN, "k", touch=True)
        assert touched is not None
        assert touched.expires_us == backend.clock.now_us() + 10_000_000
        assert touched.updated_us == made.updated_us
        backend.clock.advance(6)
        assert store.memories.get(ANN, "k") == touched
        for_ever = store.memories.put(ANN, "for ever", 1)
        assert store.memories.get(ANN, "for ever", touch=True) == for_ever

    def test_a_sweep_removes_what_has_ended(self, backend: Bed) -> None:
        store = backend.store
        for n in range(5):
            store.memories.put(ANN, f"k{n}", n, ttl_s=n + 1, vector=[1, 0])
        store.memories.put(ANN, "stays", 0)
        backend.clock.advance(3)
        assert store.memories.sweep(limit=2) == 2
        assert store.memories.sweep() == 1
        assert store.memories.sweep() == 0
        assert names(store.memories.search()) == [(*ANN, "k3"), (*ANN, "k4"), (*ANN, "stays")]

    def test_ends_survive_a_reopening(self, backend: Bed) -> None:
        backend.store.memories.put(ANN, "k", 1, ttl_s=10)
        backend.clock.advance(10)
        store = backend.reopen()
        assert store.memories.get(ANN, "k") is None
        assert store.memories.sweep() == 1


class TestMemoriesOfTurns:
    def test_a_commit_remembers(self, backend: Bed) -> None:
        store = backend.store
        with store.turns.begin("s", create=True) as turn:
            turn.user("I live in Oslo")
            turn.remember(ANN, "home", "Oslo", ttl_s=60, vector=[1, 0], model="m")
            assert store.memories.get(ANN, "home") is None
        found = store.memories.get(ANN, "home")
        assert found is not None
        assert (found.value, found.ttl_us) == ("Oslo", 60_000_000)
        assert names(store.memories.search(vector=[1, 0], model="m")) == [(*ANN, "home")]
        assert backend.reopen().memories.get(ANN, "home") == found
        assert backend.store.admin.verify().defects == []

    def test_a_refused_commit_remembers_nothing(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        store.leases.take("s", owner="somebody")
        turn = store.turns.begin("s")
        turn.remember(ANN, "home", "Oslo")
        with pytest.raises(LeaseHeld):
            turn.commit()
        assert store.memories.get(ANN, "home") is None

    def test_a_wrong_dimension_refuses_the_commit(self, backend: Bed) -> None:
        store = backend.store
        store.memories.put(ANN, "first", 1, vector=[1, 0], model="m")
        turn = store.turns.begin("s", create=True)
        turn.user("hello")
        turn.remember(ANN, "second", 2, vector=[1, 0, 0], model="m")
        with pytest.raises(InvalidValue, match="'m' has 2 dimensions, this vector has 3"):
            turn.commit()
        assert store.sessions.get("s") is None
        assert names(store.memories.search()) == [(*ANN, "first")]

    def test_a_search_with_another_dimension_is_refused(self, backend: Bed) -> None:
        store = backend.store
        assert store.memories.search(vector=[1, 0]) == []
        store.memories.put(ANN, "named", 1, vector=[1, 0], model="m")
        store.memories.put(ANN, "unnamed", 2, vector=[1])
        with pytest.raises(InvalidValue, match="'m' has 2 dimensions, this vector has 3") as caught:
            store.memories.search(vector=[1, 0, 0], model="m")
        assert caught.value.field == "vector"
        with pytest.raises(InvalidValue, match="the unnamed model has 1 dimension, this vector"):
            store.memories.search(("nowhere",), vector=[1, 0])
        assert names(store.memories.search(vector=[1])) == [(*ANN, "unnamed")]
        assert store.memories.search(vector=[1, 0], model="new") == []
        store.memories.delete(ANN, "unnamed")
        assert store.memories.search(vector=[1, 0]) == []

    def test_vectors_of_one_commit_must_agree(self, backend: Bed) -> None:
        store = backend.store
        turn = store.turns.begin("s", create=True)
        turn.remember(ANN, "first", 1, vector=[1, 0], model="m")
        turn.remember(ANN, "second", 2, vector=[1], model="m")
        with pytest.raises(InvalidValue):
            turn.commit()
        assert store.memories.search() == []

    def test_a_repeated_turn_remembers_once(self, backend: Bed) -> None:
        store = backend.store
        for again in (False, True):
            turn = store.turns.begin("s", id="t1", create=True)
            turn.remember(ANN, "home", "Oslo")
            assert turn.commit().replayed is again
            backend.clock.advance(1)
            store.memories.put(ANN, "home", "Bergen")
        found = store.memories.get(ANN, "home")
        assert found is not None
        assert found.value == "Bergen"


class TestWrongMemories:
    @pytest.mark.parametrize(
        ("namespace", "key", "field"),
        [
            (("a",) * 17, "k", "namespace"),
            (("a", ""), "k", "namespace[1]"),
            (("a\x1fb",), "k", "namespace[0]"),
            (("a\nb",), "k", "namespace[0]"),
            (("\ud800",), "k", "namespace[0]"),
            (("x" * 256,), "k", "namespace[0]"),
            ((1,), "k", "namespace[0]"),
            (None, "k", "namespace"),
            ({"a"}, "k", "namespace"),
            (("a",), "", "key"),
            (("a",), "k\0", "key"),
            (("a",), "k\x1f", "key"),
            (("a",), "k" * 256, "key"),
            (("a",), 7, "key"),
        ],
    )
    def test_names_are_checked(self, backend: Bed, namespace: Any, key: Any, field: str) -> None:
        store = backend.store
        for call in (
            lambda: store.memories.put(namespace, key, 1),
            lambda: store.memories.get(namespace, key),
            lambda: store.memories.delete(namespace, key),
            lambda: store.memories.batch([Forget(namespace, key)]),
            lambda: store.turns.begin("s", create=True).remember(namespace, key, 1),
        ):
            with pytest.raises(InvalidValue) as caught:
                call()
            assert caught.value.field == field
        assert store.memories.search() == []

    @pytest.mark.parametrize("ttl_s", [0, -1, float("nan"), float("inf"), "10", True, 1e300])
    def test_ends_are_checked(self, backend: Bed, ttl_s: Any) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.memories.put("a", "k", 1, ttl_s=ttl_s)
        assert caught.value.field == "ttl_s"

    @pytest.mark.parametrize("value", [float("nan"), {1: 2}, object(), b"bytes", {"a": {1}}])
    def test_values_are_json(self, backend: Bed, value: Any) -> None:
        with pytest.raises(InvalidValue):
            backend.store.memories.put("a", "k", value)
        assert backend.store.memories.search() == []
