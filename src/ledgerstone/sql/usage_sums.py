"""Sums of use over groups, from the days that are kept and, at the edges, from the turns."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.records.stats import UsageSum
from ledgerstone.rules import usage as rules
from ledgerstone.rules.ledger import read_usage
from ledgerstone.rules.rows import UsageDay
from ledgerstone.sql.tx import Tx

_CHUNK_TURNS = 500
_PARTING = ("session", "user", "day")
_LAST_REVISION = 1 << 62


async def summarise_usage(tx: Tx, query: SummariseUsage) -> list[UsageSum]:
    """Sums per group: whole days as they are kept, the rest as the turns tell it."""
    tally = rules.Tally()
    if "run" in query.by:
        await _add_uses(tx, query, tally)
        return tally.sums(query.by)
    first, last = rules.whole_days(query.since_us, query.until_us)
    parts = {f"{'each' if name in query.by else 'no'}_{name}": True for name in _PARTING}
    rows = await tx.pick("sum_usage", first=first, last=last, **parts, **_scope(query))
    for session, user, day, model, provider, source, currency, *counts in rows:
        key = (day, model, provider, source, currency)
        group = rules.group_of(query.by, key, session, user, None)
        tally.add(group, currency, UsageDay(counts[0], *rules.from_halves(counts[1:])))
    for day in rules.edge_days(query.since_us, query.until_us):
        for number, session, user in await _sessions_using(tx, query, day, day + 1):
            uses = await _uses_of_day(tx, number, day)
            rules.tell(query, tally, uses, session, user)
    return tally.sums(query.by)


def _scope(query: SummariseUsage) -> dict[str, Any]:
    children = query.include_children and query.session is not None
    return {
        "tenant": query.tenant,
        "whole": True if query.session is None and query.user is None else None,
        "session": None if children else query.session,
        "below": query.session if children else None,
        "user": query.user,
    }


async def _sessions_using(tx: Tx, query: SummariseUsage, first: int, last: int) -> list[Any]:
    return await tx.pick("sessions_using", first=first, last=last, **_scope(query))


async def _add_uses(tx: Tx, query: SummariseUsage, tally: rules.Tally) -> None:
    """Days do not know of runs: every use is looked at."""
    first, last = rules.touched_days(query.since_us, query.until_us)
    for number, session, user in await _sessions_using(tx, query, first, last):
        uses = await _uses(tx, number, 0, _LAST_REVISION)
        rules.tell(query, tally, uses, session, user)


async def _uses(tx: Tx, number: int, after: int, last: int) -> list[rules.Use]:
    """The uses of the commits after one, up to another."""
    found: list[rules.Use] = []
    while rows := await tx.all("usage_between", number, after, last, _CHUNK_TURNS):
        for _, turn, created_us, usage in rows:
            found += [(created_us, entry) for entry in read_usage(turn, usage)]
        after = rows[-1][0]
    return found


async def _uses_of_day(tx: Tx, number: int, day: int) -> list[rules.Use]:
    """The uses of one day. Times rise with revisions, unless a record was imported with a time
    of its own: then the sums of the day do not fit, and every use is looked at.
    """
    before = await _revision_before(tx, number, day * rules.US_PER_DAY)
    last = await _revision_before(tx, number, (day + 1) * rules.US_PER_DAY)
    rows = await tx.all("usage_of_day", number, day)
    wanted = {tuple(row[:5]): UsageDay(*row[5:]) for row in rows}
    uses = await _uses(tx, number, before, last)
    if rules.sum_days(uses) != wanted:
        uses = await _uses(tx, number, 0, _LAST_REVISION)
    return [use for use in uses if rules.day_of(use[0]) == day]


async def _revision_before(tx: Tx, number: int, us: int) -> int:
    """The last commit before a moment, by halving."""
    row = await tx.one("revision_of", number)
    low, high = 0, 0 if row is None else row[0]
    while low < high:
        middle = (low + high + 1) // 2
        turn = await tx.one("turn_at", number, middle)
        if turn is not None and turn[1] < us:
            low = middle
        else:
            high = middle - 1
    return low
