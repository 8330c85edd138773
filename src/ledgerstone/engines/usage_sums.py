"""Sums of what a tenant or a user used, in one statement: the database adds up the days.

The handler (handlers/usage_sums.py) is the reference, and answers what is not asked here: sums of
sessions, and those that begin or end in the middle of a day.
"""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.engines.session_lists import Pick
from ledgerstone.handlers.registry import HANDLERS
from ledgerstone.rules import usage as rules
from ledgerstone.rules.rows import UsageDay
from ledgerstone.tables.transaction import Tx

_PARTING = ("session", "user", "day")


async def summarise_usage(pick: Pick, of_users: bool, tx: Tx, query: SummariseUsage) -> Any:
    """Sums per group; `of_users`: the database finds those of one user without all others."""
    is_whole = query.session is None and "run" not in query.by
    is_whole = is_whole and (of_users or query.user is None)
    if not is_whole or list(rules.edge_days(query.since_us, query.until_us)):
        return await HANDLERS[SummariseUsage](tx, query)
    first, last = rules.whole_days(query.since_us, query.until_us)
    parts = {f"{'each' if name in query.by else 'no'}_{name}": True for name in _PARTING}
    bounds = {"tenant": query.tenant, "user": query.user, "first": first, "last": last}
    tally = rules.Tally()
    for row in await pick(tx, "summed_usage", **bounds, **parts):
        session, user, day, model, provider, source, currency, *counts = row
        key = (day, model, provider, source, currency)
        group = rules.group_of(query.by, key, session, user, None)
        tally.add(group, currency, UsageDay(counts[0], *rules.from_halves(counts[1:])))
    return tally.sums(query.by)
