"""What lies beside a purged session leaves the disk with it, and deleted usage does too."""

from __future__ import annotations

import errno
import shutil
from base64 import b64encode
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command
from ledgerstone.commands.blobs import ForgetAttachment, RecordIntent
from ledgerstone.commands.evidence import AppendEvidence, LoadEvidence
from ledgerstone.commands.memories import NewMemory, PutMemory
from ledgerstone.commands.sessions import CreateSession, PurgeSession, SweepPurged
from ledgerstone.commands.usage import DeleteUsage, GetStats, ListBudgets, ListUsage, SetBudget
from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.engines.file.engine import FileEngine
from ledgerstone.engines.memory.rows import LastNumbers
from ledgerstone.errors import Corrupt, LedgerstoneError, StorageFull
from ledgerstone.records.sessions import Session
from ledgerstone.records.stats import Budget
from ledgerstone.tables.graph import TURNS
from tests.backends.journals import NEVER, Watching, holders, journal_of, lines
from tests.backends.kept_rows import NOTES, T, beside, call, commit, fill_kept, in_turn
from tests.backends.places import quick_disk

WORD = "please-forget-8f1c0de5"
CLOCK = ManualClock()
LOOSE = PurgeSession(tenant=T, id="loose")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder / "store"


def opened(path: Path, snapshot_lines: int = NEVER) -> FileBackend:
    return open_file(str(path), clock=CLOCK, snapshot_lines=snapshot_lines)


def found(path: Path) -> list[str]:
    encoded = b64encode(b"\x00" + WORD.encode())[4:-4]
    return [*holders(path, WORD.encode()), *holders(path, encoded)]


@pytest.mark.parametrize("session", ["loose", "later", "s"])
def test_a_purge_leaves_nothing(path: Path, session: str) -> None:
    """Whether the session never was, came after what lies beside it, or before."""
    backend = opened(path, 1)
    fill_kept(backend)
    backend.close()
    backend = opened(path, 1)
    beside(backend, session, WORD)
    if session != "loose":
        in_turn(backend, session, "more", WORD)
        call(backend, session, "call", WORD)
    backend.close()
    backend = opened(path, 1)
    assert found(path), "in a snapshot too"
    receipt = backend.write(PurgeSession(tenant=T, id=session))
    assert receipt.existed == (session != "loose")
    assert set(receipt.removed) == {
        "attachments",
        "artifacts",
        "traces",
        "reports",
        "embeddings",
        "budgets",
    }
    assert found(path) == []
    for _ in range(2):
        assert Store(backend, clock=CLOCK).admin.verify().ok
        # Of a session a stub stays, of an id that never was one not even that.
        names = set(holders(path, f'"{session}"'.encode()))
        assert names <= {"snapshot.jsonl", "store.jsonl"} if receipt.existed else not names
        backend.close()
        assert found(path) == []
        backend = opened(path, 1)
    again = backend.write(PurgeSession(tenant=T, id=session))
    assert (again.existed, again.removed) == (False, {})
    backend.close()


@pytest.mark.parametrize("children", ["cascade", "detach"])
def test_a_purge_with_children_leaves_nothing_of_whom_it_took(path: Path, children: Any) -> None:
    with Store(opened(path, 1), clock=CLOCK) as store:
        store.sessions.create(id="top", metadata=WORD)
        store.sessions.create(id="child", parent="top", metadata=WORD)
        store.sessions.create(id="kid", parent="child", metadata=WORD)
        for session in ("top", "child", "kid"):
            store.messages.append(session, user(WORD))
        store.sessions.purge("top", children=children)
    with Store(opened(path, 1), clock=CLOCK) as store:
        left = {one.id: one.parent for one in store.sessions.iter(deleted=True)}
        assert left == ({} if children == "cascade" else {"child": None, "kid": "child"})
        assert bool(found(path)) is (children == "detach")
        assert store.admin.verify().ok
        for session in left:
            store.sessions.purge(session, children="cascade")
        assert found(path) == []


def test_a_purge_removes_what_was_forgotten_before(path: Path) -> None:
    """No row is left of it, but the journal of the store still has its bytes."""
    backend = opened(path)
    intent = RecordIntent(tenant=T, session="never", id="a", uri=f"file:{WORD}")
    for _ in range(2):
        backend.write(intent)
        backend.write(ForgetAttachment(tenant=T, session="never", id="a"))
    assert found(path)
    before = len(lines(path / "store.jsonl"))
    assert backend.write(PurgeSession(tenant=T, id="never")).removed == {}
    assert found(path) == []
    assert before > len(lines(path / "store.jsonl")) == 1
    size = (path / "store.jsonl").stat().st_size
    backend.write(PurgeSession(tenant=T, id="never"))
    assert (path / "store.jsonl").stat().st_size == size, "there is nothing more to do"
    backend.close()
    backend = opened(path)
    assert backend.health().ok
    backend.close()


def test_places_in_the_feed_and_numbers_are_not_given_out_again(path: Path) -> None:
    backend = opened(path)
    for session in ("a", "b"):
        backend.write(CreateSession(tenant=T, session=Session(id=session, tenant=T)))
        backend.write(commit(session, "t", state={"v": 1}))
    beside(backend, "loose")
    backend.write(PurgeSession(tenant=T, id="b"))
    backend.write(PurgeSession(tenant=T, id="loose"))
    before = backend._books.rows.given
    assert before == LastNumbers(2, {TURNS: 2})
    for _ in range(2):
        backend.close()
        backend = opened(path)
        assert backend._books.rows.given == before
    backend.close()


def test_a_purge_beside_a_damaged_journal_takes_nothing_from_it(path: Path) -> None:
    """The store's journal is written anew, and says of the damaged session what it said before."""
    backend = opened(path)
    fill_kept(backend, "marked")
    backend.write(AppendEvidence(tenant=T, session="later", kind="trace", bodies=(b"last",)))
    backend.write(commit("s", "t9", state={"v": 1}))
    copy = path.with_name("copy")
    shutil.copytree(path, copy)
    wanted = backend.read([LoadEvidence(tenant=T, session="later", kind="trace")])
    backend.close()
    file = journal_of(copy, "later")
    whole = file.read_bytes()
    file.write_bytes(whole.replace(b"trace", b"trash", 1))
    assert file.read_bytes() != whole
    backend = opened(copy)
    with pytest.raises(Corrupt, match=file.name):
        backend.read([LoadEvidence(tenant=T, session="later", kind="trace")])
    assert backend.write(PurgeSession(tenant=T, id="loose")).removed
    assert backend.write(PurgeSession(tenant=T, id="s")).existed
    backend.close()
    file.write_bytes(whole)
    backend = opened(copy)
    assert Store(backend, clock=CLOCK).admin.verify().ok
    assert not backend.write(PurgeSession(tenant=T, id="s")).existed
    assert backend.read([LoadEvidence(tenant=T, session="later", kind="trace")]) == wanted
    backend.close()


def test_what_stays_after_a_purge(path: Path) -> None:
    backend = opened(path)
    fill_kept(backend)
    before = backend.stats().counts
    for session in ("loose", "s"):
        backend.write(PurgeSession(tenant=T, id=session))
    while backend.write(SweepPurged(tenant=T, limit=100)):
        pass
    counts = backend.stats().counts
    for table in ("blobs", "uploads", "memories", "spaces"):
        assert counts[table] == before[table], table
    budgets = [one.budget.id for one in backend.read([ListBudgets(tenant=T)])[0]]
    assert budgets == ["budget later ", "tenant", "user"]
    backend.close()
    backend = opened(path)
    assert backend.stats().counts == counts
    backend.close()


def test_deleted_usage_leaves_the_disk(path: Path) -> None:
    backend = opened(path)
    backend.write(CreateSession(tenant=T, session=Session(id="s", tenant=T)))
    in_turn(backend, "s", "t1")
    call(backend, "s", "c1", WORD)
    backend.write(commit("s", "t2", state={"kept": 1}))
    assert found(path)
    assert list(holders(path, b'"cost"')) == ["store.jsonl"], "with the memory of that turn"
    assert journal_of(path, "s").name in found(path)[0]
    gone = backend.write(DeleteUsage(tenant=T, session="s"))
    assert (gone.executions, gone.records) == (1, 1)
    assert found(path) == []
    assert list(holders(path, b'"cost"')) == []
    assert len(lines(journal_of(path, "s"))) == 1
    for _ in range(2):
        stats, used = backend.read(
            [GetStats(tenant=T, session="s"), ListUsage(tenant=T, session="s")]
        )
        assert (stats.calls, stats.tool_calls, stats.turns, used) == (0, 0, 2, [])
        assert Store(backend, clock=CLOCK).admin.verify().ok
        backend.close()
        backend = opened(path)
    backend.close()


def test_a_disk_that_dies_at_every_step_of_a_loose_purge(path: Path) -> None:
    backend = opened(path, 1)
    fill_kept(backend)
    beside(backend, "loose", WORD)
    backend.close()
    outcomes = []
    for limit in range(1, 40):
        copy = path.with_name(f"copy{limit}")
        shutil.copytree(path, copy)
        acked = dies_after(copy, limit)
        backend = opened(copy)
        rest = found(copy)
        assert not (acked and rest), (limit, rest)
        assert Store(backend, clock=CLOCK).admin.verify().ok
        left = backend.write(PurgeSession(tenant=T, id="loose")).removed
        assert bool(left) == bool(rest), limit
        assert found(copy) == []
        backend.close()
        shutil.rmtree(copy)
        outcomes.append(acked)
        if outcomes[-3:] == [True] * 3:
            break
    assert outcomes[0] is False
    assert outcomes[-1] is True


def dies_after(path: Path, limit: int, command: Command[Any] = LOOSE) -> bool:
    """Whether the command was acknowledged by a disk that takes so many calls and then no more."""
    calls = 0
    armed = False

    def fails(name: str, count: int) -> OSError | None:
        nonlocal calls
        calls += armed
        return OSError(errno.EIO, "the disk is gone") if calls >= limit and armed else None

    backend = open_file(str(path), clock=CLOCK, disk=Watching(fails), snapshot_lines=NEVER)
    try:
        armed = True
        with suppress(LedgerstoneError):
            backend.write(command)
            return True
        return False
    finally:
        backend.close()


def used(path: Path) -> FileBackend:
    """A session whose usage counts in a budget, so its rows stand in the store's journal too."""
    backend = opened(path)
    backend.write(CreateSession(tenant=T, session=Session(id="s", tenant=T)))
    backend.write(CreateSession(tenant=T, session=Session(id="other", tenant=T)))
    backend.write(SetBudget(tenant=T, budget=Budget(id="all", scope="tenant", cost_nano=10**9)))
    call(backend, "s", "c1", WORD)
    in_turn(backend, "s", "t1")
    in_turn(backend, "other", "t2")
    in_turn(backend, "s", "t3")
    return backend


def spent(backend: FileBackend) -> int:
    [status] = backend.read([ListBudgets(tenant=T)])[0]
    return int(status.spent_nano)


def test_deleted_usage_that_moves_a_budget_leaves_the_disk(path: Path) -> None:
    """The change set is of two homes: a line of the store, then both journals are written anew."""
    backend = used(path)
    assert spent(backend) == 21
    before = len(lines(path / "store.jsonl"))
    gone = backend.write(DeleteUsage(tenant=T, session="s"))
    assert (gone.executions, gone.records) == (1, 2)
    assert found(path) == []
    assert len(lines(journal_of(path, "s"))) == 1
    assert before > len(lines(path / "store.jsonl"))
    assert b'"erases"' not in (path / "store.jsonl").read_bytes()
    for _ in range(2):
        assert spent(backend) == 7
        lists = [ListUsage(tenant=T, session=id) for id in ("s", "other")]
        assert [len(used) for used in backend.read(lists)] == [0, 1]
        assert Store(backend, clock=CLOCK).admin.verify().ok
        backend.close()
        backend = opened(path)
    backend.close()


def test_a_disk_that_dies_at_every_step_of_deleting_usage(path: Path) -> None:
    """All of it or nothing; what was begun is finished by the next opening."""
    used(path).close()
    outcomes = []
    for limit in range(1, 60):
        copy = path.with_name(f"copy{limit}")
        shutil.copytree(path, copy)
        acked = dies_after(copy, limit, DeleteUsage(tenant=T, session="s"))
        backend = opened(copy)
        rest = found(copy)
        assert not (acked and rest), (limit, rest)
        assert bool(rest) == (spent(backend) == 21), limit
        assert Store(backend, clock=CLOCK).admin.verify().ok
        assert backend.health().warnings == []
        backend.write(DeleteUsage(tenant=T, session="s"))
        assert found(copy) == []
        backend.close()
        shutil.rmtree(copy)
        outcomes.append(acked)
        if outcomes[-3:] == [True] * 3:
            break
    assert outcomes[0] is False
    assert outcomes[-1] is True


def test_control_an_opening_that_finishes_nothing_is_found_out(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At some step the change is on disk and the bytes are still there: somebody has to go on."""
    used(path).close()
    monkeypatch.setattr(FileEngine, "finish_erasing", lambda engine: None)
    left = 0
    for limit in range(1, 20):
        copy = path.with_name(f"copy{limit}")
        shutil.copytree(path, copy)
        dies_after(copy, limit, DeleteUsage(tenant=T, session="s"))
        backend = opened(copy)
        left += spent(backend) == 7 and bool(found(copy))
        backend.close()
    assert left


def test_erasing_that_a_disk_refuses_is_told_and_tried_again(path: Path) -> None:
    used(path).close()
    refuse = False

    def fails(name: str, count: int) -> OSError | None:
        return (
            OSError(errno.ENOSPC, "No space left on device")
            if refuse and name == "create"
            else None
        )

    backend = open_file(str(path), clock=CLOCK, disk=Watching(fails), snapshot_lines=1)
    refuse = True
    with pytest.raises(StorageFull):
        backend.write(DeleteUsage(tenant=T, session="s"))
    assert spent(backend) == 7, "the change itself is on disk"
    assert any("could not be removed" in text for text in backend.health().warnings)
    assert found(path)
    refuse = False
    backend.write(DeleteUsage(tenant=T, session="s"))
    assert found(path) == []
    assert backend.health().warnings == []
    backend.close()
    assert found(path) == []


def test_what_later_lines_replaced_goes_with_a_purge(path: Path) -> None:
    """The store's journal gets no longer than what it still says; the rest of it is as before."""
    backend = opened(path)
    fill_kept(backend)
    for n in range(50):
        new = NewMemory(namespace=NOTES, key="often", value=f'{{"v":"{WORD} {n}"}}'.encode())
        backend.write(PutMemory(tenant=T, memory=new))
    backend.write(PutMemory(tenant=T, memory=NewMemory(namespace=NOTES, key="often", value=b"0")))
    before, given = len(lines(path / "store.jsonl")), backend._books.rows.given
    assert found(path)
    backend.write(PurgeSession(tenant=T, id="loose"))
    assert found(path) == []
    assert len(lines(path / "store.jsonl")) < before - 50
    rows = {table: dict(known) for table, known in backend._books.rows.tables.items()}
    assert Store(backend, clock=CLOCK).admin.verify().ok
    backend.close()
    backend = opened(path)
    assert {table: dict(known) for table, known in backend._books.rows.tables.items()} == rows
    assert backend._books.rows.given == given
    backend.close()
