"""The queue of a session: enqueue, cancel, interrupt, park; and what became of its batches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from msgspec.structs import astuple, replace

from ledgerstone.commands import work as commands
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import NewBatch
from ledgerstone.errors import AlreadyExists, BatchNotFound, ClaimLost, Corrupt
from ledgerstone.handlers.heads import find_head, open_session, save_head
from ledgerstone.handlers.paging import page_of
from ledgerstone.handlers.ready import raise_ready, settle_queues, settle_ready
from ledgerstone.handlers.registry import handles
from ledgerstone.records.sessions import Page
from ledgerstone.records.work import (
    END_STATES,
    Batch,
    DeadBatch,
    EndedBatch,
    EndState,
    Interrupted,
    OnDuplicate,
    WorkCounts,
)
from ledgerstone.rules import work as rules
from ledgerstone.rules.guard import check_alive
from ledgerstone.tables.sessions import SESSIONS, Head
from ledgerstone.tables.table import Index
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import (
    DEAD_WORK_BY_ID,
    ENDED_WORK,
    ENDED_WORK_BY_SESSION,
    ENDED_WORK_BY_TIME,
    WORK,
    WORK_BY_CLAIM,
    WORK_BY_ID,
    WORK_BY_SOURCE,
    WORK_PARKED,
    WORK_SUMS,
    WORK_SUMS_OF_TENANT,
    EndedWorkRow,
    WorkSumsRow,
)
from ledgerstone.tables.work import WorkRow as StoredRow

if TYPE_CHECKING:
    from ledgerstone.handlers.commits import Commit

R = TypeVar("R")

Owner: TypeAlias = tuple[str, str]
"""Tenant and session."""


_FIELDS = len(rules.WorkRow.__struct_fields__)


def end(
    tx: Tx, of: Owner, head: Head, rows: Sequence[rules.WorkRow], state: EndState, reason: str
) -> None:
    """Move batches from the queue to what ended."""
    tenant, session = of
    ended = []
    for row in rows:
        tx.delete(WORK, head.number, row.seq)
        body = rules.dead_body(session, row)
        ended.append(
            EndedWorkRow(head.number, row.seq, tenant, row.id, state, tx.now_us, reason, body)
        )
    tx.insert(ENDED_WORK, ended)
    _count(tx, tenant, head.number, state, len(ended))


def forget(tx: Tx, row: EndedWorkRow) -> None:
    """Remove the record of a batch."""
    tx.delete(ENDED_WORK, row.number, row.seq)
    _count(tx, row.tenant, row.number, row.state, -1)


def _count(tx: Tx, tenant: str, number: int, state: str, more: int) -> None:
    change: dict[str, Any] = {state: more}
    tx.add(WORK_SUMS, WorkSumsRow(number, tenant, **change))


@handles(commands.ListEnded)
async def list_ended(tx: Tx, query: commands.ListEnded) -> Page[EndedBatch]:
    def record(row: EndedWorkRow) -> EndedBatch:
        return rules.ended_batch(row.id, row.body, row.state, row.reason, row.ended_us)

    return await _ended_page(tx, query, query.state, record)


@handles(commands.ListDead)
async def list_dead(tx: Tx, query: commands.ListDead) -> Page[DeadBatch]:
    return await _ended_page(tx, query, "dead", _dead_record)


def _dead_record(row: EndedWorkRow) -> DeadBatch:
    return rules.dead_batch(row.id, row.body, row.reason, row.ended_us)


async def _ended_page(
    tx: Tx,
    query: commands.ListEnded | commands.ListDead,
    state: EndState,
    record: Callable[[EndedWorkRow], R],
) -> Page[R]:
    """A page of what ended in a state, of one session or of all."""
    index: Index[EndedWorkRow] = ENDED_WORK_BY_TIME
    owner: tuple[str | int, str] = (query.tenant, state)
    if query.session is not None:
        head = await find_head(tx, query.tenant, query.session)
        index, owner = ENDED_WORK_BY_SESSION, (0 if head is None else head.number, state)
    total = None
    if query.total:
        total = len(await tx.scan_columns(index, ("id",), *owner))
    wanted = query.offset + query.limit + 1
    rows = await tx.scan(index, *owner, after=query.after, limit=wanted)
    return page_of(query, rows, record, total)


@handles(commands.CountWork)
async def count_work(tx: Tx, query: commands.CountWork) -> WorkCounts:
    rows: list[WorkSumsRow] = []
    if query.session is None:
        rows = await tx.scan(WORK_SUMS_OF_TENANT, query.tenant)
    else:
        head = await find_head(tx, query.tenant, query.session)
        row = None if head is None else await tx.get(WORK_SUMS, head.number)
        rows = [] if row is None else [row]
    return WorkCounts(**{name: sum(getattr(row, name) for row in rows) for name in WORK_SUMS.sums})


@handles(commands.ListPrunable)
async def list_prunable(tx: Tx, query: commands.ListPrunable) -> list[str]:
    numbers: set[int] = set()
    for state in END_STATES:
        found = await tx.scan_columns(
            ENDED_WORK_BY_TIME, ("number",), query.tenant, state,
            before=(query.before_us,), limit=query.limit,
        )  # fmt: skip
        numbers.update(number for (number,) in found)
    rows = await tx.get_many(SESSIONS, [(number,) for number in sorted(numbers)])
    return [row.id for row in rows if row is not None]


@handles(commands.PruneWork)
async def prune_work(tx: Tx, command: commands.PruneWork) -> int:
    """Forget what ended before a moment, a deleted session's too."""
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return 0
    left, before = command.limit, (command.before_us,)
    for state in END_STATES:
        rows = await tx.scan(ENDED_WORK_BY_SESSION, head.number, state, before=before, limit=left)
        for row in rows:
            forget(tx, row)
        left -= len(rows)
        if not left:
            break
    return command.limit - left


def stored(tx: Tx, head: Head, row: rules.WorkRow) -> StoredRow:
    """A batch as a row of its session, marked when it is not available yet."""
    later = int(row.available_us > tx.now_us)
    return StoredRow(*(*astuple(row)[:_FIELDS], head.number, later))


@handles(commands.EnqueueWork)
async def enqueue_work(tx: Tx, command: commands.EnqueueWork) -> Batch:
    return await _enqueue(tx, command.tenant, command.batch, command.on_duplicate)


async def _enqueue(
    tx: Tx, tenant: str, batch: NewBatch, on_duplicate: OnDuplicate = "answer"
) -> Batch:
    """Enqueue in a session whose head nobody has loaded."""
    head = await open_session(tx, tenant, batch.session)
    last = head.enqueued
    found = await put_batch(tx, tenant, head, batch)
    if head.enqueued != last:
        save_head(tx, head)
    elif on_duplicate == "refuse":
        raise AlreadyExists(found.id)
    return found


async def put_batch(tx: Tx, tenant: str, head: Head, batch: NewBatch) -> Batch:
    """The batch as it is queued now, or was already; the session of `head` must be alive.

    The caller saves the head, which counts what was enqueued.
    """
    twin = await tx.fresh(WORK_BY_ID, [(head.number, batch.id)])
    if twin is None and batch.source_key is not None:
        twin = await tx.fresh(WORK_BY_SOURCE, [(head.number, batch.source_key)])
    if twin is not None:
        return rules.batch_of(batch.session, twin)
    return await add_batch(tx, tenant, head, batch)


async def add_batch(tx: Tx, tenant: str, head: Head, batch: NewBatch) -> Batch:
    """Queue a batch whose id and source key are known to be free; the caller saves the head."""
    row = rules.new_row(batch, head.enqueued + 1, tx.now_us)
    if await tx.fresh(WORK.primary, [(head.number, row.seq)]) is not None:
        raise Corrupt("heads", batch.session, "enqueued", f"{head.enqueued}, less than was queued")
    head.enqueued = row.seq
    tx.insert(WORK, [stored(tx, head, row)])
    await raise_ready(tx, tenant, head, row)
    return rules.batch_of(batch.session, row)


async def enqueue_in_commit(tx: Tx, commit: Commit) -> None:
    """Enqueue what a commit brings, here or in another session."""
    command = commit.command
    for batch in command.enqueue:
        if batch.session == command.session:
            await put_batch(tx, command.tenant, commit.head, batch)
        else:
            await _enqueue(tx, command.tenant, batch)
    commit.effects["enqueued"] = [[batch.session, batch.id] for batch in command.enqueue]


async def complete_claims(tx: Tx, head: Head, command: CommitTurn) -> None:
    """Settle claims inside a commit; a lost one rejects the whole commit."""
    queues: set[str] = set()
    for one in command.complete:
        rows = await claimed_rows(tx, head, one.claim)
        if not rules.owns(rows, one.token, head):
            raise ClaimLost(command.session, one.claim)
        end(tx, (command.tenant, command.session), head, rows, "done", f"by turn {command.turn}")
        queues.update(row.queue for row in rows)
    await settle_queues(tx, head, queues)


async def claimed_rows(tx: Tx, head: Head, claim: str) -> list[rules.WorkRow]:
    """What stands under a claim, of whatever generation, in the order it is claimed."""
    return [*await tx.scan(WORK_BY_CLAIM, head.number, claim)]


@handles(commands.CancelWork)
async def cancel_work(tx: Tx, command: commands.CancelWork) -> Batch | None:
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return None
    check_alive(command.session, head)
    row = await tx.find(WORK_BY_ID, head.number, command.batch)
    if row is None or rules.has_live_claim(row, head, tx.now_us):
        return None
    end(tx, (command.tenant, command.session), head, [row], "cancelled", command.reason)
    if row.waiting_for is None:
        await settle_queues(tx, head, [row.queue])
    else:
        await settle_ready(tx, head)  # What stood behind it, in any queue, can be had again.
    return rules.batch_of(command.session, row)


@handles(commands.ListWork)
async def list_work(tx: Tx, query: commands.ListWork) -> list[Batch]:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    rows = await tx.scan(WORK.primary, head.number)
    if query.pending:
        rows = [row for row in rows if not rules.has_live_claim(row, head, tx.now_us)]
    if query.order == "priority":
        rows.sort(key=lambda row: row.place)
    return [rules.batch_of(query.session, row) for row in rows]


async def bury(tx: Tx, of: Owner, head: Head, row: rules.WorkRow, reason: str) -> None:
    """Move a batch from the queue to the dead letters, over an earlier one of the same id."""
    for old in await tx.scan(DEAD_WORK_BY_ID, of[0], row.id, head.number):
        forget(tx, old)
    end(tx, of, head, [row], "dead", reason)


@handles(commands.ReplayWork)
async def replay_work(tx: Tx, command: commands.ReplayWork) -> Batch:
    row = await _find_dead(tx, command.tenant, command.batch)
    if row is None:
        raise BatchNotFound(command.batch)
    batch = _dead_record(row).batch
    head = await open_session(tx, command.tenant, batch.session)
    if await tx.fresh(WORK_BY_ID, [(head.number, batch.id)]) is not None:
        raise AlreadyExists(batch.id)
    twin = None
    if batch.source_key is not None:
        twin = await tx.fresh(WORK_BY_SOURCE, [(head.number, batch.source_key)])
    forget(tx, row)
    queued = await add_batch(tx, command.tenant, head, rules.revived(batch, keyed=twin is None))
    save_head(tx, head)
    return queued


@handles(commands.DropDead)
async def drop_dead(tx: Tx, command: commands.DropDead) -> bool:
    row = await _find_dead(tx, command.tenant, command.batch)
    if row is not None:
        forget(tx, row)
    return row is not None


async def _find_dead(tx: Tx, tenant: str, id: str) -> EndedWorkRow | None:
    """A dead batch by its id: of the oldest session, should several have one."""
    found = await tx.scan(DEAD_WORK_BY_ID, tenant, id, limit=1)
    return found[0] if found else None


@handles(commands.InterruptWork)
async def interrupt_work(tx: Tx, command: commands.InterruptWork) -> Interrupted:
    head = await open_session(tx, command.tenant, command.session)
    rows = await tx.scan(WORK.primary, head.number)
    running = [row for row in rows if rules.has_live_claim(row, head, tx.now_us)]
    pending = [row for row in rows if not rules.has_live_claim(row, head, tx.now_us)]
    end(tx, (command.tenant, command.session), head, pending, "superseded", command.reason)
    running = [replace(row, superseded=command.reason) for row in running]
    for row in running:
        tx.put(WORK, row)
    sums = await tx.get(WORK_SUMS, head.number)
    tx.add(WORK_SUMS, WorkSumsRow(head.number, command.tenant, epoch=1))
    await settle_ready(tx, head)
    return Interrupted(
        session=command.session,
        epoch=1 if sums is None else sums.epoch + 1,
        superseded=len(pending),
        running=[rules.batch_of(command.session, row) for row in running],
    )


async def wake(tx: Tx, head: Head, execution: str | None = None) -> None:
    """What waits for an execution, or for any of the session, can be claimed again."""
    if not head.enqueued:
        return
    rows: list[rules.WorkRow]
    if execution is None:
        rows = [*await tx.scan(WORK_PARKED, head.number)]
    else:
        rows = await claimed_rows(tx, head, rules.parking_claim(execution))
    rows = [row for row in rows if row.waiting_for is not None]
    for row in rows:
        tx.put(WORK, stored(tx, head, rules.woken(row, tx.now_us)))
    if rows:
        await settle_ready(tx, head)
