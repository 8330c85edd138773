"""Runs, as far as a checkpoint needs them."""

from __future__ import annotations

from ledgerstone.commands import Command, Query
from ledgerstone.records.runs import Run


class PutRun(Command[Run], frozen=True, kw_only=True):
    """Create a run, or with `upsert` overwrite it; legal transitions only."""

    run: Run
    upsert: bool = False


class GetRun(Query[Run | None], frozen=True, kw_only=True):
    """By id, anywhere in the tenant."""

    id: str


class LatestRun(Query[Run | None], frozen=True, kw_only=True):
    """The run of a session with the greatest update time."""

    session: str
