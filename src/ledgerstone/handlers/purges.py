"""Purge and vacuum: sessions and hidden bodies are removed, the chain of what stays holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from ledgerstone.commands.artifacts import Owner
from ledgerstone.commands.blobs import CheckRoots
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.commands.sessions import PurgeSession, SweepPurged
from ledgerstone.errors import RevisionMoved
from ledgerstone.handlers.embeddings import drop_session_vectors
from ledgerstone.handlers.heads import find_head, part_from_children, save_head
from ledgerstone.handlers.nodes import (
    columns_between,
    erase_node,
    nodes_at,
    row_commitment,
)
from ledgerstone.handlers.notes import split_refs
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import run_names
from ledgerstone.handlers.usage import forget_sums
from ledgerstone.records.reports import Vacuumed
from ledgerstone.records.sessions import Receipt
from ledgerstone.rules.artifacts import scope_of
from ledgerstone.rules.bodies import checkpoint_refs
from ledgerstone.rules.guard import check_incarnation
from ledgerstone.rules.rows import GENESIS
from ledgerstone.tables.blobs import ARTIFACTS_IN_ORDER, ATTACHMENTS
from ledgerstone.tables.evidence import EVIDENCE
from ledgerstone.tables.graph import AMENDMENTS, BRANCHES, CONTENTS, NOTES, NodeRow
from ledgerstone.tables.runs import KEPT_RUNS, RUNS, KeptRunRow
from ledgerstone.tables.schema import OWNED
from ledgerstone.tables.sessions import (
    DOCUMENTS,
    HEADS,
    PURGED,
    SESSIONS,
    STUBS,
    Head,
    PurgedRow,
    StubRow,
)
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
        hidden = row
        if row.deleted_us is None:
            hidden = replace(row, deleted_us=tx.now_us, deleted_rev=head.revision)
            head.live -= 1
        erase_node(tx, hidden, commitment)
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
