"""Reading branches: the list of them, and where two part."""

from __future__ import annotations

from ledgerstone.commands.nodes import DiffBranches, ListBranches
from ledgerstone.errors import BranchNotFound, Corrupt
from ledgerstone.records.nodes import Branch, Diff, Node
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import base_of, find_head, need_head
from ledgerstone.sql.messages import read_path
from ledgerstone.sql.nodes import node_of
from ledgerstone.sql.paths import MAIN, id_at, tip_of
from ledgerstone.sql.sessions import named_branches
from ledgerstone.sql.tx import Tx


async def list_branches(tx: Tx, query: ListBranches) -> list[Branch]:
    """Main first, then the others by name."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    main = Branch(MAIN, await id_at(tx, head, head.tip), head.tip_seq)
    return [main, *(await named_branches(tx, head))]


async def diff_branches(tx: Tx, query: DiffBranches) -> Diff:
    """The last common node, and what only each branch has."""
    head = await need_head(tx, query.tenant, query.session)
    a = await _tip(tx, head, query.a)
    b = await _tip(tx, head, query.b)
    common = await _common(tx, head, a, b)
    above = 0
    if common:
        row = await tx.one("place_at", base_of(head) + common)
        above = 0 if row is None else row[1]
    return Diff(
        await id_at(tx, head, common),
        await _beyond(tx, head, query.session, a, above),
        await _beyond(tx, head, query.session, b, above),
    )


async def _tip(tx: Tx, head: HeadRow, branch: str) -> int:
    tip = await tip_of(tx, head, branch)
    if tip is None:
        raise BranchNotFound(branch)
    return tip[0]


async def _common(tx: Tx, head: HeadRow, a: int, b: int) -> int:
    """A parent always has a lower ord, so the higher one of two places steps up."""
    while a != b:
        place = max(a, b)
        row = await tx.one("place_at", base_of(head) + place)
        if row is None or row[0] >= place:
            raise Corrupt("nodes", f"{place}", "parent", "it does not lead to the root")
        if a > b:
            a = row[0]
        else:
            b = row[0]
    return a


async def _beyond(tx: Tx, head: HeadRow, session: str, leaf: int, seq: int) -> list[Node]:
    rows = await read_path(tx, head, leaf, messages=False, after_seq=seq)
    return [await node_of(tx, row, session) for row in rows]
