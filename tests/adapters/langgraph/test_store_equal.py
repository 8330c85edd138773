"""Random programs answer as LangGraph's own InMemoryStore does, wherever that is right."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore

from ledgerstone import Store, ids
from ledgerstone.adapters.langgraph import LedgerStore
from tests.adapters.conftest import opened
from tests.adapters.langgraph.embeddings import index

# A store's own threads may draw random numbers while a program is being made up.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Do not use the `random` module:hypothesis.errors.HypothesisDeprecationWarning"
)

ALL = 1000
SPACES = (("a",), ("a", "b"), ("a-b",), ("ab",), ("a", "b", "c"), ("b",), ("%", "_"))
KEYS = ("k", "l", "a.b")
FILTERS: tuple[dict[str, Any] | None, ...] = (
    None,
    {"kind": "note"},
    {"n": {"$gte": 2}},
    {"n": {"$gt": 0, "$lt": 3}},
    {"n": {"$lte": 1}},
    {"n": {"$ne": 1}},
    {"kind": {"$eq": "fact"}},
    {"place": {"city": "Oslo"}},
    {"place": {"city": {"$ne": "Oslo"}}},
    {"list": [1, {"x": 2}]},
    {"absent": None},
    {"absent": "x"},
    {"place.city": "Oslo"},
    {"') OR 1=1 --": "x"},
    {"$.kind": "note"},
    {"kind": "note", "n": {"$gte": 1}},
)

spaces = st.sampled_from(SPACES)
keys = st.sampled_from(KEYS)
values = st.fixed_dictionaries(
    {"kind": st.sampled_from(("note", "fact")), "n": st.integers(0, 3)},
    optional={
        "place": st.fixed_dictionaries(
            {"city": st.sampled_from(("Oslo", "Bergen"))}, optional={"zip": st.integers(0, 9)}
        ),
        "list": st.just([1, {"x": 2}]),
        "place.city": st.just("Oslo"),
        "nothing": st.none(),
    },
)
paths = st.lists(st.sampled_from(("a", "b", "c", "*", "a-b")), max_size=3).map(tuple)


def condition(given: Any) -> MatchCondition:
    return MatchCondition(*given)


conditions = st.lists(
    st.tuples(st.sampled_from(("prefix", "suffix")), paths).map(condition),
    max_size=2,
)
prefixes = st.one_of(st.just(()), spaces, st.just(("a", "x")))
depths = st.one_of(st.none(), st.integers(1, 3))
# By hand: what hypothesis would guess for the other fields is not asked here.
operations = st.one_of(
    st.tuples(spaces, keys, values).map(lambda one: PutOp(*one)),
    st.tuples(spaces, keys, st.none()).map(lambda one: PutOp(*one)),
    st.tuples(spaces, keys).map(lambda one: GetOp(*one)),
    st.tuples(prefixes, st.sampled_from(FILTERS)).map(lambda one: SearchOp(*one, limit=ALL)),
    st.tuples(conditions.map(tuple), depths, st.sampled_from((1, 2, ALL)), st.integers(0, 2)).map(
        lambda one: ListNamespacesOp(*one)
    ),
)
programs = st.lists(st.lists(operations, max_size=5), max_size=8)
often = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


class Sample(InMemoryStore):
    """InMemoryStore, except that a namespace which nothing is in any more is not there."""

    def tidy(self) -> None:
        for space in [space for space, held in self._data.items() if not held]:
            del self._data[space]


def plain(op: Op, result: Any) -> Any:
    """An answer without its times; search results in one order."""
    if isinstance(op, SearchOp):
        return sorted(
            (one.namespace, one.key, json.dumps(one.value, sort_keys=True), one.score)
            for one in result
        )
    if isinstance(op, GetOp):
        return None if result is None else (result.namespace, result.key, result.value)
    return result


def compared(sample: Sample, batch: list[Op]) -> list[Any]:
    sample.tidy()
    if any(isinstance(one, GetOp) for one in batch):
        # Reading an item makes its namespace there; list before that.
        listed = {n: sample.batch([op])[0] for n, op in enumerate(batch) if _lists(op)}
    else:
        listed = {}
    results = sample.batch(batch)
    pairs = enumerate(zip(batch, results, strict=True))
    return [listed.get(n, plain(op, one)) for n, (op, one) in pairs]


def _lists(op: Op) -> bool:
    return isinstance(op, ListNamespacesOp)


@often
@given(program=programs)
def test_batches_answer_as_in_memory(adapter_store: Store, program: list[list[Op]]) -> None:
    ours = LedgerStore(adapter_store.for_tenant(ids.new_id()))
    sample = Sample()
    for batch in program:
        expected = compared(sample, batch)
        got = [plain(op, one) for op, one in zip(batch, ours.batch(batch), strict=True)]
        assert got == expected


@often
@given(program=programs)
def test_async_batches_answer_as_in_memory(
    store_url: str, colour: str, program: list[list[Op]]
) -> None:
    async def main() -> None:
        async with opened(store_url, colour) as store:
            ours = LedgerStore(store.for_tenant(ids.new_id()))
            sample = Sample()
            for batch in program:
                expected = compared(sample, batch)
                found = await ours.abatch(batch)
                assert [plain(op, one) for op, one in zip(batch, found, strict=True)] == expected

    asyncio.run(main())


words = st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=4).map("".join)
stored = st.lists(st.tuples(spaces, keys, words, words, st.booleans()), max_size=12)


@often
@given(items=stored, query=words, limit=st.integers(1, 6), prefix=spaces)
def test_the_nearest_are_as_in_memory(
    adapter_store: Store,
    items: list[tuple[Any, ...]],
    query: str,
    limit: int,
    prefix: tuple[str, ...],
) -> None:
    ours = LedgerStore(adapter_store.for_tenant(ids.new_id()), index=index("text", "more"))
    sample = InMemoryStore(index=index("text", "more"))
    for n, (space, key, text, more, indexed) in enumerate(items):
        # No text twice, no vector outlived by its field: the sample fails on the first and
        # keeps the second.
        value = {"text": f"{text}{n}", "more": f"{more}{n}x"}
        for store in (ours, sample):
            store.batch([PutOp(space, key, None)])
            store.batch([PutOp(space, key, value, None if indexed else False)])
    for count in (limit, ALL):
        op = SearchOp(prefix, None, count, 0, query)
        mine: Any = ours.batch([op])[0]
        theirs: Any = sample.batch([op])[0]
        expected = [one.score for one in theirs]
        assert [one.score for one in mine] == pytest.approx(expected, abs=1e-6)
    assert plain_names(mine) == plain_names(theirs)


def plain_names(found: Any) -> list[tuple[Any, ...]]:
    return sorted((one.namespace, one.key) for one in found)
