"""Budgets: what may be used, checked by every commit that uses something.

What is used of a budget is the sum over usage_days of its subject, in the period of the last day
on which there is any.
"""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.usage import DropBudget, FindBudgets, ListBudgets, SetBudget
from ledgerstone.records.stats import Budget, BudgetsFound, BudgetState
from ledgerstone.records.usage import UsageEntry
from ledgerstone.rules import usage as rules
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.heads import find_head
from ledgerstone.sql.tx import Row, Tx


async def spend(tx: Tx, commit: Commit, entries: tuple[UsageEntry, ...]) -> None:
    """Check what a commit uses against every budget that bounds its session, and count it."""
    command, over = commit.command, []
    rows = await tx.all("budgets_of", command.tenant, commit.head.number, command.session)
    if len(rows) > 1:
        rows.sort()
    for id, body, since_us, *spent in rows:
        budget = rules.read_budget(id, body)
        start_us = rules.period_start(budget.period, commit.moment_us)
        nano, tokens = spent
        if start_us != since_us:
            nano, tokens = await spent_from(tx, command.tenant, budget, start_us)
        asked = rules.asked_of(budget, entries)
        if rules.goes_over(budget, nano, tokens, asked, forced=command.over_budget):
            over.append(id)
        if start_us >= since_us:
            more = rules.check_spent(nano + asked.nano, tokens + asked.tokens)
            await tx.run("spend", command.tenant, id, start_us, *more)
    if over:
        commit.effects["over_budget"] = over


async def spent_from(tx: Tx, tenant: str, budget: Budget, since_us: int) -> tuple[int, int]:
    """What was used in the period that began then: money and tokens."""
    first, last = rules.period_days(budget.period, since_us)
    rows = await tx.pick(
        "spent_between",
        currency=budget.currency,
        first=first,
        last=last,
        **_subject(tenant, budget),
    )
    nano, tokens = rules.from_halves([part or 0 for part in rows[0]])
    return nano, tokens


async def recount(tx: Tx, tenant: str, budget: Budget) -> tuple[int, int, int]:
    """What a budget's row must say: since when, money, tokens."""
    since_us = 0
    if budget.period != "total":
        day = (await tx.pick("last_used_day", **_subject(tenant, budget)))[0][0]
        if day is not None:
            since_us = rules.period_start(budget.period, day * rules.US_PER_DAY)
    return since_us, *await spent_from(tx, tenant, budget, since_us)


def _subject(tenant: str, budget: Budget) -> dict[str, Any]:
    name = "whole" if budget.scope == "tenant" else budget.scope
    return {"tenant": tenant, name: budget.subject or True}


async def _recount_all(tx: Tx, tenant: str, rows: list[Row]) -> None:
    for id, body, *_ in rows:
        since_us, *spent = await recount(tx, tenant, rules.read_budget(id, body))
        await tx.run("spend", tenant, id, since_us, *rules.check_spent(*spent))


async def forget_sums(tx: Tx, tenant: str, session: str, number: int) -> None:
    """The sums of a session go; the budgets that bound it are counted again."""
    await tx.run("drop_usage_days", number)
    await tx.run("drop_call_sums", number)
    await _recount_all(tx, tenant, await tx.all("budgets_of", tenant, number, session))


async def change_user(tx: Tx, tenant: str, old: str | None, new: str | None) -> None:
    """A session, with what it used, went from one user to another."""
    for user in (old, new) if old != new else ():
        if user is not None:
            rows = await tx.all("budgets_on", tenant, "user", user)
            await _recount_all(tx, tenant, rows)


async def set_budget(tx: Tx, command: SetBudget) -> BudgetState:
    """Set or replace a budget; what was used already counts."""
    budget = command.budget
    spent = await recount(tx, command.tenant, budget)
    rules.check_spent(*spent[1:])
    await tx.run("drop_budget", command.tenant, budget.id)
    await tx.run(
        "insert_budget",
        command.tenant,
        budget.id,
        budget.scope,
        rules.subject_of(budget),
        rules.encode_budget(budget),
        *spent,
    )
    return await _state(tx, command.tenant, budget, *spent)


async def drop_budget(tx: Tx, command: DropBudget) -> bool:
    """Remove a budget; False when there was none."""
    return await tx.run("drop_budget", command.tenant, command.id) > 0


async def list_budgets(tx: Tx, query: ListBudgets) -> list[BudgetState]:
    """By id: all, or those that bound a session."""
    if query.session is None:
        return await _states(tx, query.tenant, await tx.all("list_budgets", query.tenant))
    found = await find_budgets(tx, FindBudgets(tenant=query.tenant, session=query.session))
    return found.states


async def find_budgets(tx: Tx, query: FindBudgets) -> BudgetsFound:
    """By id: those that a turn of a session meets."""
    session = query.session or ""
    head = await find_head(tx, query.tenant, session) if session else None
    number = 0 if head is None else head.number
    rows = await tx.all("budgets_of", query.tenant, number, session)
    if head is None and query.user is not None:
        rows += await tx.all("budgets_on", query.tenant, "user", query.user)
    states = await _states(tx, query.tenant, sorted(rows))
    found = states or await tx.one("any_budget", query.tenant)
    return BudgetsFound(states=states, any=bool(found))


async def _states(tx: Tx, tenant: str, rows: list[Row]) -> list[BudgetState]:
    return [
        await _state(tx, tenant, rules.read_budget(id, body), *spent) for id, body, *spent in rows
    ]


async def _state(
    tx: Tx, tenant: str, budget: Budget, since_us: int, nano: int, tokens: int
) -> BudgetState:
    """A budget in the period that runs now."""
    now_us = rules.period_start(budget.period, tx.now_us)
    if now_us != since_us:
        nano, tokens = await spent_from(tx, tenant, budget, now_us)
    return rules.state_of(budget, now_us, nano, tokens)
