"""What a run may become, how a session points at its runs, and how runs hang together."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.commands.work import NewBatch
from ledgerstone.errors import IllegalTransition, InvalidValue
from ledgerstone.records.runs import Run, RunTree
from ledgerstone.records.work import QUEUE_DEFAULT
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.tickets import stamped
from ledgerstone.rules.work import wake

_MOVES = {
    "created": {"created", "running", "done"},
    "running": {"running", "waiting", "done"},
    "waiting": {"waiting", "running", "done"},
    "done": {"done"},
}
_UNSAID = {
    field.name: {} if field.name == "details" else field.default
    for field in msgspec.structs.fields(Run)
    if field.name not in ("id", "session", "status", "incarnation", "created_us", "updated_us")
}
FIXED = ("id", "session", "incarnation", "created_us", "updated_us")
"""What nobody can change in a run that is there."""


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
        waiting=stamped(run.waiting, moment_us),
        incarnation=incarnation,
        created_us=created_us,
        started_us=started_us,
        finished_us=finished_us,
        updated_us=moment_us,
    )


def go_on(run: Run, old: Run | None) -> Run:
    """The run that a turn speaks of: what it does not say stays as it was."""
    if old is None:
        return run
    given = [(name, getattr(run, name), unsaid) for name, unsaid in _UNSAID.items()]
    said = {name: value for name, value, unsaid in given if value != unsaid}
    return replace(old, status=run.status, session=run.session, **said)


def change(old: Run, changes: dict[str, Any]) -> Run:
    """The run with some fields changed; InvalidValue for those that nobody can change."""
    for name in changes:
        if name in FIXED:
            raise InvalidValue(name, "it cannot be changed in a run that is there")
        if name not in Run.__struct_fields__:
            raise InvalidValue(name, "a run has no such field")
    return replace(old, **changes)


def point(head: HeadRow, run: Run) -> None:
    """Project the run on the session's pointers."""
    head.latest_run = run.id
    if run.status == "done":
        head.active_run = None if head.active_run == run.id else head.active_run
        head.open_run = None if head.open_run == run.id else head.open_run
        return
    head.open_run = run.id
    head.active_run = run.id if run.status == "running" else None


def ends(run: Run, old: Run | None) -> bool:
    """Whether this write is the one that makes the run done."""
    return run.status == "done" and (old is None or old.status != "done")


def wake_up(run: Run, parent: Run, home: HeadRow | None) -> NewBatch | None:
    """What a run that is done leaves on its parent's session; None when nobody waits there.

    `home` is the head of that session: another one may have its id by now.
    """
    if parent.status == "done" or home is None or parent.incarnation != home.incarnation:
        return None
    return wake(
        "child_run",
        parent.session,
        ids.derive("wake", "child_run", run.id),
        QUEUE_DEFAULT,
        run=run.id,
        parent_run=parent.id,
        child_session=run.session,
        status=run.status,
    )


def grow(root: str, runs: Iterable[Run]) -> RunTree | None:
    """The tree below a run, children in the order they were created; each run stands there once.

    Parents are what callers said, so they may go round in a circle.
    """
    found = {run.id: run for run in runs}
    if root not in found:
        return None
    below: dict[str, list[Run]] = {}
    for run in sorted(found.values(), key=lambda run: (run.created_us, run.id)):
        if run.parent_run is not None and run.id != root:
            below.setdefault(run.parent_run, []).append(run)
    tree = RunTree(found[root], [])
    # A list that grows instead of recursion: a chain of runs may be longer than Python can call.
    open_ends = [tree]
    for end in open_ends:
        end.children.extend(RunTree(run, []) for run in below.pop(end.run.id, ()))
        open_ends.extend(end.children)
    return tree
