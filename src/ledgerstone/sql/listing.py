"""Lists of sessions: filters, orders, pages."""

from __future__ import annotations

from typing import Any

from ledgerstone.codec import encode_json
from ledgerstone.commands.sessions import CountSessions, ListSessions, SessionFilter
from ledgerstone.records.sessions import Page, Session
from ledgerstone.rules.filters import contains
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.sql.sessions import session_of
from ledgerstone.sql.tx import Tx

_ORDERS = {
    "-updated": "newest",
    "updated": "stalest",
    "-created": "youngest",
    "created": "oldest",
    "id": "first",
    "-id": "last",
}
_SCAN_ROWS = 200


async def list_sessions(tx: Tx, query: ListSessions) -> Page[Session]:
    """One page in the order asked for."""
    if query.where.metadata_contains is None:
        rows = await _rows(tx, query, query.after, query.limit + 1, query.offset)
        found = rows[: query.limit + 1]
    else:
        found = await _scan(tx, query, query.offset + query.limit + 1)
        found = found[query.offset :]
    total = None
    if query.total:
        total = await _count(tx, query.tenant, query.where)
    return Page(found[: query.limit], len(found) > query.limit, None, total)


async def count_sessions(tx: Tx, query: CountSessions) -> int:
    """How many sessions fit."""
    return await _count(tx, query.tenant, query.where)


async def _count(tx: Tx, tenant: str, where: SessionFilter) -> int:
    if where.metadata_contains is not None:
        query = ListSessions(tenant=tenant, where=where, order="id")
        return len(await _scan(tx, query, None))
    rows = await tx.pick("count_sessions", tenant=tenant, **_filter(where, fragment=False))
    return int(rows[0][0])


async def _scan(tx: Tx, query: ListSessions, enough: int | None) -> list[Session]:
    """Subset filters are judged here, chunk by chunk, the same on every database."""
    found: list[Session] = []
    after = query.after
    while True:
        rows = await _rows(tx, query, after, _SCAN_ROWS, 0)
        wanted = query.where.metadata_contains
        found += [session for session in rows if contains(session.metadata, wanted)]
        if len(rows) < _SCAN_ROWS or (enough is not None and len(found) >= enough):
            return found
        after = _key(query.order, rows[-1])


async def _rows(
    tx: Tx, query: ListSessions, after: tuple[int, str] | None, limit: int, offset: int
) -> list[Session]:
    given = _filter(query.where, fragment=True)
    given[_ORDERS[query.order]] = True
    if after is not None:
        given |= {"value": after[0], "id": after[1], "recency": after[0] >> RECENCY_SHIFT}
    rows = await tx.pick("list_sessions", tenant=query.tenant, limit=limit, offset=offset, **given)
    return [session_of(row) for row in rows]


def _key(order: str, session: Session) -> tuple[int, str]:
    if order.endswith("updated"):
        return (session.updated_us, session.id)
    if order.endswith("created"):
        return (session.created_us, session.id)
    return (0, session.id)


def _filter(where: SessionFilter, *, fragment: bool) -> dict[str, Any]:
    given: dict[str, Any] = {
        "user": where.user,
        "app": where.app,
        "status": where.status,
        "parent": where.parent,
        "live": None if where.deleted else True,
        "created_after": where.created_after_us,
        "created_before": where.created_before_us,
        "metadata": where.metadata_equals,
    }
    if fragment and where.metadata_contains:
        given["fragment"] = _fragment(where.metadata_contains)
    return given


def _fragment(wanted: dict[str, Any]) -> bytes | None:
    """Bytes that every fitting row must contain: lets the database skip most of the others."""
    for key, value in wanted.items():
        if not isinstance(value, dict):
            return encode_json({key: value}, "filter")[1:-1]
    return None
