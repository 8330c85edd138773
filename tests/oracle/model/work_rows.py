"""Queued batches, and the tables that lead to them otherwise than by position; they follow from it.

work_order   number, queue, priority, seq: the order in which batches are claimed
work_times   number, queue, available_us, seq
work_marks   number, kind, value, seq: by id, by the key of the source, by claim; those that wait
             for a decision, by nothing
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import merge
from typing import Any, Literal

from ledgerstone.rules.work import PARKED_US, WorkRow, is_behind
from tests.oracle.model.state import State, Tx
from tests.oracle.model.tables import ABSENT, Table

Kind = Literal["id", "source", "claim", "parked"]
Mark = tuple[Table[Any, Any], tuple[Any, ...]]


def _marks(state: State, number: int, row: WorkRow | None) -> Iterator[Mark]:
    if row is None:
        return
    yield state.work_order, (number, row.queue, row.priority, row.seq)
    yield state.work_times, (number, row.queue, row.available_us, row.seq)
    known_by = [("id", row.id), ("source", row.source_key), ("claim", row.claim)]
    if row.waiting_for is not None:
        known_by.append(("parked", ""))
    for kind, value in known_by:
        if value is not None:
            yield state.work_marks, (number, kind, value, row.seq)


def put_row(tx: Tx, number: int, row: WorkRow) -> None:
    """Queue a batch, or change one that is."""
    state = tx.state
    _mark(state, number, state.work.get((number, row.seq)), row)
    state.work.put((number, row.seq), row)


def drop_row(tx: Tx, number: int, seq: int) -> None:
    """Take a batch out of the queue."""
    _mark(tx.state, number, tx.state.work[number, seq], None)
    tx.state.work.delete((number, seq))


def _mark(state: State, number: int, old: WorkRow | None, new: WorkRow | None) -> None:
    before, after = list(_marks(state, number, old)), list(_marks(state, number, new))
    for table, key in before:
        if (table, key) not in after:
            table.delete(key)
    for table, key in after:
        if (table, key) not in before:
            table.insert(key, None)


def place_row(state: State, number: int, seq: int, row: Any) -> None:
    """The same past the undo log, while a store is being read; ABSENT takes it out."""
    for table, key in _marks(state, number, state.work.get((number, seq))):
        table.place(key, ABSENT)
    state.work.place((number, seq), row)
    for table, key in _marks(state, number, None if row is ABSENT else row):
        table.place(key, None)


def queued(tx: Tx, number: int) -> list[WorkRow]:
    """What a session has to do, in the order it came."""
    return [row for _, row in tx.state.work.scan((number,))]


def rows_by(tx: Tx, number: int, kind: Kind, value: str) -> list[WorkRow]:
    """Batches by what they are known by, in the order they are claimed."""
    marks = tx.state.work_marks.scan((number, kind, value))
    rows = [tx.state.work[number, key[3]] for key, _ in marks]
    return sorted(rows, key=lambda row: row.place)


def in_order(tx: Tx, number: int, queues: list[str]) -> Iterator[WorkRow]:
    """Batches of some queues in the order they are claimed, lazily."""
    lines = (tx.state.work_order.scan((number, queue)) for queue in queues)
    for _, seq in merge(*((key[2:] for key, _ in line) for line in lines)):
        yield tx.state.work[number, seq]


def parked_rows(tx: Tx, number: int) -> list[WorkRow]:
    """Batches that wait for a decision, in the order they are claimed."""
    return rows_by(tx, number, "parked", "")


def first_of(tx: Tx, number: int, queue: str) -> tuple[int, int] | None:
    """The least priority and the least available_us of a queue; None when it is empty.

    What stands behind a batch that waits for a decision is not available.
    """
    order = next(tx.state.work_order.scan((number, queue)), None)
    if order is None:
        return None
    parked = parked_rows(tx, number)
    for key, _ in tx.state.work_times.scan((number, queue)):
        if not is_behind(tx.state.work[number, key[3]], parked):
            return order[0][2], key[2]
    return order[0][2], PARKED_US
