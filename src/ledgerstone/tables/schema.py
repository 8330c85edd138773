"""All tables of a store."""

from __future__ import annotations

from typing import Any

from ledgerstone.tables.blobs import ARTIFACTS, ATTACHMENTS, BLOBS, CHUNKS, UPLOADS
from ledgerstone.tables.evidence import EVIDENCE
from ledgerstone.tables.graph import AMENDMENTS, BRANCHES, CONTENTS, NODES, NOTES, TURNS
from ledgerstone.tables.memories import EMBEDDINGS, MEMORIES, SPACES
from ledgerstone.tables.runs import KEPT_RUNS, RUNS
from ledgerstone.tables.sessions import DOCUMENTS, HEADS, PURGED, SESSIONS, STUBS
from ledgerstone.tables.table import Table
from ledgerstone.tables.tickets import EXECUTIONS, TICKETS
from ledgerstone.tables.usage import BUDGETS, CALL_SUMS, USAGE_DAYS
from ledgerstone.tables.work import ENDED_WORK, READY, WORK, WORK_SUMS

TABLES: tuple[Table[Any], ...] = (
    SESSIONS, HEADS, NODES, TURNS, BRANCHES, AMENDMENTS, NOTES, CONTENTS, DOCUMENTS, RUNS,
    KEPT_RUNS, TICKETS, EXECUTIONS, WORK, READY, ENDED_WORK, WORK_SUMS, BLOBS, UPLOADS, CHUNKS,
    ATTACHMENTS, ARTIFACTS, EVIDENCE, CALL_SUMS, USAGE_DAYS, BUDGETS, MEMORIES, EMBEDDINGS, SPACES,
    STUBS, PURGED,
)  # fmt: skip
BY_NAME = {table.name: table for table in TABLES}
OWNED = tuple(table for table in TABLES if table.owner is not None)
"""What goes with a session that is purged."""
