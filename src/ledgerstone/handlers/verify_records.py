"""Verify, of a session: tickets, executions, usage and its queue, counted again."""

from __future__ import annotations

from ledgerstone.errors import Corrupt
from ledgerstone.handlers.verify_check import Check
from ledgerstone.records.work import END_STATES
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules import usage as usage_rules
from ledgerstone.rules.rows import UsageDay
from ledgerstone.tables.tickets import EXECUTIONS_BY_SESSION, TICKETS_BY_SESSION
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.usage import CALL_SUMS, USAGE_DAYS
from ledgerstone.tables.work import ENDED_WORK, READY, WORK, WORK_SUMS

_BODY = ("id", "body")


async def check_tickets(tx: Tx, check: Check) -> None:
    """The chain vouches for every question, and that none is missing."""
    asked = dict(check.history.tickets)
    for id, body in await tx.scan_columns(TICKETS_BY_SESSION, _BODY, check.number):
        digest = asked.pop(id, None)
        try:
            flaw = ticket_rules.flaw(ticket_rules.read(id, body), digest)
        except Corrupt as error:
            flaw = error.reason
        if flaw is not None:
            check.defect("ticket", f"ticket {id}", flaw)
    for id in asked:
        check.defect("ticket", f"ticket {id}", "is not there")


async def check_executions(tx: Tx, check: Check) -> None:
    """The chain vouches for every outcome, and that none is missing; all are counted."""
    finished = dict(check.history.executions)
    sums, readable = usage_rules.NO_CALLS, True
    for id, body in await tx.scan_columns(EXECUTIONS_BY_SESSION, _BODY, check.number):
        digest = finished.pop(id, None)
        try:
            execution = execution_rules.read(id, body)
            sums = usage_rules.add_calls(sums, execution_rules.counts(execution))
            flaw = execution_rules.flaw(execution, digest)
        except Corrupt as error:
            flaw, readable = error.reason, False
        if flaw is not None:
            check.defect("execution", f"execution {id}", flaw)
    for id in finished:
        check.defect("execution", f"execution {id}", "is not there")
    row = await tx.get(CALL_SUMS, check.number)
    stored = usage_rules.NO_CALLS
    if row is not None:
        stored = (row.calls, row.succeeded, row.failed, row.duration_ms)
    if readable and stored != sums:
        check.defect("count", "call_sums", f"{stored}, the executions say {sums}")


async def check_usage(tx: Tx, check: Check) -> None:
    """The days of usage are the sums of what the turns used."""
    stored: dict[usage_rules.DayKey, UsageDay] = {}
    for row in await tx.scan(USAGE_DAYS.primary, check.number):
        key = (row.day, row.model, row.provider, row.source, row.currency)
        stored[key] = UsageDay(*(getattr(row, name) for name in UsageDay.__struct_fields__))
        if row.tenant != check.row.tenant:
            name = usage_rules.line_name(key)
            check.defect("usage", name, "is counted for another tenant")
    days = check.history.days
    for key in sorted(set(stored) | set(days)):
        if stored.get(key) != days.get(key):
            name = usage_rules.line_name(key)
            check.defect("usage", name, "not the sum of what the turns used")


async def check_work(tx: Tx, check: Check) -> None:
    """Every queue with work has its place among those that wait for workers, and no other has."""
    head, least = check.head, dict[str, int]()
    batches = await tx.scan_columns(WORK.primary, ("seq", "queue", "priority"), check.number)
    for seq, queue, priority in batches:
        least[queue] = min(priority, least.get(queue, priority))
        if seq > head.enqueued:
            check.defect("head", "enqueued", f"{head.enqueued}, there is number {seq}")
    ready = {row.queue: row.priority for row in await tx.scan(READY.primary, check.number)}
    for queue in sorted(least):
        place = ready.pop(queue, None)
        # A worker that finds the session deleted takes it out of the line.
        if place is None and head.deleted_us is None:
            check.defect("work", f"queue {queue}", "no worker would find it")
        elif place not in (None, least[queue]):
            detail = f"has priority {place}, its work {least[queue]}"
            check.defect("work", f"queue {queue}", detail)
    for queue in sorted(ready):
        check.defect("work", f"queue {queue}", "is in the line of workers and has no work")


async def check_ended_work(tx: Tx, check: Check) -> None:
    """Every ended batch is counted in its state, and none was queued after the last one."""
    counted = dict.fromkeys(END_STATES, 0)
    for seq, state in await tx.scan_columns(ENDED_WORK.primary, ("seq", "state"), check.number):
        if state not in counted:
            check.defect("work", f"ended batch {seq}", f"unknown state {state!r}")
            continue
        counted[state] += 1
        if seq > check.head.enqueued:
            check.defect("head", "enqueued", f"{check.head.enqueued}, number {seq} has ended")
    row = await tx.get(WORK_SUMS, check.number)
    stored = {state: 0 if row is None else getattr(row, state) for state in END_STATES}
    if stored != counted:
        check.defect("count", "work_sums", f"{stored}, counted {counted}")
