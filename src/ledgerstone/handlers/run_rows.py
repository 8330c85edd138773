"""The rows of runs: which nodes each wrote in a session and, when there is one, its record.

A session knows its runs by small numbers: nodes carry the number, one row per session and run holds
the id, the stretch of ords the run wrote and the record.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ledgerstone.codec import decode_struct, encode_struct
from ledgerstone.errors import Corrupt, InvalidValue, SessionBindingMismatch
from ledgerstone.records.runs import Run
from ledgerstone.rules import run as rules
from ledgerstone.tables.runs import KEPT_RUNS, RUNS, RUNS_BY_ID, RunRow
from ledgerstone.tables.sessions import SESSIONS, Head
from ledgerstone.tables.transaction import Tx

_decoder = msgspec.json.Decoder(Run)
_SPARSE = 16
"""Numbers are read as one range unless it holds this many times more rows than are asked for."""


class OpenRun(msgspec.Struct, gc=False):
    """A session's row of a run while it is written to; ords are 0 before its first node.

    `stored` is the row that is there already. `kept`: the record outlived an earlier session of
    this id, and goes with the run.
    """

    number: int
    first_ord: int = 0
    last_ord: int = 0
    stored: RunRow | None = None
    kept: bool = False
    old: Run | None = None
    new: Run | None = None

    def wrote(self, ord: int) -> int:
        """Note that the run wrote this node too; answers the run's number."""
        self.first_ord = self.first_ord or ord
        self.last_ord = ord
        return self.number


async def open_record(tx: Tx, tenant: str, head: Head, id: str) -> OpenRun:
    """The session's row of a run and the run's record, wherever in the tenant it is."""
    rows = await tx.scan(RUNS_BY_ID, id)
    run = _open(head, next((row for row in rows if row.number == head.number), None))
    record = await _record_among(tx, tenant, rows, head.number)
    if record is not None:
        run.old = read_run(id, record.body)
        return run
    kept = await tx.get(KEPT_RUNS, tenant, id)
    if kept is not None:
        run.old, run.kept = read_run(id, kept.body), True
    return run


async def open_mention(tx: Tx, head: Head, id: str) -> OpenRun:
    """The session's row of a run that nodes name; no record is needed for that."""
    return _open(head, await tx.find(RUNS_BY_ID, id, head.number))


def _open(head: Head, row: RunRow | None) -> OpenRun:
    if row is not None:
        return OpenRun(row.n, row.first_ord, row.last_ord, row)
    head.runs += 1  # The session meets this run for the first time.
    return OpenRun(head.runs)


def settle_record(head: Head, run: OpenRun, given: Run, moment_us: int) -> Run:
    """The record as it will be stored, projected on the head; the caller writes both."""
    if run.old is not None and run.old.session != given.session:
        raise SessionBindingMismatch(run.old.session, given.session)
    run.new = stored = rules.settle(given, run.old, moment_us, head.incarnation)
    rules.point(head, stored)
    return stored


def save_run(tx: Tx, tenant: str, head: Head, id: str, run: OpenRun) -> None:
    """Write the session's row of a run."""
    row, record = run.stored or RunRow(head.number, run.number, id), run.new
    if record is None:
        row = replace(row, first_ord=run.first_ord, last_ord=run.last_ord)
    else:
        row = replace(
            row,
            first_ord=run.first_ord,
            last_ord=run.last_ord,
            tenant=tenant,
            status=record.status,
            parent_run=record.parent_run,
            created_us=record.created_us,
            body=encode_struct(record, "run"),
        )
    if run.stored is None:
        tx.insert(RUNS, [row])
    else:
        tx.put(RUNS, row)
    if record is not None and run.kept:
        tx.delete(KEPT_RUNS, tenant, id)


async def run_names(tx: Tx, head: Head, numbers: set[int]) -> dict[int, str]:
    """Run ids by their numbers in a session."""
    if not numbers:
        return {}
    first, last = min(numbers), max(numbers)
    if last - first < _SPARSE * len(numbers):
        names = await tx.scan_columns(
            RUNS.primary, ("n", "id"), head.number, after=(first - 1,), before=(last + 1,)
        )
        return dict(names)
    rows = await tx.get_many(RUNS, [(head.number, number) for number in sorted(numbers)])
    return {row.n: row.id for row in rows if row is not None}


async def find_run(tx: Tx, tenant: str, id: str) -> Run | None:
    """A stored record, or None."""
    row = await _record_among(tx, tenant, await tx.scan(RUNS_BY_ID, id))
    if row is None:
        kept = await tx.get(KEPT_RUNS, tenant, id)
        return None if kept is None else read_run(id, kept.body)
    return read_run(id, row.body)


async def _record_among(
    tx: Tx, tenant: str, rows: list[RunRow], own: int | None = None
) -> RunRow | None:
    """The row with the tenant's record of a run; `own` is a session that is known to be there."""
    for row in rows:
        if row.tenant != tenant:
            continue
        # The rows of a purged session are as good as gone.
        if row.number == own or await tx.get(SESSIONS, row.number) is not None:
            return row
    return None


def read_run(id: str, body: bytes | None) -> Run:
    """A record from its column; Corrupt, naming the row."""
    try:
        return decode_struct(_decoder, body or b"")
    except (ValueError, InvalidValue, msgspec.MsgspecError) as error:
        raise Corrupt("runs", id, "body", str(error)) from None
