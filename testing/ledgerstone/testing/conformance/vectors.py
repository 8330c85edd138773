"""Searches by vector: best first, the same on every backend, and never behind what is stored."""

from __future__ import annotations

from array import array

import pytest

from ledgerstone.errors import InvalidValue
from ledgerstone.records.embeddings import Match
from ledgerstone.testing.bed import Bed


def shown(found: list[Match]) -> list[tuple[str, float]]:
    return [(one.embedding.id, round(one.score, 6)) for one in found]


class TestSearches:
    @pytest.mark.promise(164)
    def test_the_nearest_come_first(self, backend: Bed) -> None:
        store = backend.store
        for id, vector in {"e": [1, 0], "n": [0, 3], "ne": [2, 2], "w": [-5, 0]}.items():
            store.embeddings.put(vector, id=id)
        found = store.embeddings.search([0.5, 0])
        assert shown(found) == [("e", 1.0), ("ne", 0.707107), ("n", 0.0), ("w", -1.0)]
        assert shown(store.embeddings.search(array("f", [0.5, 0]), limit=2)) == shown(found)[:2]
        assert found[0].embedding == store.embeddings.get("e")

    @pytest.mark.promise(164)
    def test_ties_are_in_order_of_their_ids(self, backend: Bed) -> None:
        store = backend.store
        for n in range(30):
            store.embeddings.put([n % 3 + 1, 0], id=f"e{(n * 7) % 30:02}")
        wanted = [f"e{n:02}" for n in range(30)]
        assert [one.embedding.id for one in store.embeddings.search([1, 0], limit=30)] == wanted
        assert [one.embedding.id for one in store.embeddings.search([1, 0], limit=4)] == wanted[:4]

    @pytest.mark.promise(165)
    def test_a_zero_vector_scores_0(self, backend: Bed) -> None:
        store = backend.store
        for id, vector in {"b": [0, 0], "a": [1, 1], "c": [-1, 0]}.items():
            store.embeddings.put(vector, id=id)
        assert shown(store.embeddings.search([1, 1])) == [("a", 1.0), ("b", 0.0), ("c", -0.707107)]
        assert shown(store.embeddings.search([0, 0])) == [("a", 0.0), ("b", 0.0), ("c", 0.0)]

    @pytest.mark.promise(165)
    def test_another_dimension_scores_0(self, backend: Bed) -> None:
        store = backend.store
        store.embeddings.put([1, 0], id="near", model="two")
        store.embeddings.put([-1, 0], id="far", model="two")
        store.embeddings.put([1, 0, 0], id="b", model="three")
        store.embeddings.put([1, 0, 0, 0], id="a", model="four")
        everything = [("near", 1.0), ("a", 0.0), ("b", 0.0), ("far", -1.0)]
        assert shown(store.embeddings.search([1, 0])) == everything
        assert shown(store.embeddings.search([1, 0], limit=3)) == everything[:3]
        assert shown(store.embeddings.search([1, 0], model="three")) == [("b", 0.0)]
        with pytest.raises(InvalidValue, match="'four' has 4 dimensions, this vector has 2"):
            store.embeddings.search([1, 0], strict=True)
        found = store.embeddings.search([1, 0], model="two", strict=True)
        assert shown(found) == [("near", 1.0), ("far", -1.0)]

    def test_a_search_keeps_to_its_session_and_namespace(self, backend: Bed) -> None:
        store = backend.store
        places = [("s", ("a", "b")), ("s", ("a", "bc")), (None, ("a",)), ("t", ("a", "b", "c"))]
        for n, (session, namespace) in enumerate(places):
            store.embeddings.put([1, n], id=f"e{n}", session=session, namespace=namespace)

        def ids(**where: object) -> list[str]:
            found = store.embeddings.search([1, 0], **where)  # type: ignore[arg-type]
            return [one.embedding.id for one in found]

        assert ids(session="s") == ["e0", "e1"]
        assert ids(namespace=("a", "b")) == ["e0", "e3"]
        assert ids(namespace=("a", "b"), session="t") == ["e3"]
        assert ids(session="nobody") == []

    def test_memories_and_embeddings_do_not_mix(self, backend: Bed) -> None:
        store = backend.store
        for n in range(20):
            store.memories.put("m", f"k{n:02}", n, vector=[1, n])
        store.embeddings.put([0, 1], id="e")
        assert shown(store.embeddings.search([1, 0])) == [("e", 0.0)]
        assert [one.key for one in store.memories.search(vector=[1, 0], limit=2)] == ["k00", "k01"]
        scores = [one.score for one in store.memories.search("m", vector=[1, 1], limit=1)]
        assert scores == [pytest.approx(1.0)]


class TestIndexesFollow:
    def test_what_changed_is_found(self, backend: Bed) -> None:
        store = backend.store
        store.embeddings.put([1, 0], id="a")
        store.embeddings.put([0, 1], id="b")
        assert shown(store.embeddings.search([1, 0])) == [("a", 1.0), ("b", 0.0)]
        store.embeddings.put([1, 0], id="b")
        store.embeddings.put([-1, 0], id="a")
        assert shown(store.embeddings.search([1, 0])) == [("b", 1.0), ("a", -1.0)]
        store.embeddings.delete("b")
        assert shown(store.embeddings.search([1, 0])) == [("a", -1.0)]
        store.embeddings.put([1, 0], id="c")
        store.embeddings.delete("a")
        assert shown(store.embeddings.search([1, 0])) == [("c", 1.0)]
        store.embeddings.put([1, 0], id="a")
        store.embeddings.delete("c")
        assert shown(store.embeddings.search([1, 0])) == [("a", 1.0)]

    def test_what_moved_to_another_model_is_found_there(self, backend: Bed) -> None:
        store = backend.store
        for id in ("a", "b"):
            store.embeddings.put([1, 0], id=id, model="old")
        assert len(store.embeddings.search([1, 0], model="old")) == 2
        store.embeddings.put([1, 0, 0], id="a", model="new")
        assert shown(store.embeddings.search([1, 0], model="old")) == [("b", 1.0)]
        assert shown(store.embeddings.search([1, 0, 0], model="new")) == [("a", 1.0)]
        store.memories.put("m", "k", 1, vector=[1, 0], model="old")
        store.memories.put("m", "k", 2, vector=[1, 0, 0], model="new")
        assert store.memories.search(vector=[1, 0], model="old") == []
        assert [one.value for one in store.memories.search(vector=[1, 0, 0], model="new")] == [2]

    def test_a_memory_without_its_vector_is_not_found_by_it(self, backend: Bed) -> None:
        store = backend.store
        store.memories.put("m", "k", 1, vector=[1, 0])
        assert len(store.memories.search(vector=[1, 0])) == 1
        store.memories.put("m", "k", 2)
        assert store.memories.search(vector=[1, 0]) == []
        assert [one.value for one in store.memories.search()] == [2]

    def test_handles_see_what_the_other_changed(self, backend: Bed) -> None:
        one, other = backend.open(), backend.open()
        one.embeddings.put([1, 0], id="a")
        assert shown(other.embeddings.search([1, 0])) == [("a", 1.0)]
        other.embeddings.put([1, 1], id="b")
        assert shown(one.embeddings.search([1, 0])) == [("a", 1.0), ("b", 0.707107)]
        one.embeddings.delete("a")
        one.embeddings.put([1, 0, 0], id="c", model="m")
        assert shown(other.embeddings.search([1, 0])) == [("b", 0.707107), ("c", 0.0)]
        other.embeddings.delete("b")
        other.embeddings.put([1, 0, 0, 0], id="d")
        assert shown(one.embeddings.search([1, 0, 0, 0], model="")) == [("d", 1.0)]

    def test_a_search_finds_the_same_after_a_reopening(self, backend: Bed) -> None:
        store = backend.store
        for n in range(20):
            store.embeddings.put([1, n], id=f"e{n}", metadata={"n": n})
        for n in range(0, 20, 3):
            store.embeddings.delete(f"e{n}")
        before = store.embeddings.search([3, 4], limit=20)
        assert backend.reopen().embeddings.search([3, 4], limit=20) == before
        assert backend.store.admin.verify().defects == []
