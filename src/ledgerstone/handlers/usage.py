"""Usage: counted by every commit that brings some, summed per day, listed from the turns."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from operator import attrgetter

from msgspec.structs import astuple, replace

from ledgerstone.codec import encode_json
from ledgerstone.commands.usage import DeleteUsage, GetStats, ListUsage
from ledgerstone.handlers.budgets import forget_sums, spend
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.heads import find_head, save_head
from ledgerstone.handlers.parking import wake
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.usage_sums import TurnUsage, usage_page
from ledgerstone.records.stats import Stats, UsageDeleted, UsageRecord
from ledgerstone.rules import ledger
from ledgerstone.rules import usage as rules
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.rows import UsageDay
from ledgerstone.tables.graph import TURNS, TURNS_BY_REVISION
from ledgerstone.tables.sessions import DOCUMENTS, SESSIONS_BY_ID, DocumentRow
from ledgerstone.tables.tickets import EXECUTIONS, EXECUTIONS_BY_SESSION
from ledgerstone.tables.transaction import Tx, added
from ledgerstone.tables.usage import CALL_SUMS, USAGE_DAYS, CallSumsRow, UsageDayRow

_SUMS = UsageDay.__struct_fields__
_sums_of = attrgetter(*_SUMS)


async def count_usage(tx: Tx, commit: Commit) -> None:
    """What the commit uses goes into the ledger, the days and the budgets."""
    command, head = commit.command, commit.head
    entries = command.usage
    head.ledger = ledger.merge(head.ledger, entries)
    await spend(tx, commit, entries)
    for key, line in rules.by_day(entries, commit.moment_us).items():
        row = UsageDayRow(head.number, *key, command.tenant, *astuple(line))
        old = await tx.get(USAGE_DAYS, head.number, *key)
        if old is not None:
            row = added(USAGE_DAYS, old, row)
            rules.check_sums(UsageDay(*_sums_of(row)))
        tx.put(USAGE_DAYS, row)


@handles(ListUsage)
async def list_usage(tx: Tx, query: ListUsage) -> list[UsageRecord]:
    """What was recorded in a session, oldest first."""
    found: list[UsageRecord] = []
    row = await tx.find(SESSIONS_BY_ID, query.tenant, query.session)
    if row is None:
        return found
    after: int | None = query.after[0] - 1
    while after is not None and (query.limit is None or len(found) < query.limit):
        turns, after = await usage_page(tx, row.number, after)
        records = (one for turn in turns for one in _records(query.session, turn))
        found += [one for one in records if _is_meant(one, query)]
    return found[: query.limit]


def _records(session: str, turn: TurnUsage) -> Iterator[UsageRecord]:
    for n, entry in enumerate(ledger.read_usage(turn.id, turn.usage), start=1):
        yield UsageRecord(
            session=session,
            revision=turn.revision,
            n=n,
            turn=turn.id,
            entry=entry,
            created_us=turn.created_us,
        )


def _is_meant(one: UsageRecord, query: ListUsage) -> bool:
    return (
        (one.revision, one.n) > query.after
        and query.message in (None, one.message_id)
        and (query.id is None or query.id == one.id)
    )


@handles(GetStats)
async def get_stats(tx: Tx, query: GetStats) -> Stats:
    """A session in numbers; zeros for an unknown one."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return Stats(session=query.session)
    calls = await tx.get(CALL_SUMS, head.number) or CallSumsRow(head.number, *rules.NO_CALLS)
    tally = rules.Tally()
    columns = ("currency", *_SUMS)
    for currency, *sums in await tx.scan_columns(USAGE_DAYS.primary, columns, head.number):
        tally.add((), currency, UsageDay(*sums))
    used = tally.total()
    return Stats(
        session=query.session,
        messages=head.messages,
        user_messages=head.users,
        turns=head.revision,
        tool_calls=calls.calls,
        tool_calls_succeeded=calls.succeeded,
        tool_calls_failed=calls.failed,
        average_duration_ms=calls.duration_ms // max(calls.succeeded + calls.failed, 1),
        usage=used.usage,
        costs=used.costs,
        calls=used.calls,
        unpriced=used.unpriced,
    )


@handles(DeleteUsage)
async def delete_usage(tx: Tx, command: DeleteUsage) -> UsageDeleted:
    """A session's executions and uses go, and with them every sum of theirs."""
    head = await find_head(tx, command.tenant, command.session)
    if head is None:
        return UsageDeleted(0, 0)
    check_alive(command.session, head)
    check_guard(command.session, head, command.guard, tx.now_us)
    counts = await tx.scan_columns(USAGE_DAYS.primary, ("calls",), head.number)
    await _drop_from_turns(tx, head.number)
    executions = await _drop_executions(tx, head.number)
    if executions:
        await wake(tx, head)
        body = encode_json({"revision": head.revision}, rules.FORGOTTEN)
        tx.put(DOCUMENTS, DocumentRow(head.number, rules.FORGOTTEN, body))
    await forget_sums(tx, command.tenant, command.session, head.number)
    if executions or head.ledger is not None:
        head.ledger = None
        save_head(tx, head)
    return UsageDeleted(executions, sum(calls for (calls,) in counts))


async def _drop_from_turns(tx: Tx, number: int) -> None:
    """Remove what the turns used; what the hash chain needs to know of it stays."""
    for row in await tx.scan(TURNS_BY_REVISION, number):
        if row.usage is not None:
            digest = sha256(row.usage).digest()
            tx.put(TURNS, replace(row, usage=None, usage_digest=digest))


async def _drop_executions(tx: Tx, number: int) -> int:
    rows = await tx.scan_columns(EXECUTIONS_BY_SESSION, EXECUTIONS.key, number)
    for key in rows:
        tx.delete(EXECUTIONS, *key)
    return len(rows)
