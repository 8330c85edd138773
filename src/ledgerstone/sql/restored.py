"""After a backup was restored: nothing that was given out since is given out again."""

from __future__ import annotations

from ledgerstone.commands.restored import RaiseFence, RaiseFloor
from ledgerstone.rules import leases as rules
from ledgerstone.rules.chain import GENESIS
from ledgerstone.rules.leases import FLOOR_STUB
from ledgerstone.sql.heads import need_head, set_lease
from ledgerstone.sql.ready import settle_ready
from ledgerstone.sql.tx import Tx


async def raise_fence(tx: Tx, command: RaiseFence) -> int:
    """End the lease of a session and lift its fence."""
    head = await need_head(tx, command.tenant, command.session)
    head.fence += command.jump
    rules.clear(head)
    await set_lease(tx, head)
    await settle_ready(tx, head)
    return head.fence


async def raise_floor(tx: Tx, command: RaiseFloor) -> int:
    """Lift the fences of purged sessions, and the one that new sessions begin with."""
    tenant = command.tenant
    if await tx.one("get_stub", tenant, FLOOR_STUB) is None:
        await tx.run("put_stub", tenant, FLOOR_STUB, 0, 0, GENESIS, 0)
    await tx.run("raise_stubs", tenant, command.jump)
    stub = await tx.one("get_stub", tenant, FLOOR_STUB)
    assert stub is not None
    floor: int = stub[1]
    return floor
