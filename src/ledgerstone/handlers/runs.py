"""Runs: made, changed and read by themselves; and a parent is told when its child is done."""

from __future__ import annotations

from ledgerstone.commands.runs import GetRun, LatestRun, PutRun, UpdateRun
from ledgerstone.errors import AlreadyExists, RunNotFound
from ledgerstone.handlers import work
from ledgerstone.handlers.heads import find_head, need_head, save_head, touch
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.run_rows import OpenRun, find_run, open_record, save_run, settle_record
from ledgerstone.records.runs import Run
from ledgerstone.rules import run as rules
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx


@handles(PutRun)
async def put_run(tx: Tx, command: PutRun) -> Run:
    """Create a run, or overwrite it when asked to."""
    given = command.run
    head = await need_head(tx, command.tenant, given.session)
    check_alive(given.session, head)
    run = await open_record(tx, command.tenant, head, given.id)
    if run.old is not None and not command.upsert:
        raise AlreadyExists(given.id)
    return await _store(tx, command.tenant, head, run, given)


@handles(UpdateRun)
async def update_run(tx: Tx, command: UpdateRun) -> Run:
    """Change some fields of a run."""
    old = await find_run(tx, command.tenant, command.id)
    if old is None:
        raise RunNotFound(command.id)
    head = await need_head(tx, command.tenant, old.session)
    check_alive(old.session, head)
    check_guard(old.session, head, command.guard, tx.now_us)
    run = await open_record(tx, command.tenant, head, command.id)
    return await _store(tx, command.tenant, head, run, rules.change(old, command.changes))


async def _store(tx: Tx, tenant: str, head: Head, run: OpenRun, given: Run) -> Run:
    moment_us = head.moment(tx.now_us)
    stored = settle_record(head, run, given, moment_us)
    save_run(tx, tenant, head, given.id, run)
    await wake_parent(tx, tenant, head, run)
    await touch(tx, head, moment_us)
    return stored


async def wake_parent(tx: Tx, tenant: str, head: Head, run: OpenRun) -> None:
    """Enqueue on the parent's session that its child is done, if this write made it so.

    The run is written already. One without a parent needs no look here. A session that is gone or
    deleted does not hear it.
    """
    child = run.new
    if child is None or child.parent_run is None or not rules.ends(child, run.old):
        return
    parent = await find_run(tx, tenant, child.parent_run)
    if parent is None:
        return
    own = parent.session == child.session
    home = head if own else await find_head(tx, tenant, parent.session)
    batch = rules.wake_up(child, parent, home)
    if batch is None or home is None or home.deleted_us is not None:
        return
    await work.put_batch(tx, tenant, home, batch)
    if not own:
        save_head(tx, home)


@handles(GetRun)
async def get_run(tx: Tx, query: GetRun) -> Run | None:
    """By id."""
    return await find_run(tx, query.tenant, query.id)


@handles(LatestRun)
async def latest_run(tx: Tx, query: LatestRun) -> Run | None:
    """The run that the session's newest pointer names: pointers move with every run write."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None or head.latest_run is None:
        return None
    return await find_run(tx, query.tenant, head.latest_run)
