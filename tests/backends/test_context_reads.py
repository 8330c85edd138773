"""A compaction is found without walking the history: the same steps at 100 and 10,000 messages."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledgerstone import Store, system, user
from ledgerstone.clock import ManualClock
from ledgerstone.commands.context import FindCompaction, ReadContext
from ledgerstone.engines.memory.backend import MemoryBackend, MemoryEngine
from ledgerstone.engines.sqlite.rows import SqliteRows
from ledgerstone.handlers.context import find_compaction, read_context
from ledgerstone.tables.graph import NODES
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

SHORT, LONG = 100, 10_000
TAIL = 10
SESSION = {"tenant": "default", "session": "s"}
FIND = FindCompaction(**SESSION, branch="main", tail_start="t1")
NEWEST = FindCompaction(**SESSION)
READ = ReadContext(**SESSION)


def fill(store: Store, count: int, *, compacted: bool, branched: bool = False) -> None:
    """So many messages, then a compaction, then a few more."""
    messages = store.messages
    messages.append("s", system("rules"), *(user("x") for _ in range(count)), create=True)
    if branched:
        store.branches.create("s", "side", at=messages.range("s", 2, 2)[0].id)
        messages.append("s", user("aside"), branch="side")
    if compacted:
        messages.compact("s", "so far", tail_start=None)
    messages.append("s", *(user("y", id=f"t{n}") for n in range(TAIL)))


def sqlite_steps(path: Path, count: int, question: Any, **how: bool) -> int:
    """The steps of SQLite's machine for one question."""
    place = path / f"{count}.db"
    with Store.open(place, durability="process") as store:
        fill(store, count, **how)
    connection = apsw.Connection(str(place))
    steps = 0

    def add(event: dict[str, Any]) -> None:
        nonlocal steps
        steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, add)
    handler: Callable[..., Any] = read_context if question is READ else find_compaction
    found = run_now(handler(Tx(SqliteRows(connection), 0), question))
    connection.close()
    assert found is not None
    return steps


@pytest.mark.promise(150)
@pytest.mark.parametrize("branched", [False, True], ids=["straight", "branched"])
@pytest.mark.parametrize("compacted", [False, True], ids=["none yet", "compacted"])
@pytest.mark.parametrize("question", [FIND, NEWEST], ids=["of a branch", "of the session"])
def test_sqlite_finds_the_newest_in_the_same_steps(
    tmp_path: Path, question: Any, compacted: bool, branched: bool
) -> None:
    how = {"compacted": compacted, "branched": branched}
    short = sqlite_steps(tmp_path, SHORT, question, **how)
    long = sqlite_steps(tmp_path, LONG, question, **how)
    assert 0 < long <= short + 5


@pytest.mark.promise(150)
@pytest.mark.parametrize("branched", [False, True], ids=["straight", "branched"])
def test_sqlite_reads_a_context_in_the_same_steps(tmp_path: Path, branched: bool) -> None:
    short = sqlite_steps(tmp_path, SHORT, READ, compacted=True, branched=branched)
    long = sqlite_steps(tmp_path, LONG, READ, compacted=True, branched=branched)
    assert 0 < long <= short + 5


def test_a_whole_history_would_be_noticed(tmp_path: Path) -> None:
    short = sqlite_steps(tmp_path, SHORT, READ, compacted=False)
    assert sqlite_steps(tmp_path, LONG, READ, compacted=False) > 20 * short


class CountedRows(dict[Any, Any]):
    """Rows that know how often they were looked at."""

    looks = 0

    def __getitem__(self, key: Any) -> Any:
        self.looks += 1
        return super().__getitem__(key)


def memory_looks(count: int, question: Any) -> int:
    engine = MemoryEngine(ManualClock())
    backend = MemoryBackend(ManualClock(), engine)
    fill(Store(backend), count, compacted=True)
    tables = engine.rows.tables
    rows = tables[NODES] = CountedRows(tables[NODES])
    assert backend.read([question])[0] is not None
    return rows.looks


@pytest.mark.promise(150)
@pytest.mark.parametrize("question", [FIND, NEWEST, READ], ids=["branch", "session", "context"])
def test_memory_looks_at_the_tail_only(question: Any) -> None:
    assert 0 < memory_looks(LONG, question) == memory_looks(SHORT, question) < 3 * TAIL
