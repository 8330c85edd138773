"""Days, ranges, periods: the arithmetic below the sums."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest

from ledgerstone import Cost, Usage
from ledgerstone.clock import to_us
from ledgerstone.errors import BudgetExceeded, InvalidValue
from ledgerstone.records.stats import Budget
from ledgerstone.records.usage import UsageEntry
from ledgerstone.rules import usage as rules
from ledgerstone.rules.rows import UsageDay

DAY = rules.US_PER_DAY


def at(year: int, month: int, day: int, hour: int = 0) -> int:
    return to_us(datetime(year, month, day, hour, tzinfo=UTC))


@pytest.mark.parametrize("year", [1969, 1970, 2000, 2024, 2026, 2100])
def test_months_follow_each_other_without_gaps(year: int) -> None:
    for month in range(1, 13):
        start = at(year, month, 1)
        first, last = rules.period_days("month", start)
        assert (rules.period_start("month", start), first) == (start, start // DAY)
        assert rules.period_start("month", last * DAY - 1) == start
        assert rules.period_start("month", last * DAY) == last * DAY
        following = date(1970, 1, 1) + timedelta(days=last)
        assert (following.day, following.month) == (1, month % 12 + 1)


def test_a_day_begins_at_midnight_in_utc() -> None:
    assert rules.period_start("day", at(2026, 11, 16, 23)) == at(2026, 11, 16)
    assert rules.period_start("day", -1) == -DAY
    assert rules.period_days("day", at(1970, 1, 3)) == (2, 3)
    assert rules.period_start("total", at(2026, 1, 1)) == 0


@pytest.mark.parametrize("us", [(1 << 62) - 1, -(1 << 62)])
def test_times_beyond_the_calendar_do_no_harm(us: int) -> None:
    for period in ("total", "day", "month"):
        since = rules.period_start(period, us)
        assert abs(since) < 1 << 63
        assert rules.period_start(period, since) == since
    assert rules.day_text(us // DAY) == str(us // DAY)


def test_the_days_of_a_range() -> None:
    noon, midnight = 5 * DAY + DAY // 2, 7 * DAY
    assert rules.whole_days(noon, midnight) == (6, 7)
    assert rules.edge_days(noon, midnight) == [5]
    assert rules.edge_days(5 * DAY, midnight) == []
    assert rules.edge_days(noon, noon + 1) == [5]
    assert rules.edge_days(noon, 9 * DAY + 1) == [5, 9]
    assert rules.edge_days(noon, noon) == rules.edge_days(noon + 1, noon) == []
    assert rules.touched_days(noon, midnight + 1) == (5, 8)
    first, last = rules.whole_days(None, None)
    assert first < -(10**9)
    assert last > 10**9


def test_uses_of_one_key_are_one_line() -> None:
    entry = UsageEntry("m", Usage(1, 2, total=9), cost=Cost(5))
    found = rules.by_day((entry, entry, UsageEntry("m", Usage(1))), 3 * DAY + 1)
    assert found == {
        (3, "m", "", "", "USD"): UsageDay(2, 2, 4, total=18, cost_nano=10),
        (3, "m", "", "", ""): UsageDay(1, 1, total=1),
    }
    huge = UsageEntry("m", Usage(1 << 61))
    with pytest.raises(InvalidValue):
        rules.by_day((huge, huge), 0)


def test_what_a_budget_allows() -> None:
    both = Budget(id="b", scope="tenant", cost_nano=10, tokens=10)
    entry = UsageEntry("m", Usage(4), cost=Cost(6))
    rules.check_budget(both, 4, 6, rules.asked_of(both, (entry,)))
    for used in ((5, 0), (0, 7)):
        with pytest.raises(BudgetExceeded):
            rules.check_budget(both, *used, rules.asked_of(both, (entry,)))
    nothing = rules.asked_of(both, (UsageEntry("m", Usage(), cost=Cost(0)),))
    rules.check_budget(both, 99, 99, nothing)
    unknown = rules.asked_of(both, (entry, UsageEntry("m", Usage(), cost=Cost(1, "EUR"))))
    assert not unknown.priced
