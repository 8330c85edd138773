"""Why work does not move."""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable

from ledgerstone.commands.work import ExplainWork
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.registry import handles
from ledgerstone.records.work import Stuck
from ledgerstone.rules.stuck import Situation, Waiting, reasons
from ledgerstone.rules.work import later_us
from ledgerstone.tables.sessions import HEADS, SESSIONS, Head
from ledgerstone.tables.tickets import EXECUTIONS_BY_SESSION, TICKETS_BY_SESSION
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import ENDED_WORK_BY_SESSION, ENDED_WORK_BY_TIME, READY_DUE, WORK


@handles(ExplainWork)
async def explain_work(tx: Tx, query: ExplainWork) -> list[Stuck]:
    """One session's reasons, or the first reason of each session that has any."""
    if query.session is None:
        return await _overview(tx, query)
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    return reasons(await _situation(tx, query.session, head), tx.now_us)


async def _overview(tx: Tx, query: ExplainWork) -> list[Stuck]:
    """Sessions with work, those due for longest first, then those with dead letters."""
    lines = await tx.scan_columns(READY_DUE, ("due_us", "number"), query.tenant)
    heads = await _first_sessions(tx, lines, query.limit, later_us)
    if len(heads) < query.limit:
        columns = ("ended_us", "number")
        dead = await tx.scan_columns(ENDED_WORK_BY_TIME, columns, query.tenant, "dead")
        heads |= await _first_sessions(tx, dead, query.limit, lambda ended_us, _: ended_us)
    found: list[Stuck] = []
    for number, head in list(heads.items())[: query.limit]:
        row = await tx.get(SESSIONS, number)
        if row is not None:
            found += reasons(await _situation(tx, row.id, head), tx.now_us)[:1]
    return found


async def _first_sessions(
    tx: Tx, moments: list[tuple[int, int]], limit: int, put_off: Callable[[int, Head], int]
) -> dict[int, Head]:
    """The sessions whose first moment is the earliest, in that order, without deleted ones.

    `put_off` is never before the moment it is given: so nobody looks at heads that come too late.
    """
    firsts: dict[int, int] = {}
    for moment, number in sorted(moments):
        firsts.setdefault(number, moment)
    order: list[tuple[int, int]] = []
    heads: dict[int, Head] = {}
    for number, moment in firsts.items():
        if len(order) >= limit > 0 and order[limit - 1] < (moment, number):
            break
        head = await tx.get(HEADS, number)
        if head is not None and head.deleted_us is None:
            insort(order, (put_off(moment, head), number))
            heads[number] = head
    return {number: heads[number] for _, number in order[:limit]}


async def _situation(tx: Tx, session: str, head: Head) -> Situation:
    number = head.number
    tickets = await tx.scan_columns(
        TICKETS_BY_SESSION, ("status", "id", "created_us", "expires_us"), number
    )
    executions = await tx.scan_columns(
        EXECUTIONS_BY_SESSION, ("status", "id", "created_us"), number
    )
    columns = ("id", "ended_us", "reason")
    dead = await tx.scan_columns(ENDED_WORK_BY_SESSION, columns, number, "dead")
    return Situation(
        session,
        head,
        [*await tx.scan(WORK.primary, number)],
        [Waiting(*rest) for status, *rest in tickets if status == "open"],
        [Waiting(*rest) for status, *rest in executions if status == "started"],
        [Waiting(id, ended_us, None, reason) for id, ended_us, reason in dead],
    )
