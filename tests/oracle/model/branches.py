"""Branches: moved inside a commit, listed and compared outside."""

from __future__ import annotations

from msgspec import UNSET

from ledgerstone.commands.nodes import DiffBranches, ListBranches
from ledgerstone.commands.turns import BranchMove
from ledgerstone.errors import AlreadyExists, BranchNotFound, InvalidValue, unknown_node
from ledgerstone.records.nodes import Branch, Diff
from tests.oracle.model import paths
from tests.oracle.model.nodes import to_node
from tests.oracle.model.standing import Standing, find, require
from tests.oracle.model.state import Tx

DELETED = -1


def move(tx: Tx, standing: Standing, wanted: BranchMove) -> int:
    """Create, move or delete one branch; answers its new leaf's ord, or DELETED."""
    key = (standing.number, wanted.name)
    if wanted.name == paths.MAIN and (wanted.create or wanted.delete):
        raise InvalidValue("branch", "main is always there")
    stored = paths.stored_leaf(tx, standing, wanted.name)
    if wanted.create and stored is not None:
        raise AlreadyExists(wanted.name)
    if not wanted.create and stored is None:
        raise BranchNotFound(wanted.name)
    if wanted.expected is not UNSET:
        paths.check_expected(tx, standing, wanted.name, stored or 0, wanted.expected)
    if wanted.delete:
        tx.state.branches.delete(key)
        standing.head.named -= 1
        return DELETED
    target = _target(tx, standing, wanted)
    set_leaf(tx, standing, wanted.name, target)
    standing.head.named += int(wanted.create)
    return target


def set_leaf(tx: Tx, standing: Standing, branch: str, leaf: int) -> None:
    """Let a branch stand at this ord."""
    if branch == paths.MAIN:
        standing.head.leaf = leaf
    else:
        tx.state.branches.put((standing.number, branch), leaf)


def _target(tx: Tx, standing: Standing, wanted: BranchMove) -> int:
    if wanted.to_branch is not None:
        stored = paths.stored_leaf(tx, standing, wanted.to_branch)
        if stored is None:
            raise BranchNotFound(wanted.to_branch)
        return paths.live_ancestor(tx, standing.number, stored)
    if wanted.to is None:
        return 0
    row = paths.live_by_id(tx, standing, wanted.to)
    if row is None:
        raise unknown_node("to", wanted.to)
    return row.ord


def named(tx: Tx, standing: Standing) -> list[Branch]:
    """The branches besides main, by name, where they effectively stand."""
    rows = tx.state.branches.scan((standing.number,))
    return [_to_branch(tx, standing, name, leaf) for (_, name), leaf in rows]


def _to_branch(tx: Tx, standing: Standing, name: str, leaf: int) -> Branch:
    effective = paths.live_ancestor(tx, standing.number, leaf)
    if not effective:
        return Branch(name, None)
    row = tx.state.nodes[(standing.number, effective)]
    return Branch(name, row.id, row.seq)


def list_branches(tx: Tx, query: ListBranches) -> list[Branch]:
    """`main` first, then the others by name."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return []
    return [_to_branch(tx, found, paths.MAIN, found.head.leaf), *named(tx, found)]


def diff_branches(tx: Tx, query: DiffBranches) -> Diff:
    """The last live common node of two branches and what only each has, oldest first."""
    found = require(tx, query.tenant, query.session)
    leaves = []
    for branch in (query.a, query.b):
        leaf = paths.stored_leaf(tx, found, branch)
        if leaf is None:
            raise BranchNotFound(branch)
        leaves.append(leaf)
    meeting, only_a, only_b = paths.meeting(tx, found.number, *leaves)
    common = paths.live_ancestor(tx, found.number, meeting)
    return Diff(
        paths.id_of(tx, found.number, common),
        [to_node(tx, found, row) for row in reversed(only_a) if row.live],
        [to_node(tx, found, row) for row in reversed(only_b) if row.live],
    )
