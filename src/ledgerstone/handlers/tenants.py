"""Which tenants a store has, and whether a copy into one has not ended: every opening asks both."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.transfer import IsCopyUnfinished, MarkCopy
from ledgerstone.handlers.registry import handles
from ledgerstone.rules.rows import GENESIS
from ledgerstone.tables.blobs import ARTIFACTS, ATTACHMENTS, BLOBS, UPLOADS
from ledgerstone.tables.evidence import EVIDENCE
from ledgerstone.tables.memories import EMBEDDINGS, MEMORIES
from ledgerstone.tables.runs import KEPT_RUNS
from ledgerstone.tables.sessions import SESSIONS_BY_ID, STUBS, StubRow
from ledgerstone.tables.table import Index
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.usage import BUDGETS

_INDEXES: tuple[Index[Any], ...] = (
    SESSIONS_BY_ID,
    *(
        table.primary
        for table in (
            ATTACHMENTS, BLOBS, UPLOADS, ARTIFACTS, EVIDENCE, BUDGETS, MEMORIES, EMBEDDINGS,
            KEPT_RUNS, STUBS,
        )
    ),
)  # fmt: skip
"""Sessions, and all that needs no session; each index begins with the tenant."""


COPY_MARK = "\x7fcopy"
"""The stub that says that a copy into the tenant has not ended. No session has such an id; its
incarnation is UNFINISHED, so that it is never copied itself."""
UNFINISHED = -1


async def list_tenants(tx: Tx) -> list[str]:
    """All tenants that have anything."""
    found: set[str] = set()
    for index in _INDEXES:
        found.update(await _tenants_in(tx, index))
    return sorted(found)


async def _tenants_in(tx: Tx, index: Index[Any]) -> list[str]:
    """The tenants of a table: from one to the next, past all other rows."""
    found: list[str] = []
    after: tuple[str] | None = None
    while rows := await tx.scan_columns(index, ("tenant",), after=after, limit=1):
        after = (rows[0][0],)
        found.append(rows[0][0])
    return found


@handles(MarkCopy)
async def mark_copy(tx: Tx, command: MarkCopy) -> None:
    """The mark stands from before the first row until both stores were compared."""
    if command.ended:
        tx.delete(STUBS, command.tenant, COPY_MARK)
    else:
        tx.put(STUBS, StubRow(command.tenant, COPY_MARK, UNFINISHED, 0, GENESIS, 0))


@handles(IsCopyUnfinished)
async def is_copy_unfinished(tx: Tx, query: IsCopyUnfinished) -> bool:
    return await tx.get(STUBS, query.tenant, COPY_MARK) is not None
