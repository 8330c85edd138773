"""The way to the nodes of the graph, and paths in it: no other handler names their table.

An ord is a node's place in the commit order of its session; 0 means none. A path is made of
straight stretches, in each of which every node follows its predecessor in commit order. A session
that never branched has one of them, 1..leaf. Where a new one begins stands in an index, so finding
the stretches of a path takes as long as it has branched, not as long as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from operator import attrgetter
from typing import Any, NamedTuple, TypeAlias

from msgspec.structs import replace

from ledgerstone.errors import Corrupt
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.rules.chain import commit_fields
from ledgerstone.tables.graph import BRANCHES, NODES, NODES_BY_ID, NODES_JUMPS, NodeRow
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx

MAIN = "main"
USER = 2
"""The number of the role in a node's row."""

Row: TypeAlias = tuple[Any, ...]
"""Some columns of a node, in the order in which they were asked for."""

COLUMNS = ("ord", "parent", "seq", "role", "run", "created_us", "id", "body", "deleted_us")
"""What is read of a message."""
row_of: Callable[[NodeRow], Row] = attrgetter(*COLUMNS)

_PAGE_ROWS = 256
_SPARSE_IDS, _SPARSE_ROWS = 32, 4
"""Nodes are read as one range unless it holds this many times more of them than are asked for."""


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


async def ids_at(tx: Tx, number: int, ords: Collection[int]) -> dict[int, str]:
    """The ids of at least these nodes, as far as they are there, by ord."""
    if not ords:
        return {}
    first, last = min(ords), max(ords)
    if last - first < _SPARSE_IDS * len(ords):
        return dict(await columns_between(tx, number, ("ord", "id"), first, last))
    found = {ord: await id_at(tx, number, ord) for ord in sorted(ords)}
    return {ord: id for ord, id in found.items() if id is not None}


async def nodes_at(tx: Tx, number: int, ords: Sequence[int]) -> list[NodeRow]:
    """The nodes at these ords, in their order; Corrupt when one is not there."""
    if not ords:
        return []
    first, last = min(ords), max(ords)
    if last - first < _SPARSE_ROWS * len(ords):
        rows = {row.ord: row for row in await nodes_between(tx, number, first, last)}
        found = [rows.get(ord) for ord in ords]
    else:
        found = [await node_at(tx, number, ord) for ord in ords]
    there = [row for row in found if row is not None]
    if len(there) < len(ords):
        raise Corrupt("nodes", f"{number}", "ord", "an index names a row that is not there")
    return there


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


def row_commitment(row: NodeRow, run_id: str | None) -> bytes:
    """What the chain knows of a node: computed, or stored when its body was erased."""
    if row.body is None:
        return row.commitment or b""
    return commit_fields(
        row.salt or b"",
        row.role,
        row.kind or MESSAGE,
        row.label or "",
        run_id,
        row.meta,
        row.format,
        row.refs or "",
        row.created_us,
        row.body,
    )


def chain_node(row: NodeRow, run_id: str | None) -> tuple[int, int, str, bytes]:
    """A node as the link function wants it."""
    return (row.ord, row.parent, row.id, row_commitment(row, run_id))


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


class PathNode(NamedTuple):
    """A node on a path, without its content."""

    ord: int
    parent: int
    role: int | None
    id: str
    deleted_us: int | None


class Stretch(NamedTuple):
    """Nodes that follow each other, by ord; `seq` is the position of the first of them."""

    first: int
    last: int
    seq: int

    def within(self, after_seq: int, before_seq: int | None) -> tuple[int, int]:
        """First and last ord of the positions between the two; first > last when there are none."""
        low = self.first + max(0, after_seq + 1 - self.seq)
        if before_seq is None:
            return low, self.last
        return low, min(self.last, self.first + before_seq - 1 - self.seq)


async def effective(tx: Tx, head: Head, leaf: int) -> tuple[int, int]:
    """The nearest live node at or above an ord, and its seq; (0, 0) when there is none."""
    while leaf:
        row = await node_at(tx, head.number, leaf)
        if row is None:
            return (0, 0)
        if row.deleted_us is None:
            return (leaf, row.seq)
        leaf = min(row.parent, leaf - 1)  # Always the parent, unless the store is damaged.
    return (0, 0)


async def stored_leaf(tx: Tx, head: Head, branch: str) -> int | None:
    """Where a branch stands as stored; None when there is no such branch."""
    if branch == MAIN:
        return head.leaf
    row = await tx.get(BRANCHES, head.number, branch)
    return None if row is None else row.leaf


async def tip_of(tx: Tx, head: Head, branch: str) -> tuple[int, int] | None:
    """The effective leaf of a branch and its seq; None when there is no such branch."""
    if branch == MAIN:
        return (head.tip, head.tip_seq)
    leaf = await stored_leaf(tx, head, branch)
    return None if leaf is None else await effective(tx, head, leaf)


async def end_of(tx: Tx, head: Head, branch: str, at: str | None, *, deleted: bool = False) -> int:
    """The ord a read path ends at; 0 when there is nothing to read."""
    if at is not None:
        row = await node_by_id(tx, head.number, at)
        return 0 if row is None else row.ord
    if deleted:
        return await stored_leaf(tx, head, branch) or 0
    tip = await tip_of(tx, head, branch)
    return 0 if tip is None else tip[0]


async def stretches(tx: Tx, head: Head, leaf: int) -> list[Stretch]:
    """The straight parts of the path that ends at an ord, newest first."""
    if not head.branched:
        return [Stretch(1, leaf, 1)]
    found, end = list[Stretch](), leaf
    while end > 0:
        jumps = await tx.scan_columns(
            NODES_JUMPS, ("ord", "parent", "seq"), head.number, before=(end + 1,), limit=1,
            reverse=True,
        )  # fmt: skip
        if not jumps:
            found.append(Stretch(1, end, 1))
            break
        first, parent, seq = jumps[0]
        found.append(Stretch(first, end, seq))
        end = min(parent, first - 1)  # Always the parent, unless the store is damaged.
    return found


async def places_above(tx: Tx, head: Head, leaf: int, stop: int) -> list[PathNode]:
    """The path from a leaf down to, but without, an ord; newest first."""
    found: list[PathNode] = []
    for stretch in await stretches(tx, head, leaf) if leaf > stop else ():
        first = max(stretch.first, stop + 1)
        rows = await columns_between(
            tx, head.number, PathNode._fields, first, stretch.last, reverse=True
        )
        found += [PathNode(*row) for row in rows]
        if stretch.first <= stop:
            break
    return found


async def count_path(tx: Tx, head: Head, leaf: int) -> tuple[int, int, int]:
    """Live messages of a path, live user messages, and the ord of the first of these."""
    live = [
        place
        for place in await places_above(tx, head, leaf, 0)
        if place.role is not None and place.deleted_us is None
    ]
    users = [place.ord for place in live if place.role == USER]
    return len(live), len(users), min(users, default=0)


def is_message(row: Row) -> bool:
    """Whether a row is a message that still has its body."""
    return row[3] is not None and row[7] is not None


def is_live_message(row: Row) -> bool:
    """The same, and it is not tombstoned."""
    return row[8] is None and row[3] is not None and row[7] is not None


async def read_path(
    tx: Tx,
    head: Head,
    parts: list[Stretch],
    *,
    columns: tuple[str, ...] = COLUMNS,
    fits: Callable[[Row], bool] = is_live_message,
    after_seq: int = 0,
    before_seq: int | None = None,
    last: int | None = None,
    first: int | None = None,
) -> list[Row]:
    """The nodes of a path that fit, oldest first; `parts` are its stretches, newest first.

    The columns begin with those of a message.
    """
    wanted, newest_first = (first, False) if last is None else (last, True)
    found: list[Row] = []
    for part in parts if newest_first else reversed(parts):
        left = None if wanted is None else wanted - len(found)
        if left == 0:
            break
        low, high = part.within(after_seq, before_seq)
        found += await read_between(
            tx, head.number, columns, low, high, fits, wanted=left, reverse=newest_first
        )
    return found[::-1] if newest_first else found


async def read_between(
    tx: Tx,
    number: int,
    columns: tuple[str, ...],
    first: int,
    last: int,
    fits: Callable[[Row], bool],
    *,
    wanted: int | None,
    reverse: bool,
) -> list[Row]:
    """The rows from one ord to another that fit, not more than are wanted; ord comes first."""
    found: list[Row] = []
    size = wanted
    while first <= last:
        rows = await columns_between(tx, number, columns, first, last, limit=size, reverse=reverse)
        if fits is is_live_message:  # The usual one: the same, without a call for each row.
            found += [
                row for row in rows if row[8] is None and row[3] is not None and row[7] is not None
            ]
        else:
            found += filter(fits, rows)
        if wanted is None or size is None or len(rows) < size or len(found) >= wanted:
            break
        if reverse:
            last = rows[-1][0] - 1
        else:
            first = rows[-1][0] + 1
        size = max(wanted, _PAGE_ROWS)  # Few of the first rows did fit.
    return found[:wanted]
