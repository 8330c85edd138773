"""Vacuum: erase hidden bodies, keep the chain whole."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from ledgerstone.commands.blobs import CheckRoots
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.handlers.heads import find_head, save_head
from ledgerstone.handlers.nodes import (
    columns_between,
    erase_node,
    hide_node,
    nodes_at,
    row_commitment,
)
from ledgerstone.handlers.notes import split_refs
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import run_names
from ledgerstone.records.reports import Vacuumed
from ledgerstone.rules.bodies import checkpoint_refs
from ledgerstone.tables.graph import AMENDMENTS, BRANCHES, CONTENTS, NOTES, NodeRow
from ledgerstone.tables.sessions import DOCUMENTS, Head
from ledgerstone.tables.transaction import Tx


class _Outline(NamedTuple):
    """A node without its content; only one that was erased has a commitment."""

    ord: int
    parent: int
    id: str
    refs: str | None
    created_us: int
    deleted_us: int | None
    commitment: bytes | None


class _Note(NamedTuple):
    """A note without its body."""

    node: str
    key: str
    refs: str | None
    created_us: int


@handles(VacuumSession)
async def vacuum_session(tx: Tx, command: VacuumSession) -> Vacuumed:
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return Vacuumed(dry_run=command.dry_run)
    nodes = [
        _Outline(*row)
        for row in await columns_between(tx, head.number, _Outline._fields, 1, head.ord)
    ]
    notes = [
        _Note(*row) for row in await tx.scan_columns(NOTES.primary, _Note._fields, head.number)
    ]
    kept, stale, doomed = nodes, list[_Note](), list[NodeRow]()
    # Hidden nodes can still be read as of an earlier time: what they name stays until they go.
    if not command.values_only:
        loose = await _unreachable(tx, head, command, nodes)
        ords = sorted(loose | {node.ord for node in nodes if _is_erasable(node, command)})
        doomed = await nodes_at(tx, head.number, ords)
        kept = [node for node in nodes if node.deleted_us is None and node.ord not in loose]
        ids = {node.id for node in kept}
        before_us = command.notes_before_us
        stale = [one for one in notes if one.node not in ids and one.created_us <= before_us]
    refs = [node.refs for node in kept] + [note.refs for note in set(notes).difference(stale)]
    values = await _loose_values(tx, command.session, head, refs)
    if not command.dry_run:
        await _erase(tx, head, doomed)
        for note in stale:
            tx.delete(NOTES, head.number, note.node, note.key)
        for digest in values:
            tx.delete(CONTENTS, head.number, digest)
    return Vacuumed(
        nodes=len(doomed),
        notes=len(stale),
        values=len(values),
        freed_bytes=sum(len(row.body or b"") for row in doomed) + sum(values.values()),
        dry_run=command.dry_run,
    )


def _is_erasable(node: _Outline, command: VacuumSession) -> bool:
    if node.deleted_us is None or node.commitment is not None:
        return False
    return command.before_us is None or node.deleted_us <= command.before_us


async def _unreachable(
    tx: Tx, head: Head, command: VacuumSession, nodes: Sequence[_Outline]
) -> set[int]:
    """The ords of visible nodes that lie on no branch's path, when they are asked for."""
    if not command.unreachable:
        return set()
    parents = {node.ord: node.parent for node in nodes}
    reached: set[int] = set()
    leaves = await tx.scan_columns(BRANCHES.primary, ("leaf",), head.number)
    for (leaf,) in [(head.leaf,), *leaves]:
        at = leaf
        while at and at not in reached:
            reached.add(at)
            at = parents.get(at, 0)
    before_us = command.before_us
    return {
        node.ord
        for node in nodes
        if node.deleted_us is None
        and node.ord not in reached
        and (before_us is None or node.created_us <= before_us)
    }


async def _loose_values(
    tx: Tx, session: str, head: Head, refs: Iterable[str | None]
) -> dict[str, int]:
    """The size of each value that neither these references nor the checkpoint name."""
    used = await _checkpoint_refs(tx, session, head)
    for text in refs:
        used.update(split_refs(text))
    sizes: dict[str, int] = {}
    for (digest,) in await tx.scan_columns(CONTENTS.primary, ("digest",), head.number):
        if digest not in used:
            row = await tx.get(CONTENTS, head.number, digest)
            sizes[digest] = 0 if row is None else len(row.data)
    return sizes


async def _erase(tx: Tx, head: Head, doomed: Sequence[NodeRow]) -> None:
    """Leave stubs: place, id and commitment, nothing that could be guessed back."""
    names = await run_names(tx, head, {row.run for row in doomed if row.run is not None})
    live = head.live
    for row in doomed:
        commitment = row_commitment(row, None if row.run is None else names.get(row.run))
        blank = replace(
            row, role=None, kind="", label="", run=None, format=None, refs=None, created_us=0
        )
        if row.deleted_us is None:
            hide_node(tx, row, tx.now_us, head.revision)
            blank = replace(blank, deleted_us=tx.now_us, deleted_rev=head.revision)
            head.live -= 1
        erase_node(tx, blank, commitment)
    if head.amended and doomed:
        ords = {row.ord for row in doomed}
        for version in await tx.scan(AMENDMENTS.primary, head.number):
            if version.ord in ords:
                tx.put(AMENDMENTS, replace(version, salt=None, patch=None, created_us=0))
    if head.live < live:
        save_head(tx, head)


@handles(CheckRoots)
async def check_roots(tx: Tx, query: CheckRoots) -> int:
    head = await find_head(tx, query.tenant, query.session)
    return 0 if head is None else len(await _checkpoint_refs(tx, query.session, head))


async def _checkpoint_refs(tx: Tx, session: str, head: Head) -> set[str]:
    if head.checkpoint is None:
        return set()
    row = await tx.get(DOCUMENTS, head.number, "checkpoint")
    return checkpoint_refs(session, head.checkpoint, None if row is None else row.body)
