"""Lists and trees of runs, over the sessions of a tenant."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, NamedTuple

from ledgerstone.commands.runs import GetRunTree, ListRuns
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.run_rows import find_run, read_run
from ledgerstone.records.runs import Run, RunTree
from ledgerstone.records.sessions import Page
from ledgerstone.rules.run import grow
from ledgerstone.tables.runs import (
    KEPT_RUNS_BY_CREATION,
    KEPT_RUNS_BY_PARENT,
    KEPT_RUNS_BY_SESSION,
    RUNS,
    RUNS_BY_CREATION,
    RUNS_BY_PARENT,
    RUNS_OPEN,
)
from ledgerstone.tables.sessions import PURGED, SESSIONS_BY_ID
from ledgerstone.tables.table import Index, Key
from ledgerstone.tables.transaction import Tx

_CHUNK_RUNS = (50, 500)
"""The fewest and the most that are read at once."""
_creation = attrgetter("created_us", "id")


class _Range(NamedTuple):
    """Where runs that are asked for stand, among others; all but a session's by creation."""

    order: Index[Any]
    prefix: Key
    tells: tuple[str, ...]
    """The columns that tell whether a run is asked for."""

    def pick(self, rows: list[Any], query: ListRuns, purged: set[int]) -> list[Any]:
        """Those of the rows that are asked for."""
        tell = attrgetter(*self.tells)
        return [row for row in rows if _fits(query, purged, *tell(row))]


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
    """One page in the order of creation."""
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
    end = query.offset + query.limit
    page = [read_run(row.id, row.body) for row in found[query.offset : end]]
    return Page(page, len(found) > end, None, total)


async def _purged(tx: Tx, tenant: str) -> set[int]:
    """The sessions of which rows are left, though they are gone."""
    return {number for (number,) in await tx.scan_columns(PURGED.primary, ("number",), tenant)}


async def _living(tx: Tx, query: ListRuns) -> list[_Range]:
    """Where the runs of sessions stand; nowhere when there is no session of that id."""
    tenant, where, tells = query.tenant, query.where, ("status", "parent_run", "number")
    if where.session is not None:
        session = await tx.find(SESSIONS_BY_ID, tenant, where.session)
        return [] if session is None else [_Range(RUNS.primary, (session.number,), tells)]
    if where.parent_run is not None:
        return [_Range(RUNS_BY_PARENT, (tenant, where.parent_run), tells)]
    if where.status not in (None, "done"):
        return [_Range(RUNS_OPEN, (tenant, where.status), tells)]
    return [_Range(RUNS_BY_CREATION, (tenant,), tells)]


def _kept(query: ListRuns) -> _Range:
    """Where the runs stand that outlived their session."""
    tenant, where, tells = query.tenant, query.where, ("status", "parent_run")
    if where.session is not None:
        return _Range(KEPT_RUNS_BY_SESSION, (tenant, where.session), tells)
    if where.parent_run is not None:
        return _Range(KEPT_RUNS_BY_PARENT, (tenant, where.parent_run), tells)
    return _Range(KEPT_RUNS_BY_CREATION, (tenant,), tells)


async def _first(tx: Tx, one: _Range, query: ListRuns, purged: set[int]) -> list[Any]:
    """The first rows of a range that are asked for: one more than the page needs."""
    if one.order is RUNS.primary:
        rows = one.pick(await tx.scan(one.order, *one.prefix), query, purged)
        return [row for row in rows if query.after is None or _creation(row) > query.after]
    wanted = query.offset + query.limit + 1
    few, many = _CHUNK_RUNS
    size = min(max(wanted, few), many)
    found: list[Any] = []
    after: Key | None = query.after
    while len(found) < wanted:
        rows = await tx.scan(one.order, *one.prefix, after=after, limit=size)
        found += one.pick(rows, query, purged)
        if len(rows) < size:
            break
        after = _creation(rows[-1])
    return found


@handles(GetRunTree)
async def get_run_tree(tx: Tx, query: GetRunTree) -> RunTree | None:
    """A run and everything below it."""
    root = await find_run(tx, query.tenant, query.id)
    if root is None:
        return None
    purged = await _purged(tx, query.tenant)
    found = {root.id: root}
    parents = [root.id]
    for parent in parents:
        place = (query.tenant, parent)
        living = await tx.scan(RUNS_BY_PARENT, *place)
        below = [(row.id, row.body) for row in living if row.number not in purged]
        kept = await tx.scan(KEPT_RUNS_BY_PARENT, *place)
        below += [(row.id, row.body) for row in kept]
        for id, body in below:
            if id not in found:  # Parents may go round in a circle.
                found[id] = read_run(id, body)
                parents.append(id)
    return grow(query.id, found.values())
