"""Leases: taking, renewing, releasing and breaking them; raising fences after a restore."""

from __future__ import annotations

from copy import copy

from msgspec.structs import replace

from ledgerstone.commands import leases as commands
from ledgerstone.commands.leases import RaiseFences
from ledgerstone.handlers.heads import find_head, need_head, number_of, open_session, save_head
from ledgerstone.handlers.ready import settle_ready, settle_rows
from ledgerstone.handlers.registry import handles
from ledgerstone.records.leases import Lease
from ledgerstone.rules import leases as rules
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.leases import FLOOR_STUB, clear
from ledgerstone.rules.rows import GENESIS
from ledgerstone.tables.graph import NOTES, NoteRow
from ledgerstone.tables.sessions import HEADS, SESSIONS_BY_ID, STUBS, StubRow
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.work import READY, READY_DUE, ReadyRow

LEASE_NODE = "ledger.lease"


@handles(commands.TakeLease)
async def take_lease(tx: Tx, command: commands.TakeLease) -> Lease | None:
    head = await open_session(tx, command.tenant, command.session)
    expires_us = head.expires_us
    if not rules.take(head, command, tx.now_us):
        return None
    save_head(tx, head)
    if head.expires_us < expires_us:
        await settle_ready(tx, head)  # The line may say that it is held for longer.
    return head.lease(command.session)


@handles(commands.RenewLease)
async def renew_lease(tx: Tx, command: commands.RenewLease) -> Lease:
    head = await need_head(tx, command.tenant, command.session)
    rules.renew(head, command, tx.now_us)
    save_head(tx, head)
    renewed = head.lease(command.session)
    assert renewed is not None
    return renewed


@handles(commands.ReleaseLease)
async def release_lease(tx: Tx, command: commands.ReleaseLease) -> bool:
    head = await find_head(tx, command.tenant, command.session)
    if head is None or not rules.holds(head, command):
        return False
    rules.clear(head)
    save_head(tx, head)
    await settle_ready(tx, head)
    return True


@handles(commands.BreakLease)
async def break_lease(tx: Tx, command: commands.BreakLease) -> Lease | None:
    head = await need_head(tx, command.tenant, command.session)
    broken = rules.break_(head, command, tx.now_us)
    if broken is None:
        return None
    save_head(tx, head)
    await settle_ready(tx, head)
    body = rules.break_note(command, broken)
    key = f"break/{head.fence:012d}"
    tx.put(NOTES, NoteRow(head.number, LEASE_NODE, key, None, "", tx.now_us, body))
    return broken


@handles(commands.GetLease)
async def get_lease(tx: Tx, query: commands.GetLease) -> Lease | None:
    head = await find_head(tx, query.tenant, query.session)
    if head is None or not is_live(head, tx.now_us):
        return None
    return head.lease(query.session)


@handles(RaiseFences)
async def raise_fences(tx: Tx, command: RaiseFences) -> int:
    """End leases and raise fences: of all sessions, and of those that are gone or to come."""
    tenant = command.tenant
    if not command.session:
        # The stub of no session, which is made if need be, bears the fence of sessions to come.
        if await tx.get(STUBS, tenant, FLOOR_STUB) is None:
            tx.put(STUBS, StubRow(tenant, FLOOR_STUB, 0, 0, GENESIS, 0))
        for row in await tx.scan(STUBS.primary, tenant):
            tx.put(STUBS, replace(row, fence=row.fence + command.jump))
    if command.session is None:
        keys = await tx.scan_columns(SESSIONS_BY_ID, ("number",), tenant)
        places = await tx.scan(READY_DUE, tenant)
    else:
        number = await number_of(tx, tenant, command.session)
        keys = [] if number is None else [(number,)]
        places = [] if number is None else await tx.scan(READY.primary, number)
    queues: dict[int, list[ReadyRow]] = {}
    for place in places:
        queues.setdefault(place.number, []).append(place)
    raised = 0
    for stored in await tx.get_many(HEADS, keys):
        if stored is not None:
            head = copy(stored)
            head.fence += command.jump
            clear(head)
            save_head(tx, head)
            await settle_rows(tx, head, queues.get(head.number, ()))
            raised += 1
    return raised
