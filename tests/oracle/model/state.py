"""The model's whole state: named tables, one transaction at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from ledgerstone.commands.evidence import EvidenceRow
from ledgerstone.records.artifacts import Artifact
from ledgerstone.records.blobs import Attachment, Blob, Upload
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.records.stats import Budget
from ledgerstone.rules.rows import HeadRow, UsageDay
from ledgerstone.rules.work import WorkRow
from tests.oracle.model.rows import (
    AmendmentRow,
    CallSums,
    DeadRow,
    MemoryRow,
    NodeRow,
    NoteRow,
    OutboxRow,
    ReadyRow,
    RunRow,
    SessionRow,
    Spent,
    StubRow,
    TurnRow,
)
from tests.oracle.model.tables import ABSENT, Table, UndoLog


class Change(NamedTuple):
    """One row as it was before a transaction and as it is after it; either may be ABSENT."""

    table: str
    key: tuple[Any, ...]
    before: Any
    after: Any


class State:
    """Every table, by name. `number` is a session's own number, never used twice.

    sessions  tenant, id          session_ids number (the id)    stubs     tenant, id
    heads     number
    nodes     number, ord         node_ids    tenant, id, number (the ord)
    turns     number, revision    turn_ids    number, id (the revision)
    feed      pos (number, revision)
    branches  number, name (the leaf's ord)                      notes     number, node, key
    values    number, digest      documents   number, name       work      number, enqueue_seq
    amendments number, ord, version                              attachments tenant, session, id
    runs      tenant, id          session_runs number, id (updated_us, created_us)
    work_order, work_times, work_marks: see work_rows.py
    ready     number, queue       ready_due   tenant, queue, priority, due_us, number
    dead_work number, id          dead_ids    tenant, id, number outbox    number, n
    tickets   number, id          executions  number, id         (more ways: ticket_marks.py)
    blobs     tenant, ref         uploads     tenant, key        chunks    tenant, key, n
    blob_uses tenant, ref, table, key... (of artifacts and attachments)
    artifacts tenant, scope, place (scope s:session, u:user or t:)
    artifact_ids, artifact_uris   tenant, id or uri (scope, place)
    artifact_names tenant, scope, name, version (version, place)
    evidence  tenant, session, kind, n (0: there is a list)
    call_sums number              usage_days  tenant, number, day, model, provider, source, currency
    budgets   tenant, id          budget_spent tenant, id        budget_subjects tenant, scope...
    memories  tenant, namespace, key                             memory_expiry tenant, expires_us...
    embeddings tenant, kind, id   embedding_changes tenant, model, change (kind, id)
    embedding_sessions tenant, session, kind, id                 spaces    tenant, model
    purged    tenant, number (what the sweep has still to remove)
    counters  name, number (the last value given out)
    """

    def __init__(self) -> None:
        log = self._log = UndoLog()
        self.sessions: Table[tuple[str, str], SessionRow] = Table("sessions", log)
        self.session_ids: Table[tuple[int], str] = Table("session_ids", log)
        self.heads: Table[tuple[int], HeadRow] = Table("heads", log)
        self.stubs: Table[tuple[str, str], StubRow] = Table("stubs", log)
        self.nodes: Table[tuple[int, int], NodeRow] = Table("nodes", log)
        self.node_ids: Table[tuple[str, str, int], int] = Table("node_ids", log)
        self.turns: Table[tuple[int, int], TurnRow] = Table("turns", log)
        self.turn_ids: Table[tuple[int, str], int] = Table("turn_ids", log)
        self.feed: Table[tuple[int], tuple[int, int]] = Table("feed", log)
        self.branches: Table[tuple[int, str], int] = Table("branches", log)
        self.notes: Table[tuple[int, str, str], NoteRow] = Table("notes", log)
        self.values: Table[tuple[int, str], bytes] = Table("values", log)
        self.documents: Table[tuple[int, str], bytes] = Table("documents", log)
        self.amendments: Table[tuple[int, int, int], AmendmentRow] = Table("amendments", log)
        self.runs: Table[tuple[str, str], RunRow] = Table("runs", log)
        self.session_runs: Table[tuple[int, str], tuple[int, int]] = Table("session_runs", log)
        self.attachments: Table[tuple[str, str, str], Attachment] = Table("attachments", log)
        self.work: Table[tuple[int, int], WorkRow] = Table("work", log)
        self.work_order: Table[tuple[int, str, int, int], None] = Table("work_order", log)
        self.work_times: Table[tuple[int, str, int, int], None] = Table("work_times", log)
        self.work_marks: Table[tuple[int, str, str, int], None] = Table("work_marks", log)
        self.ready: Table[tuple[int, str], ReadyRow] = Table("ready", log)
        self.ready_due: Table[tuple[str, str, int, int, int], None] = Table("ready_due", log)
        self.dead_work: Table[tuple[int, str], DeadRow] = Table("dead_work", log)
        self.dead_ids: Table[tuple[str, str, int], None] = Table("dead_ids", log)
        self.outbox: Table[tuple[int, int], OutboxRow] = Table("outbox", log)
        self.tickets: Table[tuple[int, str], bytes] = Table("tickets", log)
        self.ticket_ids: Table[tuple[str, str], int] = Table("ticket_ids", log)
        self.open_tickets: Table[tuple[str, int, str], int] = Table("open_tickets", log)
        self.executions: Table[tuple[int, str], bytes] = Table("executions", log)
        self.execution_ids: Table[tuple[str, str], int] = Table("execution_ids", log)
        self.execution_refs: Table[tuple[str, str, str, int, str], None] = Table(
            "execution_refs", log
        )
        self._add_kept(log)
        self.purged: Table[tuple[str, int], None] = Table("purged", log)
        self.counters: Table[tuple[str, int], int] = Table("counters", log)

    def _add_kept(self, log: UndoLog) -> None:
        """Bytes, evidence, usage and memory."""
        self.blobs: Table[tuple[str, str], Blob] = Table("blobs", log)
        self.uploads: Table[tuple[str, str], Upload] = Table("uploads", log)
        self.chunks: Table[tuple[str, str, int], bytes] = Table("chunks", log)
        self.blob_uses: Table[tuple[Any, ...], None] = Table("blob_uses", log)
        self.artifacts: Table[tuple[str, str, int], Artifact] = Table("artifacts", log)
        self.artifact_ids: Table[tuple[str, str], tuple[str, int]] = Table("artifact_ids", log)
        self.artifact_uris: Table[tuple[str, str], tuple[str, int]] = Table("artifact_uris", log)
        self.artifact_names: Table[tuple[str, str, str, int], tuple[int, int]] = Table(
            "artifact_names", log
        )
        self.evidence: Table[tuple[str, str, str, int], EvidenceRow] = Table("evidence", log)
        self.call_sums: Table[tuple[int], CallSums] = Table("call_sums", log)
        self.usage_days: Table[tuple[str, int, int, str, str, str, str], UsageDay] = Table(
            "usage_days", log
        )
        self.budgets: Table[tuple[str, str], Budget] = Table("budgets", log)
        self.budget_spent: Table[tuple[str, str], Spent] = Table("budget_spent", log)
        self.budget_subjects: Table[tuple[str, str, str, str], None] = Table("budget_subjects", log)
        self.memories: Table[tuple[str, str, str], MemoryRow] = Table("memories", log)
        self.memory_expiry: Table[tuple[str, int, str, str], None] = Table("memory_expiry", log)
        self.embeddings: Table[tuple[str, str, str], VectorRow] = Table("embeddings", log)
        self.embedding_changes: Table[tuple[str, str, int], tuple[str, str]] = Table(
            "embedding_changes", log
        )
        self.embedding_sessions: Table[tuple[str, str, str, str], None] = Table(
            "embedding_sessions", log
        )
        self.spaces: Table[tuple[str, str], Space] = Table("spaces", log)

    def tables(self) -> dict[str, Table[Any, Any]]:
        """All tables by name."""
        return {name: table for name, table in vars(self).items() if isinstance(table, Table)}

    def begin(self) -> None:
        """Start a transaction; RuntimeError when one is open."""
        if self._log.entries is not None:
            raise RuntimeError("a transaction is open already")
        self._log.entries = []

    def commit(self) -> list[tuple[str, tuple[Any, ...]]]:
        """End the transaction and say which rows it touched, in order."""
        entries, self._log.entries = self._log.entries or [], None
        return [(table.name, key) for table, key, _ in entries]

    def changes(self) -> list[Change]:
        """What the open transaction changed so far, one entry per row, in order."""
        first: dict[tuple[str, tuple[Any, ...]], Change] = {}
        for table, key, before in self._log.entries or []:
            if (table.name, key) not in first:
                change = Change(table.name, key, before, table.current(key))
                first[table.name, key] = change
        return [one for one in first.values() if _differs(one.before, one.after)]

    def apply(self, changes: Iterable[Change]) -> None:
        """Make every row what a transaction that was rolled back had made it."""
        tables = self.tables()
        for change in changes:
            tables[change.table].place(change.key, change.after)

    def rollback(self) -> None:
        """End the transaction as if it had never begun."""
        self.undo()
        self._log.entries = None

    def undo(self) -> None:
        """Take back what the open transaction did so far; it stays open."""
        entries = self._log.entries or []
        while entries:
            table, key, before = entries.pop()
            table.place(key, before)

    def next_number(self, name: str, number: int = 0) -> int:
        """The next value of a counter: from 1, rising, never given out twice."""
        value = (self.counters.get((name, number)) or 0) + 1
        self.counters.put((name, number), value)
        return value


def _differs(before: Any, after: Any) -> bool:
    if before is ABSENT or after is ABSENT:
        return before is not after
    return bool(before != after)


class Tx:
    """What a handler works with: the tables and the one moment it happens at.

    `shared` False: one command may change one session only, as where each has a file of its own.
    """

    __slots__ = ("now_us", "shared", "state")

    def __init__(self, state: State, now_us: int, *, shared: bool = True) -> None:
        self.state = state
        self.now_us = now_us
        self.shared = shared


AGAIN: Any = object()
"""The answer of a handler that is not done, but has to be written before it goes on."""


Handler = Callable[[Tx, Any], Any]


def tenants_of(state: State) -> list[str]:
    """Who has anything: sessions, or what needs none."""
    tables: tuple[Table[Any, Any], ...] = (
        state.sessions,
        state.attachments,
        state.blobs,
        state.uploads,
        state.artifacts,
        state.evidence,
        state.budgets,
        state.memories,
        state.embeddings,
        state.runs,
        state.stubs,
    )
    return sorted({key[0] for table in tables for key, _ in table.scan()})
