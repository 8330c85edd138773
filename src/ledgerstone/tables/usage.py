"""Sums of what was used, and budgets. They follow from other rows; verify counts them again."""

from __future__ import annotations

import msgspec

from ledgerstone.rules.rows import UsageDay
from ledgerstone.tables.table import Table


class CallSumsRow(msgspec.Struct, frozen=True, gc=False):
    """The tool calls of a session, counted."""

    number: int
    calls: int
    succeeded: int
    failed: int
    duration_ms: int


class UsageDayRow(msgspec.Struct, frozen=True, gc=False):
    """What a session used on a day of a model; the currency is empty where there is no price."""

    number: int
    day: int
    model: str
    provider: str
    source: str
    currency: str
    tenant: str
    calls: int
    input: int
    output: int
    cached_input: int
    cache_write: int
    reasoning: int
    total: int
    cost_nano: int


class BudgetRow(msgspec.Struct, frozen=True, gc=False):
    """What may be used, and what of it was since `since_us`; `body` is the whole record."""

    tenant: str
    scope: str
    subject: str
    id: str
    body: bytes
    since_us: int
    spent_nano: int
    spent_tokens: int


CALL_SUMS = Table(
    "call_sums",
    CallSumsRow,
    ("number",),
    owner="number",
    sums=("calls", "succeeded", "failed", "duration_ms"),
)
USAGE_DAYS = Table(
    "usage_days",
    UsageDayRow,
    ("number", "day", "model", "provider", "source", "currency"),
    owner="number",
    sums=UsageDay.__struct_fields__,
)
USAGE_DAYS_OF_TENANT = USAGE_DAYS.index("tenant", "tenant", "day")

BUDGETS = Table("budgets", BudgetRow, ("tenant", "scope", "subject", "id"), sealed=("body",))
BUDGETS_BY_ID = BUDGETS.index("id", "tenant", "id", unique=True)
