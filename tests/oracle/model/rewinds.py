"""The first step of a commit that goes back: where the branch's leaf moves to."""

from __future__ import annotations

from msgspec import UNSET

from ledgerstone.commands.turns import Rewind
from ledgerstone.errors import InvalidValue, unknown_node
from ledgerstone.records.nodes import MESSAGE
from tests.oracle.model import paths
from tests.oracle.model.commits import Commit
from tests.oracle.model.rows import NodeRow


def rewind(commit: Commit, wanted: Rewind) -> None:
    """Move the leaf back, and tombstone what is left behind when it is superseded."""
    stored = commit.leaf()
    if wanted.expected is not UNSET:
        paths.check_expected(
            commit.tx, commit.standing, commit.command.branch, stored, wanted.expected
        )
    if wanted.pop:
        target = _pop(commit, commit.effective(stored), wanted.pop)
    else:
        target = 0 if wanted.to is None else _live_target(commit, wanted.to)
        if wanted.supersede:
            _supersede(commit, commit.effective(stored), target)
    commit.move_leaf(target)
    commit.effects["rewind"] = [stored, target]


def _pop(commit: Commit, start: int, count: int) -> int:
    """Take messages off the end; nothing is tombstoned. Answers the new leaf."""
    popped: list[NodeRow] = []
    for row in paths.upwards(commit.tx, commit.number, start):
        if row.live and row.kind == MESSAGE:
            popped.append(row)
            if len(popped) == count:
                break
    target = popped[-1].parent if len(popped) == count else 0
    popped.reverse()
    commit.affected += [row.id for row in popped]
    if popped:
        commit.effects["popped"] = [row.ord for row in popped]
    return target


def _live_target(commit: Commit, node: str) -> int:
    row = paths.live_by_id(commit.tx, commit.standing, node)
    if row is None:
        raise unknown_node("leaf", node)
    return row.ord


def _supersede(commit: Commit, start: int, target: int) -> None:
    """Tombstone the live nodes above the target, unless another branch still shows them."""
    leaving: list[NodeRow] = []
    for row in paths.upwards(commit.tx, commit.number, start):
        if row.ord <= target:
            break
        leaving.append(row)
    meeting = leaving[-1].parent if leaving else start
    if meeting != target:
        raise InvalidValue("after", "the node is not on the branch")
    shown = _shown_elsewhere(commit, target)
    for row in leaving:
        if row.live:
            commit.superseded += int(row.kind == MESSAGE)
            if row.ord not in shown:
                commit.tombstone(row)
    if commit.superseded:
        commit.effects["superseded"] = commit.superseded


def _shown_elsewhere(commit: Commit, target: int) -> set[int]:
    """The ords above the target that lie on the path of another branch."""
    leaves = {name: at for (_, name), at in commit.tx.state.branches.scan((commit.number,))}
    leaves[paths.MAIN] = commit.head.leaf
    del leaves[commit.command.branch]
    shown: set[int] = set()
    for leaf in leaves.values():
        for row in paths.upwards(commit.tx, commit.number, leaf):
            # Paths that met once stay together, so the rest is known already.
            if row.ord <= target or row.ord in shown:
                break
            shown.add(row.ord)
    return shown
