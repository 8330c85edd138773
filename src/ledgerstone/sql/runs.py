"""Runs: made, changed and read by themselves; and a parent is told when its child is done."""

from __future__ import annotations

from ledgerstone.commands.runs import GetRun, LatestRun, PutRun, UpdateRun
from ledgerstone.errors import AlreadyExists, RunNotFound
from ledgerstone.records.runs import Run
from ledgerstone.rules import run as rules
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql import work
from ledgerstone.sql.heads import find_head, move_recency, need_head
from ledgerstone.sql.run_rows import RunRow, find_run, open_record, save_run, settle_record
from ledgerstone.sql.tx import Tx


async def put_run(tx: Tx, command: PutRun) -> Run:
    """Create a run, or overwrite it when asked to."""
    run = command.run
    head = await need_head(tx, command.tenant, run.session)
    check_alive(run.session, head)
    row = await open_record(tx, command.tenant, head, run.id)
    if row.old is not None and not command.upsert:
        raise AlreadyExists(run.id)
    return await _store(tx, command.tenant, head, row, run)


async def update_run(tx: Tx, command: UpdateRun) -> Run:
    """Change some fields of a run."""
    old = await find_run(tx, command.tenant, command.id)
    if old is None:
        raise RunNotFound(command.id)
    head = await need_head(tx, command.tenant, old.session)
    check_alive(old.session, head)
    check_guard(old.session, head, command.guard, tx.now_us)
    row = await open_record(tx, command.tenant, head, command.id)
    return await _store(tx, command.tenant, head, row, rules.change(old, command.changes))


async def _store(tx: Tx, tenant: str, head: HeadRow, row: RunRow, run: Run) -> Run:
    moment_us = head.moment(tx.now_us)
    stored = settle_record(head, row, run, moment_us)
    await save_run(tx, tenant, head, run.id, row)
    await wake_parent(tx, tenant, head, row)
    await move_recency(tx, head, moment_us)
    pointers = (head.active_run, head.open_run, head.latest_run)
    await tx.run("point_runs", head.number, moment_us, *pointers, head.runs)
    return stored


async def wake_parent(tx: Tx, tenant: str, head: HeadRow, row: RunRow) -> None:
    """Enqueue on the parent's session that its child is done, if this write made it so.

    The row is written already. A run without a parent costs no statement here.
    """
    run = row.new
    if run is None or run.parent_run is None or not rules.ends(run, row.old):
        return
    parent = await find_run(tx, tenant, run.parent_run)
    if parent is None:
        return
    own = parent.session == run.session
    batch = rules.wake_up(run, parent, head if own else await find_head(tx, tenant, parent.session))
    if batch is None:
        return
    if own:
        await work.put_batch(tx, tenant, head, batch)
    else:
        await work.wake_session(tx, tenant, batch)


async def get_run(tx: Tx, query: GetRun) -> Run | None:
    """By id."""
    return await find_run(tx, query.tenant, query.id)


async def latest_run(tx: Tx, query: LatestRun) -> Run | None:
    """The run that the session's newest pointer names: pointers move with every run write."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None or head.latest_run is None:
        return None
    return await find_run(tx, query.tenant, head.latest_run)
