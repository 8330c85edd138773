"""Vacuum: bodies and salts of tombstoned nodes go, and what nothing refers to any more."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.blobs import CheckRoots
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.records.reports import Vacuumed
from ledgerstone.rules.bodies import checkpoint_refs
from tests.oracle.model import paths
from tests.oracle.model.rows import NodeRow, split_refs
from tests.oracle.model.standing import Standing, find, save_head
from tests.oracle.model.state import Tx


def vacuum_session(tx: Tx, command: VacuumSession) -> Vacuumed:
    """Erase what may go, or with `dry_run` only count it."""
    found = find(tx, command.tenant, command.session)
    if found is None:
        return Vacuumed(dry_run=command.dry_run)
    if command.values_only:
        # Hidden nodes can still be read as of an earlier time, so what they name stays.
        erased, lost_notes, kept = list[NodeRow](), list[tuple[int, str, str]](), _nodes(tx, found)
    else:
        unreachable = _unreachable(tx, found, command)
        dead = [row for row in _nodes(tx, found) if _is_erasable(row, command)]
        erased = sorted([*dead, *unreachable], key=lambda row: row.ord)
        gone = {row.ord for row in unreachable}
        kept = [row for row in _nodes(tx, found) if row.live and row.ord not in gone]
        lost_notes = _lost_notes(tx, found, {row.id for row in kept}, command.notes_before_us)
    lost_values = _lost_values(tx, found, kept, set(lost_notes))
    freed = sum(len(tx.state.values[(found.number, digest)]) for digest in lost_values)
    if not command.dry_run:
        for row in erased:
            _erase(tx, found, row)
        for note in lost_notes:
            tx.state.notes.delete(note)
        for digest in lost_values:
            tx.state.values.delete((found.number, digest))
        save_head(tx, found)
    return Vacuumed(
        nodes=len(erased),
        notes=len(lost_notes),
        values=len(lost_values),
        freed_bytes=sum(len(row.body or b"") for row in erased) + freed,
        dry_run=command.dry_run,
    )


def _nodes(tx: Tx, found: Standing) -> list[NodeRow]:
    return [row for _, row in tx.state.nodes.scan((found.number,))]


def _is_erasable(row: NodeRow, command: VacuumSession) -> bool:
    if row.deleted_us is None or row.body is None:
        return False
    return command.before_us is None or row.deleted_us <= command.before_us


def _unreachable(tx: Tx, found: Standing, command: VacuumSession) -> list[NodeRow]:
    """Live nodes that lie on no branch's path, when they are asked for."""
    if not command.unreachable:
        return []
    leaves = [found.head.leaf, *(at for _, at in tx.state.branches.scan((found.number,)))]
    reached: set[int] = set()
    for leaf in leaves:
        for row in paths.upwards(tx, found.number, leaf):
            if row.ord in reached:
                break
            reached.add(row.ord)
    before_us = command.before_us
    return [
        row
        for row in _nodes(tx, found)
        if row.live
        and row.ord not in reached
        and (before_us is None or row.created_us <= before_us)
    ]


def _lost_notes(
    tx: Tx, found: Standing, live: set[str], before_us: int
) -> list[tuple[int, str, str]]:
    """Notes whose node is not live."""
    return [
        key
        for key, row in tx.state.notes.scan((found.number,))
        if key[1] not in live and row.created_us <= before_us
    ]


def _lost_values(
    tx: Tx, found: Standing, kept: list[NodeRow], lost_notes: set[tuple[int, str, str]]
) -> list[str]:
    """Values that no kept node, no remaining note and no current checkpoint refers to."""
    used = {digest for row in kept for digest in split_refs(row.refs)}
    for key, note in tx.state.notes.scan((found.number,)):
        if key not in lost_notes:
            used.update(split_refs(note.refs))
    used |= _checkpoint_refs(tx, found)
    stored = (key[1] for key, _ in tx.state.values.scan((found.number,)))
    return [digest for digest in stored if digest not in used]


def check_roots(tx: Tx, query: CheckRoots) -> int:
    """How many values the live checkpoint of a session names, itself included; Corrupt."""
    found = find(tx, query.tenant, query.session)
    return 0 if found is None else len(_checkpoint_refs(tx, found))


def _checkpoint_refs(tx: Tx, found: Standing) -> set[str]:
    data = tx.state.documents.get((found.number, "checkpoint"))
    return checkpoint_refs(found.id, found.head.checkpoint, data)


def _erase(tx: Tx, found: Standing, row: NodeRow) -> None:
    """Leave a stub: place, id and commitment; tombstone the node first when it is live."""
    if row.live:
        row = replace(row, deleted_us=tx.now_us, deleted_rev=found.head.revision)
        found.head.live -= 1
    stub = replace(
        row,
        commitment=row.committed(),
        role=None,
        kind="",
        label="",
        run_id=None,
        meta=None,
        format=None,
        refs="",
        body=None,
        salt=None,
        created_us=0,
    )
    tx.state.nodes.update((found.number, row.ord), stub)
    for key, amendment in list(tx.state.amendments.scan((found.number, row.ord))):
        emptied = replace(amendment, patch=None, salt=None, created_us=0)
        tx.state.amendments.update(key, emptied)
