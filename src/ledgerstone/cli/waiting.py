"""What does not go on by itself in a tenant's sessions, counted for `doctor`."""

from __future__ import annotations

from itertools import islice

import msgspec

from ledgerstone import Execution, Store
from ledgerstone.clock import US_PER_S, SystemClock
from ledgerstone.intake.checks import LIMIT_MAX

SESSIONS_MAX = 10_000
"""In how many sessions of a tenant old drafts are looked for, the newest first."""


class Waiting(msgspec.Struct, kw_only=True):
    """What waits for somebody; of deleted sessions only the dead letters count.

    `stuck`: sessions whose work is due, and no worker has come. `dead`: dead letters. `parked`:
    batches that wait for a decision about an execution. `unknown`: executions that nobody is left
    to finish. `drafts`: unfinished messages. `draft_sessions`: where those are. `at_least`: which
    of these were not counted to the end.
    """

    stuck: int = 0
    dead: int = 0
    parked: int = 0
    unknown: int = 0
    drafts: int = 0
    draft_sessions: list[str] = []
    at_least: list[str] = []


def waiting(store: Store, older_than_s: float) -> Waiting:
    """Count it; due work, drafts and calls without a lease count when they are so old."""
    before_us = SystemClock().now_us() - round(older_than_s * US_PER_S)
    found = Waiting(dead=store.work.dead(limit=1, total=True).total or 0)
    _count_stuck(store, before_us, found)
    _count_undecided(store, before_us, found)
    _count_drafts(store, before_us, found)
    return found


def needs_decision(execution: Execution) -> bool:
    """Whether nobody is known to be at it: its worker is gone, or it began without a lease."""
    return execution.status == "unknown" or (
        execution.status == "started" and execution.fence is None
    )


def _count_stuck(store: Store, before_us: int, found: Waiting) -> None:
    reasons = store.work.stuck(limit=LIMIT_MAX)
    found.stuck = sum(one.reason == "ready" and (one.since_us or 0) <= before_us for one in reasons)
    if len(reasons) == LIMIT_MAX:
        found.at_least.append("stuck")


def _count_undecided(store: Store, before_us: int, found: Waiting) -> None:
    begun: dict[str, list[Execution]] = {}
    for one in store.executions.unresolved():
        begun.setdefault(one.session, []).append(one)
    for id, executions in begun.items():
        session = store.sessions.get(id)
        if session is None or session.deleted_us is not None:
            continue
        # Work is parked only while the execution it met has no outcome.
        found.parked += sum(batch.waiting_for is not None for batch in store.work.list(id))
        found.unknown += sum(
            needs_decision(one) and (one.status == "unknown" or one.started_us <= before_us)
            for one in executions
        )


def _count_drafts(store: Store, before_us: int, found: Waiting) -> None:
    sessions = iter(store.sessions.iter())
    for session in islice(sessions, SESSIONS_MAX):
        old = sum(draft.updated_us <= before_us for draft in store.drafts.list(session))
        found.drafts += old
        if old:
            found.draft_sessions.append(session.id)
    if next(sessions, None) is not None:
        found.at_least.append("drafts")
