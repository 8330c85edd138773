"""Verify a session: does what is stored still say what was committed?"""

from __future__ import annotations

import msgspec

from ledgerstone.codec import decode_struct, sha256
from ledgerstone.commands.turns import VerifySession
from ledgerstone.errors import Corrupt
from ledgerstone.handlers.nodes import USER
from ledgerstone.handlers.notes import split_refs
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.verify_history import (
    SessionCheck,
    begin_check,
    check_amendments,
    check_turns,
)
from ledgerstone.records.reports import Verified
from ledgerstone.records.runs import Run
from ledgerstone.records.turns import Checkpoint
from ledgerstone.records.work import END_STATES
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import ledger
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules import usage as usage_rules
from ledgerstone.rules.bodies import read_object
from ledgerstone.rules.rows import RECENCY_SHIFT, UsageDay
from ledgerstone.tables.graph import BRANCHES, CONTENTS, NOTES
from ledgerstone.tables.tickets import EXECUTIONS_BY_SESSION, TICKETS_BY_SESSION
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.usage import CALL_SUMS, USAGE_DAYS
from ledgerstone.tables.work import ENDED_WORK, READY, WORK, WORK_SUMS

_PAGE_VALUES = 16
_checkpoint = msgspec.json.Decoder(Checkpoint)
_run = msgspec.json.Decoder(Run)
_BODY = ("id", "body")


@handles(VerifySession)
async def verify_session(tx: Tx, query: VerifySession) -> Verified:
    check = await begin_check(tx, query.tenant, query.session)
    if check is None:
        return Verified()
    await check_turns(tx, check)
    await check_amendments(tx, check)
    await check_values(tx, check)
    await check_head(tx, check)
    check_runs(check)
    await check_work(tx, check)
    await check_ended_work(tx, check)
    await check_tickets(tx, check)
    await check_executions(tx, check)
    await check_usage(tx, check)
    return Verified(
        sessions=1,
        turns=check.turns,
        nodes=check.nodes,
        values=check.values,
        defects=check.defects,
    )


async def check_values(tx: Tx, check: SessionCheck) -> None:
    """Every value fits its name, and everything that is pointed at is there."""
    present, after = set[str](), ""
    while rows := await tx.scan(CONTENTS.primary, check.number, after=(after,), limit=_PAGE_VALUES):
        for row in rows:
            present.add(row.digest)
            if sha256(row.data) != row.digest:
                check.defect("value", row.digest, "the bytes do not fit their name")
        if rows[-1].digest <= after:
            break  # A damaged index hands out what lies behind: without this, for ever.
        after = rows[-1].digest
    check.values = len(present)
    wanted = check.refs | _checkpoint_refs(check)
    for (refs,) in await tx.scan_columns(NOTES.primary, ("refs",), check.number):
        wanted.update(split_refs(refs))
    for digest in sorted(wanted - present):
        check.defect("reference", digest, "points at a value that is not there")


def _checkpoint_refs(check: SessionCheck) -> set[str]:
    head, history = check.head, check.history
    unknown = history.copied and history.checkpoint is None
    if head.checkpoint != history.checkpoint and not unknown:
        check.defect("head", "checkpoint", "the history names another one")
    document = check.documents.get("checkpoint")
    if head.checkpoint is None or document is None:
        if head.checkpoint is not None or document is not None:
            check.defect("document", "checkpoint", "head and document disagree")
        return set()
    if sha256(document) != head.checkpoint:
        check.defect("document", "checkpoint", "the manifest does not fit its name")
    try:
        manifest = decode_struct(_checkpoint, document)
    except (msgspec.MsgspecError, ValueError) as error:
        check.defect("body", "checkpoint", str(error))
        return {head.checkpoint}
    refs = (head.checkpoint, manifest.tool_state, manifest.plugins, manifest.execution)
    return {ref for ref in refs if ref is not None}


async def check_head(tx: Tx, check: SessionCheck) -> None:
    """Revision, counters, ledger, times, documents, leaves."""
    head, history, places = check.head, check.history, check.places
    if head.revision != history.revision or head.link != history.link:
        check.defect("head", "revision", f"{head.revision}, last turn {history.revision}")
    live = sum(place.deleted_rev is None for place in places.values())
    if head.ord != max(places, default=0) or head.live != live:
        check.defect("head", "counters", f"ord {head.ord}, live {head.live} of {live}")
    branched = int(any(place.parent != ord - 1 for ord, place in places.items()))
    if head.branched != branched:
        check.defect("head", "branched", f"{head.branched}, the nodes say {branched}")
    if ledger.read(head.ledger) != ledger.read(history.usage):
        check.defect("head", "ledger", "not the sum of what the turns used")
    _check_times(check)
    _check_documents(check)
    if await _check_leaves(tx, check):
        _check_main(check)


def _check_times(check: SessionCheck) -> None:
    """The last change was the last commit, or a later one that was no commit."""
    updated_us, committed_us = check.head.updated_us, check.history.committed_us
    if updated_us not in (committed_us, check.head.touched_us):
        check.defect("head", "updated", f"{updated_us}, last commit {committed_us}")
    if check.row.recency != updated_us >> RECENCY_SHIFT:
        check.defect("head", "recency", "the list of sessions has another time")


def _check_documents(check: SessionCheck) -> None:
    history = check.history
    for name in ("config", "frames"):
        body = check.documents.get(name)
        digest = None if body is None else sha256(body)
        unknown = history.copied and name not in history.documents
        if digest != history.documents.get(name) and not unknown:
            check.defect("document", name, "not what the history says")
    try:
        state = read_object(check.documents.get("state"), "documents", "", "state")
    except Corrupt as error:
        check.defect("body", "state", error.reason)
        return
    if state != history.state and not history.copied:
        check.defect("document", "state", "not the sum of what the turns set")


async def _check_leaves(tx: Tx, check: SessionCheck) -> bool:
    """Whether every branch stands at a node that is there."""
    head, history = check.head, check.history
    rows = {row.name: row.leaf for row in await tx.scan(BRANCHES.primary, check.number)}
    if head.named != len(rows):
        check.defect("head", "named", f"{head.named} branches, there are {len(rows)}")
    expected = {name: leaf for name, leaf in history.branches.items() if leaf >= 0}
    names = set(history.branches) | (set() if history.copied else set(rows))
    for name in sorted(names):
        if rows.get(name) != expected.get(name):
            detail = f"stands at {rows.get(name)}, history says {expected.get(name)}"
            check.defect("leaf", f"branch {name}", detail)
    if head.leaf != history.leaf:
        check.defect("leaf", "branch main", f"stands at {head.leaf}, history says {history.leaf}")
    leaves = [("main", head.leaf), *rows.items()]
    lost = [name for name, leaf in leaves if leaf and leaf not in check.places]
    for name in lost:
        check.defect("leaf", f"branch {name}", "stands at a node that is not there")
    return not lost


def _check_main(check: SessionCheck) -> None:
    """Tip and counters of main, counted on its path."""
    head = check.head
    live = [one for one in check.path(head.leaf) if one[1].deleted_rev is None]
    tip = (live[0][0], live[0][1].seq) if live else (0, 0)
    if tip != (head.tip, head.tip_seq):
        check.defect("leaf", "branch main", f"effective leaf {head.tip}, should be {tip[0]}")
    messages = sum(place.role is not None for _, place in live)
    users = [ord for ord, place in live if place.role == USER]
    counted = (messages, len(users), min(users, default=0))
    if counted != (head.messages, head.users, head.first_user):
        check.defect("count", "head", f"{head.messages} messages, the path has {messages}")


def check_runs(check: SessionCheck) -> None:
    """What the session and its nodes say of its runs."""
    head = check.head
    records: dict[str, Run] = {}
    for row in check.runs:
        where = f"run {row.id}"
        first, last = check.wrote.get(row.n, (row.last_ord, row.first_ord))
        if first < row.first_ord or last > row.last_ord:
            check.defect("run", where, f"wrote {first} to {last}, its row says otherwise")
        if row.n > head.runs:
            check.defect("head", "runs", f"{head.runs}, there is number {row.n}")
        if row.body is not None:
            try:
                records[row.id] = decode_struct(_run, row.body)
            except (msgspec.MsgspecError, ValueError) as error:
                check.defect("body", where, str(error))
    if head.runs != len(check.runs) and not check.history.copied:
        check.defect("head", "runs", f"{head.runs}, there are {len(check.runs)}")
    _check_pointers(check, records)


def _check_pointers(check: SessionCheck, records: dict[str, Run]) -> None:
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


async def check_tickets(tx: Tx, check: SessionCheck) -> None:
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


async def check_executions(tx: Tx, check: SessionCheck) -> None:
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


async def check_usage(tx: Tx, check: SessionCheck) -> None:
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


async def check_work(tx: Tx, check: SessionCheck) -> None:
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


async def check_ended_work(tx: Tx, check: SessionCheck) -> None:
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
