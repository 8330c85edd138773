"""`ledgerstone usage`: what agents used, what it cost, and what budgets leave."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Annotated

from ledgerstone import Store
from ledgerstone.cli.failures import CliError
from ledgerstone.cli.options import (
    AsJson,
    OfSession,
    OfUser,
    StoreUrl,
    Tenant,
    find_session,
    option,
    reading,
    switch,
)
from ledgerstone.cli.output import moment, print_json, print_line, print_table, visible
from ledgerstone.records.stats import BudgetState, UsageSum
from ledgerstone.records.usage import Cost

EXAMPLE = "Example: ledgerstone usage --store agent.db --by day,model --since 2026-11-01"
COUNTS = ("CALLS", "INPUT", "OUTPUT", "TOKENS", "COST", "UNPRICED")
BUDGETS = ("BUDGET", "OF", "PERIOD", "MODE", "SINCE", "LIMIT", "USED", "LEFT", "")
BAR_CELLS = 30
SHORT_CELLS = 10
_EIGHTHS = " ▏▎▍▌▋▊▉"
_NANO_DIGITS = 9

By = Annotated[
    str,
    option(
        "--by",
        "NAMES",
        "Groups: model, provider, source, day, user, session, run; several with commas.",
    ),
]
Children = Annotated[bool, switch("--children", "With --session: and of those below it.")]
Since = Annotated[str | None, option("--since", "TIME", "From this day or time (UTC) on.")]
Until = Annotated[str | None, option("--until", "TIME", "Before this day or time (UTC).")]


def run(
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    by: By = "model",
    session: OfSession = None,
    children: Children = False,
    user: OfUser = None,
    since: Since = None,
    until: Until = None,
    as_json: AsJson = False,
) -> None:
    """Sum up tokens and money per group, draw them, and list the budgets that bound them.

    Times are UTC: 2026-11-16, or 2026-11-16T09:30. The end of a range does not belong to it.
    """
    if children and session is None:
        raise CliError("--children needs --session: whose children?")
    first, last = _time(since, "--since"), _time(until, "--until")
    with reading(store, tenant) as opened:
        if session is not None and not children:
            find_session(opened, session)
        sums = opened.usage.summary(
            by=by, session=session, user=user, since=first, until=last, include_children=children
        )
        budgets = _budgets(opened, session, user)
    if as_json:
        print_json({"usage": sums, "budgets": budgets})
        return
    _print_sums(sums)
    _print_budgets(budgets)


def _time(given: str | None, option: str) -> datetime | None:
    """A day, or a time; without a zone it is UTC."""
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
    except ValueError:
        raise CliError(f"{option}: a day like {date(2026, 11, 16)} or a time expected") from None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def _budgets(store: Store, session: str | None, user: str | None) -> list[BudgetState]:
    """Those that bound what is shown."""
    found = store.usage.budgets(session)
    if user is None:
        return found
    return [one for one in found if one.budget.scope != "user" or one.budget.subject == user]


def _print_sums(sums: Sequence[UsageSum]) -> None:
    if not sums:
        print_line("nothing was used")
        return
    headers = [name.upper() for name in sums[0].by]
    rows = [(*_group(one), *_counts(one)) for one in sums]
    total = _total(sums)
    if len(sums) > 1:
        rows.append((*(["all"] + [""] * (len(headers) - 1)), *_counts(total)))
    print_table((*headers, *COUNTS), rows)
    _draw(sums)


def _group(one: UsageSum) -> list[str]:
    return ["-" if value is None else value for value in one.by.values()]


def _counts(one: UsageSum) -> tuple[str, ...]:
    usage = one.usage
    return (
        f"{one.calls:,}",
        f"{usage.input:,}",
        f"{usage.output:,}",
        f"{usage.total_tokens:,}",
        ", ".join(money(cost) for cost in one.costs) or "-",
        f"{one.unpriced:,}" if one.unpriced else "",
    )


def _total(sums: Sequence[UsageSum]) -> UsageSum:
    costs: dict[str, int] = {}
    for one in sums:
        for cost in one.costs:
            costs[cost.currency] = costs.get(cost.currency, 0) + cost.nano
    usage = sums[0].usage
    for one in sums[1:]:
        usage += one.usage
    return UsageSum(
        by={},
        calls=sum(one.calls for one in sums),
        usage=usage,
        costs=[Cost(nano, currency) for currency, nano in sorted(costs.items())],
        unpriced=sum(one.unpriced for one in sums),
    )


def _draw(sums: Sequence[UsageSum]) -> None:
    """A bar per group: of money when all of it is of one currency, else of tokens."""
    if len(sums) < 2:
        return
    amounts, title = _amounts(sums)
    labels = [visible("  ".join(_group(one))) for one in sums]
    width = max(len(label) for label in labels)
    print_line()
    print_line(title, "dim")
    for label, (amount, text) in zip(labels, amounts, strict=True):
        largest = max(value for value, _ in amounts)
        print_line(f"{label.ljust(width)}  {bar(amount, largest, BAR_CELLS)} {text}".rstrip())


def _amounts(sums: Sequence[UsageSum]) -> tuple[list[tuple[int, str]], str]:
    currencies = {cost.currency for one in sums for cost in one.costs}
    if len(currencies) == 1 and not any(one.unpriced for one in sums):
        costs = [one.costs[0] if one.costs else Cost(0) for one in sums]
        return [(cost.nano, money(cost)) for cost in costs], "cost"
    tokens = [one.usage.total_tokens for one in sums]
    return [(count, f"{count:,}") for count in tokens], "tokens"


def bar(amount: int, largest: int, cells: int) -> str:
    """A bar that is `cells` long for the largest amount; something is never drawn as nothing."""
    if amount <= 0 or largest <= 0:
        return ""
    eighths = max(min(amount, largest) * cells * 8 // largest, 1)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def money(cost: Cost) -> str:
    """An amount with its currency; small ones to the last digit."""
    digits = 4 if abs(cost.nano) >= 10**6 else _NANO_DIGITS
    step = 10 ** (_NANO_DIGITS - digits)
    amount = (abs(cost.nano) + step // 2) // step
    units, rest = divmod(amount, 10**digits)
    tail = f"{rest:0{digits}d}".rstrip("0").ljust(2, "0")
    return f"{'-' if cost.nano < 0 else ''}{units:,}.{tail} {cost.currency}"


def _print_budgets(budgets: Sequence[BudgetState]) -> None:
    if not budgets:
        return
    rows = [row for one in budgets for row in _budget_rows(one)]
    print_line()
    print_table(BUDGETS, rows)


def _budget_rows(one: BudgetState) -> list[tuple[str, ...]]:
    """A line per limit."""
    budget, rows = one.budget, []
    subject = f"{budget.scope} {budget.subject}" if budget.subject else budget.scope
    head = (budget.id, subject, budget.period, budget.mode, moment(one.since_us)[:10])
    limits: list[tuple[int, int, str]] = []
    if budget.cost_nano is not None:
        limits.append((budget.cost_nano, one.spent_nano, budget.currency))
    if budget.tokens is not None:
        limits.append((budget.tokens, one.spent_tokens, ""))
    for limit, used, unit in limits:
        shown = [_amount(value, unit) for value in (limit, used, limit - used)]
        percent = f"{used * 100 // limit}%" if limit > 0 else ""
        filled = bar(used, max(limit, 1), SHORT_CELLS)
        rows.append((*head, *shown, f"{filled} {percent}".strip()))
    return rows


def _amount(value: int, currency: str) -> str:
    return money(Cost(value, currency)) if currency else f"{value:,} tokens"
