"""Nodes of any kind, paths and values as they are read."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.nodes import FindNodes, GetNode, GetValues, ListNodes, ReadPath
from ledgerstone.errors import InvalidValue
from ledgerstone.records.nodes import Node
from ledgerstone.rules.bodies import read_any, read_meta
from ledgerstone.rules.matching import contains
from tests.oracle.model import notes, paths
from tests.oracle.model.messages import nodes_with_id, path_start
from tests.oracle.model.rows import NodeRow, split_refs
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx

ORDERS = ("ord", "-ord", "id", "-id")


def to_node(
    tx: Tx, standing: Standing, row: NodeRow, *, noted: bool = False, resolve: bool = False
) -> Node:
    """The node as callers see it, with its notes and values on request."""
    where = f"{standing.id}/{row.id}"
    values = split_refs(row.refs)
    beside = notes.notes_of(tx, standing, row.id) if noted else {}
    wanted = [*values, *(ref for note in beside.values() for ref in note.values)]
    return Node(
        id=row.id,
        kind=row.kind,
        body=None if row.body is None else read_any(row.body, row.format, where),
        session=standing.id,
        ord=row.ord,
        seq=row.seq,
        parent=paths.id_of(tx, standing.number, row.parent),
        label=row.label,
        run_id=row.run_id,
        meta=read_meta(row.meta, where),
        values=values,
        created_us=row.created_us,
        deleted_us=row.deleted_us,
        notes=beside if noted else None,
        resolved=_values(tx, standing.number, tuple(wanted)) if resolve else None,
    )


def get_node(tx: Tx, query: GetNode) -> Node | None:
    """One live node, or None."""
    found = find(tx, query.tenant, query.session)
    row = None if found is None else paths.live_by_id(tx, found, query.id)
    if found is None or row is None:
        return None
    return to_node(tx, found, row, noted=query.notes, resolve=query.resolve)


def find_nodes(tx: Tx, query: FindNodes) -> list[Node]:
    """Live nodes of any session of the tenant with this id, by session."""
    pairs = nodes_with_id(tx, query.tenant, query.id)
    return [to_node(tx, found, row) for found, row in pairs if row.live]


def list_nodes(tx: Tx, query: ListNodes) -> list[Node]:
    """Live nodes of one session or of the tenant in one of four orders."""
    if query.order not in ORDERS:
        raise InvalidValue("order", f"{query.order!r} is none of {', '.join(ORDERS)}")
    by_id, reverse = query.order.endswith("id"), query.order.startswith("-")

    def key(node: str, session: str, at: int) -> tuple[Any, ...]:
        # In one session an id or an ord is unique, so a border from elsewhere counts as well.
        place = "" if query.session is not None else session
        return (node, place) if by_id else (place, at)

    matches = [
        (key(row.id, found.id, row.ord), found, row)
        for found in _sessions(tx, query)
        for _, row in tx.state.nodes.scan((found.number,))
        if _fits(found, row, query)
    ]
    if query.after is not None:
        border = key(*query.after)
        matches = [m for m in matches if (m[0] < border if reverse else m[0] > border)]
    matches.sort(key=lambda match: match[0], reverse=reverse)
    return [
        to_node(tx, found, row, noted=query.notes, resolve=query.resolve)
        for _, found, row in matches[: query.limit]
    ]


def _sessions(tx: Tx, query: ListNodes) -> list[Standing]:
    if query.session is None:
        wanted = [session for (_, session), _ in tx.state.sessions.scan((query.tenant,))]
    else:
        wanted = [query.session]
    found = (find(tx, query.tenant, session) for session in wanted)
    return [standing for standing in found if standing is not None]


def _fits(standing: Standing, row: NodeRow, query: ListNodes) -> bool:
    if not row.live or (query.before_id is not None and row.id >= query.before_id):
        return False
    for wanted, actual in (
        (query.kind, row.kind),
        (query.label, row.label),
        (query.run_id, row.run_id),
    ):
        if wanted is not None and wanted != actual:
            return False
    if query.meta_contains is None:
        return True
    return contains(read_meta(row.meta, f"{standing.id}/{row.id}"), query.meta_contains)


def read_path(tx: Tx, query: ReadPath) -> list[Node]:
    """Live nodes from the root to a node or a branch's leaf."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return []
    rows: list[NodeRow] = []
    start = path_start(tx, found, query.branch, query.at)
    for row in paths.upwards(tx, found.number, start):
        if query.last is not None and len(rows) >= query.last:
            break
        if row.live and query.kind in (None, row.kind):
            rows.append(row)
    return [to_node(tx, found, row) for row in reversed(rows)]


def get_values(tx: Tx, query: GetValues) -> dict[str, bytes]:
    """Values by digest; missing ones are absent."""
    found = find(tx, query.tenant, query.session)
    return {} if found is None else _values(tx, found.number, query.digests)


def _values(tx: Tx, number: int, digests: tuple[str, ...]) -> dict[str, bytes]:
    found = ((digest, tx.state.values.get((number, digest))) for digest in digests)
    return {digest: data for digest, data in found if data is not None}
