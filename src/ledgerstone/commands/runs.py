"""Runs: by themselves, or inside a commit."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.commands import FREE, Command, Guard, PageQuery, Query, SessionQuery
from ledgerstone.records.runs import Run, RunTree
from ledgerstone.records.sessions import Page


class PutRun(Command[Run], frozen=True, kw_only=True):
    """Create a run, or with `upsert` overwrite it; legal transitions only."""

    run: Run
    upsert: bool = False


class UpdateRun(Command[Run], frozen=True, kw_only=True):
    """Change some fields of a run; RunNotFound, IllegalTransition, and what the guard says."""

    id: str
    changes: dict[str, Any]
    guard: Guard = FREE


class GetRun(Query[Run | None], frozen=True, kw_only=True):
    """By id, anywhere in the tenant."""

    id: str


class LatestRun(SessionQuery[Run | None], frozen=True, kw_only=True):
    """The run of a session with the greatest update time."""


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are meant; None means any."""

    session: str | None = None
    status: str | None = None
    parent_run: str | None = None


class ListRuns(PageQuery[Page[Run]], frozen=True, kw_only=True):
    """In the order they were created, then by id; `after` is the key of the last item before."""

    where: RunFilter = RunFilter()
    after: tuple[int, str] | None = None


class GetRunTree(Query[RunTree | None], frozen=True, kw_only=True):
    """A run and its children, over sessions; None when there is no such run."""

    id: str
