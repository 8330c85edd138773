"""Traces and reports: lists beside a session."""

from __future__ import annotations

from collections.abc import Sequence

from ledgerstone.commands.evidence import (
    AppendEvidence,
    DeleteEvidence,
    EvidenceRow,
    LoadEvidence,
    SaveEvidence,
)
from ledgerstone.rules import evidence as rules
from ledgerstone.rules.guard import check_alive
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.heads import find_head
from ledgerstone.sql.tx import Tx


async def check_open(tx: Tx, tenant: str, session: str) -> None:
    """What lies beside a session needs none, but one that is deleted takes no writes."""
    head = await find_head(tx, tenant, session)
    if head is not None:
        check_alive(session, head)


async def put_mark(
    tx: Tx, tenant: str, session: str, kind: str, created_us: int, body: bytes = b""
) -> None:
    """Say that there is a list, and what was appended last."""
    mark = await tx.one("evidence_mark", tenant, session, kind)
    if mark is None:
        await tx.run("insert_evidence", tenant, session, kind, 0, created_us, body)
    elif mark[1] != body:
        await tx.run("move_evidence_mark", tenant, session, kind, body)


async def append_evidence(tx: Tx, command: AppendEvidence) -> int:
    """At the end; the same append again adds nothing."""
    place = (command.tenant, command.session, command.kind)
    await check_open(tx, command.tenant, command.session)
    body = rules.mark_of(command.key, command.bodies)
    mark = await tx.one("evidence_mark", *place)
    if mark is None or not body or mark[1] != body:
        await put_mark(tx, *place, tx.now_us, body)
        return await _add(tx, place, command.bodies, tx.now_us)
    return await _last(tx, place)


async def save_evidence(tx: Tx, command: SaveEvidence) -> int:
    """Exactly these."""
    place = (command.tenant, command.session, command.kind)
    await check_open(tx, command.tenant, command.session)
    await tx.run("drop_evidence", *place, 1)
    await put_mark(tx, *place, tx.now_us)
    return await _add(tx, place, command.bodies, tx.now_us)


async def append_in_commit(tx: Tx, commit: Commit) -> None:
    """The traces and reports of a commit."""
    command = commit.command
    for kind, name, bodies in rules.in_commit(command):
        place = (command.tenant, command.session, kind)
        await put_mark(tx, *place, commit.moment_us)
        await _add(tx, place, bodies, commit.moment_us)
        commit.effects[name] = rules.effect_of(bodies)


async def delete_evidence(tx: Tx, command: DeleteEvidence) -> int:
    """The whole list, and that there was one."""
    place = (command.tenant, command.session, command.kind)
    await check_open(tx, command.tenant, command.session)
    gone = await tx.run("drop_evidence", *place, 1)
    await tx.run("drop_evidence", *place, 0)
    return gone


async def load_evidence(tx: Tx, query: LoadEvidence) -> list[EvidenceRow] | None:
    """Documents in order; None when there is no list."""
    place = (query.tenant, query.session, query.kind)
    if await tx.one("evidence_mark", *place) is None:
        return None
    rows = await tx.pick(
        "read_evidence",
        tenant=query.tenant,
        session=query.session,
        kind=query.kind,
        after=query.after,
        limit=query.limit,
    )
    return [EvidenceRow(*row) for row in rows]


async def _last(tx: Tx, place: tuple[str, str, str]) -> int:
    row = await tx.one("last_evidence", *place)
    return 0 if row is None else row[0] or 0


async def _add(
    tx: Tx, place: tuple[str, str, str], bodies: Sequence[bytes], created_us: int
) -> int:
    """After the last one; how many there are then."""
    last = await _last(tx, place)
    rows = [(*place, last + n, created_us, body) for n, body in enumerate(bodies, start=1)]
    await tx.many("insert_evidence", rows)
    return last + len(rows)
