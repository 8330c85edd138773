"""Somebody edits the records and the counts of ended work: verify finds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.bed import Bed
from tests.conformance.test_tamper import tamper


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Bed]:
    """A session of whose work one batch is done and one cancelled."""
    path, clock = str(tmp_path / "store.db"), ManualClock()
    with Bed("sqlite", lambda: open_sqlite(path, clock=clock), clock=clock, url=path) as bed:
        store = bed.store
        store.sessions.create(id="s")
        for n in (1, 2):
            store.work.enqueue("s", n, id=f"w{n}")
        store.work.cancel("s", "w2")
        with store.work.hold() as (lease, claim), store.turns.begin(lease) as turn:
            turn.complete(claim)
        assert store.admin.verify().defects == []
        bed.close()
        yield bed


TAMPERED = {
    "a count": ("update work_sums set done = 2", "count"),
    "no counts": ("delete from work_sums", "count"),
    "no record": ("delete from ended_work where id = 'w1'", "count"),
    "another state": ("update ended_work set state = 'done'", "count"),
    "an unknown state": ("update ended_work set state = 'lost' where id = 'w1'", "work"),
    "another session's": ("update work_sums set number = 77", "work"),
}


@pytest.mark.parametrize("name", TAMPERED)
@pytest.mark.promise(206)
def test_a_change_of_what_ended_is_found(backend: Bed, name: str) -> None:
    statement, kind = TAMPERED[name]
    assert kind in [defect.kind for defect in tamper(backend, statement)]
