"""Reading branches: the list of them, and where two part."""

from __future__ import annotations

from ledgerstone.commands.nodes import DiffBranches, ListBranches
from ledgerstone.errors import BranchNotFound
from ledgerstone.handlers.heads import find_head, need_head
from ledgerstone.handlers.node_reads import read_path_nodes
from ledgerstone.handlers.nodes import id_at
from ledgerstone.handlers.paths import MAIN, Stretch, effective, stretches, tip_of
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.sessions import named_branches
from ledgerstone.records.nodes import Branch, Diff
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx


@handles(ListBranches)
async def list_branches(tx: Tx, query: ListBranches) -> list[Branch]:
    """Main first, then the others by name."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    main = Branch(MAIN, await id_at(tx, head.number, head.tip), head.tip_seq)
    return [main, *(await named_branches(tx, head) if head.named else ())]


@handles(DiffBranches)
async def diff_branches(tx: Tx, query: DiffBranches) -> Diff:
    """The last live common node, and what only each branch has."""
    head = await need_head(tx, query.tenant, query.session)
    a = await _path(tx, head, query.a)
    b = await _path(tx, head, query.b)
    common, above = await effective(tx, head, _last_common(a, b))
    return Diff(
        await id_at(tx, head.number, common),
        await read_path_nodes(tx, head, query.session, a, after_seq=above),
        await read_path_nodes(tx, head, query.session, b, after_seq=above),
    )


async def _path(tx: Tx, head: Head, branch: str) -> list[Stretch]:
    tip = await tip_of(tx, head, branch)
    if tip is None:
        raise BranchNotFound(branch)
    return await stretches(tx, head, tip[0])


def _last_common(a: list[Stretch], b: list[Stretch]) -> int:
    """The highest ord that is on both paths; 0 when there is none."""
    x = y = 0
    while x < len(a) and y < len(b):
        common = min(a[x].last, b[y].last)
        if common >= max(a[x].first, b[y].first):
            return common
        # The stretch that begins higher is wholly above the other one.
        if a[x].first > b[y].first:
            x += 1
        else:
            y += 1
    return 0
