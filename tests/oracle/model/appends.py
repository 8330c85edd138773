"""The new nodes of a commit: checked against what exists, placed in order."""

from __future__ import annotations

from msgspec import UNSET

from ledgerstone.commands.turns import NewNode
from ledgerstone.errors import AlreadyExists, InvalidValue, unknown_node
from ledgerstone.records.turns import Placed, TurnCommitted
from ledgerstone.rules.chain import commitment
from tests.oracle.model import paths
from tests.oracle.model.answers import to_placed
from tests.oracle.model.commits import Commit
from tests.oracle.model.rows import NodeRow


def repeated_append(commit: Commit) -> TurnCommitted | None:
    """The answer to an append whose nodes all exist already; None when all of them are new.

    AlreadyExists when only some exist or the content differs, InvalidValue when an id is used
    twice in the command.
    """
    command = commit.command
    ids = [node.id for node in command.nodes]
    if len(set(ids)) != len(ids):
        twice = next(each for each in ids if ids.count(each) > 1)
        raise InvalidValue("id", f"used twice in one commit: {twice}")
    stored = [paths.node_by_id(commit.tx, commit.standing, each) for each in ids]
    taken = next((row.id for row in stored if row is not None), None)
    if taken is None:
        return None
    rows = [row for row in stored if row is not None]
    same = len(rows) == len(ids) and all(map(_is_same, command.nodes, rows))
    plain = command.kind == "append" and command.rewind is None and not command.complete
    if not plain or not same:
        raise AlreadyExists(taken)
    return _found_in_place(commit, rows)


def _is_same(node: NewNode, row: NodeRow) -> bool:
    given = (node.role, node.kind, node.label, node.run_id, node.meta, node.format, node.body)
    stored = (row.role, row.kind, row.label, row.run_id, row.meta, row.format, row.body)
    return row.live and given == stored and "".join(node.refs) == row.refs


def _found_in_place(commit: Commit, rows: list[NodeRow]) -> TurnCommitted:
    """The answer as of before this commit, of which nothing stays."""
    tx, command = commit.tx, commit.command
    tx.state.undo()
    head = tx.state.heads[(commit.number,)]
    leaf = head.leaf
    if command.branch != paths.MAIN:
        leaf = tx.state.branches[(commit.number, command.branch)]
    placed = tuple(
        to_placed(tx, commit.number, tx.state.nodes[(commit.number, row.ord)]) for row in rows
    )
    return TurnCommitted(
        session=command.session,
        turn=command.turn,
        revision=head.revision,
        leaf=paths.id_of(tx, commit.number, commit.effective(leaf)),
        placed=placed,
        created_us=placed[-1].created_us,
        replayed=True,
    )


def place_nodes(commit: Commit) -> None:
    """Append the command's nodes and move the branch's leaf along those on its path."""
    stored = commit.leaf()
    leaf = commit.effective(stored)
    for node in commit.command.nodes:
        parent = _parent(commit, node, leaf)
        row = _place(commit, node, parent)
        if node.on_path:
            stored = leaf = row.ord
    commit.move_leaf(stored)


def _parent(commit: Commit, node: NewNode, leaf: int) -> int:
    if node.parent is UNSET:
        return leaf
    if node.parent is None:
        return 0
    # Earlier nodes of this command are in the tables by now and are found here as well.
    row = paths.live_by_id(commit.tx, commit.standing, node.parent)
    if row is not None:
        return row.ord
    if commit.command.missing_parent == "root":
        return 0
    raise unknown_node("parent", node.parent)


def _place(commit: Commit, node: NewNode, parent: int) -> NodeRow:
    tx, head, number = commit.tx, commit.head, commit.number
    above = tx.state.nodes[(number, parent)] if parent else None
    head.ord += 1
    head.live += 1
    if parent != head.ord - 1:
        head.branched = 1
    row = NodeRow(
        ord=head.ord,
        id=node.id,
        parent=parent,
        seq=1 if above is None else above.seq + 1,
        role=node.role,
        kind=node.kind,
        label=node.label,
        run_id=node.run_id,
        meta=node.meta,
        format=node.format,
        refs="".join(node.refs),
        body=node.body,
        salt=node.salt,
        created_us=node.created_us or commit.moment_us,
    )
    tx.state.nodes.insert((number, row.ord), row)
    tx.state.node_ids.insert((commit.standing.tenant, row.id, number), row.ord)
    parent_id = None if above is None else above.id
    commit.placed.append(Placed(row.id, row.ord, row.seq, parent_id, row.created_us))
    commit.links.append((row.ord, parent, row.id, commitment(node, row.created_us)))
    return row
