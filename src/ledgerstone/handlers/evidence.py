"""Traces and reports: lists beside a session."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from ledgerstone.commands import evidence as commands
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.registry import handles
from ledgerstone.rules import evidence as rules
from ledgerstone.rules.guard import check_alive
from ledgerstone.tables.evidence import EVIDENCE
from ledgerstone.tables.evidence import EvidenceRow as StoredRow
from ledgerstone.tables.transaction import Tx

ListKey = tuple[str, str, str]
"""Tenant, session and kind of a list."""


async def check_open(tx: Tx, tenant: str, session: str) -> None:
    """What lies beside a session needs none, but one that is deleted takes no writes."""
    head = await find_head(tx, tenant, session)
    if head is not None:
        check_alive(session, head)


async def has_mark(tx: Tx, tenant: str, session: str, kind: str) -> bool:
    """Whether there is a list, empty or not."""
    return await tx.get(EVIDENCE, tenant, session, kind, 0) is not None


async def put_mark(
    tx: Tx, tenant: str, session: str, kind: str, created_us: int, body: bytes = b""
) -> None:
    """Say that there is a list, and what was appended last."""
    mark = await tx.get(EVIDENCE, tenant, session, kind, 0)
    _put_mark(tx, (tenant, session, kind), mark, created_us, body)


def _put_mark(tx: Tx, place: ListKey, mark: StoredRow | None, created_us: int, body: bytes) -> None:
    if mark is None:
        tx.put(EVIDENCE, StoredRow(*place, 0, created_us, body))
    elif mark.body != body:
        tx.put(EVIDENCE, replace(mark, body=body))


@handles(commands.AppendEvidence)
async def append_evidence(tx: Tx, command: commands.AppendEvidence) -> int:
    place = (command.tenant, command.session, command.kind)
    await check_open(tx, command.tenant, command.session)
    body = rules.mark_of(command.key, command.bodies)
    mark = await tx.get(EVIDENCE, *place, 0)
    last = await _last(tx, place)
    if mark is not None and body and mark.body == body:
        return last
    _put_mark(tx, place, mark, tx.now_us, body)
    return _add(tx, place, last, command.bodies, tx.now_us)


@handles(commands.SaveEvidence)
async def save_evidence(tx: Tx, command: commands.SaveEvidence) -> int:
    place = (command.tenant, command.session, command.kind)
    await check_open(tx, command.tenant, command.session)
    await _drop(tx, place)
    await put_mark(tx, *place, tx.now_us)
    return _add(tx, place, 0, command.bodies, tx.now_us)


async def append_in_commit(tx: Tx, commit: Commit) -> None:
    """The traces and reports of a commit."""
    command = commit.command
    for kind, name, bodies in rules.in_commit(command):
        place = (command.tenant, command.session, kind)
        last = await _last(tx, place)
        await put_mark(tx, *place, commit.moment_us)
        _add(tx, place, last, bodies, commit.moment_us)
        commit.effects[name] = rules.effect_of(bodies)


@handles(commands.DeleteEvidence)
async def delete_evidence(tx: Tx, command: commands.DeleteEvidence) -> int:
    place = (command.tenant, command.session, command.kind)
    await check_open(tx, command.tenant, command.session)
    gone = await _drop(tx, place)
    tx.delete(EVIDENCE, *place, 0)
    return gone


@handles(commands.LoadEvidence)
async def load_evidence(tx: Tx, query: commands.LoadEvidence) -> list[commands.EvidenceRow] | None:
    place = (query.tenant, query.session, query.kind)
    if not await has_mark(tx, *place):
        return None
    rows = await tx.scan_columns(
        EVIDENCE.primary,
        commands.EvidenceRow.__struct_fields__,
        *place,
        after=(max(query.after, 0),),
        limit=query.limit,
    )
    return [commands.EvidenceRow(*row) for row in rows]


async def _last(tx: Tx, place: ListKey) -> int:
    rows = await tx.scan_columns(EVIDENCE.primary, ("n",), *place, limit=1, reverse=True)
    return rows[0][0] if rows else 0


def _add(tx: Tx, place: ListKey, last: int, bodies: Sequence[bytes], created_us: int) -> int:
    """After the last one; how many there are then."""
    rows = [StoredRow(*place, n, created_us, body) for n, body in enumerate(bodies, last + 1)]
    tx.insert(EVIDENCE, rows)
    return last + len(rows)


async def _drop(tx: Tx, place: ListKey) -> int:
    """Remove all documents, but not the mark; how many there were."""
    rows = await tx.scan_columns(EVIDENCE.primary, ("n",), *place, after=(0,))
    for (n,) in rows:
        tx.delete(EVIDENCE, *place, n)
    return len(rows)
