"""Runs, and how a session points at them."""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from ledgerstone.codec import decode_struct, encode_struct
from ledgerstone.commands.runs import GetRun, LatestRun, PutRun
from ledgerstone.errors import AlreadyExists, Corrupt, SessionBindingMismatch
from ledgerstone.records.runs import Run
from ledgerstone.rules import run as rules
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import find_head, move_recency, need_head
from ledgerstone.sql.tx import Tx

_decoder = msgspec.json.Decoder(Run)


async def put_run(tx: Tx, command: PutRun) -> Run:
    """Create a run, or overwrite it when asked to."""
    run = command.run
    head = await need_head(tx, command.tenant, run.session)
    check_alive(run.session, head)
    old = await find_run(tx, command.tenant, run.id)
    if old is not None and not command.upsert:
        raise AlreadyExists(run.id)
    moment_us = head.moment(tx.now_us)
    stored = await store_run(tx, command.tenant, head, run, old, moment_us)
    await move_recency(tx, head, moment_us)
    await tx.run(
        "point_runs", head.number, moment_us, head.active_run, head.open_run, head.latest_run
    )
    return stored


async def store_run(
    tx: Tx, tenant: str, head: HeadRow, run: Run, old: Run | None, moment_us: int
) -> Run:
    """Write the run and project it on the head, which the caller writes."""
    if old is not None and old.session != run.session:
        raise SessionBindingMismatch(old.session, run.session)
    stored = replace(rules.settle(run, old, moment_us), incarnation=head.incarnation)
    rules.point(head, stored)
    body = encode_struct(stored, "run")
    await tx.run("put_run", tenant, run.id, head.number, run.session, body)
    return stored


async def find_run(tx: Tx, tenant: str, id: str) -> Run | None:
    """A stored run, or None."""
    row = await tx.one("get_run", tenant, id)
    if row is None:
        return None
    try:
        return decode_struct(_decoder, row[2])
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
