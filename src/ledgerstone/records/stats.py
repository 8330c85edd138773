"""What a session cost and did, in sums that are kept as it goes."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from ledgerstone import ids
from ledgerstone.records import Created
from ledgerstone.records.usage import Cost, Usage, UsageEntry

Grouping = Literal["model", "provider", "source", "day", "user", "session", "run"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)

Scope = Literal["tenant", "user", "session"]
SCOPES: tuple[Scope, ...] = get_args(Scope)
Period = Literal["total", "day", "month"]
PERIODS: tuple[Period, ...] = get_args(Period)
BudgetMode = Literal["refuse_next", "refuse_commit"]
BUDGET_MODES: tuple[BudgetMode, ...] = get_args(BudgetMode)


class Stats(msgspec.Struct, frozen=True, kw_only=True):
    """A session in numbers; reading them costs the same however long it is.

    A tool call that has no outcome counts in `tool_calls` only. `costs` has one line per
    currency, `unpriced` counts the uses whose cost nobody knows.
    """

    session: str
    messages: int = 0
    user_messages: int = 0
    turns: int = 0
    tool_calls: int = 0
    tool_calls_succeeded: int = 0
    tool_calls_failed: int = 0
    average_duration_ms: int = 0
    usage: Usage = Usage()
    costs: list[Cost] = []
    calls: int = 0
    unpriced: int = 0


class UsageRecord(Created, msgspec.Struct, frozen=True, kw_only=True):
    """One recorded use at its place: the commit that brought it, and its position there.

    `over_budget`: only in the answer of `usage.record`, the budgets that it went beyond.
    """

    session: str
    revision: int
    n: int
    turn: str
    entry: UsageEntry
    created_us: int
    over_budget: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """Its own id: as given, or derived from its place."""
        return self.entry.id or ids.derive("usage", self.session, self.turn, str(self.n))

    @property
    def message_id(self) -> str | None:
        return self.entry.message


class UsageSum(msgspec.Struct, frozen=True, kw_only=True):
    """Use summed over everything that `by` names: {"model": ..., "day": "2026-11-16"}."""

    by: dict[str, str | None]
    calls: int = 0
    usage: Usage = Usage()
    costs: list[Cost] = []
    unpriced: int = 0


class UsageDeleted(msgspec.Struct, frozen=True):
    """How many rows of each kind went."""

    executions: int
    records: int


class Budget(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session, a user or the tenant may use per period.

    Mode refuse_next: a commit beyond it is kept and marked, the next turn is refused;
    refuse_commit: the commit itself is refused.
    """

    id: str
    scope: Scope
    subject: str | None = None
    period: Period = "total"
    cost_nano: int | None = None
    currency: str = "USD"
    tokens: int | None = None
    mode: BudgetMode = "refuse_next"


class BudgetsFound(msgspec.Struct, frozen=True, kw_only=True):
    """The budgets that bound a session, by id; `any`: the tenant has at least one budget."""

    states: list[BudgetState]
    any: bool


class BudgetState(msgspec.Struct, frozen=True, kw_only=True):
    """A budget, and what of it is used in the period that runs now (from `since_us` on)."""

    budget: Budget
    spent_nano: int = 0
    spent_tokens: int = 0
    since_us: int = 0

    @property
    def cost_left(self) -> Cost | None:
        """The money that is left, negative when it was overspent; None without such a limit."""
        limit = self.budget.cost_nano
        return None if limit is None else Cost(limit - self.spent_nano, self.budget.currency)

    @property
    def tokens_left(self) -> int | None:
        """The same for tokens."""
        limit = self.budget.tokens
        return None if limit is None else limit - self.spent_tokens
