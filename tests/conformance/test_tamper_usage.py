"""Somebody edits what is left of deleted usage: verify finds it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone import Usage
from ledgerstone.clock import ManualClock
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.bed import Bed
from tests.conformance.test_tamper import tamper


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Bed]:
    """A session whose usage and executions were deleted after its second commit."""
    path, clock = str(tmp_path / "store.db"), ManualClock()
    with Bed("sqlite", lambda: open_sqlite(path, clock=clock), clock=clock, url=path) as bed:
        store = bed.store
        store.sessions.create(id="s")
        store.usage.record("s", "m", Usage(5))
        call = store.executions.start("s", call_id="c", tool="t")
        with store.turns.begin("s") as turn:
            turn.use("m", Usage(7))
            turn.execution(call, result=1)
        store.usage.delete("s")
        store.usage.record("s", "m", Usage(9))
        assert store.admin.verify().defects == []
        bed.close()
        yield bed


TAMPERED = {
    "the digest": ("update turns set usage_digest = zeroblob(32) where revision = 1", "link"),
    "no digest": ("update turns set usage_digest = null where revision = 2", "link"),
    "a digest too many": (
        "update turns set usage = null, usage_digest = zeroblob(32) where revision = 3",
        "link",
    ),
    "other usage": (
        """update turns set usage = cast('[{"model":"m","usage":{"input":1}}]' as blob)
           where revision = 1""",
        "link",
    ),
    "what was forgotten": ("delete from documents where name = 'forgotten'", "execution"),
    "until when": (
        """update documents set body = cast('{"revision":1}' as blob) where name = 'forgotten'""",
        "seal",
    ),
    "no number": ("update documents set body = x'7b7d' where name = 'forgotten'", "seal"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_a_change_of_what_is_left_is_found(backend: Bed, name: str) -> None:
    statement, kind = TAMPERED[name]
    assert kind in [defect.kind for defect in tamper(backend, statement)]
