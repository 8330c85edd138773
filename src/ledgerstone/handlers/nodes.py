"""The way to the nodes of the graph: no other handler names their table.

An ord is a node's place in the commit order of its session; 0 means none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from ledgerstone.tables.graph import NODES, NODES_BY_ID, NodeRow
from ledgerstone.tables.transaction import Tx


async def node_at(tx: Tx, number: int, ord: int) -> NodeRow | None:
    """The node at an ord of a session."""
    return await tx.get(NODES, number, ord)


async def node_by_id(tx: Tx, number: int, id: str) -> NodeRow | None:
    """The node of a session with this id."""
    return await tx.find(NODES_BY_ID, id, number)


async def taken_node(tx: Tx, number: int, ids: Sequence[str]) -> NodeRow | None:
    """The first of these nodes that is there; None is a promise to insert all of them."""
    return await tx.fresh(NODES_BY_ID, ((id, number) for id in ids))


async def nodes_with_id(tx: Tx, id: str) -> list[NodeRow]:
    """The nodes with this id in all sessions of all tenants, oldest session first."""
    return await tx.scan(NODES_BY_ID, id)


async def id_at(tx: Tx, number: int, ord: int) -> str | None:
    """The id of the node at an ord."""
    row = await tx.get(NODES, number, ord) if ord else None
    return None if row is None else row.id


async def nodes_between(
    tx: Tx, number: int, first: int, last: int, *, limit: int | None = None, reverse: bool = False
) -> list[NodeRow]:
    """The nodes from one ord to another, both included."""
    bounds: dict[str, Any] = {"after": (first - 1,), "before": (last + 1,)}
    return await tx.scan(NODES.primary, number, **bounds, limit=limit, reverse=reverse)


async def columns_between(
    tx: Tx,
    number: int,
    columns: tuple[str, ...],
    first: int,
    last: int,
    *,
    limit: int | None = None,
    reverse: bool = False,
) -> list[tuple[Any, ...]]:
    """The same, but only these columns, as tuples."""
    bounds: dict[str, Any] = {"after": (first - 1,), "before": (last + 1,)}
    return await tx.scan_columns(
        NODES.primary, columns, number, **bounds, limit=limit, reverse=reverse
    )


def add_nodes(tx: Tx, rows: Sequence[NodeRow]) -> None:
    """Insert nodes whose ids and ords are known to be free."""
    tx.insert(NODES, rows)


def hide_node(tx: Tx, row: NodeRow, deleted_us: int, revision: int) -> None:
    """Tombstone a node."""
    tx.put(NODES, replace(row, deleted_us=deleted_us, deleted_rev=revision))


def erase_node(tx: Tx, row: NodeRow, commitment: bytes) -> None:
    """Leave a node's place, id and commitment, and nothing that could be guessed back."""
    erased = NodeRow(
        number=row.number,
        ord=row.ord,
        parent=row.parent,
        seq=row.seq,
        role=None,
        kind="",
        label="",
        run=None,
        meta=None,
        format=None,
        refs=None,
        created_us=0,
        id=row.id,
        salt=None,
        body=None,
        deleted_us=row.deleted_us,
        deleted_rev=row.deleted_rev,
        commitment=commitment,
    )
    tx.put(NODES, erased)
