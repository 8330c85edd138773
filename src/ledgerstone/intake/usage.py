"""Uses, budgets and groups as callers may give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from typing import Any, Protocol, TypeAlias

from msgspec.structs import astuple

from ledgerstone import ids
from ledgerstone.clock import US_PER_S
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.records.stats import (
    BUDGET_MODES,
    GROUPINGS,
    PERIODS,
    Budget,
    Grouping,
    Scope,
)
from ledgerstone.records.usage import COUNT_BOUND, CURRENCIES, Cost, Usage, UsageEntry

Moment: TypeAlias = date | datetime | int
"""An aware datetime, microseconds, or a day: its first moment in UTC."""

_COUNTS = Usage.__struct_fields__
_EPOCH = date(1970, 1, 1)


class Priced(Protocol):
    """Whatever has a price list."""

    @property
    def prices(self) -> Any: ...


def usage_entry(
    priced: Priced,
    model: str,
    usage: Usage | Mapping[str, int],
    *,
    cost: Cost | None,
    source: str,
    provider: str | None,
    run_id: str | None,
    correction: bool,
    id: str | None = None,
    message: IdRef | None = None,
) -> UsageEntry:
    """One use of a model, checked, and priced unless its cost is given."""
    model = ids.check_name(model, "model")
    source = source if source == "" else ids.check_label(source, "source")
    provider = None if provider is None else ids.check_label(provider, "provider")
    checks.flag(correction, "correction")
    usage = _usage(usage, correction)
    given = None if cost is None else _cost(cost, correction)
    found = priced.prices.cost(model, usage, provider) if given is None else None
    return UsageEntry(
        model,
        usage,
        source,
        provider,
        given or found,
        run_id,
        estimated=found is not None,
        id="" if id is None else ids.check_id(id, "id"),
        message=checks.maybe_id(message, "message"),
    )


def _usage(value: Usage | Mapping[str, int], correction: bool) -> Usage:
    if not isinstance(value, Usage):
        if not isinstance(value, Mapping):
            raise InvalidValue("usage", f"a Usage expected, got {type(value).__name__}")
        for name in value:
            if name not in _COUNTS:
                raise InvalidValue(f"usage.{name!s:.40}", f"unknown; there is {', '.join(_COUNTS)}")
        value = Usage(**value)
    for count in astuple(value)[: None if value.total is not None else -1]:
        if type(count) is not int or not 0 <= count < COUNT_BOUND:
            break
    else:
        return value
    for name in _COUNTS:
        count = getattr(value, name)
        if count is None and name == "total":
            continue
        if type(count) is not int or abs(count) >= COUNT_BOUND:
            reason = f"an integer below 2^53 expected, got {count!r:.40}"
            raise InvalidValue(f"usage.{name}", reason)
        if count < 0 and not correction:
            reason = f"{count} is negative; a correction says correction=True"
            raise InvalidValue(f"usage.{name}", reason)
    return value


def _cost(cost: object, correction: bool) -> Cost:
    if not isinstance(cost, Cost):
        raise InvalidValue("cost", "a Cost in integer nano-units, below 2^53, expected")
    for nano in (cost.nano, cost.input_nano or 0, cost.output_nano or 0):
        if type(nano) is not int or abs(nano) >= COUNT_BOUND:
            raise InvalidValue("cost", "a Cost in integer nano-units, below 2^53, expected")
        if nano < 0 and not correction:
            raise InvalidValue("cost", f"{nano} is negative; a correction says correction=True")
    currency(cost.currency, "cost.currency")
    return cost


def _limit(cost: Cost) -> Cost:
    if _cost(cost, correction=True).nano < 0:
        raise InvalidValue("cost", f"{cost.nano} is negative; a budget is 0 or more")
    return cost


def currency(value: object, field: str) -> str:
    if not isinstance(value, str) or value not in CURRENCIES:
        raise InvalidValue(field, f"{value!r:.40} is no ISO 4217 code, such as USD or EUR")
    return value


def groups(by: str | Iterable[str]) -> tuple[Grouping, ...]:
    """What sums are grouped by: one name, several, or text with commas; none gives one sum."""
    names: Any = by.split(",") if isinstance(by, str) else by
    if not isinstance(names, Iterable):
        raise InvalidValue("by", f"names of groups expected, got {type(by).__name__}")
    found: list[Grouping] = []
    for name in names:
        given = name.strip() if isinstance(name, str) else name
        one = checks.one_of(given, GROUPINGS, "by")
        if one in found:
            raise InvalidValue("by", f"{one} is named twice")
        found.append(one)
    return tuple(found)


def moment(value: Moment | None, field: str) -> int | None:
    """A bound of a time range, in microseconds."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH).days * 86_400 * US_PER_S
    return checks.maybe_micros(value, field)


def budget_of(
    *,
    session: SessionRef | None,
    user: str | None,
    cost: Cost | None,
    tokens: int | None,
    period: str,
    mode: str,
    id: str | None,
) -> Budget:
    """A budget of a session, a user, or with neither of the tenant."""
    scope, subject = _subject(session, user)
    if cost is None and tokens is None:
        raise InvalidValue("cost", "give cost or tokens: a budget without a limit bounds nothing")
    if cost is not None:
        _limit(cost)
    if tokens is not None:
        checks.whole(tokens, "tokens")
    per = checks.one_of(period, PERIODS, "period")
    unit = "tokens" if cost is None else cost.currency
    default = ids.derive("budget", scope, subject or "", per, unit)
    return Budget(
        id=default if id is None else ids.check_id(id, "id"),
        scope=scope,
        subject=subject,
        period=per,
        cost_nano=None if cost is None else cost.nano,
        currency="USD" if cost is None else cost.currency,
        tokens=tokens,
        mode=checks.one_of(mode, BUDGET_MODES, "mode"),
    )


def _subject(session: SessionRef | None, user: str | None) -> tuple[Scope, str | None]:
    if session is not None and user is not None:
        raise InvalidValue("user", "a budget is of a session or of a user, not of both")
    if session is not None:
        return "session", checks.session_id(session)
    if user is not None:
        return "user", ids.check_id(user, "user")
    return "tenant", None


def estimate(
    priced: Priced,
    usage: Usage | Mapping[str, int] | None,
    model: str | None,
    provider: str | None,
    cost: Cost | None,
) -> UsageEntry | None:
    """What a call may use; None when nothing is estimated. Without a model nothing is priced."""
    if usage is None and cost is None:
        if model is not None:
            raise InvalidValue("estimate", "give the usage that is expected of the model, or cost")
        return None
    given = Usage() if usage is None else usage
    if model is None and cost is None:
        return UsageEntry("", _usage(given, correction=False))
    return usage_entry(
        priced,
        model or "unknown",
        given,
        cost=cost,
        source="",
        provider=provider,
        run_id=None,
        correction=False,
    )
