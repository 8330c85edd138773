"""After a backup was restored: nothing that was given out since is given out again."""

from __future__ import annotations

from ledgerstone.commands.restored import RaiseFences
from ledgerstone.rules.chain import GENESIS
from ledgerstone.rules.leases import FLOOR_STUB
from ledgerstone.sql.tx import Tx


async def raise_fences(tx: Tx, command: RaiseFences) -> int:
    """One statement for all sessions: fences and leases stand in heads, which no link covers."""
    tenant, jump = command.tenant, command.jump
    if not command.session:
        if await tx.one("get_stub", tenant, FLOOR_STUB) is None:
            await tx.run("put_stub", tenant, FLOOR_STUB, 0, 0, GENESIS, 0)
        await tx.run("raise_stubs", tenant, jump)
    if command.session == FLOOR_STUB:
        return 0
    raised = await tx.run("raise_fences", tenant, jump, command.session)
    await tx.run("drop_empty_of", tenant, command.session)
    await tx.run("settle_ready_of", tenant, command.session, tx.now_us)
    return raised
