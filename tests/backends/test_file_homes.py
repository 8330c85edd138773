"""Which journal a change set goes to: one line, of the session or of the store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone import Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.commands.sessions import CreateSession, DeleteSession, PurgeSession
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.usage import DeleteUsage, ListBudgets, SetBudget
from ledgerstone.commands.work import EnqueueWork, ListWork, NewBatch, TakeWork
from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.engines.file.homes import (
    NOBODY,
    OF_SESSIONS,
    SHARED,
    Home,
    Numbers,
    home_of,
)
from ledgerstone.engines.memory.rows import Change, MemoryRows
from ledgerstone.errors import Corrupt, SessionDeleted, SessionNotFound
from ledgerstone.records.sessions import Session
from ledgerstone.records.stats import Budget
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.records.work import Batch
from ledgerstone.rules.chain import turn_hash
from ledgerstone.tables.blobs import ARTIFACTS, ATTACHMENTS, ArtifactRow, AttachmentRow
from ledgerstone.tables.evidence import EVIDENCE, EvidenceRow
from ledgerstone.tables.graph import BRANCHES, BranchRow
from ledgerstone.tables.memories import EMBEDDINGS, EmbeddingRow
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.sessions import PURGED, SESSIONS, STUBS, SessionRow, StubRow
from ledgerstone.tables.usage import BUDGETS, BudgetRow
from tests.backends.journals import journal_of, lines
from tests.backends.places import quick_disk

T = "default"
CLOCK = ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder / "store"


def opened(path: Path) -> FileBackend:
    return open_file(str(path), clock=CLOCK)


def started(path: Path) -> FileBackend:
    backend = opened(path)
    for session in ("parent", "child"):
        backend.write(CreateSession(tenant=T, session=Session(id=session, tenant=T)))
    return backend


def batch(to: str, id: str = "b1", **fields: Any) -> NewBatch:
    return NewBatch(session=to, id=id, payloads=b'["x"]', **fields)


def commit(turn: str, *batches: NewBatch) -> CommitTurn:
    command = CommitTurn(
        tenant=T, session="child", turn=turn, kind="turn", state={"t": turn}, enqueue=batches
    )
    return replace(command, hash=turn_hash(command))


def queued(backend: FileBackend, session: str) -> list[str]:
    found: list[Batch] = backend.read([ListWork(tenant=T, session=session)])[0]
    return [one.id for one in found]


# --- rows


def test_every_table_has_its_place() -> None:
    """A table that nobody writes down would be lost at the next opening."""
    assert {*OF_SESSIONS, *SHARED, PURGED} == set(TABLES)
    assert len(OF_SESSIONS) + len(SHARED) + 1 == len(TABLES)


def session(number: int, id: str) -> SessionRow:
    blank: dict[str, Any] = dict.fromkeys(SESSIONS.columns)
    return SessionRow(**{**blank, "number": number, "tenant": T, "id": id})


def artifact(scope: str) -> ArtifactRow:
    return ArtifactRow(T, "a", scope, "n", 1, 1, "u", "r", 1, 1, b"{}")


def test_loose_rows_belong_to_their_session_if_there_is_one() -> None:
    rows: list[tuple[Any, Any]] = [
        (ATTACHMENTS, AttachmentRow(T, "s", "a", "u", 1)),
        (ARTIFACTS, artifact("s:s")),
        (EVIDENCE, EvidenceRow(T, "s", "trace", 1, 1, b"")),
    ]
    none = MemoryRows()
    assert {home_of(*row, Numbers(none)) for row in rows} == {Home(0, "s")}
    made = [Change(SESSIONS, (7,), session(7, "s"))]
    assert {home_of(*row, Numbers(none, made)) for row in rows} == {Home(7)}
    none.place(made)
    assert {home_of(*row, Numbers(none)) for row in rows} == {Home(7)}
    for scope in ("u:s", "t:", "s:t"):
        expected = Home(0, "t") if scope == "s:t" else NOBODY
        assert home_of(ARTIFACTS, artifact(scope), Numbers(none)) == expected


def test_vectors_and_budgets_of_a_session_are_no_rows_of_its_journal() -> None:
    rows = MemoryRows()
    rows.place([Change(SESSIONS, (7,), session(7, "s"))])
    numbers = Numbers(rows)
    vector = EmbeddingRow(T, "k", "e", "m", 1, "s", "n", None, 1, b"")
    budget = BudgetRow(T, "session", "s", "b", b"{}", 0, 0, 0)
    for table, row in ((EMBEDDINGS, vector), (BUDGETS, budget)):
        assert home_of(table, row, numbers) == Home(0, "s")
    assert home_of(EMBEDDINGS, replace(vector, session=None), numbers) == NOBODY
    assert home_of(BUDGETS, replace(budget, scope="user"), numbers) == NOBODY
    assert home_of(STUBS, StubRow(T, "s", 1, 1, b"", 0), numbers) == NOBODY
    assert home_of(BRANCHES, BranchRow(7, "b", 1), numbers) == Home(7)


# --- lines


def test_work_for_another_session_is_one_line_of_the_store(path: Path) -> None:
    backend = started(path)
    assert backend.capabilities.shared_commit
    backend.write(commit("t1", batch("parent"), batch("child", "b2"), batch("parent", "b3")))
    (line,) = lines(path / "store.jsonl")
    assert [part["number"] for part in json.loads(line)["parts"]] == [2, 1]
    assert [len(lines(journal_of(path, name))) for name in ("parent", "child")] == [1, 1]
    backend.write(commit("t2", batch("child", "b4")))
    assert len(lines(journal_of(path, "child"))) == 2, "its own work is its own line"
    for _ in range(2):
        assert queued(backend, "parent") == ["b1", "b3"]
        assert queued(backend, "child") == ["b2", "b4"]
        backend.close()
        backend = opened(path)
    backend.close()


def test_a_torn_line_takes_all_of_it(path: Path) -> None:
    """Both sessions have it, or neither."""
    backend = started(path)
    backend.write(commit("t1", batch("parent")))
    copy = path.with_name("crashed")
    file = path / "store.jsonl"
    whole = file.read_bytes()
    backend.close()
    path.rename(copy)
    (copy / "closed.json").unlink()
    for size in range(1, len(whole), 37):
        (copy / "store.jsonl").write_bytes(whole[:size])
        backend = opened(copy)
        assert (queued(backend, "parent"), backend.stats().counts["turns"]) == ([], 0)
        assert any("unfinished" in text for text in backend.health().warnings)
        backend.close()
        (copy / "closed.json").unlink()
        (copy / "store.jsonl.torn").unlink()
    (copy / "store.jsonl").write_bytes(whole)
    backend = opened(copy)
    assert (queued(backend, "parent"), backend.stats().counts["turns"]) == (["b1"], 1)
    backend.close()


def test_a_target_that_is_gone_fails_the_commit(path: Path) -> None:
    backend = started(path)
    with pytest.raises(SessionNotFound):
        backend.write(commit("t1", batch("nobody")))
    backend.write(DeleteSession(tenant=T, id="parent"))
    with pytest.raises(SessionDeleted):
        backend.write(commit("t2", batch("parent")))
    assert not (path / "store.jsonl").exists()
    backend.close()


def test_a_damaged_target_refuses_the_commit(path: Path) -> None:
    backend = started(path)
    backend.write(EnqueueWork(tenant=T, batch=batch("parent", "first")))
    backend.write(commit("t1"))
    backend.close()
    journal = journal_of(path, "parent")
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"first", b"worst"))
    backend = opened(path)
    with pytest.raises(Corrupt, match=journal.name):
        backend.write(commit("t2", batch("parent")))
    backend.write(commit("t3"))
    backend.close()
    journal.write_bytes(whole)
    backend = opened(path)
    backend.write(commit("t2", batch("parent")))
    assert queued(backend, "parent") == ["first", "b1"]
    backend.close()


def test_a_look_for_work_writes_what_it_did_and_no_more(path: Path) -> None:
    """It buries batches of two sessions on its way: one line. Places in the line are none."""
    backend = started(path)
    for name in ("parent", "child"):
        backend.write(EnqueueWork(tenant=T, batch=batch(name, name, max_attempts=0)))
    take = TakeWork(
        tenant=T, queue="default", owner="o", lease_token="l", claim="c", claim_token="t", ttl_us=1
    )
    assert backend.write(take) is None
    assert len(lines(path / "store.jsonl")) == 1
    assert backend.write(take) is None
    assert len(lines(path / "store.jsonl")) == 1
    for _ in range(2):
        assert backend.stats().counts["ended_work"] == 2
        assert (queued(backend, "parent"), queued(backend, "child")) == ([], [])
        backend.close()
        backend = opened(path)
    backend.close()


# --- budgets


def turn(session: str, n: int) -> CommitTurn:
    entry = UsageEntry("m", Usage(input=5, output=1), "chat", "p", Cost(7, "USD"), "r")
    command = CommitTurn(
        tenant=T, session=session, turn=f"{session} {n}", kind="turn", usage=(entry,)
    )
    return replace(command, hash=turn_hash(command))


def spent(backend: FileBackend) -> dict[str, int]:
    found = backend.read([ListBudgets(tenant=T)])[0]
    return {one.budget.id: one.spent_nano for one in found}


def under_budgets(path: Path) -> FileBackend:
    """Turns of two sessions, under a budget of all and one of the first."""
    backend = started(path)
    for budget in (
        Budget(id="all", scope="tenant", cost_nano=10**9),
        Budget(id="own", scope="session", subject="child", cost_nano=10**9),
    ):
        backend.write(SetBudget(tenant=T, budget=budget))
    for n in range(3):
        backend.write(turn("child", n))
        backend.write(turn("parent", n))
    return backend


def test_a_turn_under_a_budget_is_a_line_of_its_session(path: Path) -> None:
    backend = under_budgets(path)
    assert len(lines(path / "store.jsonl")) == 2, "the budgets themselves"
    for _ in range(2):
        assert spent(backend) == {"all": 42, "own": 21}
        assert Store(backend, clock=CLOCK).admin.verify().ok
        backend.close()
        backend = opened(path)
    backend.close()


@pytest.mark.parametrize(
    ("command", "left"),
    [
        (PurgeSession(tenant=T, id="parent"), {"all": 42, "own": 21}),
        (PurgeSession(tenant=T, id="child"), {"all": 42}),
        (VacuumSession(tenant=T, session="parent"), {"all": 42, "own": 21}),
        (VacuumSession(tenant=T, session="child"), {"all": 42, "own": 21}),
        (DeleteUsage(tenant=T, session="parent"), {"all": 21, "own": 21}),
        (DeleteUsage(tenant=T, session="child"), {"all": 21, "own": 0}),
    ],
    ids=repr,
)
def test_what_removes_lines_says_again_what_is_left_of_budgets(
    path: Path, command: Command[Any], left: dict[str, int]
) -> None:
    """Also of the very last turn, whose line is one of those."""
    backend = under_budgets(path)
    store = Store(backend, clock=CLOCK)
    store.messages.append("parent", user("hidden", id="h1"))
    store.messages.append("child", user("hidden", id="h2"))
    store.messages.delete("h1", session="parent")
    store.messages.delete("h2", session="child")
    backend.write(command)
    expected = spent(backend)
    assert expected.keys() == left.keys()
    if not isinstance(command, PurgeSession):
        assert expected == left
    for _ in range(3):
        assert spent(backend) == expected
        assert Store(backend, clock=CLOCK).admin.verify().ok
        backend.close()
        backend = opened(path)
    backend.close()
