"""A command planned: its handler runs over what this process knows, and its writes are sorted.

What cannot be answered or carried raises `Unplanned`, and the command goes the interactive way. The
server compares what was assumed before any of the writes is carried out.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.commands import Command
from ledgerstone.engines.postgres.planned.known_rows import (
    IS_DELETED,
    IS_TIMED,
    KnownRows,
    Unplanned,
)
from ledgerstone.engines.postgres.planned.sections import (
    CHANGED_RUNS,
    COMPLETED_CLAIMS,
    DROPPED_DRAFTS,
    MOVED_HEADS,
    NEW_WORK,
    SETTLED_LINES,
    ClaimRow,
    DraftsRow,
    LineRow,
    NotCarried,
    Writes,
    sort_writes,
)
from ledgerstone.engines.postgres.planned.session_cache import (
    STATE_BYTES_MAX,
    CachedSession,
    ClaimCache,
    Key,
    with_run,
)
from ledgerstone.errors import (
    ClaimLost,
    Fenced,
    LeaseExpired,
    LeaseHeld,
    RevisionMoved,
    SessionDeleted,
)
from ledgerstone.handlers.registry import HANDLERS
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.work import WorkRow, due_us
from ledgerstone.tables.graph import DRAFT_END, NODES
from ledgerstone.tables.runs import RUNS
from ledgerstone.tables.sessions import DOCUMENTS, Head
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import WORK_BY_ID, WORK_BY_SOURCE
from ledgerstone.trampoline import run_now

REFUSALS = (Fenced, LeaseExpired, LeaseHeld, RevisionMoved, SessionDeleted)
"""Refusals that follow from the head alone: true when the server says the head is as it was."""


class Plan:
    """What a command assumes, writes and answers."""

    __slots__ = (
        "after", "answer", "before", "error", "flags", "key", "live", "now_us", "run", "writes",
    )  # fmt: skip

    def __init__(self, key: Key, before: CachedSession, now_us: int) -> None:
        self.key = key
        self.before = before
        self.now_us = now_us
        self.live = int(is_live(before.head, now_us))
        self.flags = 0 if before.head.deleted_us is None else IS_DELETED
        self.run: str | None = None
        """The run that must be new."""
        self.writes: Writes = {}
        self.after = before
        self.answer: Any = None
        self.error: Exception | None = None


def plan(
    command: Command[Any],
    key: Key,
    known: CachedSession,
    now_us: int,
    claims: ClaimCache | None = None,
) -> Plan:
    """Run the handler over what is known of its session; Unplanned when that is too little.

    A refusal is part of the plan: it is told only when the server finds the head unchanged.
    """
    made = Plan(key, known, now_us)
    rows = KnownRows(command, key, known, claims)
    tx = Tx(rows, now_us, strict=False)
    try:
        made.answer = run_now(HANDLERS[type(command)](tx, command))
    except ClaimLost:
        # Who owns a batch does not follow from the head.
        raise Unplanned("work") from None
    except REFUSALS as error:
        made.error = error
        return made
    _settle(made, tx, rows)
    return made


def _settle(made: Plan, tx: Tx, rows: KnownRows) -> None:
    """Sort the writes, and note what will be known when they are carried out."""
    made.flags |= rows.flags
    made.run = rows.run
    try:
        writes = made.writes = sort_writes(tx.writes, tx.inserted, tx.adds, rows.absent)
    except NotCarried as error:
        raise Unplanned(str(error)) from None
    before = made.before
    head = _moved_head(writes, before.head)
    _check_runs(writes, before)
    if rows.lines or rows.claimed or NEW_WORK in writes:
        _change_work(writes, rows, head, tx.now_us)
    if DROPPED_DRAFTS in writes:
        writes[DROPPED_DRAFTS] = [_drafts(key) for key in writes[DROPPED_DRAFTS]]
    if NEW_WORK in writes or (head.owner is not None and _lease(head) != _lease(before.head)):
        made.flags |= IS_TIMED
    if head is not before.head:
        made.after = _known_after(tx, before, head)


def _moved_head(writes: Writes, before: Head) -> Head:
    """The head as it will be: the very same when nothing moves it."""
    heads = writes.pop(MOVED_HEADS, None)
    if heads is None:
        return before
    (head,) = heads
    if head == before:
        return before
    if (head.incarnation, head.deleted_us) != (before.incarnation, before.deleted_us):
        raise Unplanned("heads")
    writes[MOVED_HEADS] = heads
    return head  # type: ignore[no-any-return]


def _lease(head: Head) -> tuple[int, int, int]:
    return head.fence, head.claimed_us, head.expires_us


def _check_runs(writes: Writes, before: CachedSession) -> None:
    """What does not travel of a changed run must be as it was."""
    for row in writes.get(CHANGED_RUNS, ()):
        old = before.runs[row.id]
        if (old.tenant, old.created_us) != (row.tenant, row.created_us):
            raise Unplanned("runs")


def _change_work(writes: Writes, rows: KnownRows, head: Head, now_us: int) -> None:
    """What was queued and completed, and the places in the line that follow from it."""
    queued = writes.get(NEW_WORK, ())
    for index in (WORK_BY_ID, WORK_BY_SOURCE) if len(queued) > 1 else ():
        keys = [index.key_of(row) for row in queued if index.holds is None or index.holds(row)]
        if len(set(keys)) < len(keys):
            raise Unplanned("work")  # Only the handler, looking, knows what twins come to.
    gone = writes.pop(COMPLETED_CLAIMS, ())
    if len(gone) != sum(map(len, rows.claimed.values())):
        raise Unplanned("work")
    if gone:
        writes[COMPLETED_CLAIMS] = [
            _completed(head.number, claim, batches) for claim, batches in rows.claimed.items()
        ]
    if rows.lines:
        floor_us = due_us(0, head, now_us)
        queues = {None} if None in rows.lines else rows.lines
        writes[SETTLED_LINES] = [LineRow(head.number, queue, floor_us) for queue in queues]


def _completed(number: int, claim: str, batches: list[WorkRow]) -> ClaimRow:
    places = ",".join([str(batch.seq) for batch in batches])
    return ClaimRow(number, claim, batches[0].claim_token or "", places)


def _drafts(key: tuple[int, str, str]) -> DraftsRow:
    number, node, first = key
    if first != DRAFT_PREFIX:
        raise Unplanned("notes")
    return DraftsRow(number, node, first, DRAFT_END)


def _known_after(tx: Tx, before: CachedSession, head: Head) -> CachedSession:
    runs, tip_id, state, writes = before.runs, before.tip_id, before.state, tx.writes
    if RUNS in writes:
        for row in writes[RUNS].values():
            runs = with_run(runs, row)
    if head.tip != before.head.tip:
        node = writes[NODES].get((head.number, head.tip)) if NODES in writes else None
        if node is None and head.tip:
            raise Unplanned("nodes")
        tip_id = None if node is None else node.id
    if DOCUMENTS in writes:
        document = writes[DOCUMENTS].get((head.number, "state"))
        if document is not None:
            state = document.body if len(document.body) <= STATE_BYTES_MAX else msgspec.UNSET
    return CachedSession(head, 0, tip_id, runs, state)
