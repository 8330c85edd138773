"""Verify, fourth part: tickets are what their turns asked, and outcomes what their turns told."""

from __future__ import annotations

from ledgerstone.errors import Corrupt
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.sql.tx import Tx
from ledgerstone.sql.verify_standing import Check


async def check_tickets(tx: Tx, check: Check) -> None:
    """The chain vouches for every question, and that none is missing."""
    asked = dict(check.told.asked)
    for id, body in await tx.all("ticket_bodies", check.head.number):
        try:
            flaw = ticket_rules.flaw(ticket_rules.read(id, body), asked.pop(id, None))
        except Corrupt as error:
            flaw = error.reason
        if flaw is not None:
            check.defect("ticket", f"ticket {id}", flaw)
    for id in asked:
        check.defect("ticket", f"ticket {id}", "is not there")
    await _check_executions(tx, check)


async def _check_executions(tx: Tx, check: Check) -> None:
    told = dict(check.told.finished)
    for id, body in await tx.all("execution_bodies", check.head.number):
        try:
            flaw = execution_rules.flaw(execution_rules.read(id, body), told.pop(id, None))
        except Corrupt as error:
            flaw = error.reason
        if flaw is not None:
            check.defect("execution", f"execution {id}", flaw)
    for id in told:
        check.defect("execution", f"execution {id}", "is not there")
