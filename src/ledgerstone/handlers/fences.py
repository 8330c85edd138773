"""After a backup was restored: no fence that was granted since is granted again."""

from __future__ import annotations

from copy import copy

from msgspec.structs import replace

from ledgerstone.commands.restored import RaiseFences
from ledgerstone.handlers.heads import save_head
from ledgerstone.handlers.ready import settle_ready
from ledgerstone.handlers.registry import handles
from ledgerstone.rules.leases import FLOOR_STUB, clear
from ledgerstone.rules.rows import GENESIS
from ledgerstone.tables.sessions import HEADS, SESSIONS_BY_ID, STUBS, StubRow
from ledgerstone.tables.table import Key
from ledgerstone.tables.transaction import Tx


@handles(RaiseFences)
async def raise_fences(tx: Tx, command: RaiseFences) -> int:
    """End leases and raise fences: of all sessions, and of those that are gone or to come."""
    if not command.session:
        await _raise_stubs(tx, command)
    raised = 0
    for stored in await tx.get_many(HEADS, await _numbers(tx, command)):
        if stored is not None:
            head = copy(stored)
            head.fence += command.jump
            clear(head)
            save_head(tx, head)
            await settle_ready(tx, head)
            raised += 1
    return raised


async def _numbers(tx: Tx, command: RaiseFences) -> list[Key]:
    """Which sessions: all, or the one that is named, as keys of their heads."""
    if command.session is None:
        return await tx.scan_columns(SESSIONS_BY_ID, ("number",), command.tenant)
    row = await tx.find(SESSIONS_BY_ID, command.tenant, command.session)
    return [] if row is None else [(row.number,)]


async def _raise_stubs(tx: Tx, command: RaiseFences) -> None:
    """The stub of no session, which is made if need be, bears the fence of sessions to come."""
    if await tx.get(STUBS, command.tenant, FLOOR_STUB) is None:
        tx.put(STUBS, StubRow(command.tenant, FLOOR_STUB, 0, 0, GENESIS, 0))
    for row in await tx.scan(STUBS.primary, command.tenant):
        tx.put(STUBS, replace(row, fence=row.fence + command.jump))
