"""Verify, third part: the rows that no commit vouches for, by one another."""

from __future__ import annotations

import msgspec

from ledgerstone.codec import decode_struct
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.records.runs import Run
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.rules.transfer import unfinished_copy
from ledgerstone.sql.transfer_in import is_copy_unfinished
from ledgerstone.sql.tx import Tx
from ledgerstone.sql.verify_evidence import check_evidence
from ledgerstone.sql.verify_memories import check_memories
from ledgerstone.sql.verify_standing import Check
from ledgerstone.sql.verify_usage import check_budgets

_run = msgspec.json.Decoder(Run)


async def verify_rows(tx: Tx, query: VerifyStore) -> Verified:
    """Rows of the tenant that belong to no session; `whole`: and those that nobody can see."""
    defects = [unfinished_copy()] if await is_copy_unfinished(tx, query) else []
    defects += await check_budgets(tx, query.tenant, query.whole)
    if query.whole:
        for (number,) in await tx.all("headless_sessions"):
            defects.append(Defect("", "head", f"sessions {number}", "its head is not there"))
        for number, queue in await tx.all("loose_ready"):
            defects.append(Defect("", "work", f"ready {number}/{queue}", "of no session"))
    defects += await check_memories(tx, query)
    defects += await check_evidence(tx, query)
    return Verified(defects=defects)


async def check_times(tx: Tx, check: Check) -> None:
    """The time of the last change: that of the last commit, or of a later change."""
    head = check.head
    row = await tx.one("touched_of", head.number)
    touched_us = None if row is None else row[0]
    if head.updated_us not in (check.committed_us, touched_us):
        check.defect("head", "updated", f"{head.updated_us}, last commit {check.committed_us}")
    row = await tx.one("recency_of", head.number)
    if row is None or row[0] != head.updated_us >> RECENCY_SHIFT:
        check.defect("head", "recency", "the list of sessions has another time")


async def check_runs(tx: Tx, check: Check) -> None:
    """What the session and its nodes say of its runs."""
    head = check.head
    rows = await tx.all("standing_runs", head.number)
    records: dict[str, Run] = {}
    for id, number, first_ord, last_ord, body in rows:
        first, last = check.wrote.get(id, (last_ord, first_ord))
        if first < first_ord or last > last_ord:
            check.defect("run", f"run {id}", f"wrote {first} to {last}, its row says otherwise")
        if number > head.runs:
            check.defect("head", "runs", f"{head.runs}, there is number {number}")
        if body is not None:
            try:
                records[id] = decode_struct(_run, body)
            except (msgspec.MsgspecError, ValueError) as error:
                check.defect("body", f"run {id}", str(error))
    if head.runs != len(rows) and not check.told.copied:
        check.defect("head", "runs", f"{head.runs}, there are {len(rows)}")
    _check_pointers(check, records)


def _check_pointers(check: Check, records: dict[str, Run]) -> None:
    """Every write of a record moves them: see rules/run.py."""
    head = check.head
    latest, opened = records.get(head.latest_run or ""), records.get(head.open_run or "")
    if (latest is None) != (not records):
        check.defect("head", "latest_run", "names no record of this session")
    if opened is None and head.open_run is not None:
        check.defect("head", "open_run", "names no record of this session")
    if opened is not None and opened.status == "done":
        check.defect("head", "open_run", "names a run that is done")
    if latest is not None and latest.status != "done" and head.open_run != head.latest_run:
        check.defect("head", "open_run", "is not the latest, which is not done")
    running = opened is not None and opened.status == "running"
    if head.active_run != (head.open_run if running else None):
        check.defect("head", "active_run", "does not fit the status of the open run")
