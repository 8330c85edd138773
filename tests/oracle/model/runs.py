"""Runs: put by themselves or inside a commit, changed, read by id."""

from __future__ import annotations

import msgspec

from ledgerstone.codec import decode_struct, encode_struct
from ledgerstone.commands.runs import GetRun, LatestRun, PutRun, UpdateRun
from ledgerstone.errors import (
    AlreadyExists,
    Corrupt,
    InvalidValue,
    RunNotFound,
    SessionBindingMismatch,
)
from ledgerstone.records.runs import Run
from ledgerstone.rules.guard import check_guard
from ledgerstone.rules.run import change, ends, go_on, point, settle, wake_up
from tests.oracle.model import work
from tests.oracle.model.rows import RunRow
from tests.oracle.model.standing import Standing, find, require_alive, save_head
from tests.oracle.model.state import Tx

_decoder = msgspec.json.Decoder(Run)


def read_run(run: str, row: RunRow) -> Run:
    """The record in a row; Corrupt when it does not decode."""
    try:
        return decode_struct(_decoder, row.data)
    except (ValueError, InvalidValue, msgspec.MsgspecError) as error:
        raise Corrupt("runs", run, "data", str(error)) from None


def store_run(tx: Tx, standing: Standing, run: Run, moment_us: int, *, whole: bool = True) -> Run:
    """Settle a run against the stored one and point the head at it; the head is not saved.

    `whole` False: what is not said of the run stays as it was.
    """
    key = (standing.tenant, run.id)
    row = tx.state.runs.get(key)
    old = None
    if row is not None:
        if row.session != standing.id:
            raise SessionBindingMismatch(row.session, standing.id)
        old = read_run(run.id, row)
        _forget_place(tx, row.number, run.id)
    settled = settle(run if whole else go_on(run, old), old, moment_us, standing.head.incarnation)
    data = encode_struct(settled, "run")
    tx.state.runs.put(key, RunRow(standing.number, standing.id, data))
    times = (settled.updated_us, settled.created_us)
    tx.state.session_runs.insert((standing.number, run.id), times)
    point(standing.head, settled)
    if ends(settled, old):
        _wake_parent(tx, standing, settled)
    return settled


def _forget_place(tx: Tx, number: int, run: str) -> None:
    # A kept run of a purged session has no place any more.
    if (number, run) in tx.state.session_runs:
        tx.state.session_runs.delete((number, run))


def _wake_parent(tx: Tx, standing: Standing, run: Run) -> None:
    """Enqueue on the parent's session that its child is done."""
    if run.parent_run is None:
        return
    parent = get_run(tx, GetRun(tenant=standing.tenant, id=run.parent_run))
    if parent is None:
        return
    home = find(tx, standing.tenant, parent.session)
    batch = wake_up(run, parent, None if home is None else home.head)
    if batch is not None:
        work.wake_session(tx, standing.tenant, standing, batch)


def put_run(tx: Tx, command: PutRun) -> Run:
    """Create a run, or with `upsert` overwrite it."""
    run = command.run
    found = require_alive(tx, command.tenant, run.session)
    if not command.upsert and (command.tenant, run.id) in tx.state.runs:
        raise AlreadyExists(run.id)
    return _store(tx, found, run)


def update_run(tx: Tx, command: UpdateRun) -> Run:
    """Change some fields of a run."""
    old = get_run(tx, GetRun(tenant=command.tenant, id=command.id))
    if old is None:
        raise RunNotFound(command.id)
    found = require_alive(tx, command.tenant, old.session)
    check_guard(found.id, found.head, command.guard, tx.now_us)
    return _store(tx, found, change(old, command.changes))


def _store(tx: Tx, found: Standing, run: Run) -> Run:
    moment_us = found.head.moment(tx.now_us)
    stored = store_run(tx, found, run, moment_us)
    found.head.updated_us = moment_us
    save_head(tx, found)
    return stored


def get_run(tx: Tx, query: GetRun) -> Run | None:
    """By id, anywhere in the tenant."""
    row = tx.state.runs.get((query.tenant, query.id))
    return None if row is None else read_run(query.id, row)


def latest_run(tx: Tx, query: LatestRun) -> Run | None:
    """The run of a session with the greatest update time."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return None
    runs = tx.state.session_runs.scan((found.number,))
    newest = max(((*times, key[1]) for key, times in runs), default=None)
    return None if newest is None else get_run(tx, GetRun(tenant=query.tenant, id=newest[2]))
