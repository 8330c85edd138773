"""Lists of sessions in one statement: the database joins, filters and sorts.

What the handlers (handlers/session_reads.py) find piece by piece; they are the reference, and
answer what is not asked here. The statements are those of each database (sql/queries).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

from ledgerstone.commands.sessions import CountSessions, ListSessions, SessionFilter
from ledgerstone.handlers.registry import HANDLERS
from ledgerstone.handlers.sessions import session_of
from ledgerstone.records.sessions import Page, Session
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.tables.sessions import SESSIONS, Head, SessionRow
from ledgerstone.tables.transaction import Tx

_ORDERS = {
    "-updated": "newest",
    "updated": "stalest",
    "-created": "youngest",
    "created": "oldest",
    "id": "first",
    "-id": "last",
}

Pick: TypeAlias = Callable[..., Awaitable[list[tuple[Any, ...]]]]
"""The rows of a statement with conditional lines, over a transaction and by name."""

_WIDTH = len(SESSIONS.columns)


async def list_sessions(pick: Pick, tx: Tx, query: ListSessions) -> Any:
    """One page in the order asked for."""
    if _needs_python(query.where):
        return await HANDLERS[ListSessions](tx, query)
    given = _filter(query.where) | {_ORDERS[query.order]: True}
    if query.after is not None:
        value, id = query.after
        given |= {"value": value, "id": id, "recency": value >> RECENCY_SHIFT}
    bounds = {"limit": query.limit + 1, "offset": query.offset}
    rows = await pick(tx, "listed_sessions", tenant=query.tenant, **bounds, **given)
    found = [_listed(row) for row in rows]
    total = None
    if query.total:
        counted = CountSessions(tenant=query.tenant, where=query.where)
        total = await count_sessions(pick, tx, counted)
    return Page(found[: query.limit], len(found) > query.limit, None, total)


async def count_sessions(pick: Pick, tx: Tx, query: CountSessions) -> Any:
    """How many sessions fit."""
    if _needs_python(query.where):
        return await HANDLERS[CountSessions](tx, query)
    rows = await pick(tx, "counted_sessions", tenant=query.tenant, **_filter(query.where))
    return rows[0][0]


def _needs_python(where: SessionFilter) -> bool:
    """Whether there is a filter that the statements do not know."""
    family = where.root or where.under is not None
    return family or where.id_prefix is not None or where.metadata_contains is not None


def _filter(where: SessionFilter) -> dict[str, Any]:
    return {
        "user": where.user,
        "app": where.app,
        "status": where.status,
        "parent": where.parent,
        "live": None if where.deleted else True,
        "created_after": where.created_after_us,
        "created_before": where.created_before_us,
        "metadata": where.metadata_equals,
    }


def _listed(row: tuple[Any, ...]) -> Session:
    """A row of a list as a record."""
    stored = SessionRow(*row[:_WIDTH])
    incarnation, updated_us, deleted_us, active_run, open_run, latest_run = row[_WIDTH:]
    head = Head(
        0,
        incarnation,
        deleted_us,
        updated_us=updated_us,
        active_run=active_run,
        open_run=open_run,
        latest_run=latest_run,
    )
    return session_of(stored, head)
