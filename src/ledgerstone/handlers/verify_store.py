"""Verify what belongs to no session: everything that is counted, counted again."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ledgerstone.commands.transfer import IsCopyUnfinished
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.errors import Corrupt
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.tenants import is_copy_unfinished
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.records.stats import Budget
from ledgerstone.rules import usage as usage_rules
from ledgerstone.rules.evidence import lost_bytes, missing_rows
from ledgerstone.rules.transfer import unfinished_copy
from ledgerstone.rules.vectors import FLOAT_BYTES
from ledgerstone.tables.blobs import ARTIFACTS, BLOBS
from ledgerstone.tables.evidence import EVIDENCE
from ledgerstone.tables.memories import EMBEDDINGS, SPACES
from ledgerstone.tables.sessions import HEADS, SESSIONS, SESSIONS_BY_ID
from ledgerstone.tables.table import Key, Table
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.usage import BUDGETS_BY_ID, CALL_SUMS, USAGE_DAYS, USAGE_DAYS_OF_TENANT
from ledgerstone.tables.work import READY, WORK_SUMS

_PAGE_VECTORS = 100
_PAGE_KEYS = 1000


@handles(VerifyStore)
async def verify_store(tx: Tx, query: VerifyStore) -> Verified:
    copy = IsCopyUnfinished(tenant=query.tenant)
    defects = [unfinished_copy()] if await is_copy_unfinished(tx, copy) else []
    defects += await _check_budgets(tx, query.tenant)
    defects += await _check_spaces(tx, query.tenant)
    defects += await _check_bytes(tx, query.tenant)
    defects += await _check_lists(tx, query.tenant)
    if query.whole:
        defects += await _check_owners(tx)
        defects += await _check_others(tx, query.tenant)
    return Verified(defects=defects)


async def _check_budgets(tx: Tx, tenant: str) -> list[Defect]:
    """What of each budget is used."""
    budgets = await tx.scan(BUDGETS_BY_ID, tenant)
    lines = await _lines_by_subject(tx, tenant) if budgets else {}
    defects = []
    for row in budgets:
        try:
            budget = usage_rules.read_budget(row.id, row.body)
        except Corrupt as error:
            defects.append(Defect("", "budget", f"budget {row.id}", error.reason))
            continue
        subject = (budget.scope, usage_rules.subject_of(budget))
        counted = _spent(budget, lines.get(subject, []))
        stored = (row.since_us, row.spent_nano, row.spent_tokens)
        if stored != counted:
            detail = f"{stored}, counted {counted}"
            defects.append(Defect("", "budget", f"budget {row.id}", detail))
    return defects


async def _lines_by_subject(tx: Tx, tenant: str) -> dict[tuple[str, str], list[Key]]:
    """Day, currency, money and tokens of everything used, by scope and subject of a budget."""
    rows = await tx.scan_columns(SESSIONS_BY_ID, ("number", "id", "user"), tenant)
    sessions = {number: (id, user) for number, id, user in rows}
    found: dict[tuple[str, str], list[Key]] = {}
    columns = ("number", "day", "currency", "cost_nano", "total")
    for number, *line in await tx.scan_columns(USAGE_DAYS_OF_TENANT, columns, tenant):
        id, user = sessions.get(number, (None, None))
        for subject in (("tenant", ""), ("session", id), ("user", user)):
            if subject[1] is not None:
                found.setdefault(subject, []).append(tuple(line))
    return found


def _spent(budget: Budget, lines: list[Key]) -> tuple[int, int, int]:
    """What the row of a budget must say: since when, money, tokens."""
    since_us = 0
    if lines and budget.period != "total":
        last_day = max(line[0] for line in lines)
        since_us = usage_rules.period_start(budget.period, last_day * usage_rules.US_PER_DAY)
    first, end = usage_rules.period_days(budget.period, since_us)
    within = [line for line in lines if first <= line[0] < end]
    nano = sum(nano for _, currency, nano, _ in within if currency == budget.currency)
    return since_us, nano, sum(line[3] for line in within)


async def _check_spaces(tx: Tx, tenant: str) -> list[Defect]:
    """What the spaces of vectors say of their rows."""
    counted = await _count_vectors(tx, tenant)
    defects = []
    for space in await tx.scan(SPACES.primary, tenant):
        there, last, least, most = counted.pop(space.model, (0, 0, 0, 0))
        size = space.dimension * FLOAT_BYTES
        if space.count != there:
            detail = f"{space.count} rows, there are {there}"
        elif space.changes < last:
            detail = f"{space.changes} changes, a row has {last}"
        elif there and not size == least == most:
            detail = f"rows of {least} to {most} bytes, not {size}"
        else:
            continue
        defects.append(Defect("", "space", f"spaces {space.model}", detail))
    missing = "does not know its rows"
    return defects + [Defect("", "space", f"spaces {one}", missing) for one in sorted(counted)]


async def _count_vectors(tx: Tx, tenant: str) -> dict[str, tuple[int, int, int, int]]:
    """By model: how many, the last change, the least and the greatest size in bytes."""
    found: dict[str, tuple[int, int, int, int]] = {}
    columns, after = ("kind", "id", "model", "change", "vector"), ("", "")
    while rows := await tx.scan_columns(
        EMBEDDINGS.primary, columns, tenant, after=after, limit=_PAGE_VECTORS
    ):
        for _, _, model, change, vector in rows:
            size = len(vector)
            count, last, least, most = found.get(model, (0, change, size, size))
            found[model] = (count + 1, max(last, change), min(least, size), max(most, size))
        if rows[-1][:2] <= after:
            break  # A damaged index hands out what lies behind: without this, for ever.
        after = rows[-1][:2]
    return found


async def _check_bytes(tx: Tx, tenant: str) -> list[Defect]:
    """Every artifact names a blob that is there."""
    artifacts = await tx.scan_columns(ARTIFACTS.primary, ("id", "ref"), tenant)
    if not artifacts:
        return []
    blobs = {ref for (ref,) in await tx.scan_columns(BLOBS.primary, ("ref",), tenant)}
    return [lost_bytes(id) for id, ref in artifacts if ref not in blobs]


async def _check_lists(tx: Tx, tenant: str) -> list[Defect]:
    """Traces and reports: every list has its first row, and none is missing in between."""
    keys = await tx.scan_columns(EVIDENCE.primary, ("session", "kind", "n"), tenant)
    defects = []
    for (session, kind), group in groupby(keys, key=lambda key: key[:2]):
        places = [n for _, _, n in group]
        if len(places) != max(places) + 1:
            defects.append(missing_rows(session, kind))
    return defects


async def _check_others(tx: Tx, tenant: str) -> list[Defect]:
    """Of other tenants it is only said that something is wrong."""
    tenants: set[str] = set()
    for table in (SPACES, EMBEDDINGS, ARTIFACTS, EVIDENCE):
        tenants.update(name for (name,) in await _distinct(tx, table, "tenant", limit=1))
    defects = []
    for other in sorted(tenants - {tenant}):
        for _ in await _check_spaces(tx, other):
            defects.append(Defect("", "space", "spaces of another tenant", "does not fit its rows"))
        for found in [*await _check_bytes(tx, other), *await _check_lists(tx, other)]:
            where = f"{found.where.partition(' ')[0]} of another tenant"
            defects.append(Defect("", found.kind, where, found.detail))
    return defects


async def _check_owners(tx: Tx) -> list[Defect]:
    """Sessions without a head, and counted rows without a session."""
    sessions, heads = await _distinct(tx, SESSIONS, "number"), await _distinct(tx, HEADS, "number")
    defects = [
        Defect("", "head", f"sessions {number}", "its head is not there")
        for (number,) in sorted(sessions - heads)
    ]
    for table in (USAGE_DAYS, CALL_SUMS):
        for (number,) in sorted(await _distinct(tx, table, "number") - sessions):
            defects.append(Defect("", "usage", f"{table.name} {number}", "of no session"))
    for number, queue in sorted(await _distinct(tx, READY, "number", "queue")):
        if (number,) not in sessions:
            defects.append(Defect("", "work", f"ready {number}/{queue}", "of no session"))
    for (number,) in sorted(await _distinct(tx, WORK_SUMS, "number") - sessions):
        defects.append(Defect("", "work", f"work_sums {number}", "of no session"))
    return defects


async def _distinct(tx: Tx, table: Table[Any], *columns: str, limit: int = _PAGE_KEYS) -> set[Key]:
    """All values of the first columns of a key; a limit of 1 is for those with few values."""
    found: set[Key] = set()
    after = None
    while rows := await tx.scan_columns(table.primary, columns, after=after, limit=limit):
        found.update(rows)
        if after is not None and rows[-1] <= after:
            break  # A damaged index hands out what lies behind: without this, for ever.
        after = rows[-1]
    return found
