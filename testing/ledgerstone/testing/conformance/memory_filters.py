"""Filters of memories and of embeddings' metadata: one grammar, the same answers everywhere."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.errors import InvalidValue
from ledgerstone.testing.bed import Bed

VALUES: dict[str, Any] = {
    "a": {"n": 1, "t": "x", "o": {"p": {"q": [1, 2]}}},
    "b": {"n": 2.5, "t": "y", "o": {"p": 1}},
    "c": {"n": True, "t": None},
    "d": {"n": "1", "t": "", "o": {}},
    "e": [1, 2],
    "f": "n",
    "g": {"n": 1.0, "t": "Ö", "o": {"p": {"q": [1, 2.0]}}},
    "h": {"n": -(10**30), "t": ["x"], "o.p": 1},
}
CASES: list[tuple[dict[str, Any], str]] = [
    ({}, "abcdefgh"),
    ({"n": 1}, "ag"),
    ({"n": 1.0}, "ag"),
    ({"n": True}, "c"),
    ({"n": "1"}, "d"),
    ({"n": {"$eq": 2.5}}, "b"),
    ({"n": {"$ne": 1}}, "bcdefh"),
    ({"n": {"$gt": 1}}, "b"),
    ({"n": {"$gte": 1}}, "abg"),
    ({"n": {"$lt": 1}}, "h"),
    ({"n": {"$lte": 1}}, "agh"),
    ({"n": {"$gt": "0"}}, "d"),
    ({"n": {"$gt": False}}, ""),
    ({"n": {"$gte": None}}, ""),
    ({"n": {"$gte": [1]}}, ""),
    ({"n": {"$gt": 0, "$lt": 2}}, "ag"),
    ({"n": {"$in": [1, "1"]}}, "adg"),
    ({"n": {"$in": []}}, ""),
    ({"n": {"$nin": [1, "1"]}}, "bcefh"),
    ({"n": {"$nin": []}}, "abcdefgh"),
    ({"t": None}, "c"),
    ({"t": {"$exists": True}}, "abcdgh"),
    ({"t": {"$exists": False}}, "ef"),
    ({"t": {"$gt": "x"}}, "bg"),
    ({"t": ["x"]}, "h"),
    ({"o": {}}, "d"),
    ({"o": {"p": 1}}, "b"),
    ({"o.p": 1}, "b"),
    ({"o.p": {"q": [1, 2]}}, "ag"),
    ({"o.p.q": [1, 2]}, "ag"),
    ({"o.p.q": {"$exists": True}}, "ag"),
    ({"o.p": {"$exists": True}, "n": {"$lt": 2}}, "ag"),
    ({"e": 1}, ""),
    ({"n": {"$eq": {"$gt": 1}}}, ""),
]
WRONG: list[Any] = [
    [],
    "n",
    {"": 1},
    {"a b": 1},
    {"a.": 1},
    {".a": 1},
    {"a..b": 1},
    {"$gt": 1},
    {"a-b": 1},
    {"a\n": 1},
    {"ä": 1},
    {"x" * 65: 1},
    {".".join("a" * 9): 1},
    {1: 1},
    {"n": {"$regex": "."}},
    {"n": {"$gt": 1, "m": 1}},
    {"n": {"$": 1}},
    {"n": {"$in": "x"}},
    {"n": {"$nin": {"a": 1}}},
    {"n": {"$exists": 1}},
    {"n": float("nan")},
    {"n": {"$eq": object()}},
    {f"k{n}": n for n in range(33)},
    {f"k{n}": {"$gt": 0, "$lt": 9} for n in range(17)},
]


class TestFilters:
    def test_memories_are_filtered_by_their_value(self, backend: Bed) -> None:
        store = backend.store
        for key, value in VALUES.items():
            store.memories.put("space", key, value, vector=[1, 0])
        for given, wanted in CASES:
            found = store.memories.search(filter=given, limit=100)
            assert "".join(one.key for one in found) == wanted, given
            near = store.memories.search(vector=[1, 0], filter=given, limit=100)
            assert "".join(one.key for one in near) == wanted, given

    def test_embeddings_are_filtered_by_their_metadata(self, backend: Bed) -> None:
        store = backend.store
        for key, value in VALUES.items():
            store.embeddings.put([1, 0], id=key, metadata=value)
        for given, wanted in CASES:
            found = store.embeddings.search([1, 0], filter=given, limit=100)
            assert "".join(one.embedding.id for one in found) == wanted, given

    def test_pages_of_a_filtered_search_follow_each_other(self, backend: Bed) -> None:
        store = backend.store
        for n in range(40):
            store.memories.put("space", f"k{n:02}", {"odd": n % 2}, vector=[1, n])
        given = {"odd": 1}
        whole = store.memories.search(filter=given, limit=100)
        parts = [store.memories.search(filter=given, limit=7, offset=n) for n in (0, 7, 14)]
        assert [one for part in parts for one in part] == whole
        near = store.memories.search(vector=[1, 0], filter=given, limit=100)
        parts = [
            store.memories.search(vector=[1, 0], filter=given, limit=7, offset=n)
            for n in (0, 7, 14)
        ]
        assert [one for part in parts for one in part] == near
        assert [one.key for one in near] == [one.key for one in whole]

    @pytest.mark.parametrize("given", WRONG, ids=[f"wrong {n}" for n in range(len(WRONG))])
    def test_anything_else_is_refused(self, backend: Bed, given: Any) -> None:
        store = backend.store
        for call in (
            lambda: store.memories.search(filter=given),
            lambda: store.memories.search(filter=given, vector=[1]),
            lambda: store.embeddings.search([1], filter=given),
        ):
            with pytest.raises(InvalidValue) as caught:
                call()
            assert caught.value.field.startswith("filter")
