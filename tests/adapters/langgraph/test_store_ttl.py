"""LedgerStore and time: items end, reading keeps them alive, a sweep removes what has ended."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerStore
from ledgerstone.clock import ManualClock
from tests.adapters.langgraph.embeddings import index

MINUTE = 60


@pytest.fixture(params=("memory", "sqlite"))
def movable_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Stores whose time can be moved; a server has its own."""
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'store.db'}"


def test_items_end(movable_url: str) -> None:
    clock = ManualClock(time.time_ns() // 1000)
    with Store.open(movable_url, clock=clock) as opened_store:
        store = LedgerStore(
            opened_store,
            index=index("text"),
            ttl={"default_ttl": 10, "refresh_on_read": False, "omit_expired": True},
        )
        store.put(("n",), "default", {"text": "a"})
        store.put(("n",), "short", {"text": "b"}, ttl=1)
        store.put(("n",), "ever", {"text": "c"}, ttl=None)
        clock.advance(2 * MINUTE)
        assert {one.key for one in store.search(("n",))} == {"default", "ever"}
        clock.advance(9 * MINUTE)
        assert store.get(("n",), "default") is None
        assert [one.key for one in store.search((), query="a")] == ["ever"]
        assert store.sweep_ttl() == 4
        assert store.sweep_ttl() == 0
        assert store.list_namespaces() == [("n",)]


@pytest.mark.parametrize("way", ["get", "search", "query"])
def test_reading_begins_the_time_anew(movable_url: str, way: str) -> None:
    # Behind the machine's: whatever has a time to live is due for it.
    clock = ManualClock(time.time_ns() // 1000 - 86_400 * 1_000_000)
    with Store.open(movable_url, clock=clock) as opened_store:
        store = LedgerStore(opened_store, index=index("text"), ttl={"default_ttl": 10})
        store.put(("n",), "read", {"text": "abc"})
        store.put(("n",), "unread", {"text": "abc"})
        clock.advance(6 * MINUTE)
        reads: dict[str, Callable[[], object]] = {
            "get": lambda: store.get(("n",), "read"),
            "search": lambda: store.search(("n",), limit=1),
            "query": lambda: store.search(("n",), query="abc", filter={"text": "abc"}, limit=1),
        }
        reads[way]()
        store.get(("n",), "unread", refresh_ttl=False)
        clock.advance(6 * MINUTE)
        assert [one.key for one in store.search((), query="abc", refresh_ttl=False)] == ["read"]
        [found] = store.search((), query="abc", refresh_ttl=False)
        assert found.score == pytest.approx(1.0)


def test_reading_something_fresh_writes_nothing(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store, ttl={"default_ttl": 10})
    store.put(("n",), "k", {})
    before = adapter_store.memories.get(("langgraph", "n"), "k")
    store.get(("n",), "k")
    assert adapter_store.memories.get(("langgraph", "n"), "k") == before


def test_the_sweeper_starts_and_stops(adapter_store: Store) -> None:
    store = LedgerStore(adapter_store, ttl={"sweep_interval_minutes": 1})
    assert store.stop_ttl_sweeper() is True
    store.put(("n",), "k", {}, ttl=0.0005)
    done = store.start_ttl_sweeper(0.0005)
    assert store.start_ttl_sweeper().done()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and adapter_store.memories.sweep() == 0:
        if store.get(("n",), "k", refresh_ttl=False) is None:
            break
        time.sleep(0.02)
    assert store.stop_ttl_sweeper(timeout=20) is True
    assert done.done()
