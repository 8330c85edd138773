"""Places and paths in the graph.

A path is made of straight stretches, in each of which every node follows its predecessor in commit
order. A session that never branched has one of them, 1..leaf. Where a new one begins stands in an
index, so finding the stretches of a path takes as long as it has branched, not as long as it is.
"""

from __future__ import annotations

from typing import NamedTuple

from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import base_of
from ledgerstone.sql.tx import Row, Tx

MAIN = "main"


async def id_at(tx: Tx, head: HeadRow, ord: int) -> str | None:
    """The id of the node at an ord; None for 0."""
    if ord == 0:
        return None
    row = await tx.one("id_at", base_of(head) + ord)
    return None if row is None else row[0]


async def effective(tx: Tx, head: HeadRow, leaf: int) -> tuple[int, int]:
    """The nearest live node at or above an ord, and its seq; (0, 0) when there is none."""
    while leaf:
        row = await tx.one("place_at", base_of(head) + leaf)
        if row is None:
            return (0, 0)
        parent, seq, deleted_us, _, _ = row
        if deleted_us is None:
            return (leaf, seq)
        leaf = min(parent, leaf - 1)  # Always the parent, unless the file is damaged.
    return (0, 0)


async def stored_leaf(tx: Tx, head: HeadRow, branch: str) -> int | None:
    """Where a branch stands as stored; None when there is no such branch."""
    if branch == MAIN:
        return head.leaf
    row = await tx.one("get_branch", head.number, branch)
    return None if row is None else row[0]


async def tip_of(tx: Tx, head: HeadRow, branch: str) -> tuple[int, int] | None:
    """The effective leaf of a branch and its seq; None when there is no such branch."""
    if branch == MAIN:
        return (head.tip, head.tip_seq)
    leaf = await stored_leaf(tx, head, branch)
    return None if leaf is None else await effective(tx, head, leaf)


async def end_of(
    tx: Tx, head: HeadRow, branch: str, at: str | None, *, deleted: bool = False
) -> int:
    """The ord a read path ends at; 0 when there is nothing to read."""
    if at is not None:
        row = await tx.one("find_place", head.number, at)
        return 0 if row is None else row[0]
    if deleted:
        return await stored_leaf(tx, head, branch) or 0
    tip = await tip_of(tx, head, branch)
    return 0 if tip is None else tip[0]


async def places_above(tx: Tx, head: HeadRow, leaf: int, stop: int) -> list[Row]:
    """(ord, parent, role, id, deleted_us) from a leaf down to, but without, an ord."""
    if leaf <= stop:
        return []
    base = base_of(head)
    if not head.branched:
        return await tx.all("places_between", base + stop + 1, base + leaf)
    return await tx.all("walk_places", base, base + leaf, stop)


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


async def stretches(tx: Tx, head: HeadRow, leaf: int) -> list[Stretch]:
    """The straight parts of the path that ends at an ord, newest first."""
    if not head.branched:
        return [Stretch(1, leaf, 1)]
    base, found, end = base_of(head), list[Stretch](), leaf
    for first, parent, seq in await tx.all("walk_jumps", base, base + leaf):
        found.append(Stretch(first, end, seq))
        end = min(parent, first - 1)  # Always the parent, unless the file is damaged.
    if end > 0 and (not found or found[-1].first > 1):
        found.append(Stretch(1, end, 1))
    return found


async def count_path(tx: Tx, head: HeadRow, leaf: int) -> Row:
    """(live messages, live user messages, ord of the first of these) of a path."""
    if leaf == 0:
        return (0, 0, 0)
    base = base_of(head)
    if head.branched:
        row = await tx.one("count_walk", base, base + leaf)
    else:
        row = await tx.one("count_between", base + 1, base + leaf)
    assert row is not None
    return row
