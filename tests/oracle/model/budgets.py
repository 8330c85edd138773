"""Budgets: what may be used, checked by every commit that uses something.

What is used of a budget is the sum over usage_days of its subject, in the period of the last day
on which there is any.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone.commands.usage import DropBudget, FindBudgets, ListBudgets, SetBudget
from ledgerstone.records.reports import Defect
from ledgerstone.records.stats import Budget, BudgetsFound, BudgetState
from ledgerstone.records.usage import UsageEntry
from ledgerstone.rules import usage as rules
from ledgerstone.rules.rows import UsageDay
from tests.oracle.model.commits import Commit
from tests.oracle.model.rows import Spent
from tests.oracle.model.state import State, Tx


def spend(commit: Commit, entries: tuple[UsageEntry, ...]) -> None:
    """Check what a commit uses against every budget that bounds its session, and count it."""
    tx, command = commit.tx, commit.command
    tenant, user = command.tenant, commit.standing.row.user
    for budget in _bounding(tx.state, tenant, command.session, user):
        spent = tx.state.budget_spent[(tenant, budget.id)]
        start_us = rules.period_start(budget.period, commit.moment_us)
        now = spent if start_us == spent.since_us else _spent(tx.state, tenant, budget, start_us)
        asked = rules.asked_of(budget, entries)
        if rules.goes_over(budget, now.nano, now.tokens, asked, forced=command.over_budget):
            commit.over_budget.append(budget.id)
        if start_us >= spent.since_us:
            more = rules.check_spent(now.nano + asked.nano, now.tokens + asked.tokens)
            tx.state.budget_spent.put((tenant, budget.id), Spent(start_us, *more))
    if commit.over_budget:
        commit.effects["over_budget"] = commit.over_budget


def _bounding(state: State, tenant: str, session: str, user: str | None) -> list[Budget]:
    """The budgets of a session, its user and the tenant, by id."""
    subjects = [("session", session), ("tenant", "")]
    if user is not None:
        subjects.append(("user", user))
    ids = [id for scope, subject in subjects for id in _ids(state, tenant, scope, subject)]
    return [state.budgets[(tenant, id)] for id in sorted(ids)]


def _ids(state: State, tenant: str, scope: str, subject: str) -> Iterator[str]:
    for (*_, id), _ in state.budget_subjects.scan((tenant, scope, subject)):
        yield id


def _days(state: State, tenant: str, budget: Budget) -> Iterator[tuple[rules.DayKey, UsageDay]]:
    """Every line of the days of a budget's subject."""
    prefixes: list[tuple[str] | tuple[str, int]] = [(tenant,)]
    if budget.scope == "session":
        row = state.sessions.get((tenant, budget.subject or ""))
        prefixes = [] if row is None else [(tenant, row.number)]
    elif budget.scope == "user":
        rows = [row for _, row in state.sessions.scan((tenant,)) if row.user == budget.subject]
        prefixes = [(tenant, row.number) for row in rows]
    for prefix in prefixes:
        for key, line in state.usage_days.scan(prefix):
            yield key[2:], line


def _spent(state: State, tenant: str, budget: Budget, since_us: int) -> Spent:
    """What was used in the period that began then."""
    first, last = rules.period_days(budget.period, since_us)
    nano = tokens = 0
    for (day, *_, currency), line in _days(state, tenant, budget):
        if first <= day < last:
            tokens += line.total
            nano += line.cost_nano if currency == budget.currency else 0
    return Spent(since_us, nano, tokens)


def recount(state: State, tenant: str, budget: Budget) -> Spent:
    """What of a budget is used, from the days."""
    since_us = 0
    if budget.period != "total":
        days = [key[0] for key, _ in _days(state, tenant, budget)]
        if days:
            since_us = rules.period_start(budget.period, max(days) * rules.US_PER_DAY)
    return _spent(state, tenant, budget, since_us)


def forget_sums(tx: Tx, tenant: str, session: str, number: int) -> None:
    """The sums of a session go; the budgets that bound it are counted again."""
    state = tx.state
    for key, _ in list(state.usage_days.scan((tenant, number))):
        state.usage_days.delete(key)
    if (number,) in state.call_sums:
        state.call_sums.delete((number,))
    row = state.sessions.get((tenant, session))
    for budget in _bounding(state, tenant, session, None if row is None else row.user):
        state.budget_spent.put((tenant, budget.id), _checked(state, tenant, budget))


def _checked(state: State, tenant: str, budget: Budget) -> Spent:
    """What of a budget is used, to be stored."""
    spent = recount(state, tenant, budget)
    rules.check_spent(spent.nano, spent.tokens)
    return spent


def change_user(tx: Tx, tenant: str, old: str | None, new: str | None) -> None:
    """A session, with what it used, went from one user to another."""
    for user in (old, new) if old != new else ():
        for id in _ids(tx.state, tenant, "user", user) if user is not None else ():
            spent = _checked(tx.state, tenant, tx.state.budgets[(tenant, id)])
            tx.state.budget_spent.put((tenant, id), spent)


def set_budget(tx: Tx, command: SetBudget) -> BudgetState:
    """Set or replace a budget; what was used already counts."""
    budget, state, key = command.budget, tx.state, (command.tenant, command.budget.id)
    _forget_subject(state, *key)
    state.budgets.put(key, budget)
    subject = (command.tenant, budget.scope, rules.subject_of(budget), budget.id)
    state.budget_subjects.insert(subject, None)
    state.budget_spent.put(key, _checked(state, command.tenant, budget))
    return _state(tx, command.tenant, budget)


def _forget_subject(state: State, tenant: str, id: str) -> None:
    old = state.budgets.get((tenant, id))
    if old is not None:
        state.budget_subjects.delete((tenant, old.scope, rules.subject_of(old), id))


def drop_budget(tx: Tx, command: DropBudget) -> bool:
    """Remove a budget; False when there was none."""
    key = (command.tenant, command.id)
    if key not in tx.state.budgets:
        return False
    _forget_subject(tx.state, *key)
    tx.state.budgets.delete(key)
    tx.state.budget_spent.delete(key)
    return True


def list_budgets(tx: Tx, query: ListBudgets) -> list[BudgetState]:
    """By id: all, or those that bound a session."""
    if query.session is None:
        found = [budget for _, budget in tx.state.budgets.scan((query.tenant,))]
        return [_state(tx, query.tenant, budget) for budget in found]
    return find_budgets(tx, FindBudgets(tenant=query.tenant, session=query.session)).states


def find_budgets(tx: Tx, query: FindBudgets) -> BudgetsFound:
    """By id: those that a turn of a session meets."""
    session = query.session or ""
    row = tx.state.sessions.get((query.tenant, session))
    user = query.user if row is None else row.user
    bounding = _bounding(tx.state, query.tenant, session, user)
    states = [_state(tx, query.tenant, budget) for budget in bounding]
    found = bool(states) or any(True for _ in tx.state.budgets.scan((query.tenant,)))
    return BudgetsFound(states=states, any=found)


def _state(tx: Tx, tenant: str, budget: Budget) -> BudgetState:
    """A budget in the period that runs now."""
    spent = tx.state.budget_spent[(tenant, budget.id)]
    now_us = rules.period_start(budget.period, tx.now_us)
    if spent.since_us != now_us:
        spent = _spent(tx.state, tenant, budget, now_us)
    return rules.state_of(budget, now_us, spent.nano, spent.tokens)


def check_budgets(tx: Tx, tenant: str) -> list[Defect]:
    """What of each budget is used, counted again."""
    return [
        Defect("", "budget", f"budget {id}", "not the sum of what was used")
        for (_, id), budget in tx.state.budgets.scan((tenant,))
        if tx.state.budget_spent.get((tenant, id)) != recount(tx.state, tenant, budget)
    ]


def rebuild(state: State) -> None:
    """Which budgets bound whom, and what of each is used; after the days."""
    for (tenant, id), budget in state.budgets.scan():
        subject = (tenant, budget.scope, rules.subject_of(budget), id)
        state.budget_subjects.place(subject, None)
        state.budget_spent.place((tenant, id), recount(state, tenant, budget))
