"""Usage: sums of what commits recorded, and the budgets that bound it."""

from __future__ import annotations

from ledgerstone.commands import FREE, Command, Guard, Query, SessionCommand, SessionQuery
from ledgerstone.records.stats import (
    Budget,
    BudgetsFound,
    BudgetState,
    Grouping,
    Stats,
    UsageDeleted,
    UsageRecord,
    UsageSum,
)


class GetStats(SessionQuery[Stats], frozen=True, kw_only=True):
    """A session in numbers; zeros for an unknown one."""


class ListUsage(SessionQuery[list[UsageRecord]], frozen=True, kw_only=True):
    """What was recorded in a session, oldest first, after (revision, n).

    `message`: only what was used for it; `id`: only the record with it.
    """

    message: str | None = None
    id: str | None = None
    after: tuple[int, int] = (0, 0)
    limit: int | None = None


class SummariseUsage(Query[list[UsageSum]], frozen=True, kw_only=True):
    """Sums per group, ordered by the group's values; from `since_us` on and before `until_us`.

    `include_children`: also sessions whose parent is `session`, and theirs.
    """

    by: tuple[Grouping, ...] = ("model",)
    session: str | None = None
    user: str | None = None
    since_us: int | None = None
    until_us: int | None = None
    include_children: bool = False


class DeleteUsage(SessionCommand[UsageDeleted], frozen=True, kw_only=True):
    """Remove a session's executions and usage; the chain of its commits still holds."""

    guard: Guard = FREE


class SetBudget(Command[BudgetState], frozen=True, kw_only=True):
    """Set or replace a budget; what was used already counts."""

    budget: Budget


class DropBudget(Command[bool], frozen=True, kw_only=True):
    """Remove a budget; False when there was none."""

    id: str


class FindBudgets(Query[BudgetsFound], frozen=True, kw_only=True):
    """The budgets that a turn of a session meets; with no session, of the user, or the tenant.

    `user` is whose session it will be, when there is none yet.
    """

    session: str | None = None
    user: str | None = None


class ListBudgets(Query[list[BudgetState]], frozen=True, kw_only=True):
    """All budgets of the tenant by id, or those that bound one session."""

    session: str | None = None
