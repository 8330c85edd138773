"""Use per day, sums over groups, and what budgets allow: pure functions of both implementations."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date

import msgspec

from ledgerstone.clock import US_PER_S
from ledgerstone.codec import encode_struct
from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.errors import BudgetExceeded, InvalidValue
from ledgerstone.records.stats import Budget, BudgetState, Grouping, Period, UsageSum
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.rules.bodies import read_struct
from ledgerstone.rules.rows import UsageDay

US_PER_DAY = 86_400 * US_PER_S
SUM_BOUND = 1 << 62
"""What the sums of one day stay below, so that every database can hold and add them."""

FORGOTTEN = "forgotten"
"""The document that says until which revision the executions of a session were deleted."""

SPENT_BOUND = 1 << 63
"""What a budget counts stays below: it is one column."""

HALF_BITS = 31
"""Lower bits that statements add up apart from the upper ones, so that no sum leaves 64 bits."""

Calls = tuple[int, int, int, int]
"""Tool calls of a session: all, succeeded, failed, and the milliseconds of those."""

NO_CALLS: Calls = (0, 0, 0, 0)

DayKey = tuple[int, str, str, str, str]
"""Day, model, provider, source, currency; texts that were not given are empty."""

Use = tuple[int, UsageEntry]
"""When, and what."""

_EPOCH = date(1970, 1, 1).toordinal()
_EVER = 1 << 40
_budget = msgspec.json.Decoder(Budget)


def day_of(us: int) -> int:
    """The day in UTC, counted from 1970."""
    return us // US_PER_DAY


def day_text(day: int) -> str:
    """A day as ISO text; the bare number beyond the calendar."""
    try:
        return date.fromordinal(_EPOCH + day).isoformat()
    except (ValueError, OverflowError):
        return str(day)


def of_entry(entry: UsageEntry) -> UsageDay:
    """One use as a line of a day."""
    usage, cost = entry.usage, entry.cost
    return UsageDay(
        1,
        usage.input,
        usage.output,
        usage.cached_input,
        usage.cache_write,
        usage.reasoning,
        usage.total_tokens,
        0 if cost is None else cost.nano,
    )


def by_day(entries: Iterable[UsageEntry], moment_us: int) -> dict[DayKey, UsageDay]:
    """What uses at one moment add to the days."""
    found: dict[DayKey, UsageDay] = {}
    day = moment_us // US_PER_DAY
    for entry in entries:
        currency = "" if entry.cost is None else entry.cost.currency
        key = (day, entry.model, entry.provider or "", entry.source, currency)
        line = of_entry(entry)
        found[key] = check_sums(found[key] + line) if key in found else line
    return found


def sum_days(uses: Iterable[tuple[int, UsageEntry]]) -> dict[DayKey, UsageDay]:
    """What many uses, each at its moment, add to the days."""
    found: dict[DayKey, UsageDay] = {}
    for moment_us, entry in uses:
        for key, line in by_day((entry,), moment_us).items():
            found[key] = found[key] + line if key in found else line
    return found


def check_sums(line: UsageDay) -> UsageDay:
    """InvalidValue when the sums of a day grow beyond what can be stored."""
    if max(map(abs, msgspec.structs.astuple(line))) >= SUM_BOUND:
        raise InvalidValue("usage", "the sums of this day would be 2^62 or more")
    return line


def from_halves(parts: Sequence[int]) -> list[int]:
    """Sums of any size from those of their upper and lower bits, one after the other."""
    return [(high << HALF_BITS) + low for high, low in zip(parts[::2], parts[1::2], strict=True)]


def check_spent(nano: int, tokens: int) -> tuple[int, int]:
    """InvalidValue when what is used of a budget grows beyond what can be stored."""
    if max(abs(nano), abs(tokens)) >= SPENT_BOUND:
        raise InvalidValue("usage", "what is used of a budget would be 2^63 or more")
    return nano, tokens


def check_calls(sums: Calls) -> Calls:
    """InvalidValue when the time of counted tool calls grows beyond what can be stored."""
    if abs(sums[3]) >= SUM_BOUND:
        text = "the tool calls of this session would take 2^62 ms or more"
        raise InvalidValue("duration_ms", text)
    return sums


def line_name(key: DayKey) -> str:
    """A line of a day as a defect names it."""
    return " ".join((day_text(key[0]), *(part for part in key[1:] if part)))


def add_calls(sums: Calls, more: Calls, sign: int = 1) -> Calls:
    """Counted tool calls with others added, or with sign -1 taken away."""
    a, b, c, d = sums
    return a + sign * more[0], b + sign * more[1], c + sign * more[2], d + sign * more[3]


class Tally:
    """Lines of days, or single uses, summed per group."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str | None, ...], UsageDay] = {}
        self._costs: dict[tuple[str | None, ...], dict[str, int]] = {}
        self._unpriced: dict[tuple[str | None, ...], int] = {}

    def add(self, group: tuple[str | None, ...], currency: str, line: UsageDay) -> None:
        """Add a line to a group; without a currency its calls have no price."""
        old = self._lines.get(group)
        self._lines[group] = line if old is None else old + line
        if currency:
            costs = self._costs.setdefault(group, {})
            costs[currency] = costs.get(currency, 0) + line.cost_nano
        else:
            self._unpriced[group] = self._unpriced.get(group, 0) + line.calls

    def sums(self, by: Sequence[str]) -> list[UsageSum]:
        """One sum per group, in the order of the groups' values; None comes first."""
        return [
            UsageSum(
                by=dict(zip(by, group, strict=True)),
                calls=line.calls,
                usage=usage_of(line),
                costs=[
                    Cost(nano, currency)
                    for currency, nano in sorted(self._costs.get(group, {}).items())
                ],
                unpriced=self._unpriced.get(group, 0),
            )
            for group, line in sorted(self._lines.items(), key=_place)
        ]

    def total(self) -> UsageSum:
        """Everything that was added to the group without values; zeros when nothing was."""
        return next(iter(self.sums(())), UsageSum(by={}))


def _place(item: tuple[tuple[str | None, ...], UsageDay]) -> list[tuple[bool, str]]:
    return [(value is not None, value or "") for value in item[0]]


def usage_of(line: UsageDay) -> Usage:
    """The tokens of a line; the total as the uses gave it."""
    return Usage(
        line.input,
        line.output,
        line.cached_input,
        line.cache_write,
        line.reasoning,
        line.total,
    )


def group_of(
    by: Sequence[Grouping], key: DayKey, session: str, user: str | None, run_id: str | None
) -> tuple[str | None, ...]:
    """The values of the group a line belongs to."""
    day, model, provider, source, _ = key
    values: dict[str, str | None] = {
        "model": model,
        "provider": provider or None,
        "source": source,
        "day": day_text(day),
        "user": user,
        "session": session,
        "run": run_id,
    }
    return tuple(values[name] for name in by)


def tell(
    query: SummariseUsage, tally: Tally, uses: Iterable[Use], session: str, user: str | None
) -> None:
    """Add those of a session's uses that lie in the range of a question."""
    for created_us, entry in uses:
        if query.since_us is not None and created_us < query.since_us:
            continue
        if query.until_us is not None and created_us >= query.until_us:
            continue
        for key, line in by_day((entry,), created_us).items():
            group = group_of(query.by, key, session, user, entry.run_id)
            tally.add(group, key[-1], line)


def whole_days(since_us: int | None, until_us: int | None) -> tuple[int, int]:
    """The days that lie in a range completely: from the first on, before the second."""
    first = -_EVER if since_us is None else -(-since_us // US_PER_DAY)
    last = _EVER if until_us is None else until_us // US_PER_DAY
    return first, last


def touched_days(since_us: int | None, until_us: int | None) -> tuple[int, int]:
    """The days of which a range holds at least a part."""
    first = -_EVER if since_us is None else since_us // US_PER_DAY
    last = _EVER if until_us is None else -(-until_us // US_PER_DAY)
    return first, last


def edge_days(since_us: int | None, until_us: int | None) -> list[int]:
    """The days of which a range holds only a part."""
    borders = [us for us in (since_us, until_us) if us is not None and us % US_PER_DAY]
    if since_us is not None and until_us is not None and until_us <= since_us:
        return []
    return sorted({us // US_PER_DAY for us in borders})


def period_start(period: Period, moment_us: int) -> int:
    """When the period that a moment lies in began, in UTC."""
    if period == "total":
        return 0
    day = day_of(moment_us)
    return (_month(day)[0] if period == "month" else day) * US_PER_DAY


def period_days(period: Period, since_us: int) -> tuple[int, int]:
    """The days of the period that began then: from the first on, before the second."""
    if period == "total":
        return -_EVER, _EVER
    day = day_of(since_us)
    return _month(day) if period == "month" else (day, day + 1)


def _month(day: int) -> tuple[int, int]:
    """The first day of a day's month, and of the next one; the calendar's last month is long."""
    at = date.fromordinal(min(max(day + _EPOCH, 1), date.max.toordinal()))
    first = at.replace(day=1).toordinal() - _EPOCH
    if (at.year, at.month) == (9999, 12):
        return first, _EVER
    year, month = divmod(at.year * 12 + at.month, 12)
    return first, date(year, month + 1, 1).toordinal() - _EPOCH


class Asked(msgspec.Struct, frozen=True, gc=False):
    """What a commit would add to a budget; `priced`: every use has a cost in its currency."""

    nano: int
    tokens: int
    priced: bool


def asked_of(budget: Budget, entries: Iterable[UsageEntry]) -> Asked:
    """What uses ask of a budget. A correction takes back, so its cost need not be known."""
    nano = tokens = 0
    priced = True
    for entry in entries:
        total = entry.usage.total_tokens
        tokens += total
        if entry.cost is not None and entry.cost.currency == budget.currency:
            nano += entry.cost.nano
        elif total >= 0:
            priced = False
    return Asked(nano, tokens, priced)


def check_budget(budget: Budget, used_nano: int, used_tokens: int, asked: Asked) -> None:
    """BudgetExceeded when what is asked for does not fit in any more."""
    limit = budget.cost_nano
    if limit is not None:
        if not asked.priced:
            raise _exceeded(budget, limit, used_nano, None, budget.currency)
        if asked.nano > 0 and used_nano + asked.nano > limit:
            raise _exceeded(budget, limit, used_nano, asked.nano, budget.currency)
    limit = budget.tokens
    if limit is not None and asked.tokens > 0 and used_tokens + asked.tokens > limit:
        raise _exceeded(budget, limit, used_tokens, asked.tokens, "tokens")


def goes_over(
    budget: Budget, used_nano: int, used_tokens: int, asked: Asked, *, forced: bool
) -> bool:
    """Return whether a commit goes beyond a budget and is kept; BudgetExceeded if it is refused.

    `forced`: the caller said that it was used already.
    """
    try:
        check_budget(budget, used_nano, used_tokens, asked)
    except BudgetExceeded:
        if budget.mode == "refuse_commit" and not forced:
            raise
        return True
    return False


def check_left(state: BudgetState) -> None:
    """BudgetExceeded when nothing of a budget is left."""
    budget = state.budget
    if budget.cost_nano is not None and state.spent_nano >= budget.cost_nano:
        raise _exceeded(budget, budget.cost_nano, state.spent_nano, 0, budget.currency)
    if budget.tokens is not None and state.spent_tokens >= budget.tokens:
        raise _exceeded(budget, budget.tokens, state.spent_tokens, 0, "tokens")


def check_begin(states: Iterable[BudgetState]) -> None:
    """BudgetExceeded when a budget that refuses the next turn is used up."""
    for state in states:
        if state.budget.mode == "refuse_next":
            check_left(state)


def check_estimate(state: BudgetState, entry: UsageEntry | None) -> None:
    """BudgetExceeded when nothing of a budget is left, or an estimate does not fit in it.

    An estimate without a model has no price; only its tokens are compared.
    """
    check_left(state)
    if entry is not None:
        asked = asked_of(state.budget, (entry,))
        if not entry.model:
            asked = Asked(0, asked.tokens, priced=True)
        check_budget(state.budget, state.spent_nano, state.spent_tokens, asked)


def _exceeded(
    budget: Budget, limit: int, used: int, asked: int | None, unit: str
) -> BudgetExceeded:
    return BudgetExceeded(
        budget.id,
        limit,
        used,
        asked,
        unit,
        budget.scope,
        budget.subject,
        budget.period,
    )


def subject_of(budget: Budget) -> str:
    """Whom a budget bounds, as its row says it; the tenant has no name of its own there."""
    return budget.subject or ""


def encode_budget(budget: Budget) -> bytes:
    """A budget as it is stored."""
    return encode_struct(budget, "budget")


def read_budget(id: str, body: bytes) -> Budget:
    """A stored budget; Corrupt when it does not decode."""
    return read_struct(_budget, body, "budgets", id)


def state_of(budget: Budget, since_us: int, nano: int, tokens: int) -> BudgetState:
    """A budget as callers see it."""
    return BudgetState(budget=budget, spent_nano=nano, spent_tokens=tokens, since_us=since_us)
