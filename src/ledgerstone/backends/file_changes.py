"""From what a command changed to the rows of a line, and to the journal that the line goes to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ledgerstone.backends.file_lines import STORE
from ledgerstone.backends.file_rows import (
    AmendmentWire,
    BytesWire,
    HeadWire,
    NodeWire,
    NoteWire,
    SessionWire,
    TurnWire,
)
from ledgerstone.backends.file_rows_work import DeadWire, OutboxWire, ReadyWire, WorkWire
from ledgerstone.backends.file_shared import IN_STORE, LOOSE, SHARED, loose_home, loose_rows
from ledgerstone.model.state import Change, State
from ledgerstone.model.tables import ABSENT

BY_NUMBER = (
    "heads",
    "turns",
    "nodes",
    "amendments",
    "branches",
    "documents",
    "notes",
    "values",
    "work",
    "ready",
    "dead_work",
    "outbox",
    "session_runs",
    "tickets",
    "executions",
)
"""Tables whose keys begin with the number of a session."""

DERIVED = (
    "session_ids",
    "node_ids",
    "turn_ids",
    "feed",
    "ticket_ids",
    "open_tickets",
    "execution_ids",
    "execution_refs",
    "work_order",
    "work_times",
    "work_marks",
    "ready_due",
    "dead_ids",
    "blob_uses",
    "artifact_ids",
    "artifact_uris",
    "artifact_names",
    "call_sums",
    "usage_days",
    "budget_spent",
    "budget_subjects",
    "memory_expiry",
    "embedding_changes",
    "embedding_sessions",
    "chunks",
    "purged",
)
"""Tables that follow from the others; the chunks of blobs, which a directory keeps as files; and
the sweep's list: a purged journal is gone at once."""

_WIRES: dict[str, Callable[[tuple[Any, ...], Any], Any]] = {
    "turns": lambda key, row: TurnWire.of(row),
    "nodes": lambda key, row: NodeWire.of(row),
    "amendments": lambda key, row: AmendmentWire.of(key[1], key[2], row),
    "branches": lambda key, row: (key[1], row),
    "documents": lambda key, row: BytesWire.of(key[1], row),
    "notes": lambda key, row: NoteWire.of(key[1], key[2], row),
    "values": lambda key, row: BytesWire.of(key[1], row),
    "work": lambda key, row: WorkWire.of(row),
    "ready": lambda key, row: ReadyWire.of(key[1], row),
    "dead_work": lambda key, row: DeadWire.of(key[1], row),
    "outbox": lambda key, row: OutboxWire.of(key[1], row),
    "session_runs": lambda key, row: (key[1], *row),
    "tickets": lambda key, row: BytesWire.of(key[1], row),
    "executions": lambda key, row: BytesWire.of(key[1], row),
    "counters": lambda key, row: (key[0], row),
    **SHARED,
}


def rows_fields(changes: Iterable[Change]) -> dict[str, Any]:
    """The changes of one session, or of the store, as the fields of a line."""
    fields: dict[str, Any] = {}
    lists: dict[str, list[Any]] = {}
    gone: dict[str, list[tuple[Any, ...]]] = {}
    for table, key, _, row in changes:
        if table in DERIVED or (table == "counters" and not key[1]):
            continue
        if row is ABSENT:
            gone.setdefault(table, []).append(key[1:] if table in BY_NUMBER else key)
        elif table == "sessions":
            fields["row"] = SessionWire.of(row)
        elif table == "heads":
            fields["head"] = HeadWire.of(row)
        else:
            lists.setdefault(table, []).append(_WIRES[table](key, row))
    fields.update((table, tuple(rows)) for table, rows in lists.items())
    if gone:
        fields["gone"] = gone
    return fields


def homes(state: State, changes: Iterable[Change]) -> set[int]:
    """The numbers of the journals that the changed rows belong to; asked before the rollback."""
    found = {_home(state, change) for change in changes}
    found.discard(None)
    return {number for number in found if number is not None}


def _home(state: State, change: Change) -> int | None:
    table, key, before, after = change
    row = before if after is ABSENT else after
    if table in BY_NUMBER:
        return int(key[0])
    if table in ("sessions", "runs"):
        return int(row.number)
    if table == "counters":
        return int(key[1]) or None
    if table in LOOSE:
        return loose_home(state, table, key)
    return STORE if table in IN_STORE else None


def in_memory_only(changes: Iterable[Change]) -> bool:
    """Whether nothing of it is written: what follows from other rows is made anew at opening."""
    return all(table in DERIVED for table, *_ in changes)


def rows_of(state: State, tenant: str, session: str, number: int) -> Iterator[Change]:
    """Everything that belongs to a session now."""
    tables = state.tables()
    yield Change("sessions", (tenant, session), ABSENT, state.sessions[tenant, session])
    for name in BY_NUMBER:
        for key, row in tables[name].scan((number,)):
            yield Change(name, key, ABSENT, row)
    for counter in ("work", "outbox"):
        last = state.counters.get((counter, number))
        if last is not None:
            yield Change("counters", (counter, number), ABSENT, last)
    for (_, run), _ in state.session_runs.scan((number,)):
        yield Change("runs", (tenant, run), ABSENT, state.runs[tenant, run])
    yield from loose_rows(state, tenant, session)


def dropped_number(changes: Iterable[Change]) -> int | None:
    """The session that a purge took away, if this was one."""
    for table, key, _, after in changes:
        if table == "heads" and after is ABSENT:
            return int(key[0])
    return None


def kept_runs(state: State, changes: Iterable[Change], tenant: str) -> Iterator[Change]:
    """Runs that outlive the purged session whose journal held them."""
    for table, key, _, after in changes:
        if table == "session_runs" and after is ABSENT and (tenant, key[1]) in state.runs:
            yield Change("runs", (tenant, key[1]), ABSENT, state.runs[tenant, key[1]])
