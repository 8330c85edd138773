"""Why work does not move."""

from __future__ import annotations

from ledgerstone.commands.work import ExplainWork
from ledgerstone.records.work import Stuck
from ledgerstone.rules import executions, tickets
from ledgerstone.rules.stuck import Obstacle, Situation, reasons
from ledgerstone.rules.work import later_us
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx
from tests.oracle.model.work_rows import queued


def explain_work(tx: Tx, query: ExplainWork) -> list[Stuck]:
    """One session's reasons, or the first reason of each session that has any."""
    if query.session is None:
        return _overview(tx, query)
    found = find(tx, query.tenant, query.session)
    return [] if found is None else reasons(_situation(tx, found), tx.now_us)


def _overview(tx: Tx, query: ExplainWork) -> list[Stuck]:
    found: list[Stuck] = []
    for number in list(dict.fromkeys(_numbers(tx, query.tenant)))[: query.limit]:
        standing = find(tx, query.tenant, tx.state.session_ids[(number,)])
        if standing is not None:
            found += reasons(_situation(tx, standing), tx.now_us)[:1]
    return found


def _numbers(tx: Tx, tenant: str) -> list[int]:
    """Sessions with work, those due for longest first, then those with dead letters."""
    due: dict[int, int] = {}
    for _, _, _, due_us, number in (key for key, _ in tx.state.ready_due.scan((tenant,))):
        later = later_us(due_us, tx.state.heads[(number,)])
        due[number] = min(later, due.get(number, later))
    died: dict[int, int] = {}
    for _, id, number in (key for key, _ in tx.state.dead_ids.scan((tenant,))):
        dead_us = tx.state.dead_work[number, id].dead_us
        died[number] = min(dead_us, died.get(number, dead_us))
    lines = (sorted((when, number) for number, when in one.items()) for one in (due, died))
    found = [number for line in lines for _, number in line]
    return [number for number in found if tx.state.heads[(number,)].deleted_us is None]


def _situation(tx: Tx, standing: Standing) -> Situation:
    number = standing.number
    opened = [tickets.read(id, data) for (_, id), data in tx.state.tickets.scan((number,))]
    begun = [executions.read(id, data) for (_, id), data in tx.state.executions.scan((number,))]
    dead = [
        Obstacle(id, row.dead_us, None, row.reason)
        for (_, id), row in tx.state.dead_work.scan((number,))
    ]
    waiting = [Obstacle(t.id, t.created_us, t.expires_us) for t in opened if t.status == "open"]
    running = [Obstacle(e.id, e.created_us) for e in begun if e.status == "started"]
    return Situation(
        standing.id,
        standing.head,
        queued(tx, number),
        *(
            sorted(one, key=lambda each: (each.since_us, each.id))
            for one in (waiting, running, dead)
        ),
    )
