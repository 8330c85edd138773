"""Paths in the graph.

A path is made of straight stretches, in each of which every node follows its predecessor in commit
order. A session that never branched has one of them, 1..leaf. Where a new one begins stands in an
index, so finding the stretches of a path takes as long as it has branched, not as long as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from ledgerstone.handlers.nodes import columns_between, node_at, node_by_id
from ledgerstone.tables.graph import BRANCHES, NODES_JUMPS
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx

MAIN = "main"
USER = 2
"""The number of the role in a node's row."""


class Place(NamedTuple):
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


async def places_above(tx: Tx, head: Head, leaf: int, stop: int) -> list[Place]:
    """The path from a leaf down to, but without, an ord; newest first."""
    found: list[Place] = []
    for stretch in await stretches(tx, head, leaf) if leaf > stop else ():
        first = max(stretch.first, stop + 1)
        rows = await columns_between(
            tx, head.number, Place._fields, first, stretch.last, reverse=True
        )
        found += [Place(*row) for row in rows]
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
