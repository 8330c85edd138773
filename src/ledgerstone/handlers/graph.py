"""How a commit changes the graph: rewind, append, tombstone, amend, move branches."""

from __future__ import annotations

from hashlib import sha256
from typing import TypeAlias

from msgspec import UNSET

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.commands.turns import Amendment, BranchMove, NewNode, Rewind
from ledgerstone.errors import (
    AlreadyExists,
    BranchNotFound,
    Corrupt,
    InvalidValue,
    LeafMoved,
    MessageNotFound,
    unknown_node,
)
from ledgerstone.handlers.commits import Commit, runs_of
from ledgerstone.handlers.nodes import (
    MAIN,
    add_nodes,
    effective,
    hide_node,
    id_at,
    node_at,
    node_by_id,
    nodes_between,
    places_above,
    stored_leaf,
    taken_node,
    tip_of,
)
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.turns import Placed
from ledgerstone.rules.bodies import read_object
from ledgerstone.rules.chain import commitment, frame
from ledgerstone.tables.graph import AMENDMENTS, BRANCHES, AmendmentRow, BranchRow, NodeRow
from ledgerstone.tables.transaction import Tx

Spot: TypeAlias = tuple[int, int, str | None]
"""Where a node is: ord, seq and id."""


async def open_branch(tx: Tx, commit: Commit) -> None:
    """Find where the command's branch stands."""
    head = commit.head
    if commit.on_main:
        commit.leaf, commit.tip, commit.tip_seq = head.leaf, head.tip, head.tip_seq
        return
    leaf = await stored_leaf(tx, head, commit.command.branch)
    if leaf is None:
        raise BranchNotFound(commit.command.branch)
    commit.leaf = leaf
    commit.tip, commit.tip_seq = await effective(tx, head, leaf)


async def _expect(
    tx: Tx, commit: Commit, branch: str, expected: str | None, leaf: int, tip: int
) -> None:
    number = commit.head.number
    actual = await id_at(tx, number, tip)
    if expected != actual and (leaf == tip or expected != await id_at(tx, number, leaf)):
        raise LeafMoved(branch, expected, actual)


async def rewind(tx: Tx, commit: Commit, rewind: Rewind) -> None:
    """Take the branch back before new nodes follow."""
    before = commit.leaf
    if rewind.expected is not UNSET:
        await _expect(tx, commit, commit.command.branch, rewind.expected, before, commit.tip)
    if rewind.pop:
        await _pop(tx, commit, rewind.pop)
    else:
        to = rewind.to
        target = (0, 0) if to is None else await _live_place(tx, commit, to, "leaf")
        if rewind.supersede:
            await _supersede(tx, commit, target[0])
        elif commit.on_main:
            commit.recount = True
        commit.leaf, (commit.tip, commit.tip_seq) = target[0], target
    commit.effects["rewind"] = [before, commit.leaf]


async def _pop(tx: Tx, commit: Commit, count: int) -> None:
    popped: list[tuple[int, str]] = []
    ord = commit.tip
    while ord and len(popped) < count:
        row = await node_at(tx, commit.head.number, ord)
        if row is None or row.parent >= ord:
            raise Corrupt("nodes", f"{ord}", "parent", "it does not lead to the root")
        if row.deleted_us is None and row.role is not None:
            popped.append((ord, row.id))
            if commit.on_main:
                commit.leave(ord, row.role)
        ord = row.parent
    popped.reverse()
    commit.leaf = ord
    commit.tip, commit.tip_seq = await effective(tx, commit.head, ord)
    commit.affected += [id for _, id in popped]
    if popped:
        commit.effects["popped"] = [ord for ord, _ in popped]


async def _supersede(tx: Tx, commit: Commit, target: int) -> None:
    """Tombstone the live nodes above the target, unless another branch still shows them."""
    tip = commit.tip
    left = await places_above(tx, commit.head, tip, target) if tip > target else []
    if target != (left[-1].parent if left else tip):
        raise InvalidValue("after", "the node is not on the branch's path")
    shared = await _shared(tx, commit, target)
    for place in left:
        if place.deleted_us is not None:
            continue
        commit.superseded += place.role is not None
        if commit.on_main:
            commit.leave(place.ord, place.role)
        if place.ord not in shared:
            commit.gone.append(place.ord)
    for first, last in runs_of(commit.gone):
        _hide(tx, commit, await nodes_between(tx, commit.head.number, first, last))
    if commit.superseded:
        commit.effects["superseded"] = commit.superseded


async def _shared(tx: Tx, commit: Commit, stop: int) -> set[int]:
    """Ords above `stop` that another branch still shows."""
    head = commit.head
    leaves = [] if commit.on_main else [head.leaf]
    if head.named:
        others = await tx.scan(BRANCHES.primary, head.number)
        leaves += [row.leaf for row in others if row.name != commit.command.branch]
    shared: set[int] = set()
    for leaf in leaves:
        if leaf > stop:
            shared.update(place.ord for place in await places_above(tx, head, leaf, stop))
    return shared


def _hide(tx: Tx, commit: Commit, rows: list[NodeRow]) -> None:
    for row in rows:
        hide_node(tx, row, commit.moment_us, commit.revision)
    commit.head.live -= len(rows)


async def find_taken(tx: Tx, commit: Commit) -> NodeRow | None:
    """The first of the new nodes that is there already; cheaper before a rewind hides others."""
    nodes, head = commit.command.nodes, commit.head
    if not nodes or not head.ord:  # The first nodes of a session cannot be there.
        return None
    return await taken_node(tx, head.number, [node.id for node in nodes])


async def append(tx: Tx, commit: Commit, taken: NodeRow | None) -> bool:
    """Add the new nodes; False when all of them were there already, with the same content."""
    nodes = commit.command.nodes
    if len({node.id for node in nodes}) < len(nodes):
        raise InvalidValue("id", "the same id is given to two nodes")
    if taken is not None:
        await _find_again(tx, commit, taken)
        return False
    await _place_nodes(tx, commit)
    return True


async def _place_nodes(tx: Tx, commit: Commit) -> None:
    head, nodes, on_main = commit.head, commit.command.nodes, commit.on_main
    ord = head.ord
    commit.first_ord = ord + 1
    tip: Spot = (commit.tip, commit.tip_seq, None)
    new: dict[str, Spot] = {}
    rows = []
    for node in nodes:
        if node.parent is not UNSET:
            parent = await _parent(tx, commit, node.parent, new)
            commit.recount = commit.recount or (on_main and node.on_path)
        else:
            if tip[2] is None and tip[0]:
                tip = (tip[0], tip[1], await id_at(tx, head.number, tip[0]))
            parent = tip
        if parent[0] != ord:
            head.branched = 1
        ord += 1
        spot = new[node.id] = (ord, parent[1] + 1, node.id)
        rows.append(_place_node(commit, node, parent, spot))
        if node.on_path:
            tip, commit.leaf = spot, ord
            if on_main:
                commit.join(ord, node.role)
    head.ord = ord
    head.live += len(nodes)
    commit.tip, commit.tip_seq, _ = tip
    add_nodes(tx, rows)


def _place_node(commit: Commit, node: NewNode, parent: Spot, spot: Spot) -> NodeRow:
    """The row of a node; the answer and the chain learn of it."""
    role, (ord, seq, _) = node.role, spot
    created_us = node.created_us or commit.moment_us
    commit.placed.append(Placed(node.id, ord, seq, parent[2], created_us))
    commit.links.append((ord, parent[0], node.id, commitment(node, created_us)))
    return NodeRow(
        commit.head.number,
        ord,
        parent[0],
        seq,
        role,
        # A message is told by its role; without kind and label its row is smaller.
        node.kind if role is None else None,
        node.label if role is None else node.label or None,
        None if node.run_id is None else commit.runs[node.run_id].wrote(ord),
        node.meta,
        node.format,
        "".join(node.refs) if node.refs else None,
        created_us,
        node.id,
        node.salt,
        node.body,
    )


async def _parent(tx: Tx, commit: Commit, parent: str | None, new: dict[str, Spot]) -> Spot:
    if parent is None:
        return (0, 0, None)
    if parent in new:
        return new[parent]
    row = await node_by_id(tx, commit.head.number, parent)
    if row is not None and row.deleted_us is None:
        return (row.ord, row.seq, parent)
    if commit.command.missing_parent == "root":
        return (0, 0, None)
    raise unknown_node("parent", parent)


async def _find_again(tx: Tx, commit: Commit, taken: NodeRow) -> None:
    """The places of an append that only repeats what is stored; otherwise AlreadyExists."""
    command, number = commit.command, commit.head.number
    plain = command.kind == "append" and command.rewind is None and not command.complete
    ids: dict[int, str] = {}
    for node in command.nodes:
        row = await node_by_id(tx, number, node.id) if plain else None
        if row is None or not _same(commit, node, row):
            raise AlreadyExists(taken.id)
        ids[row.ord] = row.id
        parent_id = ids.get(row.parent) or await id_at(tx, number, row.parent)
        commit.placed.append(Placed(row.id, row.ord, row.seq, parent_id, row.created_us))


def _same(commit: Commit, node: NewNode, row: NodeRow) -> bool:
    run = None if node.run_id is None else commit.runs[node.run_id].number
    kept = (row.role, row.kind or MESSAGE, row.label or "", row.run, row.meta, row.format)
    given = (node.role, node.kind, node.label, run, node.meta, node.format)
    same = kept == given and (row.refs or "", row.body) == ("".join(node.refs), node.body)
    return same and row.deleted_us is None


async def tombstone(tx: Tx, commit: Commit) -> None:
    """Hide nodes at once; unknown and already hidden ones are ignored."""
    head = commit.head
    found = [
        await node_by_id(tx, head.number, id) for id in dict.fromkeys(commit.command.tombstones)
    ]
    rows = [row for row in found if row is not None and row.deleted_us is None]
    if not rows:
        return
    for row in rows:
        if not head.branched and row.ord <= (commit.leaf if commit.on_main else head.leaf):
            commit.leave(row.ord, row.role)
    commit.recount = commit.recount or bool(head.branched)
    _hide(tx, commit, rows)
    commit.effects["tombstoned"] = gone = [row.ord for row in rows]
    commit.gone += gone
    commit.affected += [row.id for row in rows]
    commit.tip, commit.tip_seq = await effective(tx, head, commit.leaf)


async def amend(tx: Tx, commit: Commit) -> None:
    """Newer versions of messages; the stored patch is the sum of all changes."""
    done = [await _amend(tx, commit, amendment) for amendment in commit.command.amendments]
    commit.head.amended += len(done)
    commit.effects["amend"] = done


async def _amend(tx: Tx, commit: Commit, amendment: Amendment) -> list[int | str]:
    number = commit.head.number
    row = await node_by_id(tx, number, amendment.node)
    if row is None or row.deleted_us is not None or row.role is None:
        raise MessageNotFound(amendment.node)
    old = await tx.scan(AMENDMENTS.primary, number, row.ord, limit=1, reverse=True)
    version, patch = (old[0].version, old[0].patch) if old else (0, None)
    merged = read_object(patch, "amendments", amendment.node, "patch")
    merged |= decode_json(amendment.patch)
    patch = encode_json(merged, "amendment")
    digest = sha256(frame(amendment.salt, patch)).digest()
    stamp = (version + 1, commit.revision, commit.moment_us)
    tx.insert(AMENDMENTS, [AmendmentRow(number, row.ord, *stamp, amendment.salt, patch, digest)])
    return [row.ord, version + 1, digest.hex()]


async def move_branches(tx: Tx, commit: Commit) -> None:
    """Create, move and delete branches."""
    done = []
    for move in commit.command.branches:
        if move.name == MAIN and (move.create or move.delete):
            raise InvalidValue("branch", "main is always there")
        leaf = await stored_leaf(tx, commit.head, move.name)
        if move.create and leaf is not None:
            raise AlreadyExists(move.name)
        if not move.create and leaf is None:
            raise BranchNotFound(move.name)
        if move.expected is not UNSET:
            tip, _ = await tip_of(tx, commit.head, move.name) or (0, 0)
            await _expect(tx, commit, move.name, move.expected, leaf or 0, tip)
        done.append([move.name, await _move_branch(tx, commit, move)])
    commit.effects["branches"] = done


async def _move_branch(tx: Tx, commit: Commit, move: BranchMove) -> int:
    """Carry out a move at once, be it of the command's branch; its new leaf, -1 when it is gone."""
    head, name = commit.head, move.name
    target = (0, 0) if move.delete else await _target(tx, commit, move)
    if move.delete:
        tx.delete(BRANCHES, head.number, name)
        head.named -= 1
    elif name == MAIN:
        head.leaf, (head.tip, head.tip_seq) = target[0], target
        commit.recount = True
    else:
        tx.put(BRANCHES, BranchRow(head.number, name, target[0]))
        head.named += int(move.create)
    if name == commit.command.branch:
        commit.leaf, (commit.tip, commit.tip_seq) = target[0], target
    commit.moved_to = await id_at(tx, head.number, target[0])
    return -1 if move.delete else target[0]


async def _target(tx: Tx, commit: Commit, move: BranchMove) -> tuple[int, int]:
    if move.to_branch is not None:
        tip = await tip_of(tx, commit.head, move.to_branch)
        if tip is None:
            raise BranchNotFound(move.to_branch)
        return tip
    if move.to is not None:
        return await _live_place(tx, commit, move.to, "to")
    return (0, 0)


async def _live_place(tx: Tx, commit: Commit, id: str, field: str) -> tuple[int, int]:
    row = await node_by_id(tx, commit.head.number, id)
    if row is None or row.deleted_us is not None:
        raise unknown_node(field, id)
    return (row.ord, row.seq)
