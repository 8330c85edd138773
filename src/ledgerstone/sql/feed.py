"""The feed: the rows of commits, in the order they were written."""

from __future__ import annotations

from collections.abc import Sequence

from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.records.feed import FeedEntry
from ledgerstone.sql.tx import Row, Tx

HALF_BYTES = 8


async def read_feed(tx: Tx, query: ReadFeed) -> list[FeedEntry]:
    """Commits after a position, or after a revision of one session."""
    if query.session is None:
        rows = await tx.all("read_feed", query.tenant, query.after, query.limit)
    else:
        key = (query.tenant, query.session)
        rows = await tx.all("read_session_feed", *key, query.after, query.limit)
    return [
        FeedEntry(
            session=session,
            revision=revision,
            turn=turn,
            kind=kind,
            nodes=count,
            created_us=created_us,
            pos=pos,
        )
        for pos, session, revision, turn, kind, count, created_us in rows
    ]


async def feed_end(tx: Tx, query: FeedEnd) -> int:
    """The newest position; 0 before the first commit."""
    row = await tx.one("feed_end", query.tenant)
    return 0 if row is None else row[0] or 0


def cursor_key(halves: Sequence[Row]) -> bytes:
    """The key that signs cursors, from the rows of `cursor_key`."""
    return b"".join(half.to_bytes(HALF_BYTES, "big", signed=True) for (half,) in halves)
