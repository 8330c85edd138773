"""Why a session with work does not move, told from what is stored of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from ledgerstone.records.work import Stuck, StuckReason
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.work import WorkRow, has_live_claim, is_behind

IDS_MAX = 50
"""How many ids a reason names at most."""


class Obstacle(NamedTuple):
    """A thing that a session waits for, since when, and when that ends by itself."""

    id: str
    since_us: int
    until_us: int | None = None
    detail: str = ""


class Situation(msgspec.Struct):
    """What is known of a session; the lists oldest first."""

    session: str
    head: HeadRow
    work: list[WorkRow]
    tickets: list[Obstacle]
    executions: list[Obstacle]
    dead: list[Obstacle]


def reasons(situation: Situation, now_us: int) -> list[Stuck]:
    """Everything that holds, in the order of StuckReason; nothing for a session with nothing."""
    if not (situation.work or situation.tickets or situation.dead):
        return []
    return [
        *_of_session(situation, now_us),
        *_of_work(situation, now_us),
        *_of_rest(situation),
        *_ready(situation, now_us),
    ]


def _of_session(situation: Situation, now_us: int) -> Iterator[Stuck]:
    session, head = situation.session, situation.head
    if head.deleted_us is not None:
        detail = "the session is deleted"
        yield Stuck(session=session, reason="deleted", detail=detail, since_us=head.deleted_us)
    if is_live(head, now_us):
        yield Stuck(
            session=session,
            reason="leased",
            detail=f"held by {head.owner}",
            since_us=head.claimed_us,
            until_us=head.expires_us,
        )


def _of_work(situation: Situation, now_us: int) -> Iterator[Stuck]:
    head, rows = situation.head, situation.work
    live = [row for row in rows if has_live_claim(row, head, now_us)]
    if live:
        found = [Obstacle(row.id, row.claimed_us, row.claim_expires_us) for row in live]
        yield _stuck(situation, "claimed", f"in work by {live[0].claim_owner}", found)
    parked = [row for row in rows if row.waiting_for is not None]
    if parked:
        behind = [row for row in rows if row.waiting_for is None and is_behind(row, parked)]
        found = [Obstacle(row.id, row.claimed_us) for row in parked]
        found += [Obstacle(row.id, found[0].since_us) for row in behind]
        what = ", ".join(sorted({row.waiting_for or "" for row in parked}))
        detail = f"waits for a decision about execution {what}"
        if behind:
            detail += f"; {len(behind)} more behind it"
        yield _stuck(situation, "parked", detail, found)
    delayed = sorted(
        (
            row
            for row in rows
            if row.available_us > now_us and row.waiting_for is None and not is_behind(row, parked)
        ),
        key=lambda row: (row.available_us, row.seq),
    )
    if delayed:
        first = delayed[0]
        failed = f"tried {first.attempts} times, last error: {first.last_error}"
        detail = "is for later" if first.last_error is None else failed
        found = [Obstacle(row.id, row.enqueued_us, row.available_us) for row in delayed]
        yield _stuck(situation, "delayed", detail, found)


def _of_rest(situation: Situation) -> Iterator[Stuck]:
    if situation.tickets:
        detail = "waits for a decision"
        yield _stuck(situation, "waiting_for_ticket", detail, situation.tickets)
    if situation.executions:
        detail = "a tool call has no outcome"
        yield _stuck(situation, "unresolved_execution", detail, situation.executions)
    if situation.dead:
        detail = situation.dead[0].detail
        yield _stuck(situation, "dead_letters", detail, situation.dead)


def _ready(situation: Situation, now_us: int) -> Iterator[Stuck]:
    head = situation.head
    if head.deleted_us is not None or is_live(head, now_us):
        return
    parked = [row for row in situation.work if row.waiting_for is not None]
    found = [
        Obstacle(row.id, max(row.available_us, row.enqueued_us))
        for row in situation.work
        if row.available_us <= now_us
        and not has_live_claim(row, head, now_us)
        and not is_behind(row, parked)
    ]
    if found:
        yield _stuck(situation, "ready", "waits for a worker", found)


def _stuck(situation: Situation, reason: StuckReason, detail: str, found: list[Obstacle]) -> Stuck:
    ends = [one.until_us for one in found if one.until_us is not None]
    return Stuck(
        session=situation.session,
        reason=reason,
        detail=detail,
        since_us=min(one.since_us for one in found),
        until_us=min(ends, default=None),
        ids=[one.id for one in found[:IDS_MAX]],
    )
