"""Runs: which nodes each wrote in a session, and its record when there is one."""

from __future__ import annotations

import msgspec

from ledgerstone.tables.table import Table

_RECORD = "tenant is not null"


class RunRow(msgspec.Struct, frozen=True, gc=False):
    """One run in one session; `n` is its number there, which nodes carry.

    Ords are 0 before its first node. The columns from `tenant` on are null without a record.
    """

    number: int
    n: int
    id: str
    first_ord: int = 0
    last_ord: int = 0
    tenant: str | None = None
    status: str | None = None
    parent_run: str | None = None
    created_us: int | None = None
    body: bytes | None = None


class KeptRunRow(msgspec.Struct, frozen=True, gc=False):
    """The record of a run that outlives its purged session."""

    tenant: str
    id: str
    session: str
    status: str
    parent_run: str | None
    created_us: int
    body: bytes


RUNS = Table(
    "runs",
    RunRow,
    ("number", "n"),
    packed=True,
    owner="number",
    sealed=("id", "tenant", "status", "parent_run", "created_us", "body"),
)
RUNS_BY_ID = RUNS.index("id", "id", "number", unique=True)
RUNS_BY_CREATION = RUNS.index("created", "tenant", "created_us", "id", present="tenant")
RUNS_OPEN = RUNS.index(
    "open",
    "tenant",
    "status",
    "created_us",
    "id",
    where=f"{_RECORD} and status <> 'done'",
    holds=lambda row: row.tenant is not None and row.status != "done",
)
RUNS_BY_PARENT = RUNS.index(
    "parent",
    "tenant",
    "parent_run",
    "created_us",
    "id",
    where=f"{_RECORD} and parent_run is not null",
    holds=lambda row: row.tenant is not None and row.parent_run is not None,
)

KEPT_RUNS = Table(
    "kept_runs",
    KeptRunRow,
    ("tenant", "id"),
    sealed=("session", "status", "parent_run", "created_us", "body"),
)
KEPT_RUNS_BY_CREATION = KEPT_RUNS.index("created", "tenant", "created_us", "id")
KEPT_RUNS_BY_SESSION = KEPT_RUNS.index("session", "tenant", "session", "created_us", "id")
KEPT_RUNS_BY_PARENT = KEPT_RUNS.index(
    "parent", "tenant", "parent_run", "created_us", "id", present="parent_run"
)
