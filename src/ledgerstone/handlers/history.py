"""The history of a session: what all its commits together say, and what the hash chain knows.

Nothing here reads counters or other rows that commits maintain, so that verify can compare them.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.handlers.paths import MAIN
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.rules import ledger
from ledgerstone.rules.chain import commit_fields
from ledgerstone.rules.rows import GENESIS, UsageDay
from ledgerstone.rules.usage import DayKey, sum_days
from ledgerstone.tables.graph import NodeRow, TurnRow


class History(msgspec.Struct):
    """What a session must look like after the turns that were added.

    `copied`: it began as a copy, with branches, state and documents that its own turns do not
    name; what they say later is still binding. `forgotten` is the revision until which executions
    were deleted. `gone` has the revision in which each node was hidden, `amended` digest and
    revision by ord and version; tickets, executions and documents are digests by id or name.
    """

    link: bytes = GENESIS
    revision: int = 0
    leaf: int = 0
    committed_us: int = 0
    copied: bool = False
    usage: bytes | None = None
    checkpoint: str | None = None
    state: dict[str, Any] = {}
    branches: dict[str, int] = {}
    documents: dict[str, str] = {}
    gone: dict[int, int] = {}
    amended: dict[tuple[int, int], tuple[str, int]] = {}
    tickets: dict[str, str] = {}
    executions: dict[str, str] = {}
    days: dict[DayKey, UsageDay] = {}
    forgotten: int = 0

    def add(self, turn: TurnRow, effects: dict[str, Any]) -> None:
        """Add the next turn; Corrupt when its usage cannot be read."""
        self.revision, self.leaf, self.link = turn.revision, turn.leaf, turn.link
        self.committed_us = turn.created_us
        self.copied = self.copied or "source" in effects
        self.checkpoint = effects.get("checkpoint", self.checkpoint)
        self.documents |= effects.get("documents", {})
        state = self.state | effects.get("state", {})
        self.state = {key: value for key, value in state.items() if value is not None}
        self._move_branches(effects)
        self._change_nodes(effects)
        self.tickets |= dict(effects.get("tickets", []))
        if turn.revision > self.forgotten:
            self.executions |= dict(effects.get("executions", []))
        if turn.usage is not None:
            self._use(turn, turn.usage)

    def _move_branches(self, effects: dict[str, Any]) -> None:
        if "branch" in effects:
            name, leaf = effects["branch"]
            self.branches[name] = leaf
        for name, leaf in effects.get("branches", []):
            if name != MAIN:  # Its leaf stands in the turn itself.
                self.branches[name] = leaf

    def _change_nodes(self, effects: dict[str, Any]) -> None:
        for first, last in effects.get("gone", []):
            for ord in range(first, last + 1):
                self.gone[ord] = self.revision
        for ord, version, digest in effects.get("amend", []):
            self.amended[(ord, version)] = (digest, self.revision)

    def _use(self, turn: TurnRow, usage: bytes) -> None:
        entries = tuple(ledger.read_usage(str(turn.revision), usage))
        self.usage = ledger.merge(self.usage, entries)
        for key, line in sum_days((turn.created_us, entry) for entry in entries).items():
            old = self.days.get(key)
            self.days[key] = line if old is None else old + line


def row_commitment(row: NodeRow, run_id: str | None) -> bytes:
    """What the chain knows of a node: computed, or stored when its body was erased."""
    if row.body is None:
        return row.commitment or b""
    return commit_fields(
        row.salt or b"",
        row.role,
        row.kind or MESSAGE,
        row.label or "",
        run_id,
        row.meta,
        row.format,
        row.refs or "",
        row.created_us,
        row.body,
    )


def chain_node(row: NodeRow, run_id: str | None) -> tuple[int, int, str, bytes]:
    """A node as the link function wants it."""
    return (row.ord, row.parent, row.id, row_commitment(row, run_id))
