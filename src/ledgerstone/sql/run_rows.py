"""The rows of runs: which nodes each wrote in a session and, when there is one, its record.

A session knows its runs by small numbers: nodes carry the number, one row per session and run holds
the id, the stretch of ords the run wrote and the record.
"""

from __future__ import annotations

import msgspec

from ledgerstone.codec import decode_struct, encode_struct
from ledgerstone.errors import Corrupt, InvalidValue, SessionBindingMismatch
from ledgerstone.records.runs import Run
from ledgerstone.rules import run as rules
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import base_of
from ledgerstone.sql.tx import Row, Tx

_decoder = msgspec.json.Decoder(Run)
_FEW_NAMES = 4


class RunRow(msgspec.Struct, gc=False):
    """One session's row of a run while it is written to; ords are 0 before its first node.

    `stored`: the row is there already, `recorded`: with a record. `kept`: the record outlived an
    earlier session of this id, and goes with the run.
    """

    number: int
    first_ord: int = 0
    last_ord: int = 0
    stored: bool = False
    recorded: bool = False
    kept: bool = False
    old: Run | None = None
    new: Run | None = None

    def wrote(self, ord: int) -> int:
        """Note that the run wrote this node too; answers the run's number."""
        self.first_ord = self.first_ord or ord
        self.last_ord = ord
        return self.number


async def open_record(tx: Tx, tenant: str, head: HeadRow, id: str) -> RunRow:
    """The session's row of a run and the run's record, wherever in the tenant it is."""
    own, old, kept = None, None, False
    for key, first_ord, last_ord, body in await tx.all("find_runs", tenant, id):
        if key >> 32 == head.number:
            number = key & 0xFFFFFFFF
            own = RunRow(number, first_ord, last_ord, stored=True, recorded=body is not None)
        if body is not None and old is None:
            old, kept = read_run(id, body), not key
    row = own or new_row(head)
    row.old, row.kept = old, kept
    return row


async def open_mention(tx: Tx, head: HeadRow, id: str) -> RunRow:
    """The session's row of a run that nodes name; no record is needed for that."""
    row = await tx.one("place_run", head.number, id)
    if row is None:
        return new_row(head)
    return RunRow(row[0] & 0xFFFFFFFF, row[1], row[2], stored=True)


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
    row.new = stored
    return stored


async def save_run(tx: Tx, tenant: str, head: HeadRow, id: str, row: RunRow) -> None:
    """Write the session's row of a run: once, and no index that need not move."""
    key, run = base_of(head) + row.number, row.new
    place = (row.first_ord, row.last_ord)
    if run is None:
        if row.stored:
            await tx.run("extend_run", key, *place)
        else:
            await tx.run("save_run", key, id, *place, None, None, None, None, None, None)
        return
    body = encode_struct(run, "run")
    if row.recorded:
        await tx.run("change_run", key, *place, run.status, run.parent_run, body, None)
        return
    columns = (tenant, run.status, run.parent_run, run.created_us, body, None)
    await tx.run("save_run", key, id, *place, *columns)
    if row.kept:
        await tx.run("drop_kept_run", tenant, id)


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
            return read_run(id, body)
    return None


def read_run(id: str, body: bytes | None) -> Run:
    """A record from its column; Corrupt, naming the row."""
    try:
        return decode_struct(_decoder, body or b"")
    except (ValueError, InvalidValue, msgspec.MsgspecError) as error:
        raise Corrupt("runs", id, "body", str(error)) from None
