"""Lists and trees of runs, over the sessions of a tenant."""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone.commands.runs import GetRunTree, ListRuns, RunFilter
from ledgerstone.records.runs import Run, RunTree
from ledgerstone.records.sessions import Page
from ledgerstone.rules.run import grow
from tests.oracle.model.rows import RunRow
from tests.oracle.model.runs import read_run
from tests.oracle.model.state import Tx


def list_runs(tx: Tx, query: ListRuns) -> Page[Run]:
    """One page in the order of creation."""
    found = [run for run in _runs(tx, query) if _fits(run, query.where)]
    found.sort(key=_key)
    total = len(found) if query.total else None
    if query.after is not None:
        found = [run for run in found if _key(run) > query.after]
    piece = found[query.offset : query.offset + query.limit]
    return Page(piece, len(found) > query.offset + len(piece), None, total)


def _runs(tx: Tx, query: ListRuns) -> Iterator[Run]:
    """Every run of the tenant, or of one session: then only those need decoding."""
    for (_, id), row in _rows(tx, query.tenant):
        if query.where.session in (None, row.session):
            yield read_run(id, row)


def _rows(tx: Tx, tenant: str) -> Iterator[tuple[tuple[str, str], RunRow]]:
    return tx.state.runs.scan((tenant,))


def _fits(run: Run, where: RunFilter) -> bool:
    return where.status in (None, run.status) and where.parent_run in (None, run.parent_run)


def _key(run: Run) -> tuple[int, str]:
    return run.created_us, run.id


def get_run_tree(tx: Tx, query: GetRunTree) -> RunTree | None:
    """A run and everything below it."""
    if (query.tenant, query.id) not in tx.state.runs:
        return None
    found = [
        read_run(id, row)
        for (_, id), row in _rows(tx, query.tenant)
        # Most runs have no parent: they need no decoding to be left out.
        if id == query.id or b'"parent_run":' in row.data
    ]
    return grow(query.id, found)
