"""Leases: take, renew, release, break."""

from __future__ import annotations

from ledgerstone.commands.leases import BreakLease, GetLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.nodes import NewNote
from ledgerstone.records.leases import Lease
from ledgerstone.rules import leases
from ledgerstone.rules.guard import is_live
from tests.oracle.model.notes import put_note
from tests.oracle.model.ready import settle_ready
from tests.oracle.model.standing import Standing, find, require, require_alive, save_head
from tests.oracle.model.state import Tx

LEASE_NODE = "ledger.lease"


def take_lease(tx: Tx, command: TakeLease) -> Lease | None:
    """The lease, or None while another owner's lives."""
    found = require_alive(tx, command.tenant, command.session)
    expires_us = found.head.expires_us
    if not leases.take(found.head, command, tx.now_us):
        return None
    save_head(tx, found)
    if found.head.expires_us < expires_us:
        settle_ready(tx, found)  # The line may say that it is held for longer.
    return found.head.lease(found.id)


def renew_lease(tx: Tx, command: RenewLease) -> Lease:
    """The same lease with a later end."""
    found = require(tx, command.tenant, command.session)
    leases.renew(found.head, command, tx.now_us)
    save_head(tx, found)
    return _held(found)


def _held(found: Standing) -> Lease:
    lease = found.head.lease(found.id)
    if lease is None:
        raise RuntimeError("a renewed lease has an owner")
    return lease


def release_lease(tx: Tx, command: ReleaseLease) -> bool:
    """Anything stale is a silent no-op."""
    found = find(tx, command.tenant, command.session)
    if found is None or not leases.holds(found.head, command):
        return False
    leases.clear(found.head)
    save_head(tx, found)
    settle_ready(tx, found)
    return True


def break_lease(tx: Tx, command: BreakLease) -> Lease | None:
    """End a live lease by force and keep who did it and why."""
    found = require(tx, command.tenant, command.session)
    broken = leases.break_(found.head, command, tx.now_us)
    if broken is None:
        return None
    save_head(tx, found)
    settle_ready(tx, found)
    body = leases.break_note(command, broken)
    note = NewNote(LEASE_NODE, f"break/{found.head.fence:012d}", body)
    put_note(tx, found.number, note, tx.now_us)
    return broken


def get_lease(tx: Tx, query: GetLease) -> Lease | None:
    """The live lease, or None."""
    found = find(tx, query.tenant, query.session)
    if found is None or not is_live(found.head, tx.now_us):
        return None
    return found.head.lease(found.id)
