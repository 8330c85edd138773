"""What a run may become, and how a session points at its runs."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.errors import IllegalTransition
from ledgerstone.records.runs import Run
from ledgerstone.rules.rows import HeadRow

_MOVES = {
    "created": {"created", "running", "done"},
    "running": {"running", "waiting", "done"},
    "waiting": {"waiting", "running", "done"},
    "done": {"done"},
}


def settle(run: Run, old: Run | None, moment_us: int, incarnation: int) -> Run:
    """The run as it is stored: legal transition, creation time kept, times filled in."""
    if old is not None and run.status not in _MOVES[old.status]:
        raise IllegalTransition(run.id, old.status, run.status)
    created_us = run.created_us or moment_us
    if old is not None:
        created_us = old.created_us
    finished_us = run.finished_us
    if run.status == "done" and finished_us is None:
        finished_us = (old.finished_us if old is not None else None) or moment_us
    started_us = run.started_us or (old.started_us if old is not None else None)
    if started_us is None and run.status != "created":
        started_us = moment_us
    return replace(
        run,
        incarnation=incarnation,
        created_us=created_us,
        started_us=started_us,
        finished_us=finished_us,
        updated_us=moment_us,
    )


def point(head: HeadRow, run: Run) -> None:
    """Project the run on the session's pointers."""
    head.latest_run = run.id
    if run.status == "done":
        head.active_run = None if head.active_run == run.id else head.active_run
        head.open_run = None if head.open_run == run.id else head.open_run
        return
    head.open_run = run.id
    head.active_run = run.id if run.status == "running" else None
