"""A commit on its way: what it has done so far, kept until it is written as one turn."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.turns import CommitTurn
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.turns import Placed
from ledgerstone.rules.bodies import ROLE_NUMBERS
from ledgerstone.rules.rows import HeadRow
from tests.oracle.model import paths
from tests.oracle.model.branches import set_leaf
from tests.oracle.model.rows import NodeRow
from tests.oracle.model.standing import Standing
from tests.oracle.model.state import Tx

USER = ROLE_NUMBERS["user"]


class Commit:
    """One CommitTurn in progress. Steps change the tables at once; a failure undoes all of it."""

    def __init__(self, tx: Tx, command: CommitTurn, standing: Standing) -> None:
        self.tx = tx
        self.command = command
        self.standing = standing
        self.head: HeadRow = standing.head
        self.number = standing.number
        self.moment_us = standing.head.moment(tx.now_us)
        self.revision = standing.head.revision + 1
        self.old_tip = standing.head.tip
        self.effects: dict[str, object] = {}
        self.placed: list[Placed] = []
        self.links: list[tuple[int, int, str, bytes]] = []
        self.affected: list[str] = []
        self.superseded = 0
        self.over_budget: list[str] = []
        self.gone: set[int] = set()

    def leaf(self) -> int:
        """Where the command's branch stands as stored; 0 when it was deleted meanwhile."""
        return paths.stored_leaf(self.tx, self.standing, self.command.branch) or 0

    def move_leaf(self, leaf: int) -> None:
        """Let the command's branch stand here."""
        set_leaf(self.tx, self.standing, self.command.branch, leaf)

    def effective(self, stored: int) -> int:
        """The nearest live ancestor of an ord, or itself."""
        return paths.live_ancestor(self.tx, self.number, stored)

    def tombstone(self, row: NodeRow) -> None:
        """Hide a live node."""
        hidden = replace(row, deleted_us=self.moment_us, deleted_rev=self.revision)
        self.tx.state.nodes.update((self.number, row.ord), hidden)
        self.gone.add(row.ord)
        self.head.live -= 1


def recount(commit: Commit, scattered: bool) -> None:
    """Bring main's tip and counters up to date.

    Only what left and what joined main's path is looked at. When nodes in the middle of it may
    have been tombstoned (`scattered`), the path is counted anew: a new node's parent may lie below
    what this very commit superseded.
    """
    tx, number, head = commit.tx, commit.number, commit.head
    if scattered:
        head.messages = head.users = head.first_user = 0
        left: list[NodeRow] = []
        joined = list(paths.upwards(tx, number, head.leaf))
    else:
        _, left, joined = paths.meeting(tx, number, commit.old_tip, head.leaf)
    for row in left:
        if row.kind == MESSAGE and row.live:
            head.messages -= 1
            head.users -= int(row.role == USER)
    if head.users == 0:
        head.first_user = 0
    for row in reversed(joined):
        if row.kind == MESSAGE and row.live:
            head.messages += 1
            head.users += int(row.role == USER)
            if row.role == USER and head.first_user == 0:
                head.first_user = row.ord
    head.tip = commit.effective(head.leaf)
    head.tip_seq = tx.state.nodes[(number, head.tip)].seq if head.tip else 0
