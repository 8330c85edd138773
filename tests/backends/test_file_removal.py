"""What is purged or vacuumed leaves the disk: no file in the directory holds its bytes any more."""

from __future__ import annotations

import errno
import shutil
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from ledgerstone import Node, Opaque, Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.engines.file.backend import open_file
from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.runs import Run
from tests.backends.journals import NEVER, Watching, bed, fill, holders, journal_of, journals, lines
from tests.backends.places import quick_disk

SECRET = "please forget 8f1c0de5"
BINARY = b"\x00\xff" + SECRET.encode()
ENCODED = b64encode(BINARY)[:-8]


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder / "store"


def tell(store: Store) -> None:
    """A session that says its secret in every way there is, and neighbours that do not."""
    fill(store)
    store.attachments.intent("x", f"early {SECRET}", f"file:{SECRET}")
    store.messages.append("x", user(SECRET, id="m", metadata={"k": SECRET}), create=True)
    store.messages.append("x", user("kept", id="kept"))
    store.messages.amend("m", session="x", parts=SECRET + "!")
    store.nodes.append("x", Node(id="o", kind="blob", body=Opaque("bin", BINARY)))
    store.attachments.intent("x", f"late {SECRET}", f"file:{SECRET}")
    store.attachments.forget("x", f"early {SECRET}")


def say_more(store: Store) -> None:
    store.nodes.annotate("x", "m", {"note": SECRET})
    store.runs.create("x", id=f"run {SECRET}")
    store.work.enqueue("x", {"job": SECRET})
    store.sessions.update("x", title=SECRET)
    with store.turns.begin("x") as turn:
        turn.user("value", id="v")
        turn.node("kept", {"v": 1}, id="w", values=[turn.value(SECRET.encode())])
        turn.state(secret=SECRET)


def found(path: Path) -> list[str]:
    return [*holders(path, SECRET.encode()), *holders(path, ENCODED)]


def test_a_purge_leaves_nothing(path: Path) -> None:
    with bed(path, snapshot_lines=1) as backend:
        tell(backend.store)
        say_more(backend.store)
        backend.reopen()  # Now a snapshot has it too.
        file = journal_of(path, "x")
        file.with_name(file.name + ".torn").write_text(SECRET)
        assert {file.name, "snapshot.jsonl", "store.jsonl"} <= {Path(n).name for n in found(path)}
        assert backend.store.sessions.purge("x").existed
        assert found(path) == []
        assert not file.exists()
        assert backend.store.admin.verify().ok
        assert backend.texts("s")
        backend.reopen()
        assert backend.store.sessions.get("x") is None
        assert backend.store.attachments.get("nobody yet", "a0") is not None
        assert backend.store.sessions.purge("gone", retire=True).retired
        assert backend.store.sessions.create(id="x").incarnation == 2
        assert backend.reopen().admin.verify().ok
    assert found(path) == []


def test_runs_that_are_kept_outlive_their_session(path: Path) -> None:
    with bed(path, snapshot_lines=2) as backend:
        fill(backend.store)
        run = Run(id=f"run {SECRET}", session="s", details={"said": SECRET})
        backend.store.runs.put(run)
        assert backend.store.sessions.purge("s", keep_runs=True).existed
        for _ in range(2):
            kept = backend.store.runs.get(run.id)
            assert kept is not None
            assert kept.details == {"said": SECRET}
            assert backend.store.runs.get("r1") is not None
            backend.reopen()
        assert found(path) != []
        # The id is used again, and its run is taken over; then both go for good.
        backend.store.messages.append("s", user("again"), create=True)
        backend.store.runs.put(run)
        backend.reopen()
        assert backend.store.runs.latest("s") is not None
        backend.store.sessions.purge("s")
        assert backend.store.runs.get(f"run {SECRET}") is None
        assert found(path) == []
        assert backend.reopen().runs.get(f"run {SECRET}") is None
        assert backend.store.runs.get("r1") is not None
        assert backend.store.admin.verify().ok


def test_a_vacuum_leaves_nothing_of_what_was_hidden(path: Path) -> None:
    with bed(path, snapshot_lines=1) as backend:
        tell(backend.store)
        backend.store.attachments.forget("x", f"late {SECRET}")
        backend.reopen()
        file = journal_of(path, "x")
        file.with_name(file.name + ".torn").write_text(SECRET)
        backend.store.nodes.tombstone("x", ["m", "o"])
        vacuumed = backend.store.admin.vacuum("x")
        assert vacuumed.nodes == 2
        assert found(path) == []
        assert len(lines(file)) == 1
        for _ in range(2):
            assert backend.texts("x") == ["kept"]
            assert backend.store.admin.verify().ok
            assert backend.store.attachments.get("x", f"early {SECRET}") is None
            backend.store.messages.append("x", user("more"))
            backend.store.messages.pop("x")
            backend.reopen()
        assert len(lines(file)) > 1


def test_a_vacuum_of_one_does_not_touch_the_others(path: Path) -> None:
    with bed(path) as backend:
        tell(backend.store)
        backend.store.nodes.tombstone("x", ["m"])
        before = {file: file.read_bytes() for file in journals(path)}
        backend.store.admin.vacuum("x")
        changed = {file.name for file in journals(path) if file.read_bytes() != before[file]}
    # It has loose rows from before there was a session, in the store's own journal.
    assert changed == {journal_of(path, "x").name, "store.jsonl"}


# --- a crash at every step


Work = Callable[[Store], object]


def purge(store: Store) -> object:
    return store.sessions.purge("x")


def vacuum(store: Store) -> object:
    return store.admin.vacuum("x")


@pytest.mark.parametrize("work", [purge, vacuum])
def test_a_disk_that_dies_at_every_step(path: Path, work: Work) -> None:
    """All of it or nothing, and once it was acknowledged no opening brings a byte back."""
    with bed(path, snapshot_lines=1) as backend:
        tell(backend.store)
        backend.store.attachments.forget("x", f"late {SECRET}")
        backend.store.nodes.tombstone("x", ["m", "o"])
    outcomes = []
    for limit in range(1, 60):
        copy = path.with_name(f"copy{limit}")
        shutil.copytree(path, copy)
        acked = dies_after(copy, work, limit)
        with bed(copy) as backend:
            left = backend.store.sessions.get("x")
            assert backend.store.admin.verify().ok
            assert backend.texts("s")
            rest = [name for name in found(copy) if work is purge or name != "store.jsonl"]
            done = left is None if work is purge else rest == []
            assert done or not acked
            assert done == (rest == []), (limit, rest)
            if left is not None:
                assert backend.texts("x") == ["kept"]
            work(backend.store)
            assert [name for name in found(copy) if work is purge or name != "store.jsonl"] == []
        outcomes.append(acked)
        shutil.rmtree(copy)
        if acked and outcomes[-3:] == [True] * 3:
            break
    assert outcomes[0] is False
    assert outcomes[-1] is True
    print(f"{outcomes.count(False)} steps before the answer")


def dies_after(path: Path, work: Work, limit: int) -> bool:
    """Whether the work was acknowledged by a disk that takes so many calls and then no more."""
    calls = 0
    armed = False

    def fails(name: str, count: int) -> OSError | None:
        nonlocal calls
        calls += armed
        return OSError(errno.EIO, "the disk is gone") if calls >= limit and armed else None

    backend = open_file(str(path), clock=ManualClock(), disk=Watching(fails), snapshot_lines=NEVER)
    try:
        armed = True
        with suppress(LedgerstoneError):
            work(Store(backend, clock=ManualClock()))
            return True
        return False
    finally:
        backend.close()
