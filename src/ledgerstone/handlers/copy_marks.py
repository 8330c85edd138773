"""Whether a copy into a store was begun and has not ended: every opening asks that."""

from __future__ import annotations

from ledgerstone.commands.transfer import IsCopyUnfinished, MarkCopy
from ledgerstone.handlers.registry import handles
from ledgerstone.rules.rows import GENESIS
from ledgerstone.tables.sessions import STUBS, StubRow
from ledgerstone.tables.transaction import Tx

COPY_MARK = "\x7fcopy"
"""The stub that says that a copy into the tenant has not ended. No session has such an id; its
incarnation is UNFINISHED, so that it is never copied itself."""
UNFINISHED = -1


@handles(MarkCopy)
async def mark_copy(tx: Tx, command: MarkCopy) -> None:
    """The mark stands from before the first row until both stores were compared."""
    if command.ended:
        tx.delete(STUBS, command.tenant, COPY_MARK)
    else:
        tx.put(STUBS, StubRow(command.tenant, COPY_MARK, UNFINISHED, 0, GENESIS, 0))


@handles(IsCopyUnfinished)
async def is_copy_unfinished(tx: Tx, query: IsCopyUnfinished) -> bool:
    """Whether the mark is there."""
    return await tx.get(STUBS, query.tenant, COPY_MARK) is not None
