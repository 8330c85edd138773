"""Runs: which nodes each wrote in a session, their records, and lists and trees of them.

A session knows its runs by small numbers: nodes carry the number, one row per session and run holds
the id, the stretch of ords the run wrote and the record.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from ledgerstone.codec import encode_struct
from ledgerstone.commands.runs import GetRun, GetRunTree, LatestRun, ListRuns, PutRun, UpdateRun
from ledgerstone.errors import (
    AlreadyExists,
    RunNotFound,
    SessionBindingMismatch,
)
from ledgerstone.handlers.heads import find_head, open_session, save_head, touch
from ledgerstone.handlers.paging import first_fitting, page_of
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.work import put_batch
from ledgerstone.records.runs import Run, RunTree
from ledgerstone.records.sessions import Page
from ledgerstone.rules import run as rules
from ledgerstone.rules.bodies import read_struct
from ledgerstone.rules.guard import check_guard
from ledgerstone.rules.run import grow
from ledgerstone.tables import runs as tables
from ledgerstone.tables.sessions import PURGED, SESSIONS, SESSIONS_BY_ID, Head
from ledgerstone.tables.table import Index, Key
from ledgerstone.tables.transaction import Tx

_decoder = msgspec.json.Decoder(Run)
_SPARSE = 16
"""Numbers are read as one range unless it holds this many times more rows than are asked for."""


_creation = attrgetter("created_us", "id")


class OpenRun(msgspec.Struct, gc=False):
    """A session's row of a run while it is written to; ords are 0 before its first node.

    `stored` is the row that is there already. `kept`: the record outlived an earlier session of
    this id, and goes with the run.
    """

    number: int
    first_ord: int = 0
    last_ord: int = 0
    stored: tables.RunRow | None = None
    kept: bool = False
    old: Run | None = None
    new: Run | None = None

    def wrote(self, ord: int) -> int:
        """Note that the run wrote this node too; answers the run's number."""
        self.first_ord = self.first_ord or ord
        self.last_ord = ord
        return self.number


async def open_record(tx: Tx, tenant: str, head: Head, id: str) -> OpenRun:
    """The session's row of a run and the run's record, wherever in the tenant it is."""
    rows = await tx.scan(tables.RUNS_BY_ID, id)
    run = _open(head, next((row for row in rows if row.number == head.number), None))
    record = await _record_among(tx, tenant, rows, head.number)
    if record is not None:
        run.old = read_run(id, record.body)
        return run
    kept = await tx.get(tables.KEPT_RUNS, tenant, id)
    if kept is not None:
        run.old, run.kept = read_run(id, kept.body), True
    return run


async def open_mention(tx: Tx, head: Head, id: str) -> OpenRun:
    """The session's row of a run that nodes name; no record is needed for that."""
    return _open(head, await tx.find(tables.RUNS_BY_ID, id, head.number))


def _open(head: Head, row: tables.RunRow | None) -> OpenRun:
    if row is not None:
        return OpenRun(row.n, row.first_ord, row.last_ord, row)
    head.runs += 1  # The session meets this run for the first time.
    return OpenRun(head.runs)


def settle_record(head: Head, run: OpenRun, given: Run, moment_us: int) -> Run:
    """The record as it will be stored, projected on the head; the caller writes both."""
    if run.old is not None and run.old.session != given.session:
        raise SessionBindingMismatch(run.old.session, given.session)
    run.new = stored = rules.settle(given, run.old, moment_us, head.incarnation)
    rules.point(head, stored)
    return stored


def save_run(tx: Tx, tenant: str, head: Head, id: str, run: OpenRun) -> None:
    """Write the session's row of a run."""
    row, record = run.stored or tables.RunRow(head.number, run.number, id), run.new
    if record is None:
        row = replace(row, first_ord=run.first_ord, last_ord=run.last_ord)
    else:
        row = replace(
            row,
            first_ord=run.first_ord,
            last_ord=run.last_ord,
            tenant=tenant,
            status=record.status,
            parent_run=record.parent_run,
            created_us=record.created_us,
            body=encode_struct(record, "run"),
        )
    if run.stored is None:
        tx.insert(tables.RUNS, [row])
    else:
        tx.put(tables.RUNS, row)
    if record is not None and run.kept:
        tx.delete(tables.KEPT_RUNS, tenant, id)


async def run_names(tx: Tx, head: Head, numbers: set[int]) -> dict[int, str]:
    """Run ids by their numbers in a session."""
    if not numbers:
        return {}
    first, last = min(numbers), max(numbers)
    if last - first < _SPARSE * len(numbers):
        names = await tx.scan_columns(
            tables.RUNS.primary, ("n", "id"), head.number, after=(first - 1,), before=(last + 1,)
        )
        return dict(names)
    rows = await tx.get_many(tables.RUNS, [(head.number, number) for number in sorted(numbers)])
    return {row.n: row.id for row in rows if row is not None}


async def find_run(tx: Tx, tenant: str, id: str) -> Run | None:
    """A stored record, or None."""
    row = await _record_among(tx, tenant, await tx.scan(tables.RUNS_BY_ID, id))
    if row is None:
        kept = await tx.get(tables.KEPT_RUNS, tenant, id)
        return None if kept is None else read_run(id, kept.body)
    return read_run(id, row.body)


async def _record_among(
    tx: Tx, tenant: str, rows: list[tables.RunRow], own: int | None = None
) -> tables.RunRow | None:
    """The row with the tenant's record of a run; `own` is a session that is known to be there."""
    for row in rows:
        if row.tenant != tenant:
            continue
        # The rows of a purged session are as good as gone.
        if row.number == own or await tx.get(SESSIONS, row.number) is not None:
            return row
    return None


def read_run(id: str, body: bytes | None) -> Run:
    """A record from its column; Corrupt, naming the row."""
    return read_struct(_decoder, body, "runs", id)


@handles(PutRun)
async def put_run(tx: Tx, command: PutRun) -> Run:
    given = command.run
    head = await open_session(tx, command.tenant, given.session)
    run = await open_record(tx, command.tenant, head, given.id)
    if run.old is not None and not command.upsert:
        raise AlreadyExists(given.id)
    return await _store(tx, command.tenant, head, run, given)


@handles(UpdateRun)
async def update_run(tx: Tx, command: UpdateRun) -> Run:
    old = await find_run(tx, command.tenant, command.id)
    if old is None:
        raise RunNotFound(command.id)
    head = await open_session(tx, command.tenant, old.session)
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
    await put_batch(tx, tenant, home, batch)
    if not own:
        save_head(tx, home)


@handles(GetRun)
async def get_run(tx: Tx, query: GetRun) -> Run | None:
    return await find_run(tx, query.tenant, query.id)


@handles(LatestRun)
async def latest_run(tx: Tx, query: LatestRun) -> Run | None:
    """The run that the session's newest pointer names: pointers move with every run write."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None or head.latest_run is None:
        return None
    return await find_run(tx, query.tenant, head.latest_run)


class _Range(NamedTuple):
    """Where runs that are asked for stand, among others; all but a session's by creation."""

    order: Index[Any]
    prefix: Key
    tells: tuple[str, ...]
    """The columns that tell whether a run is asked for."""


def _fits(
    query: ListRuns,
    purged: set[int],
    status: str | None,
    parent_run: str | None,
    number: int | None = None,
) -> bool:
    """Whether there is a record, of a session that is there, and the filter allows it."""
    if status is None or number in purged:
        return False
    where = query.where
    return where.status in (None, status) and where.parent_run in (None, parent_run)


@handles(ListRuns)
async def list_runs(tx: Tx, query: ListRuns) -> Page[Run]:
    purged = await _purged(tx, query.tenant)
    ranges = [*await _living(tx, query), _kept(query)]
    total = None
    if query.total:
        total = 0
        for one in ranges:
            rows = await tx.scan_columns(one.order, one.tells, *one.prefix)
            total += sum(_fits(query, purged, *row) for row in rows)
    found = []
    for one in ranges:
        found += await _first(tx, one, query, purged)
    found.sort(key=_creation)
    return page_of(query, found, lambda row: read_run(row.id, row.body), total)


async def _purged(tx: Tx, tenant: str) -> set[int]:
    """The sessions of which rows are left, though they are gone."""
    return {number for (number,) in await tx.scan_columns(PURGED.primary, ("number",), tenant)}


async def _living(tx: Tx, query: ListRuns) -> list[_Range]:
    """Where the runs of sessions stand; nowhere when there is no session of that id."""
    tenant, where, tells = query.tenant, query.where, ("status", "parent_run", "number")
    if where.session is not None:
        session = await tx.find(SESSIONS_BY_ID, tenant, where.session)
        return [] if session is None else [_Range(tables.RUNS.primary, (session.number,), tells)]
    if where.parent_run is not None:
        return [_Range(tables.RUNS_BY_PARENT, (tenant, where.parent_run), tells)]
    if where.status not in (None, "done"):
        return [_Range(tables.RUNS_OPEN, (tenant, where.status), tells)]
    return [_Range(tables.RUNS_BY_CREATION, (tenant,), tells)]


def _kept(query: ListRuns) -> _Range:
    """Where the runs stand that outlived their session."""
    tenant, where, tells = query.tenant, query.where, ("status", "parent_run")
    if where.session is not None:
        return _Range(tables.KEPT_RUNS_BY_SESSION, (tenant, where.session), tells)
    if where.parent_run is not None:
        return _Range(tables.KEPT_RUNS_BY_PARENT, (tenant, where.parent_run), tells)
    return _Range(tables.KEPT_RUNS_BY_CREATION, (tenant,), tells)


async def _first(tx: Tx, one: _Range, query: ListRuns, purged: set[int]) -> list[Any]:
    """The first rows of a range that are asked for: one more than the page needs."""

    async def fitting(rows: list[Any]) -> list[Any]:
        tell = attrgetter(*one.tells)
        return [row for row in rows if _fits(query, purged, *tell(row))]

    if one.order is tables.RUNS.primary:
        rows = await fitting(await tx.scan(one.order, *one.prefix))
        return [row for row in rows if query.after is None or _creation(row) > query.after]
    wanted = query.offset + query.limit + 1
    return await first_fitting(tx, one.order, one.prefix, fitting, wanted, after=query.after)


@handles(GetRunTree)
async def get_run_tree(tx: Tx, query: GetRunTree) -> RunTree | None:
    root = await find_run(tx, query.tenant, query.id)
    if root is None:
        return None
    purged = await _purged(tx, query.tenant)
    found = {root.id: root}
    parents = [root.id]
    for parent in parents:
        place = (query.tenant, parent)
        living = await tx.scan(tables.RUNS_BY_PARENT, *place)
        below = [(row.id, row.body) for row in living if row.number not in purged]
        kept = await tx.scan(tables.KEPT_RUNS_BY_PARENT, *place)
        below += [(row.id, row.body) for row in kept]
        for id, body in below:
            if id not in found:  # Parents may go round in a circle.
                found[id] = read_run(id, body)
                parents.append(id)
    return grow(query.id, found.values())
