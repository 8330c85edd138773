"""Usage and budgets: counted by every commit that uses something, summed per day.

What is used of a budget is the sum over usage_days of its subject, in the period of the last day
on which there is any.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from operator import attrgetter
from typing import Any

from msgspec.structs import astuple, replace

from ledgerstone.codec import encode_json
from ledgerstone.commands import usage as commands
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.heads import find_head, number_of, save_head
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.usage_sums import TurnUsage, day_pages, usage_page
from ledgerstone.handlers.work import wake
from ledgerstone.records.stats import (
    Budget,
    BudgetsFound,
    BudgetState,
    Stats,
    UsageDeleted,
    UsageRecord,
)
from ledgerstone.records.usage import UsageEntry
from ledgerstone.rules import ledger
from ledgerstone.rules import usage as rules
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.rows import UsageDay
from ledgerstone.tables.graph import TURNS, TURNS_BY_REVISION
from ledgerstone.tables.sessions import (
    DOCUMENTS,
    SESSIONS,
    SESSIONS_BY_ID,
    SESSIONS_BY_USER,
    DocumentRow,
)
from ledgerstone.tables.tickets import EXECUTIONS, EXECUTIONS_BY_SESSION
from ledgerstone.tables.transaction import Tx, added
from ledgerstone.tables.usage import (
    BUDGETS,
    BUDGETS_BY_ID,
    CALL_SUMS,
    USAGE_DAYS,
    USAGE_DAYS_OF_TENANT,
    BudgetRow,
    CallSumsRow,
    UsageDayRow,
)

_SUMS = UsageDay.__struct_fields__
_sums_of = attrgetter(*_SUMS)


async def count_usage(tx: Tx, commit: Commit) -> None:
    """What the commit uses goes into the ledger, the days and the budgets."""
    command, head = commit.command, commit.head
    entries = command.usage
    head.ledger = ledger.merge(head.ledger, entries)
    await spend(tx, commit, entries)
    for key, line in rules.by_day(entries, commit.moment_us).items():
        row = UsageDayRow(head.number, *key, command.tenant, *astuple(line))
        old = await tx.get(USAGE_DAYS, head.number, *key)
        if old is not None:
            row = added(USAGE_DAYS, old, row)
            rules.check_sums(UsageDay(*_sums_of(row)))
        tx.put(USAGE_DAYS, row)


@handles(commands.ListUsage)
async def list_usage(tx: Tx, query: commands.ListUsage) -> list[UsageRecord]:
    found: list[UsageRecord] = []
    row = await tx.find(SESSIONS_BY_ID, query.tenant, query.session)
    if row is None:
        return found
    after: int | None = query.after[0] - 1
    while after is not None and (query.limit is None or len(found) < query.limit):
        turns, after = await usage_page(tx, row.number, after)
        records = (one for turn in turns for one in _records(query.session, turn))
        found += [one for one in records if _is_meant(one, query)]
    return found[: query.limit]


def _records(session: str, turn: TurnUsage) -> Iterator[UsageRecord]:
    for n, entry in enumerate(ledger.read_usage(turn.id, turn.usage), start=1):
        yield UsageRecord(
            session=session,
            revision=turn.revision,
            n=n,
            turn=turn.id,
            entry=entry,
            created_us=turn.created_us,
        )


def _is_meant(one: UsageRecord, query: commands.ListUsage) -> bool:
    return (
        (one.revision, one.n) > query.after
        and query.message in (None, one.message_id)
        and (query.id is None or query.id == one.id)
    )


@handles(commands.GetStats)
async def get_stats(tx: Tx, query: commands.GetStats) -> Stats:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return Stats(session=query.session)
    calls = await tx.get(CALL_SUMS, head.number) or CallSumsRow(head.number, *rules.NO_CALLS)
    tally = rules.Tally()
    columns = ("currency", *_SUMS)
    for currency, *sums in await tx.scan_columns(USAGE_DAYS.primary, columns, head.number):
        tally.add((), currency, UsageDay(*sums))
    used = tally.total()
    return Stats(
        session=query.session,
        messages=head.messages,
        user_messages=head.users,
        turns=head.revision,
        tool_calls=calls.calls,
        tool_calls_succeeded=calls.succeeded,
        tool_calls_failed=calls.failed,
        average_duration_ms=calls.duration_ms // max(calls.succeeded + calls.failed, 1),
        usage=used.usage,
        costs=used.costs,
        calls=used.calls,
        unpriced=used.unpriced,
    )


@handles(commands.DeleteUsage)
async def delete_usage(tx: Tx, command: commands.DeleteUsage) -> UsageDeleted:
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return UsageDeleted(0, 0)
    check_alive(command.session, head)
    check_guard(command.session, head, command.guard, tx.now_us)
    counts = await tx.scan_columns(USAGE_DAYS.primary, ("calls",), head.number)
    for row in await tx.scan(TURNS_BY_REVISION, head.number):
        if row.usage is not None:
            # What the hash chain needs to know of it stays.
            digest = sha256(row.usage).digest()
            tx.put(TURNS, replace(row, usage=None, usage_digest=digest))
    executions = await tx.scan_columns(EXECUTIONS_BY_SESSION, EXECUTIONS.key, head.number)
    for key in executions:
        tx.delete(EXECUTIONS, *key)
    if executions:
        await wake(tx, head)
        body = encode_json({"revision": head.revision}, rules.FORGOTTEN)
        tx.put(DOCUMENTS, DocumentRow(head.number, rules.FORGOTTEN, body))
    await forget_sums(tx, command.tenant, command.session, head.number)
    if executions or head.ledger is not None:
        head.ledger = None
        save_head(tx, head)
    return UsageDeleted(len(executions), sum(calls for (calls,) in counts))


async def spend(tx: Tx, commit: Commit, entries: tuple[UsageEntry, ...]) -> None:
    """Check what a commit uses against every budget that bounds its session, and count it."""
    command, over = commit.command, []
    if not await _has_budgets(tx, command.tenant):
        return
    user = await _user_of(tx, commit.head.number)
    for row in await _bounding(tx, command.tenant, command.session, user):
        budget = rules.read_budget(row.id, row.body)
        start_us = rules.period_start(budget.period, commit.moment_us)
        nano, tokens = await _spent_in(tx, row, budget, start_us)
        asked = rules.asked_of(budget, entries)
        if rules.goes_over(budget, nano, tokens, asked, forced=command.over_budget):
            over.append(row.id)
        if start_us >= row.since_us:
            _save(tx, row, start_us, nano + asked.nano, tokens + asked.tokens)
    if over:
        commit.effects["over_budget"] = over


async def _has_budgets(tx: Tx, tenant: str) -> bool:
    return bool(await tx.scan_columns(BUDGETS.primary, ("id",), tenant, limit=1))


async def _user_of(tx: Tx, number: int) -> str | None:
    row = await tx.get(SESSIONS, number)
    return None if row is None else row.user


async def _bounding(tx: Tx, tenant: str, session: str | None, user: str | None) -> list[BudgetRow]:
    """The budgets of a session, its user and the tenant, by id."""
    rows = await tx.scan(BUDGETS.primary, tenant, "tenant", "")
    for scope, subject in (("session", session), ("user", user)):
        if subject is not None:
            rows += await tx.scan(BUDGETS.primary, tenant, scope, subject)
    return sorted(rows, key=lambda row: row.id)


async def _spent_in(tx: Tx, row: BudgetRow, budget: Budget, start_us: int) -> tuple[int, int]:
    """What was used in the period that began then: money and tokens."""
    if start_us == row.since_us:
        return row.spent_nano, row.spent_tokens
    if start_us > row.since_us:
        return 0, 0  # A later period than that of the last use.
    numbers = await _sessions_of(tx, row.tenant, budget)
    return await _count_spent(tx, row.tenant, budget, numbers, start_us)


async def _sessions_of(tx: Tx, tenant: str, budget: Budget) -> list[int] | None:
    """The numbers of the sessions that a budget bounds; None: all of the tenant."""
    subject = rules.subject_of(budget)
    if budget.scope == "tenant":
        return None
    if budget.scope == "session":
        number = await number_of(tx, tenant, subject)
        return [] if number is None else [number]
    rows = await tx.scan_columns(SESSIONS_BY_USER, ("number",), tenant, subject)
    return [number for (number,) in rows]


async def _count_spent(
    tx: Tx, tenant: str, budget: Budget, numbers: list[int] | None, since_us: int
) -> tuple[int, int]:
    first, last = rules.period_days(budget.period, since_us)
    columns = ("day", "currency", "total", "cost_nano")
    nano = tokens = 0
    async for rows in day_pages(tx, tenant, numbers, columns, first, last):
        for _, currency, total, cost_nano in rows:
            tokens += total
            if currency == budget.currency:
                nano += cost_nano
    return nano, tokens


async def recount(tx: Tx, tenant: str, budget: Budget) -> tuple[int, int, int]:
    """What a budget's row must say: since when, money, tokens."""
    since_us = 0
    numbers = await _sessions_of(tx, tenant, budget)
    if budget.period != "total":
        day = await _last_used_day(tx, tenant, numbers)
        if day is not None:
            since_us = rules.period_start(budget.period, day * rules.US_PER_DAY)
    return since_us, *await _count_spent(tx, tenant, budget, numbers, since_us)


async def _last_used_day(tx: Tx, tenant: str, numbers: list[int] | None) -> int | None:
    newest: dict[str, Any] = {"limit": 1, "reverse": True}
    if numbers is None:
        rows = await tx.scan_columns(USAGE_DAYS_OF_TENANT, ("day",), tenant, **newest)
    else:
        rows = [
            row
            for number in numbers
            for row in await tx.scan_columns(USAGE_DAYS.primary, ("day",), number, **newest)
        ]
    return max((day for (day,) in rows), default=None)


def _save(tx: Tx, row: BudgetRow, since_us: int, nano: int, tokens: int) -> None:
    rules.check_spent(nano, tokens)
    tx.put(BUDGETS, replace(row, since_us=since_us, spent_nano=nano, spent_tokens=tokens))


async def _recount_all(tx: Tx, rows: list[BudgetRow]) -> None:
    for row in rows:
        _save(tx, row, *await recount(tx, row.tenant, rules.read_budget(row.id, row.body)))


async def forget_sums(tx: Tx, tenant: str, session: str, number: int) -> None:
    """The sums of a session go; the budgets that bound it are counted again.

    The row of the session must still be there: it says whose budgets these are.
    """
    for key in await tx.scan_columns(USAGE_DAYS.primary, USAGE_DAYS.key, number):
        tx.delete(USAGE_DAYS, *key)
    tx.delete(CALL_SUMS, number)
    user = await _user_of(tx, number)
    await _recount_all(tx, await _bounding(tx, tenant, session, user))


async def change_user(tx: Tx, tenant: str, old: str | None, new: str | None) -> None:
    """A session, with what it used, went from one user to another; its row says so already."""
    for user in (old, new) if old != new else ():
        if user is not None:
            await _recount_all(tx, await tx.scan(BUDGETS.primary, tenant, "user", user))


@handles(commands.SetBudget)
async def set_budget(tx: Tx, command: commands.SetBudget) -> BudgetState:
    budget = command.budget
    since_us, nano, tokens = await recount(tx, command.tenant, budget)
    rules.check_spent(nano, tokens)
    row = BudgetRow(
        tenant=command.tenant,
        scope=budget.scope,
        subject=rules.subject_of(budget),
        id=budget.id,
        body=rules.encode_budget(budget),
        since_us=since_us,
        spent_nano=nano,
        spent_tokens=tokens,
    )
    await _delete(tx, command.tenant, budget.id)
    tx.put(BUDGETS, row)
    return await _state(tx, row, budget)


async def _delete(tx: Tx, tenant: str, id: str) -> bool:
    row = await tx.find(BUDGETS_BY_ID, tenant, id)
    if row is None:
        return False
    tx.delete(BUDGETS, *BUDGETS.key_of(row))
    return True


@handles(commands.DropBudget)
async def drop_budget(tx: Tx, command: commands.DropBudget) -> bool:
    return await _delete(tx, command.tenant, command.id)


@handles(commands.ListBudgets)
async def list_budgets(tx: Tx, query: commands.ListBudgets) -> list[BudgetState]:
    if query.session is None:
        return await _states(tx, await tx.scan(BUDGETS_BY_ID, query.tenant))
    found = await find_budgets(tx, commands.FindBudgets(tenant=query.tenant, session=query.session))
    return found.states


@handles(commands.FindBudgets)
async def find_budgets(tx: Tx, query: commands.FindBudgets) -> BudgetsFound:
    if not await _has_budgets(tx, query.tenant):
        return BudgetsFound(states=[], any=False)
    user = query.user
    if query.session is not None:
        row = await tx.find(SESSIONS_BY_ID, query.tenant, query.session)
        user = user if row is None else row.user
    rows = await _bounding(tx, query.tenant, query.session, user)
    return BudgetsFound(states=await _states(tx, rows), any=True)


async def _states(tx: Tx, rows: list[BudgetRow]) -> list[BudgetState]:
    return [await _state(tx, row, rules.read_budget(row.id, row.body)) for row in rows]


async def _state(tx: Tx, row: BudgetRow, budget: Budget) -> BudgetState:
    """A budget in the period that runs now."""
    start_us = rules.period_start(budget.period, tx.now_us)
    return rules.state_of(budget, start_us, *await _spent_in(tx, row, budget, start_us))
