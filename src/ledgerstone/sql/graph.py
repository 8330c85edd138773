"""How a commit changes the graph: rewind, append, tombstone, amend, move branches."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from msgspec import UNSET

from ledgerstone.codec import decode_json, encode_json
from ledgerstone.commands.turns import BranchMove, NewNode, Rewind
from ledgerstone.errors import (
    AlreadyExists,
    BranchNotFound,
    Corrupt,
    InvalidValue,
    LeafMoved,
    MessageNotFound,
    unknown_node,
)
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.turns import Placed
from ledgerstone.rules.bodies import read_object
from ledgerstone.rules.chain import commitment, frame
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.heads import base_of
from ledgerstone.sql.paths import MAIN, effective, id_at, places_above, stored_leaf, tip_of
from ledgerstone.sql.tx import Tx


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
    actual = await id_at(tx, commit.head, tip)
    if expected == actual or (leaf != tip and expected == await id_at(tx, commit.head, leaf)):
        return
    raise LeafMoved(branch, expected, actual)


async def rewind(tx: Tx, commit: Commit, rewind: Rewind) -> None:
    """Take the branch back before new nodes follow."""
    branch = commit.command.branch
    if rewind.expected is not UNSET:
        await _expect(tx, commit, branch, rewind.expected, commit.leaf, commit.tip)
    before = commit.leaf
    if rewind.pop:
        await _pop(tx, commit, rewind.pop)
    else:
        target = (0, 0)
        if rewind.to is not None:
            target = await _live_place(tx, commit, rewind.to, "leaf")
        await _rewind_to(tx, commit, target, rewind.supersede)
    commit.effects["rewind"] = [before, commit.leaf]


async def _pop(tx: Tx, commit: Commit, count: int) -> None:
    base = base_of(commit.head)
    popped: list[tuple[int, str]] = []
    ord = commit.tip
    while ord and len(popped) < count:
        row = await tx.one("place_at", base + ord)
        if row is None:
            raise Corrupt("nodes", f"{ord}", "parent", "it does not lead to the root")
        parent, _, deleted_us, role, id = row
        if deleted_us is None and role is not None:
            popped.append((ord, id))
            if commit.on_main:
                commit.leave(ord, role)
        ord = parent
    popped.reverse()
    commit.leaf = ord
    commit.tip, commit.tip_seq = await effective(tx, commit.head, ord)
    commit.affected += [id for _, id in popped]
    if popped:
        commit.effects["popped"] = [ord for ord, _ in popped]


async def _rewind_to(tx: Tx, commit: Commit, target: tuple[int, int], supersede: bool) -> None:
    head = commit.head
    if not supersede:
        commit.leaf, (commit.tip, commit.tip_seq) = target[0], target
        commit.recount = commit.recount or commit.on_main
        return
    left = await places_above(tx, head, commit.tip, target[0])
    if target[0] != (left[-1][1] if left else commit.tip):
        raise InvalidValue("after", "the node is not on the branch's path")
    shared = await _shared(tx, commit, target[0])
    for ord, _, role, _, deleted_us in left:
        if deleted_us is not None:
            continue
        commit.superseded += role is not None
        if commit.on_main:
            commit.leave(ord, role)
        if ord not in shared:
            commit.gone.append(ord)
    await _tombstone(tx, commit, commit.gone)
    commit.leaf, (commit.tip, commit.tip_seq) = target[0], target
    if commit.superseded:
        commit.effects["superseded"] = commit.superseded


async def _shared(tx: Tx, commit: Commit, stop: int) -> set[int]:
    """Ords above `stop` that another branch still shows."""
    head = commit.head
    leaves = [] if commit.on_main else [head.leaf]
    if head.named:
        others = await tx.all("list_branches", head.number)
        leaves += [leaf for name, leaf in others if name != commit.command.branch]
    shared: set[int] = set()
    for leaf in leaves:
        shared.update(row[0] for row in await places_above(tx, head, leaf, stop))
    return shared


async def _tombstone(tx: Tx, commit: Commit, ords: list[int]) -> None:
    base, when = base_of(commit.head), commit.moment_us
    await tx.many("tombstone", [(base + ord, when, commit.revision) for ord in ords])
    commit.head.live -= len(ords)


async def append(tx: Tx, commit: Commit) -> bool:
    """Add the new nodes; False when all of them were there already, with the same content."""
    nodes, head, on_main = commit.command.nodes, commit.head, commit.on_main
    if not await _all_new(tx, commit):
        return await _repeated(tx, commit, 0)
    commit.first_ord = head.ord + 1
    moment_us, ord, base = commit.moment_us, head.ord, base_of(head)
    tip, tip_seq, tip_id = commit.tip, commit.tip_seq, commit.main_id
    if tip != head.tip:
        tip_id = await id_at(tx, head, tip)
    rows, placed, links, runs = [], commit.placed, commit.links, commit.runs
    fresh: dict[str, tuple[int, int]] = {}
    for node in nodes:
        id, parent, above, parent_id, role = node.id, tip, tip_seq, tip_id, node.role
        run_id, refs = node.run_id, node.refs
        if node.parent is not UNSET:
            parent, above = await _parent(tx, commit, node.parent, fresh)
            parent_id = node.parent if parent else None
            commit.recount = commit.recount or (on_main and node.on_path)
        if parent != ord:
            head.branched = 1
        ord, seq, created_us = ord + 1, above + 1, node.created_us or moment_us
        fresh[id] = (ord, seq)
        placed.append(Placed(id, ord, seq, parent_id, created_us))
        links.append((ord, parent, id, commitment(node, created_us)))
        rows.append(
            (
                base + ord,
                parent,
                seq,
                role,
                # A message is told by its role; without kind and label its row is smaller.
                node.kind if role is None else None,
                node.label if role is None else node.label or None,
                None if run_id is None else runs[run_id].wrote(ord),
                node.meta,
                node.format,
                "".join(refs) if refs else None,
                created_us,
                id,
                node.salt,
                node.body,
            )
        )
        if node.on_path:
            tip, tip_seq, tip_id = ord, seq, id
            commit.leaf = ord
            if on_main and role is not None:
                head.messages += 1
                if role == 2:
                    head.users += 1
                    head.first_user = head.first_user or ord
    head.live += len(nodes)
    head.ord, commit.tip, commit.tip_seq = ord, tip, tip_seq
    written = await tx.many("insert_node", rows)
    return written == len(rows) or await _repeated(tx, commit, written)


async def _all_new(tx: Tx, commit: Commit) -> bool:
    """False when the first id is taken. Only nodes with a given parent need to ask.

    The others learn it from their insert; but a parent that is gone by now must not hide that
    the append only repeats what is stored.
    """
    nodes = commit.command.nodes
    if len({node.id for node in nodes}) < len(nodes):
        raise InvalidValue("id", "the same id is given to two nodes")
    if not [node for node in nodes if node.parent is not UNSET]:
        return True
    for n, node in enumerate(nodes):
        if await tx.one("find_place", commit.head.number, node.id) is not None:
            if n > 0:
                raise AlreadyExists(node.id)
            return False
    return True


async def _parent(
    tx: Tx, commit: Commit, parent: str | None, fresh: dict[str, tuple[int, int]]
) -> tuple[int, int]:
    if parent is None:
        return (0, 0)
    if parent in fresh:
        return fresh[parent]
    row = await tx.one("find_place", commit.head.number, parent)
    if row is not None and row[2] is None:
        return (row[0], row[1])
    if commit.command.missing_parent == "root":
        return (0, 0)
    raise unknown_node("parent", parent)


async def _repeated(tx: Tx, commit: Commit, written: int) -> bool:
    """False when an append only repeats what is stored; otherwise AlreadyExists."""
    command = commit.command
    plain = command.kind == "append" and command.rewind is None and not command.complete
    if not plain or written > 0:
        raise AlreadyExists(await _first_taken(tx, commit))
    commit.placed.clear()
    await open_branch(tx, commit)
    for node in command.nodes:
        row = await tx.one("node_content", commit.head.number, node.id)
        if row is None or not _same(node, row):
            raise AlreadyExists(command.nodes[0].id)
        ord, parent, seq, created_us = row[0], row[1], row[2], row[10]
        parent_id = await id_at(tx, commit.head, parent)
        commit.placed.append(Placed(node.id, ord, seq, parent_id, created_us))
    return False


async def _first_taken(tx: Tx, commit: Commit) -> str:
    """The first id that was there before this commit placed anything."""
    for node in commit.command.nodes:
        row = await tx.one("find_place", commit.head.number, node.id)
        if row is not None and (not commit.first_ord or row[0] < commit.first_ord):
            return node.id
    raise AssertionError("a node was not written, so its id is taken")


def _same(node: NewNode, row: Any) -> bool:
    role, kind, label, run_id, meta, format, refs = row[3:10]
    stored = (role, kind or MESSAGE, label or "", run_id, meta, format, refs or "", row[11])
    given = (node.role, node.kind, node.label, node.run_id, node.meta, node.format)
    return row[12] is None and stored == (*given, "".join(node.refs), node.body)


async def tombstone(tx: Tx, commit: Commit) -> None:
    """Hide nodes at once; unknown and already hidden ones are ignored."""
    head, gone = commit.head, list[int]()
    for id in dict.fromkeys(commit.command.tombstones):
        row = await tx.one("find_place", head.number, id)
        if row is None or row[2] is not None:
            continue
        ord, role = row[0], row[3]
        gone.append(ord)
        commit.affected.append(id)
        if not head.branched and ord <= (commit.leaf if commit.on_main else head.leaf):
            commit.leave(ord, role)
    commit.recount = commit.recount or bool(gone and head.branched)
    await _tombstone(tx, commit, gone)
    commit.gone += gone
    commit.tip, commit.tip_seq = await effective(tx, head, commit.leaf)
    if gone:
        commit.effects["tombstoned"] = gone


async def amend(tx: Tx, commit: Commit) -> None:
    """Newer versions of messages; the stored patch is the sum of all changes."""
    done = []
    for amendment in commit.command.amendments:
        row = await tx.one("find_place", commit.head.number, amendment.node)
        if row is None or row[2] is not None or row[3] is None:
            raise MessageNotFound(amendment.node)
        key = base_of(commit.head) + row[0]
        version, patch = await tx.one("last_amendment", key) or (0, b"{}")
        merged = {
            **read_object(patch, "amendments", amendment.node, "patch"),
            **decode_json(amendment.patch),
        }
        patch = encode_json(merged, "amendment")
        digest = sha256(frame(amendment.salt, patch)).digest()
        stamp = (version + 1, commit.revision, commit.moment_us)
        await tx.run("insert_amendment", key, *stamp, amendment.salt, patch, digest)
        commit.head.amended += 1
        done.append([row[0], version + 1, digest.hex()])
    commit.effects["amend"] = done


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
            tip = await tip_of(tx, commit.head, move.name)
            tip_ord = 0 if tip is None else tip[0]
            await _expect(tx, commit, move.name, move.expected, leaf or 0, tip_ord)
        done.append([move.name, await _move_branch(tx, commit, move)])
    commit.effects["branches"] = done


async def _move_branch(tx: Tx, commit: Commit, move: BranchMove) -> int:
    head = commit.head
    if move.delete:
        await tx.run("drop_branch", head.number, move.name)
        head.named -= 1
        commit.moved_to = None
        return -1
    target = await _target(tx, commit, move)
    if move.name == MAIN:
        commit.leaf, (commit.tip, commit.tip_seq) = target[0], target
        commit.recount = True
    else:
        await tx.run("put_branch", head.number, move.name, target[0])
        head.named += int(move.create)
    commit.moved_to = await id_at(tx, head, target[0])
    return target[0]


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
    row = await tx.one("find_place", commit.head.number, id)
    if row is None or row[2] is not None:
        raise unknown_node(field, id)
    return (row[0], row[1])
