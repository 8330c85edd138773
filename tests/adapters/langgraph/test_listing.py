"""Lists of checkpoints: how much is read for them."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerSaver
from tests.adapters.langgraph.graphs import thread
from tests.adapters.langgraph.puts import put


@pytest.fixture
def reads(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Grows with every read of the store."""
    found: list[int] = []
    read = adapter_store.read

    def counted(*queries: Any) -> Any:
        found.append(len(queries))
        return read(*queries)

    monkeypatch.setattr(adapter_store, "read", counted)
    return found


def test_looking_for_one_of_many_reads_pages(adapter_store: Store, reads: list[int]) -> None:
    saver = LedgerSaver(adapter_store)
    made = [put(saver, thread("t"), {"x": n}, step=n) for n in range(60)]
    reads.clear()
    [found] = saver.list(thread("t"), filter={"step": 0}, limit=1)
    assert found.config == made[0]
    [found] = saver.list(made[0], limit=1)
    assert found.config == made[0]
    assert len(reads) <= 8  # Two pages each, and where the session stood at each of them.
    reads.clear()
    assert [one.config for one in saver.list(thread("t"), limit=2)] == made[:-3:-1]
    assert len(reads) == 2


def test_metadata_that_json_cannot_say_is_found(adapter_store: Store) -> None:
    saver = LedgerSaver(adapter_store)
    bounds = (float("inf"), float("-inf"), 1.0)
    made = {bound: put(saver, thread("t"), {"x": 1}, bound=bound) for bound in bounds}
    for bound, config in made.items():
        assert [one.config for one in saver.list(None, filter={"bound": bound})] == [config]
    assert list(saver.list(None, filter={"bound": float("nan")})) == []
