"""Why work does not move."""

from __future__ import annotations

from ledgerstone.commands.work import ExplainWork
from ledgerstone.records.work import Stuck
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.stuck import Situation, Waiting, reasons
from ledgerstone.rules.work import WorkRow
from ledgerstone.sql.heads import find_head
from ledgerstone.sql.tx import Tx


async def explain_work(tx: Tx, query: ExplainWork) -> list[Stuck]:
    """One session's reasons, or the first reason of each session that has any."""
    if query.session is None:
        return await _overview(tx, query)
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    return reasons(await _situation(tx, query.session, head), tx.now_us)


async def _overview(tx: Tx, query: ExplainWork) -> list[Stuck]:
    numbers: dict[int, None] = {}
    for statement in ("sessions_in_line", "sessions_with_dead"):
        for (number,) in await tx.all(statement, query.tenant, query.limit):
            numbers[number] = None
    found = []
    for number in list(numbers)[: query.limit]:
        row = await tx.one("session_at", number)
        if row is not None:
            why = reasons(await _situation(tx, row[0], HeadRow(*row[1:])), tx.now_us)
            found += why[:1]
    return found


async def _situation(tx: Tx, session: str, head: HeadRow) -> Situation:
    number = head.number
    return Situation(
        session,
        head,
        [WorkRow(*row) for row in await tx.all("list_work", number)],
        [Waiting(*row) for row in await tx.all("waiting_tickets", number)],
        [Waiting(*row) for row in await tx.all("waiting_executions", number)],
        [Waiting(*row) for row in await tx.all("waiting_dead", number)],
    )
