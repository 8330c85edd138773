"""A page costs what it holds, wherever it lies: counted in steps of SQLite's machine, not timed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledgerstone import Store, user
from ledgerstone.engines.sqlite.backend import SqliteBackend

LENGTH = 12_000
CHUNK = 1_000
PAGE = 100
NEAR, FAR = 200, 11_000
SLACK = 1.5


@pytest.fixture(scope="module", params=["straight", "branched"])
def store(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Store]:
    path = tmp_path_factory.mktemp("paging") / "store.db"
    with Store.open(path, durability="process") as store:
        store.sessions.create(id="s")
        for _ in range(LENGTH // CHUNK):
            if request.param == "branched":
                store.messages.append("s", user("to be left"))
                store.messages.pop("s")
            store.messages.append("s", *(user("hello") for _ in range(CHUNK)))
        yield store


def steps_of(store: Store, seq: int, how: str) -> int:
    """How many steps the read of one page takes, on the connection that reads it."""
    backend = store._handle.backend
    assert isinstance(backend, SqliteBackend)
    tx = backend._take_reader()
    backend._give_back(tx)
    steps = 0

    def count() -> bool:
        nonlocal steps
        steps += 1
        return False

    tx.connection.set_progress_handler(count, 1)
    try:
        if how == "range":
            found = store.messages.range("s", seq, seq + PAGE - 1)
        else:
            found = store.messages.history("s", after_seq=seq - 1)[:PAGE]
        assert [one.seq for one in found] == list(range(seq, seq + PAGE))
    finally:
        tx.connection.set_progress_handler(None)
    return steps


def test_a_page_costs_the_same_at_both_ends(store: Store) -> None:
    near, far = steps_of(store, NEAR, "range"), steps_of(store, FAR, "range")
    assert 0 < far < SLACK * near
    assert near < SLACK * far


def test_control_reading_more_takes_more_steps(store: Store) -> None:
    assert steps_of(store, NEAR, "history") > 10 * steps_of(store, NEAR, "range")
