"""Runs: their records, how a session points at them, and which nodes each of them wrote.

A session knows its runs by small numbers: nodes carry the number, one row per session and run holds
the id, the stretch of ords the run wrote and, when there is one, the record.
"""

from __future__ import annotations

import msgspec

from ledgerstone.codec import decode_struct, encode_struct
from ledgerstone.commands.runs import GetRun, LatestRun, PutRun
from ledgerstone.errors import AlreadyExists, Corrupt, SessionBindingMismatch
from ledgerstone.records.runs import Run
from ledgerstone.rules import run as rules
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import base_of, find_head, move_recency, need_head
from ledgerstone.sql.seals import seal_of
from ledgerstone.sql.tx import Row, Tx

_decoder = msgspec.json.Decoder(Run)
_FEW_NAMES = 4


class RunRow(msgspec.Struct):
    """One session's row of a run while it is written to; ords are 0 before its first node."""

    number: int
    first_ord: int = 0
    last_ord: int = 0
    body: bytes | None = None
    old: Run | None = None

    def wrote(self, ord: int) -> int:
        """Note that the run wrote this node too; answers the run's number."""
        self.first_ord = self.first_ord or ord
        self.last_ord = ord
        return self.number


async def put_run(tx: Tx, command: PutRun) -> Run:
    """Create a run, or overwrite it when asked to."""
    run = command.run
    head = await need_head(tx, command.tenant, run.session)
    check_alive(run.session, head)
    row = await open_record(tx, command.tenant, head, run.id)
    if row.old is not None and not command.upsert:
        raise AlreadyExists(run.id)
    moment_us = head.moment(tx.now_us)
    stored = settle_record(head, row, run, moment_us)
    await save_run(tx, head, run.id, row)
    await move_recency(tx, head, moment_us)
    pointers = (head.active_run, head.open_run, head.latest_run)
    await tx.run("point_runs", head.number, moment_us, *pointers, head.runs)
    return stored


async def open_record(tx: Tx, tenant: str, head: HeadRow, id: str) -> RunRow:
    """The session's row of a run and the run's record, wherever in the tenant it is."""
    own, old = None, None
    for key, first_ord, last_ord, body in await tx.all("find_runs", tenant, id):
        if key >> 32 == head.number:
            own = RunRow(key & 0xFFFFFFFF, first_ord, last_ord)
        if body is not None and old is None:
            old = _read(id, body)
    row = own or new_row(head)
    row.old = old
    return row


async def open_mention(tx: Tx, head: HeadRow, id: str) -> RunRow:
    """The session's row of a run that nodes name; no record is needed for that."""
    row = await tx.one("place_run", head.number, id)
    return new_row(head) if row is None else RunRow(row[0] & 0xFFFFFFFF, row[1], row[2])


def new_row(head: HeadRow) -> RunRow:
    """The row of a run that the session meets for the first time."""
    head.runs += 1
    return RunRow(head.runs)


def settle_record(head: HeadRow, row: RunRow, run: Run, moment_us: int) -> Run:
    """The record as it will be stored, projected on the head; the caller writes both."""
    if row.old is not None and row.old.session != run.session:
        raise SessionBindingMismatch(row.old.session, run.session)
    stored = rules.settle(run, row.old, moment_us, head.incarnation)
    rules.point(head, stored)
    row.body = encode_struct(stored, "run")
    return stored


async def save_run(tx: Tx, head: HeadRow, id: str, row: RunRow) -> None:
    """Write the session's row of a run."""
    key = base_of(head) + row.number
    # Sealed here and not by a trigger: most turns write a run, and here it costs next to nothing.
    seal = None if row.body is None else seal_of(key, id, row.body)
    await tx.run("save_run", key, id, row.first_ord, row.last_ord, row.body, seal)


async def run_names(tx: Tx, head: HeadRow, numbers: set[int]) -> dict[int, str]:
    """Run ids by their numbers in a session: one by one when few, else as one range."""
    base = base_of(head)
    if len(numbers) <= _FEW_NAMES:
        rows: list[Row] = []
        for number in numbers:
            rows += await tx.all("run_names", base + number, base + number)
    else:
        rows = await tx.all("run_names", base + min(numbers), base + max(numbers))
    return dict(rows)


async def find_run(tx: Tx, tenant: str, id: str) -> Run | None:
    """A stored record, or None."""
    for _, _, _, body in await tx.all("find_runs", tenant, id):
        if body is not None:
            return _read(id, body)
    return None


def _read(id: str, body: bytes) -> Run:
    try:
        return decode_struct(_decoder, body)
    except (ValueError, msgspec.ValidationError) as error:
        raise Corrupt("runs", id, "body", str(error)) from None


async def get_run(tx: Tx, query: GetRun) -> Run | None:
    """By id."""
    return await find_run(tx, query.tenant, query.id)


async def latest_run(tx: Tx, query: LatestRun) -> Run | None:
    """The run that the session's newest pointer names: pointers move with every run write."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None or head.latest_run is None:
        return None
    return await find_run(tx, query.tenant, head.latest_run)
