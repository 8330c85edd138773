"""Purge: invisible in one transaction, swept in bounded ones."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledgerstone.commands.artifacts import Owner
from ledgerstone.commands.sessions import PurgeSession, SweepPurged
from ledgerstone.errors import RevisionMoved
from ledgerstone.handlers.embeddings import drop_session_vectors
from ledgerstone.handlers.heads import find_head, part_from_children
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.usage import forget_sums
from ledgerstone.records.sessions import Receipt
from ledgerstone.rules.artifacts import scope_of
from ledgerstone.rules.guard import check_incarnation
from ledgerstone.rules.rows import GENESIS
from ledgerstone.tables.blobs import ARTIFACTS_IN_ORDER, ATTACHMENTS
from ledgerstone.tables.evidence import EVIDENCE
from ledgerstone.tables.graph import CONTENTS
from ledgerstone.tables.runs import KEPT_RUNS, RUNS, KeptRunRow
from ledgerstone.tables.schema import OWNED
from ledgerstone.tables.sessions import HEADS, PURGED, SESSIONS, STUBS, PurgedRow, StubRow
from ledgerstone.tables.table import Index
from ledgerstone.tables.transaction import Tx
from ledgerstone.tables.usage import BUDGETS
from ledgerstone.tables.work import ENDED_WORK, READY, WORK_SUMS


@handles(PurgeSession)
async def purge_session(tx: Tx, command: PurgeSession) -> Receipt:
    key = (command.tenant, command.id)
    head = await find_head(tx, *key)
    if head is None:
        return await _purge_absent(tx, command)
    if command.expected_incarnation is not None:
        check_incarnation(command.id, head.incarnation, command.expected_incarnation)
    expected = command.expected_revision
    if expected is not None and expected != head.revision:
        raise RevisionMoved(expected, head.revision, command.id)
    children = await part_from_children(tx, command, deleted=True)
    stub = StubRow(*key, head.incarnation, head.fence, head.link, int(command.retire))
    tx.put(STUBS, stub)
    removed = await _remove_loose(tx, *key)
    await forget_sums(tx, *key, head.number)  # While the session's row says whose they are.
    await _hide(tx, command, head.number)
    return Receipt(
        session=command.id,
        children=children,
        existed=True,
        incarnation=head.incarnation,
        fence=head.fence,
        link=head.link.hex(),
        retired=command.retire,
        removed=removed,
    )


async def _purge_absent(tx: Tx, command: PurgeSession) -> Receipt:
    """What an id without a session leaves; children of one that was purged before go on going."""
    stub = await tx.get(STUBS, command.tenant, command.id)
    retired = command.retire or (stub is not None and bool(stub.retired))
    if command.retire:
        stub = stub or StubRow(command.tenant, command.id, 0, 0, GENESIS, 0)
        tx.put(STUBS, replace(stub, retired=1))
    removed = await _remove_loose(tx, command.tenant, command.id)
    children: list[str] = []
    if command.children != "reject":
        children = await part_from_children(tx, command, deleted=True)
    return Receipt(session=command.id, children=children, retired=retired, removed=removed)


async def _remove_loose(tx: Tx, tenant: str, session: str) -> dict[str, int]:
    """What belongs to the id, whether there is a session or not; how many of each there were."""
    key = (tenant, session)
    evidence = await _remove_rows(tx, EVIDENCE.primary, *key)
    kinds = [kind for _, _, kind, n in evidence if n > 0]
    removed = {
        "attachments": len(await _remove_rows(tx, ATTACHMENTS.primary, *key)),
        "artifacts": len(
            await _remove_rows(tx, ARTIFACTS_IN_ORDER, tenant, scope_of(Owner(session)))
        ),
        "traces": kinds.count("trace"),
        "reports": kinds.count("report"),
        "embeddings": await drop_session_vectors(tx, *key),
        "budgets": len(await _remove_rows(tx, BUDGETS.primary, tenant, "session", session)),
    }
    return {table: count for table, count in removed.items() if count}


async def _hide(tx: Tx, command: PurgeSession, number: int) -> None:
    """Remove what makes it a session, and leave the rest to the sweep."""
    if command.keep_runs:
        columns = ("id", "status", "parent_run", "created_us", "body")
        for id, *record in await tx.scan_columns(RUNS.primary, columns, number):
            if record[-1] is not None:
                tx.put(KEPT_RUNS, KeptRunRow(command.tenant, id, command.id, *record))
    # Workers and lists come upon these without the session.
    for table in (READY, ENDED_WORK, WORK_SUMS):
        await _remove_rows(tx, table.by_owner(), number)
    tx.delete(HEADS, number)
    tx.delete(SESSIONS, number)
    tx.put(PURGED, PurgedRow(command.tenant, number))


@handles(SweepPurged)
async def sweep_purged(tx: Tx, command: SweepPurged) -> dict[str, int]:
    for purged in await tx.scan(PURGED.primary, command.tenant):
        removed = await _sweep(tx, purged.number, command.limit)
        if sum(removed.values()) < command.limit:  # Else there may be more.
            tx.delete(PURGED, purged.tenant, purged.number)
        if removed:
            return removed
    return {}


async def _sweep(tx: Tx, number: int, limit: int) -> dict[str, int]:
    """Remove rows that belong to a session; how many of each table."""
    removed: dict[str, int] = {}
    for table in OWNED:
        left = limit - sum(removed.values())
        if not left:
            break
        keys = await _remove_rows(tx, table.by_owner(), number, limit=left)
        if keys:
            # Callers know them as values.
            removed["values" if table is CONTENTS else table.name] = len(keys)
    return removed


async def _remove_rows(
    tx: Tx, index: Index[Any], *prefix: Any, limit: int | None = None
) -> list[tuple[Any, ...]]:
    """Delete the rows whose columns in the index begin with the prefix; their keys."""
    keys = await tx.scan_columns(index, index.table.key, *prefix, limit=limit)
    for key in keys:
        tx.delete(index.table, *key)
    return keys
