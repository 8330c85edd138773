"""Raising the fences of a whole tenant in a few statements; handlers/leases.py is the reference."""

from __future__ import annotations

from ledgerstone.commands.leases import RaiseFences
from ledgerstone.engines.postgres.reads import asking_of
from ledgerstone.engines.postgres.rows import ask
from ledgerstone.rules.leases import FLOOR_STUB
from ledgerstone.rules.rows import GENESIS
from ledgerstone.tables.transaction import Tx


async def raise_fences(tx: Tx, command: RaiseFences) -> int:
    """End leases and raise fences: of all sessions, and of those that are gone or to come."""
    asking, tenant, jump = asking_of(tx), command.tenant, command.jump
    if not command.session:
        await ask(asking, "make_floor", tenant, FLOOR_STUB, GENESIS)
        await ask(asking, "raise_stubs", tenant, jump)
        await ask(asking, "skip_places")
    raised = await ask(asking, "raise_fences", tenant, jump, command.session)
    await ask(asking, "drop_empty_of", tenant, command.session)
    await ask(asking, "settle_ready_of", tenant, command.session, tx.now_us)
    return len(raised)
