"""Purge: invisible in one transaction, swept in bounded ones."""

from __future__ import annotations

from ledgerstone.commands.artifacts import Owner
from ledgerstone.commands.sessions import PurgeSession, SweepPurged
from ledgerstone.errors import RevisionMoved
from ledgerstone.records.sessions import Receipt
from ledgerstone.rules.artifacts import scope_of
from ledgerstone.rules.chain import GENESIS
from ledgerstone.rules.guard import check_incarnation
from ledgerstone.sql.budgets import forget_sums
from ledgerstone.sql.embeddings import drop_session_vectors
from ledgerstone.sql.heads import ORD_BITS, find_head
from ledgerstone.sql.tx import Tx

_WHOLE_TABLES = (
    ("notes", "sweep_notes"),
    ("values", "sweep_contents"),
    ("branches", "sweep_branches"),
    ("documents", "sweep_documents"),
    ("work", "sweep_work"),
    ("tickets", "sweep_tickets"),
    ("executions", "sweep_executions"),
    ("heads", "sweep_head"),
    ("sessions", "sweep_session"),
)


async def purge_session(tx: Tx, command: PurgeSession) -> Receipt:
    """First phase: from here on nobody sees the session."""
    key = (command.tenant, command.id)
    head = await find_head(tx, *key)
    if head is None:
        stub = await tx.one("get_stub", *key)
        if command.retire:
            incarnation, fence, link, _ = stub or (0, 0, GENESIS, 0)
            await tx.run("put_stub", *key, incarnation, fence, link, 1)
        retired = command.retire or bool(stub and stub[3])
        removed = await _purge_loose(tx, *key)
        return Receipt(session=command.id, retired=retired, removed=removed)
    if command.expected_incarnation is not None:
        check_incarnation(command.id, head.incarnation, command.expected_incarnation)
    expected = command.expected_revision
    if expected is not None and expected != head.revision:
        raise RevisionMoved(expected, head.revision, command.id)
    stub_fields = (head.incarnation, head.fence, head.link, int(command.retire))
    await tx.run("put_stub", *key, *stub_fields)
    await tx.run("mark_purged", head.number)
    removed = await _purge_loose(tx, *key)
    await forget_sums(tx, *key, head.number)
    await tx.run("purge_ready", head.number)
    await tx.run("purge_dead", head.number)
    await tx.run("purge_work_sums", head.number)
    if command.keep_runs:
        first = head.number << ORD_BITS
        await tx.run("keep_runs", *key, first, first + (1 << ORD_BITS) - 1)
    return Receipt(
        session=command.id,
        existed=True,
        incarnation=head.incarnation,
        fence=head.fence,
        link=head.link.hex(),
        retired=command.retire,
        removed=removed,
    )


async def _purge_loose(tx: Tx, tenant: str, session: str) -> dict[str, int]:
    """What belongs to the id, whether there is a session or not; how many of each there were."""
    key = (tenant, session)
    removed = {
        "attachments": await tx.run("purge_attachments", *key),
        "artifacts": await tx.run("purge_artifacts", tenant, scope_of(Owner(session))),
        "traces": await tx.run("drop_evidence", *key, "trace", 1),
        "reports": await tx.run("drop_evidence", *key, "report", 1),
        "embeddings": await drop_session_vectors(tx, *key),
        "budgets": await tx.run("purge_budgets", *key),
    }
    await tx.run("purge_evidence", *key)
    return {table: count for table, count in removed.items() if count}


async def sweep_purged(tx: Tx, command: SweepPurged) -> dict[str, int]:
    """Second phase: at most `limit` nodes and turns; the small tables go at the end."""
    row = await tx.one("next_purged", command.tenant)
    if row is None:
        return {}
    number = row[0]
    first = number << ORD_BITS
    last = first + (1 << ORD_BITS) - 1
    removed = {"nodes": await tx.run("sweep_nodes", first, last, command.limit)}
    left = command.limit - removed["nodes"]
    removed["turns"] = await tx.run("sweep_turns", number, left) if left else 0
    if removed["nodes"] + removed["turns"] == command.limit:
        return removed
    await tx.run("sweep_blank_turns")
    removed["turns"] += await tx.run("blank_turn", number)
    removed["amendments"] = await tx.run("sweep_amendments", first, last)
    removed["runs"] = await tx.run("sweep_runs", first, last)
    for table, query in _WHOLE_TABLES:
        removed[table] = await tx.run(query, number)
    return removed
