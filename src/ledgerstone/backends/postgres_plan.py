"""A command planned: the shared handler runs over what this process knows, its writes are recorded.

Reads are answered from `Known`; what cannot be answered raises `Unplanned`, and the command goes
the slow way. The server compares what was assumed before any of the writes is carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from ledgerstone.backends.postgres_claims import Claims
from ledgerstone.backends.postgres_heads import STATE_BYTES_MAX, Key, Known, keep_run
from ledgerstone.commands import Command
from ledgerstone.errors import (
    ClaimLost,
    Fenced,
    LeaseExpired,
    LeaseHeld,
    RevisionMoved,
    SessionDeleted,
)
from ledgerstone.sql.handlers import WRITES
from ledgerstone.sql.tx import Row
from ledgerstone.trampoline import run_now

OWNER, EXPIRES, UPDATED, ENQUEUED = 16, 19, 20, 28
"""Places in the row of a head, as `find_head` gives it: number 0, tip 6, runs 27."""

USES, MAKES_RUN, IS_TIMED, WANTS_STATE, IS_DELETED = 1, 2, 4, 8, 16
"""What the server has to look at: budgets; whether the run is new; its own clock; the state; that
the session is deleted, as it was here."""

REFUSALS = (Fenced, LeaseExpired, LeaseHeld, RevisionMoved, SessionDeleted)
"""Refusals that follow from the head alone: true when the server says the head is as it was."""


class Unplanned(Exception):
    """The handler asked for what is not known here."""

    def __init__(self, query: str, wants: int = 0) -> None:
        super().__init__(query)
        self.wants = wants


class Plan:
    """What a command assumes, writes and answers; `writes` are rows by the name of a statement."""

    __slots__ = (
        "after", "answer", "before", "error", "flags", "key", "live", "now_us", "run", "writes",
    )  # fmt: skip

    def __init__(self, key: Key, before: Known, now_us: int) -> None:
        self.key = key
        self.before = before
        self.now_us = now_us
        head = before.head
        self.live = int(head[OWNER] is not None and head[EXPIRES] > now_us)
        self.flags = 0 if head[2] is None else IS_DELETED
        self.run: str | None = None
        self.writes: dict[str, list[Row]] = {}
        self.after = before
        self.answer: Any = None
        self.error: Exception | None = None


def plan(
    command: Command[Any], key: Key, known: Known, now_us: int, claims: Claims | None = None
) -> Plan:
    """Run the handler over what is known of its session; Unplanned when that is too little.

    A refusal is part of the plan: it is told only when the server finds the head unchanged.
    """
    made = Plan(key, known, now_us)
    tx = PlanTx(made, claims)
    try:
        made.answer = run_now(WRITES[type(command)](tx, command))
    except ClaimLost:
        # Who owns a batch does not follow from the head.
        raise Unplanned("claim_places") from None
    except REFUSALS as error:
        made.error = error
        made.writes, made.run = {}, None
        made.flags &= IS_DELETED
        return made
    tx.settle()
    return made


class PlanTx:
    """The transaction that a planned handler awaits; nothing in here waits."""

    __slots__ = ("_base", "_claims", "_head", "_nodes", "_plan", "_runs", "_state", "now_us")

    def __init__(self, plan: Plan, claims: Claims | None = None) -> None:
        known = plan.before
        self._plan = plan
        self._claims = claims
        self._head = known.head
        self._base = known.head[0] << 32
        self._runs = known.runs
        self._state = known.state
        self._nodes: list[Row] = []
        self.now_us = plan.now_us

    async def one(self, query: str, *arguments: Any) -> Row | None:
        answer = _ANSWERS.get(query)
        if answer is None:
            raise Unplanned(query)
        found: Row | None = answer(self, *arguments)
        return found

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        answer = _LISTS.get(query)
        if answer is None:
            raise Unplanned(query)
        return answer(self, *arguments)

    async def run(self, query: str, *arguments: Any) -> int:
        write = _CHANGES.get(query)
        if write is not None:
            write(self, arguments)
            return 1
        if query not in _PLAIN:
            raise Unplanned(query)
        self._plan.writes.setdefault(query, []).append(arguments)
        return 1

    async def many(self, query: str, rows: Iterable[Row]) -> int:
        if query == "insert_node":
            self._nodes = self._plan.writes["insert_node"] = list(rows)
            return len(self._nodes)
        count = 0
        for row in rows:
            count += await self.run(query, *row)
        return count

    async def among(self, query: str, values: list[str], *arguments: Any) -> list[Row]:
        raise Unplanned(query)

    async def pick(self, query: str, **given: Any) -> list[Row]:
        raise Unplanned(query)

    def settle(self) -> None:
        """What will be known when the writes are carried out."""
        plan, before = self._plan, self._plan.before
        if not plan.writes and self._head is before.head:
            return
        tip_id = before.tip_id
        if self._head[6] != before.head[6]:
            tip_id = self._id_of(self._base + self._head[6])
        plan.after = Known(self._head, 0, tip_id, self._runs, self._state)

    # --- reads

    def find_head(self, tenant: str, session: str) -> Row:
        if (tenant, session) != self._plan.key:
            raise Unplanned("find_head")
        return self._head

    def find_commit(self, tenant: str, session: str, turn: str, run: str | None) -> Row:
        """The turn is new, as far as anybody here knows, and there are no budgets."""
        run_known = run in self._runs
        if run is not None and not run_known:
            self._plan.run = run
            self._plan.flags |= MAKES_RUN
        return (*self._head, 0, int(run_known), 0, self._plan.before.tip_id)

    def find_runs(self, tenant: str, id: str) -> list[Row]:
        row = self._runs.get(id)
        if row is None or row[3] is None:
            raise Unplanned("find_runs")
        return [row]

    def place_run(self, number: int, id: str) -> Row | None:
        row = self._runs.get(id)
        if row is not None:
            return row[:3]
        if self._plan.before.head[27] > len(self._runs):
            raise Unplanned("place_run")
        return None

    def id_at(self, key: int) -> Row | None:
        return (self._id_of(key),)

    def _id_of(self, key: int) -> str | None:
        nodes, before = self._nodes, self._plan.before
        if nodes and key == nodes[-1][0]:
            last: str = nodes[-1][11]
            return last
        if key == self._base + before.head[6]:
            return before.tip_id
        if key == self._base:
            return None
        first = nodes[0][0] if nodes else key + 1
        if not first <= key < first + len(nodes):
            raise Unplanned("id_at")
        id: str = nodes[key - first][11]
        return id

    def get_document(self, number: int, name: str) -> Row | None:
        if name != "state":
            raise Unplanned("get_document")
        if isinstance(self._state, msgspec.UnsetType):
            raise Unplanned("get_document", WANTS_STATE)
        return None if self._state is None else (self._state,)

    def claim_places(self, number: int, claim: str) -> list[Row]:
        places = None if self._claims is None else self._claims.places((*self._plan.key, claim))
        if places is None:
            raise Unplanned("claim_places")
        return places

    # --- writes

    def move_head(self, row: Row) -> None:
        old = self._head
        self._head = (*old[:3], *row[1:13], *old[15:20], *row[13:], old[28])

    def set_lease(self, row: Row) -> None:
        old = self._head
        self._head = (*old[:15], *row[1:], *old[20:])
        if row[2] is not None:
            self._plan.flags |= IS_TIMED

    def count_enqueued(self, row: Row) -> None:
        self._head = (*self._head[:28], row[1])
        self._plan.flags |= IS_TIMED

    def insert_batch(self, row: Row) -> None:
        """Only the handler itself knows what two of one name, or from one source, come to."""
        rows = self._plan.writes.setdefault("insert_batch", [])
        for other in rows:
            if other[5] == row[5] or (row[6] is not None and other[6] == row[6]):
                raise Unplanned("insert_batch")
        rows.append(row)

    def raise_ready(self, row: Row) -> None:
        """One row per queue: the first in the line and the most urgent of all that came."""
        rows = self._plan.writes.setdefault("raise_ready", [])
        for n, other in enumerate(rows):
            if other[1] == row[1]:
                rows[n] = (*row[:3], min(other[3], row[3]), min(other[4], row[4]))
                return
        rows.append(row)

    def complete_claim(self, row: Row) -> None:
        """With the number of its batches and its token: the server looks whether all are there."""
        places = self.claim_places(*row)
        row = (*row, len(places), places[0][2])
        self._plan.writes.setdefault("complete_claim", []).append(row)

    def drop_empty(self, row: Row) -> None:
        """What settles a queue on the server drops it when it is empty."""

    def settle_ready(self, row: Row) -> None:
        """Once per queue, as it was said last; for all of them, which is None, once."""
        rows = self._plan.writes.get("settle_ready", [])
        kept = [] if row[1] is None else [other for other in rows if other[1] != row[1]]
        self._plan.writes["settle_ready"] = [*kept, row]

    def insert_turn(self, row: Row) -> None:
        self._plan.writes["insert_turn"] = [row]

    def save_run(self, row: Row) -> None:
        """The seal is SQLite's own; on this side it stays empty."""
        self._plan.writes.setdefault("save_run", []).append(row[:9])
        self._runs = keep_run(self._runs, row[1], (row[0], row[2], row[3], row[8]))

    def change_run(self, row: Row) -> None:
        self._plan.writes.setdefault("change_run", []).append(row[:6])
        self._keep(row[0], row[1:3], row[5])

    def extend_run(self, row: Row) -> None:
        self._plan.writes.setdefault("extend_run", []).append(row)
        self._keep(row[0], row[1:3], None)

    def _keep(self, key: int, place: Row, body: bytes | None) -> None:
        for id, known in self._runs.items():
            if known[0] == key:
                body = known[3] if body is None else body
                self._runs = keep_run(self._runs, id, (key, *place, body))
                return

    def add_usage_day(self, row: Row) -> None:
        """Written as an upsert: whether the line is there is the server's to know."""
        self._plan.flags |= USES
        self._plan.writes.setdefault("add_usage_day", []).append(row)

    def replace_note(self, row: Row) -> None:
        """The last one wins, as it would one after the other."""
        rows = self._plan.writes.setdefault("replace_note", [])
        rows[:] = [other for other in rows if other[1:3] != row[1:3]]
        rows.append(row)

    def put_document(self, row: Row) -> None:
        self._plan.writes.setdefault("put_document", []).append(row)
        if row[1] == "state":
            self._state = row[2] if len(row[2]) <= STATE_BYTES_MAX else msgspec.UNSET


_ANSWERS: dict[str, Callable[..., Row | None]] = {
    "find_commit": PlanTx.find_commit,
    "find_head": PlanTx.find_head,
    "get_document": PlanTx.get_document,
    "id_at": PlanTx.id_at,
    "place_run": PlanTx.place_run,
}
_LISTS: dict[str, Callable[..., list[Row]]] = {
    "claim_places": PlanTx.claim_places,
    "find_runs": PlanTx.find_runs,
}
_CHANGES: dict[str, Callable[[PlanTx, Row], None]] = {
    "add_usage_day": PlanTx.add_usage_day,
    "change_run": PlanTx.change_run,
    "complete_claim": PlanTx.complete_claim,
    "count_enqueued": PlanTx.count_enqueued,
    "drop_empty": PlanTx.drop_empty,
    "extend_run": PlanTx.extend_run,
    "insert_batch": PlanTx.insert_batch,
    "insert_turn": PlanTx.insert_turn,
    "move_head": PlanTx.move_head,
    "put_document": PlanTx.put_document,
    "raise_ready": PlanTx.raise_ready,
    "replace_note": PlanTx.replace_note,
    "save_run": PlanTx.save_run,
    "set_lease": PlanTx.set_lease,
    "settle_ready": PlanTx.settle_ready,
}
_PLAIN = frozenset({"drop_notes", "keep_note", "move_recency", "put_value"})
"""Writes that are recorded as they are, and whose count nobody needs."""
