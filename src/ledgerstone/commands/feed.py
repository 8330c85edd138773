"""The feed of commits."""

from __future__ import annotations

from ledgerstone.commands import Query
from ledgerstone.records.feed import FeedEntry


class ReadFeed(Query[list[FeedEntry]], frozen=True, kw_only=True):
    """Commits after a position, in order: of the tenant, or of one session by revision."""

    after: int = 0
    session: str | None = None
    limit: int = 200


class FeedEnd(Query[int], frozen=True, kw_only=True):
    """The position of the newest commit: where to begin if only what comes counts."""
