"""The feed: every commit of a tenant in the order it happened."""

from __future__ import annotations

import msgspec

from ledgerstone.records import Created


class FeedEntry(Created, msgspec.Struct, frozen=True, kw_only=True):
    """One commit. `cursor` is where to go on after it, in the whole tenant.

    `pos` is its position among the commits of all tenants: 0 on a tenant's handle.
    """

    session: str
    revision: int
    turn: str
    kind: str
    nodes: int
    created_us: int
    pos: int = 0
    cursor: str = ""


class FeedPage(msgspec.Struct, frozen=True, kw_only=True):
    """Some entries, and the cursor after the last of them (or the one that was given)."""

    entries: list[FeedEntry]
    cursor: str | None
    has_more: bool
