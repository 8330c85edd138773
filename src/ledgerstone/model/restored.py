"""After a backup was restored: nothing that was given out since is given out again."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.restored import RaiseFence, RaiseFloor
from ledgerstone.model.ready import settle_ready
from ledgerstone.model.rows import StubRow
from ledgerstone.model.standing import require, save_head
from ledgerstone.model.state import Tx
from ledgerstone.rules import leases
from ledgerstone.rules.leases import FLOOR_STUB


def raise_fence(tx: Tx, command: RaiseFence) -> int:
    """End the lease of a session and lift its fence."""
    found = require(tx, command.tenant, command.session)
    found.head.fence += command.jump
    leases.clear(found.head)
    save_head(tx, found)
    settle_ready(tx, found)
    return found.head.fence


def raise_floor(tx: Tx, command: RaiseFloor) -> int:
    """Lift the fences of purged sessions, and the one that new sessions begin with."""
    stubs, floor = tx.state.stubs, (command.tenant, FLOOR_STUB)
    if floor not in stubs:
        stubs.put(floor, StubRow(0, 0, "", False))
    for key, row in list(stubs.scan((command.tenant,))):
        stubs.put(key, replace(row, fence=row.fence + command.jump))
    return stubs[floor].fence
