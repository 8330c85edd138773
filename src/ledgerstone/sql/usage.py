"""Usage: counted by every commit that brings some, summed per day, told by the turns."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from ledgerstone.codec import encode_json
from ledgerstone.commands.usage import DeleteUsage, GetStats, ListUsage
from ledgerstone.records.stats import Stats, UsageDeleted, UsageRecord
from ledgerstone.rules import ledger
from ledgerstone.rules import usage as rules
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.rows import HeadRow, UsageDay
from ledgerstone.sql.budgets import forget_sums, spend
from ledgerstone.sql.commits import Commit
from ledgerstone.sql.heads import find_head, move_head
from ledgerstone.sql.parking import wake
from ledgerstone.sql.tx import Tx

_CHUNK_TURNS = 500


async def count_usage(tx: Tx, commit: Commit) -> None:
    """What the commit uses goes into the ledger, the days and the budgets."""
    command, head = commit.command, commit.head
    entries = command.usage
    head.ledger = ledger.merge(head.ledger, entries)
    if commit.bounded:
        await spend(tx, commit, entries)
    for key, line in rules.by_day(entries, commit.moment_us).items():
        row = (head.number, *key, *msgspec.structs.astuple(line))
        if await tx.run("add_usage_day", *row):
            continue
        if not await tx.run("begin_usage_day", *row, command.tenant):
            raise rules.too_much()


async def list_usage(tx: Tx, query: ListUsage) -> list[UsageRecord]:
    """What was recorded in a session, oldest first."""
    head = await find_head(tx, query.tenant, query.session)
    found: list[UsageRecord] = []
    if head is None:
        return found
    after, limit = query.after[0] - 1, query.limit
    while limit is None or len(found) < limit:
        rows = await tx.all("usage_between", head.number, after, head.revision, _CHUNK_TURNS)
        for revision, turn, created_us, usage in rows:
            found += [
                UsageRecord(
                    session=query.session,
                    revision=revision,
                    n=n,
                    turn=turn,
                    entry=entry,
                    created_us=created_us,
                )
                for n, entry in enumerate(ledger.read_usage(turn, usage), start=1)
                if (revision, n) > query.after
            ]
        if len(rows) < _CHUNK_TURNS:
            break
        after = rows[-1][0]
    return found[:limit]


async def get_stats(tx: Tx, query: GetStats) -> Stats:
    """A session in numbers; zeros for an unknown one."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return Stats(session=query.session)
    row = await tx.one("get_call_sums", head.number)
    calls, succeeded, failed, duration_ms = row or (0, 0, 0, 0)
    tally = rules.Tally()
    for currency, *counts in await tx.all("session_usage", head.number):
        tally.add((), currency, UsageDay(counts[0], *rules.from_halves(counts[1:])))
    used = tally.total()
    return Stats(
        session=query.session,
        messages=head.messages,
        user_messages=head.users,
        turns=head.revision,
        tool_calls=calls,
        tool_calls_succeeded=succeeded,
        tool_calls_failed=failed,
        average_duration_ms=duration_ms // max(succeeded + failed, 1),
        usage=used.usage,
        costs=used.costs,
        calls=used.calls,
        unpriced=used.unpriced,
    )


async def delete_usage(tx: Tx, command: DeleteUsage) -> UsageDeleted:
    """A session's executions and uses go, and with them every sum of theirs."""
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return UsageDeleted(0, 0)
    check_alive(command.session, head)
    check_guard(command.session, head, command.guard, tx.now_us)
    counted = await tx.one("count_usage", head.number)
    assert counted is not None
    await _drop_from_turns(tx, head)
    executions = await tx.run("sweep_executions", head.number)
    if executions:
        await wake(tx, head)
        told = encode_json({"revision": head.revision}, rules.FORGOTTEN)
        await tx.run("put_document", head.number, rules.FORGOTTEN, told)
    if head.ledger is not None:
        head.ledger = None
        await move_head(tx, head)
    await forget_sums(tx, command.tenant, command.session, head.number)
    return UsageDeleted(executions, counted[0])


async def _drop_from_turns(tx: Tx, head: HeadRow) -> None:
    """What the chain knows of each use stays."""
    after = 0
    while rows := await tx.all("usage_between", head.number, after, head.revision, _CHUNK_TURNS):
        after = rows[-1][0]
        digests = [(head.number, row[0], sha256(row[3]).digest()) for row in rows]
        await tx.many("drop_turn_usage", digests)
