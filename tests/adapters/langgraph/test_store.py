"""LedgerStore by example: namespaces, time to live, vectors, graphs, and what it refuses."""

from __future__ import annotations

import asyncio
from typing import Any, TypedDict

import pytest
from langchain_core.runnables import RunnableLambda
from langgraph.config import get_store
from langgraph.graph import END, START, StateGraph
from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchOp,
)
from langgraph.store.base.batch import AsyncBatchedBaseStore
from langgraph.store.memory import InMemoryStore
from langgraph.store.sqlite import SqliteStore

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerStore
from ledgerstone.errors import InvalidValue, Misuse, NotSupported
from tests.adapters.conftest import decided_by_the_adapter, opened
from tests.adapters.langgraph.embeddings import DIMS, aembed, embed, index, names


def test_put_get_delete(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store)
    store.put(("users", "1"), "prefs", {"theme": "dark", "n": [1, None, 2.5]})
    item = store.get(("users", "1"), "prefs")
    assert item is not None
    assert (item.namespace, item.key) == (("users", "1"), "prefs")
    assert item.value == {"theme": "dark", "n": [1, None, 2.5]}
    assert item.created_at <= item.updated_at
    store.delete(("users", "1"), "prefs")
    assert store.get(("users", "1"), "prefs") is None
    store.delete(("users", "1"), "prefs")


def test_items_are_memories_of_the_store(adapter_store: Store) -> None:
    LedgerStore(adapter_store).put(("users", "1"), "prefs", {"theme": "dark"})
    memory = adapter_store.memories.get(("langgraph", "users", "1"), "prefs")
    assert memory is not None
    assert memory.value == {"theme": "dark"}
    adapter_store.memories.put(("other",), "k", 1)
    assert LedgerStore(adapter_store).list_namespaces() == [("users", "1")]


def test_namespaces_are_segments(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store)
    spaces = [("a", "b"), ("a-b",), ("ab",), ("a",), ("a", "b", "c"), ("A",), ("a%",), ("a_",)]
    store.batch([PutOp(space, "k", {"n": n}) for n, space in enumerate(spaces)])
    assert len(store.search(())) == len(spaces)
    assert {one.namespace for one in store.search(("a",))} == {("a",), ("a", "b"), ("a", "b", "c")}
    assert {one.namespace for one in store.search(("a", "b"))} == {("a", "b"), ("a", "b", "c")}
    assert names(store.search(("a-b",))) == [(("a-b",), "k")]
    assert store.list_namespaces(prefix=("a",)) == [("a",), ("a", "b"), ("a", "b", "c")]
    assert store.list_namespaces(prefix=("a", "*")) == [("a", "b"), ("a", "b", "c")]
    assert store.list_namespaces(suffix=("b",)) == [("a", "b")]
    assert store.list_namespaces(prefix=("a",), max_depth=2, limit=1, offset=1) == [("a", "b")]


def test_namespaces_beyond_one_page(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store)
    store.batch([PutOp(("u", f"{n:04}", str(n % 2)), "k", {}) for n in range(1100)])
    assert len(store.list_namespaces(prefix=("u", "*", "1"), limit=2000)) == 550
    last = store.list_namespaces(prefix=("*",), suffix=("1",), limit=1, offset=549)
    assert last == [("u", "1099", "1")]
    assert len(store.search(("u",), limit=2000, filter={"x": None})) == 1100


def test_pages_of_a_search_are_all_of_it(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store)
    store.batch([PutOp(("n",), f"{n:02}", {"n": n, "even": n % 2 == 0}) for n in range(25)])
    pages = [store.search(("n",), limit=10, offset=offset) for offset in (0, 10, 20)]
    assert [one.key for page in pages for one in page] == [f"{n:02}" for n in range(25)]
    even = store.search(("n",), filter={"even": True, "n": {"$gt": 4}}, limit=3, offset=1)
    assert [one.value["n"] for one in even] == [8, 10, 12]
    assert store.search(("n",), limit=0) == []


def test_a_batch_reads_what_was_there_before_it(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store)
    store.put(("n",), "old", {"v": 1})
    ops: list[Op] = [
        PutOp(("n",), "old", {"v": 2}),
        PutOp(("n",), "new", {"v": 1}),
        GetOp(("n",), "old"),
        GetOp(("n",), "new"),
        SearchOp(("n",)),
        ListNamespacesOp((MatchCondition("prefix", ("n",)),)),
        PutOp(("n",), "new", {"v": 3}),
        PutOp(("n",), "gone", {"v": 3}),
        PutOp(("n",), "gone", None),
    ]
    _, _, old, new, found, spaces, *_ = store.batch(ops)
    assert old.value == {"v": 1}  # type: ignore[union-attr]
    assert new is None
    assert names(found) == [(("n",), "old")]  # type: ignore[arg-type]
    assert spaces == [("n",)]
    assert {one.key: one.value["v"] for one in store.search(("n",))} == {"old": 2, "new": 3}


ODD: Any = "middle"
HOSTILE = (
    "') OR 1=1 --",
    "$.secret",
    "a'||(select 1)||'",
    "place.city",
    "\\",
    '"',
    "%",
    "__class__",
    "clé",
)


@pytest.mark.parametrize("key", HOSTILE)
def test_a_hostile_filter_key_is_only_a_key(adapter_store: Store, key: str) -> None:
    store = LedgerStore(adapter_store)
    store.put(("n",), "plain", {"secret": 1, "place": {"city": "Oslo"}})
    store.put(("n",), "odd", {key: "x"})
    assert [one.key for one in store.search(("n",), filter={key: "x"})] == ["odd"]
    assert store.search(("n",), filter={key: "Oslo"}) == []
    assert [one.key for one in store.search(("n",), filter={key: {"$ne": "x"}})] == ["plain"]


def test_ranges_of_different_kinds_do_not_hold(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store)
    for key, value in {"number": 5, "text": "5", "none": None, "list": [5], "yes": True}.items():
        store.put(("n",), key, {"v": value})
    assert [one.key for one in store.search(("n",), filter={"v": {"$gt": 0}})] == ["number"]
    assert [one.key for one in store.search(("n",), filter={"v": {"$gte": "5"}})] == ["text"]
    assert [one.key for one in store.search(("n",), filter={"v": 1})] == []
    assert [one.key for one in store.search(("n",), filter={"v": None})] == ["none"]


@pytest.mark.parametrize("label", ["a.b", ".", "", "a\0b", 1, None])
def test_labels_are_refused_as_langgraphs_own_stores_do(adapter_store: Store, label: Any) -> None:
    store = LedgerStore(adapter_store)
    space: Any = ("n", label)
    ops: list[Op] = [
        PutOp(space, "k", {}),
        PutOp(space, "k", None),
        GetOp(space, "k"),
        SearchOp(space),
        ListNamespacesOp((MatchCondition("prefix", space),)),
    ]
    with SqliteStore.from_conn_string(":memory:") as stock:
        stock.setup()
        for op in ops:
            for one in (stock, store):
                with pytest.raises(InvalidNamespaceError):
                    one.batch([PutOp(("n",), "good", {}), op])
    assert store.search(()) == []


INFINITE = float("inf")
BOUNDS = [INFINITE, -INFINITE, float("nan")]


@pytest.mark.parametrize("bound", BOUNDS)
@pytest.mark.parametrize("operator", ["$gt", "$gte", "$lt", "$lte", "$eq", "$ne", None])
def test_filters_may_name_infinity(
    adapter_store: Store, bound: float, operator: str | None
) -> None:
    stores = (LedgerStore(adapter_store), InMemoryStore())
    where = {"v": bound if operator is None else {operator: bound}}
    found = []
    for store in stores:
        for n, value in enumerate((-1, 0, 2.5, 1 << 60)):
            store.put(("n",), str(n), {"v": value})
        found.append(names(store.search(("n",), filter=where)))
    assert found[0] == found[1]


@decided_by_the_adapter
@pytest.mark.parametrize(
    ("op", "field"),
    [
        (PutOp(("n",), "k", {"a": [1, {"b": object()}]}), "value.a[1].b"),
        (PutOp(("n",), "k", {"a": float("nan")}), "value.a"),
        (PutOp(("n",), "k", {1: "a"}), "value"),  # type: ignore[dict-item]
        (PutOp(("n",), "k", [1]), "value"),  # type: ignore[arg-type]
        (PutOp((), "k", {}), "namespace"),
        (PutOp(("n", ""), "k", {}), "namespace[1]"),
        (PutOp(("n", 1), "k", {}), "namespace[1]"),  # type: ignore[arg-type]
        (PutOp("n", "k", {}), "namespace"),  # type: ignore[arg-type]
        (PutOp(("n",) * 15, "k", {}), "namespace"),
        (PutOp(("n",), "", {}), "key"),
        (PutOp(("n",), "k", {}, None, -1), "ttl"),
        (PutOp(("n\x1f",), "k", {}), "namespace[0]"),
        (SearchOp(("n",), {"a": {"$regex": "x"}}), "filter.a"),
        (SearchOp(("n",), {"a": {"$gt": 1, "b": 2}}), "filter.a"),
        (SearchOp(("n",), {"a": object()}), "filter.a"),
        (SearchOp(("n",), [1]), "filter"),  # type: ignore[arg-type]
        (SearchOp(("n",), None, -1), "limit"),
        (ListNamespacesOp((MatchCondition(ODD, ("a",)),)), "match_conditions.match_type"),
    ],
)
def test_what_cannot_be_is_named_and_not_stored(adapter_store: Store, op: Op, field: str) -> None:
    store = LedgerStore(adapter_store)
    with pytest.raises(InvalidValue) as caught:
        store.batch([op])
    assert caught.value.field == field
    with pytest.raises(InvalidValue):
        store.batch([PutOp(("n",), "good", {}), op])
    assert store.search(()) == []


def test_tenants_do_not_meet(adapter_store: Store) -> None:
    red, blue = (LedgerStore(adapter_store.for_tenant(one), index=index()) for one in "rb")
    red.put(("n",), "k", {"text": "apple"})
    assert blue.get(("n",), "k") is None
    assert blue.search((), query="apple") == []
    assert blue.list_namespaces() == []


def test_two_roots_do_not_meet(adapter_store: Store) -> None:
    one, two = LedgerStore(adapter_store), LedgerStore(adapter_store, root="other")
    one.put(("n",), "k", {})
    assert two.search(()) == []


def test_near_first_by_the_nearest_field(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store, index=index("title", "tags[*]"))
    store.put(("d",), "one", {"title": "zzzz", "tags": ["abc", "ggg"]})
    store.put(("d",), "two", {"title": "abd", "tags": []})
    store.put(("d", "e"), "three", {"title": "hhhh", "tags": ["yyy"]})
    store.put(("d",), "bare", {"other": 1})
    store.put(("d",), "hidden", {"title": "abc"}, index=False)
    store.put(("d",), "chosen", {"title": "zzz", "note": "abc"}, index=["note"])
    found = store.search(("d",), query="abc")
    assert {one.key for one in found[:2]} == {"one", "chosen"}
    assert [one.score for one in found[:2]] == pytest.approx([1.0, 1.0])
    assert {one.key for one in found[-2:]} == {"bare", "hidden"}
    assert [one.score for one in found[-2:]] == [None, None]
    assert len({one.key for one in found}) == len(found) == 6
    assert [one.key for one in store.search(("d", "e"), query="abc")] == ["three"]
    page = [store.search(("d",), query="abc", limit=1, offset=n)[0].key for n in range(6)]
    assert sorted(page) == sorted(one.key for one in found)
    assert [one.key for one in store.search(("d",), query="abc", filter={"note": "abc"})] == [
        "chosen"
    ]


def test_what_an_item_no_longer_says_does_not_find_it(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store, index=index("tags[*]"))
    store.put(("d",), "k", {"tags": ["aaa", "bbb", "ccc"]})
    store.put(("d",), "k", {"tags": ["ddd"]})
    [found] = store.search(("d",), query="aaa")
    assert found.score == pytest.approx(0.0)
    store.put(("d",), "k", {"tags": ["aaa"]}, index=False)
    assert [one.score for one in store.search(("d",), query="aaa")] == [None]
    store.delete(("d",), "k")
    assert store.search(("d",), query="aaa") == []
    assert list(adapter_store.memories.iter(("langgraph#vectors",))) == []


def test_a_vector_that_was_left_behind_is_not_believed(adapter_store: Store) -> None:
    """As when two writers of one key overtake each other."""
    store = LedgerStore(adapter_store, index=index("text"))
    store.put(("d",), "k", {"text": "aaa"})
    LedgerStore(adapter_store).put(("d",), "k", {"text": "bbb"})
    assert [one.score for one in store.search(("d",), query="aaa")] == [None]


def test_a_key_that_looks_like_a_namespace(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store, index=index())
    store.put(("a",), "b", {"text": "x"})
    store.put(("a", "b"), "c", {"text": "y"})
    assert names(store.search(("a", "b"), query="x")) == [(("a", "b"), "c")]
    store.delete(("a",), "b")
    assert [one.score is None for one in store.search(("a",), query="y")] == [False]


def test_a_wrong_index_is_told(adapter_store: Store) -> None:
    with pytest.raises(InvalidValue, match=r"index\.dims"):
        LedgerStore(adapter_store, index={"dims": 0, "embed": embed})
    with pytest.raises(InvalidValue, match=r"index\.embed"):
        LedgerStore(adapter_store, index={"dims": DIMS})
    wrong = LedgerStore(adapter_store, index={"dims": DIMS + 1, "embed": embed})
    with pytest.raises(InvalidValue, match=r"index\.dims"):
        wrong.put(("n",), "k", {"text": "x"})
    short = LedgerStore(adapter_store, index={"dims": DIMS, "embed": lambda texts: []})
    with pytest.raises(InvalidValue, match="0 vectors for 1 texts"):
        short.put(("n",), "k", {"text": "x"})
    assert wrong.search(()) == []
    for kind in ("l2", "inner_product"):
        asked: Any = {"dims": DIMS, "embed": embed, "distance_type": kind}
        with pytest.raises(NotSupported, match=f"distance_type '{kind}'"):
            LedgerStore(adapter_store, index=asked)
    same: Any = {"dims": DIMS, "embed": embed, "distance_type": "cosine"}
    assert LedgerStore(adapter_store, index=same).search((), query="x") == []


class State(TypedDict):
    user: str
    seen: list[str]


def graph(store: LedgerStore) -> Any:
    """A node that remembers and recalls."""

    def remember(state: State) -> dict[str, Any]:
        place = get_store()
        place.put((state["user"], "likes"), "tea", {"text": "green tea"})
        return {"seen": [one.value["text"] for one in place.search((state["user"],))]}

    async def aremember(state: State) -> dict[str, Any]:
        place = get_store()
        await place.aput((state["user"], "likes"), "milk", {"text": "milk"})
        return {"seen": [one.value["text"] for one in await place.asearch((state["user"],))]}

    builder = StateGraph(State)
    builder.add_node("remember", RunnableLambda(remember, afunc=aremember))
    builder.add_edge(START, "remember")
    builder.add_edge("remember", END)
    return builder.compile(store=store)


def test_a_graph_remembers(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store)
    assert graph(store).invoke({"user": "ada", "seen": []})["seen"] == ["green tea"]
    assert store.get(("ada", "likes"), "tea") is not None


def test_an_async_graph_remembers(store_url: str, colour: str) -> None:
    async def main() -> None:
        async with opened(store_url, colour) as store:
            ours = LedgerStore(store, index={"dims": DIMS, "embed": aembed})
            done = await graph(ours).ainvoke({"user": "ada", "seen": []})
            assert done["seen"] == ["milk"]
            [found] = await ours.asearch((), query="milk")
            assert found.score is not None
            assert await ours.asweep_ttl() == 0
            if colour == "async":
                with pytest.raises(Misuse):
                    ours.get(("ada", "likes"), "milk")
                item = await asyncio.to_thread(ours.get, ("ada", "likes"), "milk")
                assert item is not None

    asyncio.run(main())


class Batched(AsyncBatchedBaseStore):
    """Calls of one tick as one batch, as LangGraph's own async stores do it."""

    def __init__(self, store: LedgerStore) -> None:
        super().__init__()
        self.store = store
        self.sizes: list[int] = []

    async def abatch(self, ops: Any) -> list[Result]:
        given = list(ops)
        self.sizes.append(len(given))
        return await self.store.abatch(given)


def test_batched_calls(store_url: str, colour: str) -> None:
    async def main() -> None:
        async with opened(store_url, colour) as store:
            batched = Batched(LedgerStore(store))
            await asyncio.gather(*(batched.aput(("n",), f"k{n}", {"n": n}) for n in range(20)))
            found = await asyncio.gather(*(batched.aget(("n",), f"k{n}") for n in range(20)))
            assert [one.value["n"] for one in found if one] == list(range(20))
            assert max(batched.sizes) == 20

    asyncio.run(main())


def test_it_needs_a_store_of_one_tenant() -> None:
    with pytest.raises(InvalidValue):
        LedgerStore("agent.db")  # type: ignore[arg-type]
    with Store.open("memory://", tenant=None) as root, pytest.raises(Misuse):
        LedgerStore(root).search(())
