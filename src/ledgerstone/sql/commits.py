"""The state of one commit while its parts are carried out."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.commands.turns import CommitTurn
from ledgerstone.records.turns import Placed
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.paths import MAIN, count_path, effective
from ledgerstone.sql.run_rows import RunRow
from ledgerstone.sql.tx import Tx


class Commit(msgspec.Struct, gc=False):
    """What the parts of a commit share; leaf, tip and tip_seq are of the command's branch.

    `main_id` is the id of main's tip as it was found, `bounded` whether there may be budgets.
    `links` is what the chain will know of the new nodes: (ord, parent, id, commitment).
    `runs` are the rows of the runs it names, `gone` the ords tombstoned here.
    `recount`: main's counters must be counted anew.
    """

    command: CommitTurn
    head: HeadRow
    moment_us: int
    revision: int
    main_id: str | None
    bounded: int
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
    runs: dict[str, RunRow] = {}
    moved_to: str | msgspec.UnsetType | None = msgspec.UNSET

    @property
    def on_main(self) -> bool:
        return self.command.branch == MAIN

    def leave(self, ord: int, role: int | None) -> None:
        """A live node left main's path: keep its counters true."""
        if role is None:
            return
        self.head.messages -= 1
        if role == 2:
            self.head.users -= 1
            if self.head.first_user == ord:
                self.recount = True


async def settle_branch(tx: Tx, commit: Commit) -> None:
    """Write where the command's branch stands now, and main's counters when they are unsure."""
    head = commit.head
    if commit.on_main:
        head.leaf, head.tip, head.tip_seq = commit.leaf, commit.tip, commit.tip_seq
    else:
        await tx.run("put_branch", head.number, commit.command.branch, commit.leaf)
        commit.effects["branch"] = [commit.command.branch, commit.leaf]
        if commit.gone:
            head.tip, head.tip_seq = await effective(tx, head, head.leaf)
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
