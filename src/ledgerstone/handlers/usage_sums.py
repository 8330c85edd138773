"""Sums of use over groups, from the days that are kept and, at the edges, from the turns."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from typing import Any, NamedTuple, TypeAlias

from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.handlers.heads import descendants
from ledgerstone.handlers.registry import handles
from ledgerstone.records.stats import UsageSum
from ledgerstone.rules import usage as rules
from ledgerstone.rules.ledger import read_usage
from ledgerstone.rules.rows import UsageDay
from ledgerstone.tables.graph import TURNS_BY_REVISION
from ledgerstone.tables.sessions import (
    HEADS,
    SESSIONS,
    SESSIONS_BY_ID,
    SESSIONS_BY_USER,
)
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.usage import USAGE_DAYS, USAGE_DAYS_OF_TENANT

_PAGE_TURNS = 500
_PAGE_LINES = 2000
_LINE = ("day", "model", "provider", "source", "currency", *UsageDay.__struct_fields__, "number")
_KEY_SIZE = 5

_Line: TypeAlias = tuple[Any, ...]


class TurnUsage(NamedTuple):
    """What a turn used, as stored."""

    revision: int
    id: str
    created_us: int
    usage: bytes


class _Session(NamedTuple):
    number: int
    id: str
    user: str | None


async def day_pages(
    tx: Tx, tenant: str, numbers: list[int] | None, columns: tuple[str, ...], first: int, last: int
) -> AsyncIterator[list[tuple[Any, ...]]]:
    """Lines of usage_days from the first day on, before the last, of these sessions or of all.

    The first of the columns is the day.
    """
    for number in numbers or ():
        yield await tx.scan_columns(
            USAGE_DAYS.primary, columns, number, after=(first - 1,), before=(last,)
        )
    while numbers is None:
        rows = await tx.scan_columns(
            USAGE_DAYS_OF_TENANT, columns, tenant,
            after=(first - 1,), before=(last,), limit=_PAGE_LINES,
        )  # fmt: skip
        if len(rows) < _PAGE_LINES:
            yield rows
            return
        # The page may end in the middle of a day: this one is read as a whole.
        day = rows[-1][0]
        yield [row for row in rows if row[0] < day]
        yield await tx.scan_columns(USAGE_DAYS_OF_TENANT, columns, tenant, day)
        first = day + 1


async def usage_page(
    tx: Tx, number: int, after: int, last: int | None = None
) -> tuple[list[TurnUsage], int | None]:
    """The turns of a page that used something, after a revision and up to another.

    Then the revision that the next page begins after; None at the end.
    """
    rows = await tx.scan_columns(
        TURNS_BY_REVISION, TurnUsage._fields, number,
        after=(after,), before=None if last is None else (last + 1,), limit=_PAGE_TURNS,
    )  # fmt: skip
    found = [TurnUsage(*row) for row in rows if row[-1] is not None]
    return found, rows[-1][0] if len(rows) == _PAGE_TURNS else None


@handles(SummariseUsage)
async def summarise_usage(tx: Tx, query: SummariseUsage) -> list[UsageSum]:
    """Sums per group: whole days as they are kept, the rest from the turns."""
    summary = _Summary(tx, query, await _find_sessions(tx, query))
    if "run" in query.by:
        await summary.add_turns()
    else:
        await summary.add_days()
        for day in rules.edge_days(query.since_us, query.until_us):
            await summary.add_edge(day)
    return summary.tally.sums(query.by)


async def _find_sessions(tx: Tx, query: SummariseUsage) -> list[_Session] | None:
    """The sessions that a query is about; None: all of the tenant."""
    tenant = query.tenant
    if query.session is None:
        if query.user is None:
            return None
        rows = await tx.scan_columns(SESSIONS_BY_USER, _Session._fields, tenant, query.user)
        return [_Session(*row) for row in rows]
    row = await tx.find(SESSIONS_BY_ID, tenant, query.session)
    found = [] if row is None else [_Session(row.number, row.id, row.user)]
    if query.include_children:
        below = await descendants(tx, tenant, query.session)
        found += [_Session(row.number, row.id, row.user) for row in below]
    return [one for one in found if query.user in (None, one.user)]


class _Summary:
    """The sums of one query while they are added up."""

    def __init__(self, tx: Tx, query: SummariseUsage, sessions: list[_Session] | None) -> None:
        self.tally = rules.Tally()
        self._tx = tx
        self._query = query
        self._numbers = None if sessions is None else [one.number for one in sessions]
        self._known = {one.number: one for one in sessions or ()}

    async def add_days(self) -> None:
        """Add the days that lie in the range completely."""
        query = self._query
        async for lines in self._lines(*rules.whole_days(query.since_us, query.until_us)):
            for line in lines:
                key, sums = _parts(line)
                session = self._session(line[-1])
                group = rules.group_of(query.by, key, session.id, session.user, None)
                self.tally.add(group, key[-1], sums)

    async def add_edge(self, day: int) -> None:
        """Add those uses of a day that lie in the range."""
        days: dict[int, dict[rules.DayKey, UsageDay]] = {}
        async for lines in self._lines(day, day + 1):
            for line in lines:
                key, sums = _parts(line)
                days.setdefault(line[-1], {})[key] = sums
        for number, wanted in days.items():
            self._add_uses(number, await _uses_of_day(self._tx, number, day, wanted))

    async def add_turns(self) -> None:
        """Add every use in the range by itself: days do not know of runs."""
        query, numbers = self._query, set[int]()
        async for lines in self._lines(*rules.touched_days(query.since_us, query.until_us)):
            numbers.update(line[-1] for line in lines)
        for number in sorted(numbers):
            after: int | None = 0
            while after is not None:
                turns, after = await usage_page(self._tx, number, after)
                self._add_uses(number, _read_uses(turns))

    def _add_uses(self, number: int, uses: Iterable[rules.Use]) -> None:
        session = self._session(number)
        rules.tell(self._query, self.tally, uses, session.id, session.user)

    async def _lines(self, first: int, last: int) -> AsyncIterator[list[_Line]]:
        tx, tenant, named = self._tx, self._query.tenant, {"session", "user"} & {*self._query.by}
        async for lines in day_pages(tx, tenant, self._numbers, _LINE, first, last):
            if named and self._numbers is None:
                missing = sorted({line[-1] for line in lines} - self._known.keys())
                for row in await tx.get_many(SESSIONS, [(number,) for number in missing]):
                    if row is not None:
                        self._known[row.number] = _Session(row.number, row.id, row.user)
            yield lines

    def _session(self, number: int) -> _Session:
        return self._known.get(number) or _Session(number, "", None)


def _parts(line: _Line) -> tuple[rules.DayKey, UsageDay]:
    day, model, provider, source, currency = line[:_KEY_SIZE]
    return (day, model, provider, source, currency), UsageDay(*line[_KEY_SIZE:-1])


def _read_uses(turns: Iterable[TurnUsage]) -> list[rules.Use]:
    return [(turn.created_us, entry) for turn in turns for entry in read_usage(turn.id, turn.usage)]


async def _uses(tx: Tx, number: int, first: int, last: int | None) -> list[rules.Use]:
    """The uses of the commits after one, up to another."""
    found: list[rules.Use] = []
    after: int | None = first
    while after is not None:
        turns, after = await usage_page(tx, number, after, last)
        found += _read_uses(turns)
    return found


async def _uses_of_day(
    tx: Tx, number: int, day: int, wanted: dict[rules.DayKey, UsageDay]
) -> list[rules.Use]:
    """The uses of one day. Times rise with revisions, unless a record was imported with a time
    of its own: then the sums of the day do not fit, and every use is looked at.
    """
    head = await tx.get(HEADS, number)
    first, last = 0, 0 if head is None else head.revision
    if last > _PAGE_TURNS:
        first = await _last_before(tx, number, day * rules.US_PER_DAY, first, last)
        last = await _last_before(tx, number, (day + 1) * rules.US_PER_DAY, first, last)
    uses = _on_day(await _uses(tx, number, first, last), day)
    if rules.sum_days(uses) != wanted:
        uses = _on_day(await _uses(tx, number, 0, None), day)
    return uses


def _on_day(uses: Iterable[rules.Use], day: int) -> list[rules.Use]:
    return [use for use in uses if rules.day_of(use[0]) == day]


async def _last_before(tx: Tx, number: int, us: int, low: int, high: int) -> int:
    """The last of the commits from `low` to `high` that is before a moment, by halving."""
    while low < high:
        middle = (low + high + 1) // 2
        turns = await tx.scan_columns(TURNS_BY_REVISION, ("created_us",), number, middle)
        if turns and turns[0][0] < us:
            low = middle
        else:
            high = middle - 1
    return low
