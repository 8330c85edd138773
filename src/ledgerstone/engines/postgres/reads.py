"""Queries that PostgreSQL answers in a way of its own; handlers answer all others."""

from __future__ import annotations

from functools import partial
from typing import Any

from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.commands.sessions import CountSessions, ListSessions
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.engines.postgres.verify import verify_store
from ledgerstone.engines.session_lists import count_sessions, list_sessions
from ledgerstone.engines.usage_sums import summarise_usage
from ledgerstone.handlers.all import HANDLERS
from ledgerstone.handlers.registry import Handler
from ledgerstone.records.feed import FeedEntry
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.transaction import Tx


async def pick(tx: Tx, name: str, **given: Any) -> list[tuple[Any, ...]]:
    """The rows of a statement with conditional lines; arguments that are None are not given."""
    text, bound = load("postgres")[name].variant_of(given)
    rows: Any = tx.rows
    found: list[tuple[Any, ...]] = await rows.asking.fetch(text, bound)
    return found


async def read_feed(tx: Tx, query: ReadFeed) -> list[FeedEntry]:
    """Commits of a tenant, up to the oldest transaction that is under way; else as the handler."""
    if query.session is not None:
        found: list[FeedEntry] = await HANDLERS[ReadFeed](tx, query)
        return found
    rows = await pick(tx, "read_feed", tenant=query.tenant, after=query.after, limit=query.limit)
    names = ("pos", "session", "revision", "turn", "kind", "nodes", "created_us")
    return [FeedEntry(**dict(zip(names, row, strict=True))) for row in rows]


async def feed_end(tx: Tx, query: FeedEnd) -> int:
    """The newest position that a reader of this tenant may see; 0 before the first commit."""
    return (await pick(tx, "feed_end", tenant=query.tenant))[0][0] or 0


OWN: dict[type, Handler[Any, Any]] = {
    ReadFeed: read_feed,
    FeedEnd: feed_end,
    ListSessions: partial(list_sessions, pick),
    CountSessions: partial(count_sessions, pick),
    SummariseUsage: partial(summarise_usage, pick),
    VerifyStore: verify_store,
}
