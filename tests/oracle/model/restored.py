"""After a backup was restored: nothing that was given out since is given out again."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.leases import RaiseFences
from ledgerstone.rules import leases
from ledgerstone.rules.leases import FLOOR_STUB
from tests.oracle.model.ready import settle_ready
from tests.oracle.model.rows import StubRow
from tests.oracle.model.standing import find, save_head
from tests.oracle.model.state import Tx


def raise_fences(tx: Tx, command: RaiseFences) -> int:
    """End leases and raise fences: of all sessions, and of those that are gone or to come."""
    if not command.session:
        _raise_stubs(tx, command)
    raised = 0
    for name in names_of(tx, command.tenant) if command.session is None else [command.session]:
        found = find(tx, command.tenant, name)
        if found is not None:
            found.head.fence += command.jump
            leases.clear(found.head)
            save_head(tx, found)
            settle_ready(tx, found)
            raised += 1
    return raised


def names_of(tx: Tx, tenant: str) -> list[str]:
    """The ids of all sessions of a tenant, deleted ones too."""
    return [key[1] for key, _ in tx.state.sessions.scan((tenant,))]


def _raise_stubs(tx: Tx, command: RaiseFences) -> None:
    stubs, floor = tx.state.stubs, (command.tenant, FLOOR_STUB)
    if floor not in stubs:
        stubs.put(floor, StubRow(0, 0, "", False))
    for key, row in list(stubs.scan((command.tenant,))):
        stubs.put(key, replace(row, fence=row.fence + command.jump))
