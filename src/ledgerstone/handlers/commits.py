"""The state of one commit while its parts are carried out."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.commands.turns import CommitTurn
from ledgerstone.handlers.nodes import MAIN, USER, count_path, effective
from ledgerstone.handlers.runs import OpenRun
from ledgerstone.records.turns import Placed
from ledgerstone.tables.graph import BRANCHES, BranchRow
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx


class Commit(msgspec.Struct, gc=False):
    """What the parts of a commit share; leaf, tip and tip_seq are of the command's branch.

    `links` is what the chain will know of the new nodes: (ord, parent, id, commitment).
    `runs` are the rows of the runs it names, `gone` the ords tombstoned here.
    `recount`: main's counters must be counted anew. `moved_to`: the node that the last move of a
    branch led to.
    """

    command: CommitTurn
    head: Head
    moment_us: int
    revision: int
    leaf: int = 0
    tip: int = 0
    tip_seq: int = 0
    first_ord: int = 0
    recount: bool = False
    superseded: int = 0
    effects: dict[str, Any] = {}
    gone: list[int] = []
    links: list[tuple[int, int, str, bytes]] = []
    placed: list[Placed] = []
    affected: list[str] = []
    runs: dict[str, OpenRun] = {}
    moved_to: str | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def on_main(self) -> bool:
        return self.command.branch == MAIN

    def join(self, ord: int, role: int | None) -> None:
        """A new node became the end of main's path."""
        if role is None:
            return
        self.head.messages += 1
        if role == USER:
            self.head.users += 1
            self.head.first_user = self.head.first_user or ord

    def leave(self, ord: int, role: int | None) -> None:
        """A live node left main's path: keep its counters true."""
        if role is None:
            return
        self.head.messages -= 1
        if role == USER:
            self.head.users -= 1
            if self.head.first_user == ord:
                self.recount = True


async def place_branch(tx: Tx, commit: Commit) -> None:
    """Store where the command's branch stands after its own nodes."""
    head = commit.head
    if commit.on_main:
        head.leaf, head.tip, head.tip_seq = commit.leaf, commit.tip, commit.tip_seq
        return
    tx.put(BRANCHES, BranchRow(head.number, commit.command.branch, commit.leaf))
    if commit.gone:
        head.tip, head.tip_seq = await effective(tx, head, head.leaf)


async def settle_branch(tx: Tx, commit: Commit) -> None:
    """Note where the command's branch stands at the end; count main's path when it is unsure."""
    head = commit.head
    if not commit.on_main:
        commit.effects["branch"] = [commit.command.branch, commit.leaf]
    if commit.recount:
        head.messages, head.users, head.first_user = await count_path(tx, head, head.tip)


def runs_of(ords: list[int]) -> list[list[int]]:
    """Ords as sorted [first, last] stretches."""
    found: list[list[int]] = []
    for ord in sorted(ords):
        if found and found[-1][1] == ord - 1:
            found[-1][1] = ord
        else:
            found.append([ord, ord])
    return found
