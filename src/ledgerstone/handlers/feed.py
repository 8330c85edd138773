"""The feed: commits in the order they happened."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.handlers.registry import handles
from ledgerstone.records.feed import FeedEntry
from ledgerstone.tables.graph import TURNS, TURNS_BY_REVISION
from ledgerstone.tables.sessions import SESSIONS, SESSIONS_BY_ID
from ledgerstone.tables.transaction import Tx

_PAGE_ROWS = 50
"""At least so many commits are looked at once: most may be of other tenants."""

_COLUMNS = ("pos", "number", "revision", "id", "kind", "count", "created_us")


@handles(ReadFeed)
async def read_feed(tx: Tx, query: ReadFeed) -> list[FeedEntry]:
    """Commits after a position, or after a revision of one session."""
    if query.session is None:
        return await _of_tenant(tx, query)
    session = await tx.find(SESSIONS_BY_ID, query.tenant, query.session)
    if session is None:
        return []
    rows = await tx.scan_columns(
        TURNS_BY_REVISION, _COLUMNS, session.number, after=(query.after,), limit=query.limit
    )
    return [_entry(session.id, row) for row in rows]


async def _of_tenant(tx: Tx, query: ReadFeed) -> list[FeedEntry]:
    """The commits of all tenants are looked at; `ids` are the sessions of this one."""
    found: list[FeedEntry] = []
    ids: dict[int, str | None] = {}
    after, size = query.after, max(query.limit, _PAGE_ROWS)
    while len(found) < query.limit:
        rows = await tx.scan_columns(TURNS.primary, _COLUMNS, after=(after,), limit=size)
        await _add_sessions(tx, query.tenant, ids, [row[1] for row in rows])
        for row in rows:
            session = ids[row[1]]
            if session is not None:
                found.append(_entry(session, row))
        if len(rows) < size:
            break
        after = rows[-1][0]
    return found[: query.limit]


async def _add_sessions(
    tx: Tx, tenant: str, ids: dict[int, str | None], numbers: list[int]
) -> None:
    """Enter the ids of sessions; None for those that are purged or of another tenant."""
    unknown = [number for number in dict.fromkeys(numbers) if number not in ids]
    rows = await tx.get_many(SESSIONS, [(number,) for number in unknown])
    for number, row in zip(unknown, rows, strict=True):
        ids[number] = row.id if row is not None and row.tenant == tenant else None


def _entry(session: str, row: tuple[Any, ...]) -> FeedEntry:
    pos, _, revision, turn, kind, count, created_us = row
    return FeedEntry(
        session=session,
        revision=revision,
        turn=turn,
        kind=kind,
        nodes=count,
        created_us=created_us,
        pos=pos,
    )


@handles(FeedEnd)
async def feed_end(tx: Tx, query: FeedEnd) -> int:
    """The position of the newest commit of the store, whoever asks; 0 before the first one."""
    return await tx.last_serial(TURNS)
