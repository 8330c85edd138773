"""What the history of a session says it must look like: the sum of its turn rows."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.rules import ledger
from ledgerstone.rules.chain import GENESIS
from ledgerstone.rules.rows import UsageDay
from ledgerstone.rules.usage import DayKey, by_day
from ledgerstone.sql.paths import MAIN


class Told(msgspec.Struct):
    """The fold of all turns up to one of them.

    A session that began as a copy brought branches, state and documents along that its own turns do
    not tell of: what they say later is still binding. `forgotten` is the revision until which
    executions were deleted.
    """

    link: bytes = GENESIS
    revision: int = 0
    leaf: int = 0
    copied: bool = False
    usage: bytes | None = None
    checkpoint: str | None = None
    state: dict[str, Any] = {}
    branches: dict[str, int] = {}
    documents: dict[str, str] = {}
    gone: dict[int, int] = {}
    amended: dict[tuple[int, int], tuple[str, int]] = {}
    asked: dict[str, str] = {}
    finished: dict[str, str] = {}
    days: dict[DayKey, UsageDay] = {}
    forgotten: int = 0

    def take(self, revision: int, leaf: int, usage: bytes | None, effects: dict[str, Any]) -> None:
        """Add the next turn."""
        self.revision, self.leaf = revision, leaf
        self.copied = self.copied or "source" in effects
        if usage is not None:
            self.usage = ledger.merge(self.usage, tuple(ledger.read_usage(str(revision), usage)))
        self.checkpoint = effects.get("checkpoint", self.checkpoint)
        self.documents |= effects.get("documents", {})
        state = self.state | effects.get("state", {})
        self.state = {key: value for key, value in state.items() if value is not None}
        if "branch" in effects:
            name, place = effects["branch"]
            self.branches[name] = place
        for name, place in effects.get("branches", []):
            if name != MAIN:  # Its place stands in the turn row itself.
                self.branches[name] = place
        for first, last in effects.get("gone", []):
            for ord in range(first, last + 1):
                self.gone[ord] = revision
        for ord, version, digest in effects.get("amend", []):
            self.amended[(ord, version)] = (digest, revision)
        self.asked |= dict(effects.get("tickets", []))
        if revision > self.forgotten:
            self.finished |= dict(effects.get("executions", []))

    def use(self, usage: bytes | None, created_us: int) -> None:
        """Add what the turn used to its day."""
        if usage is None:
            return
        for key, line in by_day(
            tuple(ledger.read_usage(str(self.revision), usage)), created_us
        ).items():
            old = self.days.get(key)
            self.days[key] = line if old is None else old + line
