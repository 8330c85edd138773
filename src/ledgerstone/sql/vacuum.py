"""Vacuum: erase hidden bodies, keep the chain whole."""

from __future__ import annotations

from ledgerstone.commands.blobs import CheckRoots
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.records.reports import Vacuumed
from ledgerstone.rules.checkpoints import checkpoint_refs
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.chains import row_commitment
from ledgerstone.sql.heads import base_of, find_head
from ledgerstone.sql.notes import split_refs
from ledgerstone.sql.paths import places_above
from ledgerstone.sql.tx import Row, Tx


async def vacuum_session(tx: Tx, command: VacuumSession) -> Vacuumed:
    """Erase what may go; with dry_run only say what would."""
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return Vacuumed(dry_run=command.dry_run)
    doomed: list[Row] = []
    notes: list[Row] = []
    if not command.values_only:
        doomed, loose = await _doomed(tx, head, command)
        notes = await tx.all("stale_notes", head.number, command.notes_before_us)
        for id in loose:
            notes += await tx.all("old_notes", head.number, id, command.notes_before_us)
    lost = {row[0] for row in doomed}
    dropped = {(node, key) for node, key, _ in notes}
    # Hidden nodes can still be read as of an earlier time: what they name stays until they go.
    named_by = "all_node_refs" if command.values_only else "node_refs"
    kept = await _checkpoint_refs(tx, command.session, head)
    values = await _loose_values(tx, head, kept, named_by=named_by, lost=lost, dropped=dropped)
    report = Vacuumed(
        nodes=len(doomed),
        notes=len(notes),
        values=len(values),
        freed_bytes=sum(len(row[12]) for row in doomed) + sum(size for _, size in values),
        dry_run=command.dry_run,
    )
    if not command.dry_run:
        await _erase(tx, head, doomed)
        for node, key, _ in notes:
            await tx.run("drop_note", head.number, node, key)
        for digest, _ in values:
            await tx.run("drop_value", head.number, digest)
    return report


async def _doomed(tx: Tx, head: HeadRow, command: VacuumSession) -> tuple[list[Row], list[str]]:
    """What will be erased, and the ids of those that are still visible but lead nowhere."""
    base = base_of(head)
    span = {"first": base + 1, "last": base + head.ord}
    hidden = await tx.pick("erasable", **span, before_us=command.before_us)
    if not command.unreachable:
        return hidden, []
    reached = await _reachable(tx, head)
    places = await tx.pick("live_places", **span, before_us=command.before_us)
    loose: list[Row] = []
    for (ord,) in places:
        if ord not in reached:
            loose += await tx.all("chain_rows", base + ord, base + ord)
    return sorted(hidden + loose), [row[2] for row in loose]


async def _reachable(tx: Tx, head: HeadRow) -> set[int]:
    leaves = [head.leaf] + [leaf for _, leaf in await tx.all("list_branches", head.number)]
    reached: set[int] = set()
    for leaf in leaves:
        reached.update(row[0] for row in await places_above(tx, head, leaf, 0))
    return reached


async def _erase(tx: Tx, head: HeadRow, doomed: list[Row]) -> None:
    base = base_of(head)
    visible = {ord for (ord,) in await tx.pick("live_places", first=base, last=base + head.ord)}
    for row in doomed:
        key = base + row[0]
        if row[0] in visible:
            await tx.run("tombstone", key, tx.now_us, head.revision)
        await tx.run("erase_node", key, row_commitment(row))
        await tx.run("erase_amendments", key)
    gone = sum(row[0] in visible for row in doomed)
    if gone:
        await tx.run("set_live", head.number, head.live - gone)


async def _loose_values(
    tx: Tx,
    head: HeadRow,
    kept: set[str],
    *,
    named_by: str,
    lost: set[int],
    dropped: set[tuple[str, str]],
) -> list[tuple[str, int]]:
    """Values that nothing points at: no node of the statement, no note, nothing of `kept`."""
    base = base_of(head)
    for ord, refs in await tx.all(named_by, base + 1, base + head.ord):
        if ord not in lost:
            kept.update(split_refs(refs))
    for node, key, refs in await tx.all("note_refs", head.number):
        if (node, key) not in dropped:
            kept.update(split_refs(refs))
    return [(d, size) for d, size in await tx.all("list_values", head.number) if d not in kept]


async def check_roots(tx: Tx, query: CheckRoots) -> int:
    """How many values the live checkpoint of a session names, itself included; Corrupt."""
    head = await find_head(tx, query.tenant, query.session)
    return 0 if head is None else len(await _checkpoint_refs(tx, query.session, head))


async def _checkpoint_refs(tx: Tx, session: str, head: HeadRow) -> set[str]:
    if head.checkpoint is None:
        return set()
    row = await tx.one("get_document", head.number, "checkpoint")
    return checkpoint_refs(session, head.checkpoint, None if row is None else row[0])
