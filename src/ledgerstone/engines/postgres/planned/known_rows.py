"""What is known of one session, as the rows that a handler asks for.

A handler that asks for more is told `Unplanned`. Some rows are taken to be absent, and the server
finds out: it looks before it writes anything, or joins what was written with the row that is there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from ledgerstone.commands import Command
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.postgres.planned.session_cache import CachedSession, ClaimCache
from ledgerstone.engines.postgres.planned.session_cache import Key as SessionKey
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.rules.work import WorkRow
from ledgerstone.tables.graph import CONTENTS, NODES, NOTES
from ledgerstone.tables.runs import KEPT_RUNS, RUNS_BY_ID, RunRow
from ledgerstone.tables.sessions import DOCUMENTS, HEADS, SESSIONS_BY_ID, DocumentRow, Head
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import Range
from ledgerstone.tables.usage import BUDGETS, USAGE_DAYS
from ledgerstone.tables.work import READY, WORK_BY_CLAIM

USES, MAKES_RUN, IS_TIMED, WANTS_STATE, IS_DELETED = 1, 2, 4, 8, 16
"""What the server has to look at: budgets; whether the run is new; its own clock; the state; that
the session is deleted, as it was here."""


class Unplanned(Exception):
    """The handler asked for what is not known here."""

    def __init__(self, what: str, wants: int = 0) -> None:
        super().__init__(what)
        self.wants = wants


class _Partly(msgspec.Struct, frozen=True, gc=False):
    """A row of which only some columns are known."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unplanned(name)


class KnownSession(_Partly, frozen=True, gc=False):
    """What is known of the row of a session."""

    number: int
    recency: int


class KnownNode(_Partly, frozen=True, gc=False):
    """What is known of the newest node of a path."""

    number: int
    ord: int
    id: str


class KnownRows:
    """The rows of one session for one command; nothing in here waits."""

    __slots__ = (
        "_claims", "_command", "_key", "_known",
        "absent", "claimed", "flags", "lines", "run",
    )  # fmt: skip

    def __init__(
        self,
        command: Command[Any],
        key: SessionKey,
        known: CachedSession,
        claims: ClaimCache | None,
    ) -> None:
        self._command = command
        self._key = key
        self._known = known
        self._claims = claims
        self.flags = 0
        self.run: str | None = None
        """The run that is taken to be new."""
        self.absent: dict[Table[Any], set[Key]] = {}
        self.claimed: dict[str, list[WorkRow]] = {}
        self.lines: set[str | None] = set()
        """Queues of which the place in the line is brought up to date; None: all."""

    async def load(self, table: Table[Any], key: Key) -> Any:
        look = _ROWS.get(table)
        if look is None:
            raise Unplanned(table.name)
        return look(self, key)

    async def load_many(self, table: Table[Any], keys: Sequence[Key]) -> list[Any]:
        if table is READY:
            self.lines.update(queue for _, queue in keys)
        elif table is NOTES or table is CONTENTS:
            self.absent.setdefault(table, set()).update(keys)
        else:
            raise Unplanned(table.name)
        return [None] * len(keys)

    async def find(self, index: Index[Any], key: Key) -> Any:
        if index is SESSIONS_BY_ID and key == self._key:
            head = self._known.head
            return KnownSession(head.number, head.updated_us >> RECENCY_SHIFT)
        if index is RUNS_BY_ID:
            return self._mentioned(*key)
        raise Unplanned(index.table.name)

    async def range(self, wanted: Range[Any]) -> list[Any]:
        index, prefix = wanted.index, wanted.prefix
        if index is BUDGETS.primary and len(prefix) == 1:
            self.flags |= USES
            return []
        if wanted.columns is None:
            look = _RANGES.get(index)
            if look is not None and wanted == Range(index, prefix):
                return look(self, *prefix)
        elif index is NOTES.primary and wanted.columns == ("key",) and self._drops(prefix[-1]):
            return [(DRAFT_PREFIX,)]  # It stands for all drafts of the node.
        raise Unplanned(index.table.name)

    async def last_serial(self, table: Table[Any]) -> int:
        raise Unplanned(table.name)

    def number(self) -> int:
        raise Unplanned("number")

    # --- by key

    def _head(self, key: Key) -> Head:
        if key != (self._known.head.number,):
            raise Unplanned("heads")
        return self._known.head

    def _node(self, key: Key) -> KnownNode:
        head, id = self._known.head, self._known.tip_id
        if key != (head.number, head.tip) or id is None:
            raise Unplanned("nodes")
        return KnownNode(*key, id)

    def _document(self, key: Key) -> DocumentRow | None:
        body = self._known.state
        if key[1] != "state":
            raise Unplanned("documents")
        if isinstance(body, msgspec.UnsetType):
            raise Unplanned("documents", WANTS_STATE)
        return None if body is None else DocumentRow(key[0], key[1], body)

    def _kept_run(self, key: Key) -> None:
        if key[1] != self.run:
            raise Unplanned("kept_runs")

    def _day(self, key: Key) -> None:
        self.absent.setdefault(USAGE_DAYS, set()).add(key)

    def _line(self, key: Key) -> None:
        self.absent.setdefault(READY, set()).add(key)

    # --- by prefix

    def _runs(self, id: str) -> list[RunRow]:
        """The rows of a run; one that the command names and nobody knows is taken to be new."""
        row = self._known.runs.get(id)
        if row is None and self._names(id):
            self.run = id
            self.flags |= MAKES_RUN
            return []
        if row is None or row.tenant is None:
            raise Unplanned("runs")
        return [row]

    def _names(self, id: str) -> bool:
        command = self._command
        return type(command) is CommitTurn and command.run is not None and command.run.id == id

    def _drops(self, node: str) -> bool:
        command = self._command
        return type(command) is CommitTurn and node in command.drop_drafts

    def _mentioned(self, id: str, number: int) -> RunRow | None:
        runs = self._known.runs
        row = runs.get(id)
        if row is None and self._known.head.runs > len(runs):
            raise Unplanned("runs")
        return row

    def _batches(self, number: int, claim: str) -> list[Any]:
        rows = None if self._claims is None else self._claims.batches((*self._key, claim))
        if rows is None:
            raise Unplanned("work")
        self.claimed[claim] = rows
        return list(rows)

    def _lines(self, number: int) -> list[Any]:
        self.lines.add(None)
        return []


_ROWS: dict[Table[Any], Callable[[KnownRows, Key], Any]] = {
    DOCUMENTS: KnownRows._document,
    HEADS: KnownRows._head,
    KEPT_RUNS: KnownRows._kept_run,
    NODES: KnownRows._node,
    READY: KnownRows._line,
    USAGE_DAYS: KnownRows._day,
}
_RANGES: dict[Index[Any], Callable[..., list[Any]]] = {
    READY.primary: KnownRows._lines,
    RUNS_BY_ID: KnownRows._runs,
    WORK_BY_CLAIM: KnownRows._batches,
}
