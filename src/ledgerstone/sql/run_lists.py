"""Lists and trees of runs, over the sessions of a tenant."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.runs import GetRunTree, ListRuns, RunFilter
from ledgerstone.records.runs import Run, RunTree
from ledgerstone.records.sessions import Page
from ledgerstone.rules.run import grow
from ledgerstone.sql.run_rows import read_run
from ledgerstone.sql.tx import Tx


async def list_runs(tx: Tx, query: ListRuns) -> Page[Run]:
    """One page in the order of creation."""
    given = _filter(query.where)
    total = None
    if query.total:
        rows = await tx.pick("count_runs", tenant=query.tenant, **given)
        total = sum(count for (count,) in rows)
    if query.after is not None:
        given |= {"created_us": query.after[0], "id": query.after[1]}
    rows = await tx.pick(
        "list_runs", tenant=query.tenant, limit=query.limit + 1, offset=query.offset, **given
    )
    found = [read_run(id, body) for _, id, body in rows[: query.limit]]
    return Page(found, len(rows) > query.limit, None, total)


def _filter(where: RunFilter) -> dict[str, Any]:
    return {
        "anywhere": True if where.session is None else None,
        "session": where.session,
        "status": where.status,
        # Said by itself, so that the index over what is not done can be used.
        "unfinished": True if where.status not in (None, "done") else None,
        "parent_run": where.parent_run,
    }


async def get_run_tree(tx: Tx, query: GetRunTree) -> RunTree | None:
    """A run and everything below it."""
    rows = await tx.all("run_family", query.tenant, query.id)
    return grow(query.id, [read_run(id, body) for id, body in rows])
