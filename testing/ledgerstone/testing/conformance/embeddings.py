"""Embeddings: vectors by id, of one dimension per model, with their session."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.errors import InvalidValue, SessionDeleted
from ledgerstone.testing.bed import Bed


class TestEmbeddings:
    @pytest.mark.promise(162, 163)
    def test_a_record_comes_back_as_it_was_put(self, backend: Bed) -> None:
        store = backend.store
        made = store.embeddings.put(
            [0.5, -1, 2], model="m", session="s", namespace=("docs", "a"), metadata={"page": 1}
        )
        assert made.vector == (0.5, -1.0, 2.0)
        assert (made.model, made.session, made.namespace) == ("m", "s", ("docs", "a"))
        assert (made.metadata, made.created_us) == ({"page": 1}, backend.clock.now_us())
        assert len(made.id) == 36
        assert made.id[14] == "7"
        assert store.embeddings.get(made.id) == made
        assert backend.reopen().embeddings.get(made) == made

    @pytest.mark.promise(163)
    def test_numbers_are_kept_as_32_bit_floats(self, backend: Bed) -> None:
        made = backend.store.embeddings.put([0.1, 1e-50, 3.4e38])
        assert made.vector[0] == pytest.approx(0.1, abs=1e-8)
        assert made.vector[0] != 0.1
        assert made.vector[1] == 0.0
        assert backend.store.embeddings.get(made.id) == made

    @pytest.mark.promise(162)
    def test_a_put_with_the_same_id_replaces(self, backend: Bed) -> None:
        store = backend.store
        first = store.embeddings.put([1, 0], id="e", model="m", session="s", metadata=1)
        backend.clock.advance(1)
        second = store.embeddings.put([0, 1], id="e", model="other", namespace="n")
        assert (second.vector, second.model, second.metadata) == ((0.0, 1.0), "other", None)
        assert (second.session, second.created_us) == (None, first.created_us)
        assert list(store.embeddings.iter()) == [second]
        assert store.embeddings.delete_session("s") == 0

    def test_several_are_put_whole_or_not_at_all(self, backend: Bed) -> None:
        store = backend.store
        made = store.embeddings.put_many(
            [{"vector": [n, 1], "id": f"e{n}", "metadata": n} for n in range(3)]
        )
        assert [one.id for one in made] == ["e0", "e1", "e2"]
        assert list(store.embeddings.iter()) == made
        assert store.embeddings.put_many(made) == made
        with pytest.raises(InvalidValue):
            store.embeddings.put_many([{"vector": [7, 7], "id": "e0"}, {"vector": [1]}])
        assert list(store.embeddings.iter()) == made
        assert store.embeddings.put_many([]) == []
        with pytest.raises(InvalidValue, match="an Embedding or a dict expected, got int"):
            store.embeddings.put_many([3])  # type: ignore[list-item]

    def test_lists_are_complete_and_by_id(self, backend: Bed) -> None:
        store = backend.store
        store.embeddings.put_many(
            {
                "vector": [n],
                "id": f"e{n:04}",
                "model": "mn"[n % 2],
                "session": "s" if n % 3 == 0 else None,
                "namespace": ("a", "b") if n % 5 == 0 else ("ab",),
            }
            for n in range(1100)
        )
        ids = [f"e{n:04}" for n in range(1100)]
        listed = store.embeddings.iter
        assert [one.id for one in listed()] == ids
        assert [one.id for one in listed(session="s")] == ids[::3]
        assert [one.id for one in listed(model="n")] == ids[1::2]
        assert [one.id for one in listed(namespace="a")] == ids[::5]
        assert [one.id for one in listed(namespace="a", session="s")] == ids[::15]

    @pytest.mark.promise(166)
    def test_deleting_is_idempotent(self, backend: Bed) -> None:
        store = backend.store
        made = store.embeddings.put([1])
        assert store.embeddings.delete(made) is True
        assert store.embeddings.delete(made.id) is False
        assert store.embeddings.get(made.id) is None

    @pytest.mark.promise(166)
    def test_deleting_by_session_says_how_many(self, backend: Bed) -> None:
        store = backend.store
        for n, session in enumerate(("s", "s", "t", None)):
            store.embeddings.put([n], id=f"e{n}", session=session)
        assert store.embeddings.delete_session("s") == 2
        assert store.embeddings.delete_session("s") == 0
        assert [one.id for one in store.embeddings.iter()] == ["e2", "e3"]
        assert [one.embedding.id for one in store.embeddings.search([1])] == ["e3", "e2"][::-1]

    @pytest.mark.promise(167)
    def test_they_go_with_their_session(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        store.embeddings.put([1], id="e1", session="s")
        store.embeddings.put([1], id="e2", session="other")
        store.sessions.purge("s")
        assert store.embeddings.get("e1") is None
        assert [one.embedding.id for one in store.embeddings.search([1])] == ["e2"]
        assert store.admin.verify().defects == []

    def test_a_deleted_session_takes_no_more(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        store.sessions.delete("s")
        with pytest.raises(SessionDeleted):
            store.embeddings.put([1], id="e", session="s")
        assert store.embeddings.get("e") is None

    def test_tenants_do_not_see_each_other(self, backend: Bed) -> None:
        red, blue = backend.open("red"), backend.open("blue")
        red.embeddings.put([1, 0], id="e", metadata="red")
        blue.embeddings.put([1, 0, 0], id="e", metadata="blue")
        assert [one.embedding.metadata for one in red.embeddings.search([1, 0])] == ["red"]
        assert blue.embeddings.delete("e") is True
        assert blue.embeddings.search([1, 0]) == []
        assert [one.metadata for one in red.embeddings.iter()] == ["red"]


class TestDimensions:
    def test_the_vectors_of_a_model_have_one_dimension(self, backend: Bed) -> None:
        store = backend.store
        store.embeddings.put([1, 2], id="e", model="m")
        for call in (
            lambda: store.embeddings.put([1], model="m"),
            lambda: store.memories.put("a", "k", 1, vector=[1, 2, 3], model="m"),
        ):
            with pytest.raises(InvalidValue, match="model 'm' has 2 dimensions") as caught:
                call()
            assert caught.value.field == "vector"
        store.embeddings.put([1], model="other")

    def test_an_empty_model_takes_the_next_dimension(self, backend: Bed) -> None:
        store = backend.store
        store.embeddings.put([1, 2], id="e", model="m")
        assert len(store.embeddings.search([1, 2], model="m")) == 1
        store.embeddings.delete("e")
        store.embeddings.put([1, 2, 3], id="f", model="m")
        found = store.embeddings.search([1, 2, 3], model="m")
        assert [(one.embedding.id, one.score) for one in found] == [("f", 1.0)]

    @pytest.mark.parametrize(
        "vector",
        [
            [],
            (),
            [float("nan")],
            [1, float("inf")],
            [float("inf"), float("-inf")],
            [1e39],
            [10**400],
            [True],
            ["1"],
            "123",
            b"1234",
            {"a": 1},
            5,
            None,
            [[1, 2]],
            [1j],
            [1.0] * 65_537,
        ],
        ids=lambda one: repr(one)[:30],
    )
    def test_what_is_no_vector_is_refused(self, backend: Bed, vector: Any) -> None:
        store = backend.store
        with pytest.raises(InvalidValue) as caught:
            store.embeddings.put(vector)
        assert caught.value.field.startswith("vector")
        with pytest.raises(InvalidValue):
            store.embeddings.search(vector)
        if vector is not None:
            with pytest.raises(InvalidValue):
                store.memories.put("a", "k", 1, vector=vector)
        assert list(store.embeddings.iter()) == []
