"""Verify, fifth part: what is kept as sums, counted again from what it sums."""

from __future__ import annotations

from ledgerstone.errors import Corrupt
from ledgerstone.records.reports import Defect
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import usage as rules
from ledgerstone.rules.rows import UsageDay
from ledgerstone.sql.budgets import recount
from ledgerstone.sql.tx import Tx
from ledgerstone.sql.verify_standing import Check


async def check_usage(tx: Tx, check: Check, tenant: str) -> None:
    """The days and the tool calls of a session."""
    stored: dict[rules.DayKey, UsageDay] = {}
    for row in await tx.all("usage_days_of", check.head.number):
        day, model, provider, source, currency, owner, *counts = row
        key = (day, model, provider, source, currency)
        stored[key] = UsageDay(*counts)
        if owner != tenant:
            check.defect("usage", rules.line_name(key), "is counted for another tenant")
    told = check.told.days
    for key in sorted(set(stored) | set(told)):
        if stored.get(key) != told.get(key):
            check.defect("usage", rules.line_name(key), "not the sum of what the turns used")
    await _check_calls(tx, check)


async def _check_calls(tx: Tx, check: Check) -> None:
    sums = rules.NO_CALLS
    for id, body in await tx.all("execution_bodies", check.head.number):
        try:
            after = execution_rules.counts(execution_rules.read(id, body))
        except Corrupt:
            return  # Named by the check of executions.
        sums = rules.add_calls(sums, after)
    row = await tx.one("get_call_sums", check.head.number) or rules.NO_CALLS
    if tuple(row) != sums:
        check.defect("count", "call_sums", f"{row}, the executions say {sums}")


async def check_budgets(tx: Tx, tenant: str, whole: bool) -> list[Defect]:
    """What of each budget is used, counted again; `whole`: and sums that are nobody's."""
    found = []
    for id, body, *spent in await tx.all("list_budgets", tenant):
        try:
            wanted = await recount(tx, tenant, rules.read_budget(id, body))
        except Corrupt as error:
            found.append(Defect("", "budget", f"budget {id}", error.reason))
            continue
        if tuple(spent) != wanted:
            found.append(Defect("", "budget", f"budget {id}", f"{spent}, counted {wanted}"))
    for statement in ("loose_usage_days", "loose_call_sums") if whole else ():
        table = statement.removeprefix("loose_")
        for (number,) in await tx.all(statement):
            found.append(Defect("", "usage", f"{table} {number}", "of no session"))
    return found
