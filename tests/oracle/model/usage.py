"""Usage: counted by every commit that brings some, summed per day, told by the turns."""

from __future__ import annotations

from collections.abc import Iterator

from msgspec.structs import replace

from ledgerstone.codec import encode_json
from ledgerstone.commands.usage import DeleteUsage, GetStats, ListUsage
from ledgerstone.records.executions import Execution
from ledgerstone.records.stats import Stats, UsageDeleted, UsageRecord
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import ledger
from ledgerstone.rules import usage as rules
from ledgerstone.rules.guard import check_alive, check_guard
from ledgerstone.rules.rows import UsageDay
from tests.oracle.model import budgets, ticket_marks
from tests.oracle.model.commits import Commit
from tests.oracle.model.parking import wake
from tests.oracle.model.rows import CallSums
from tests.oracle.model.standing import find, put_document, save_head
from tests.oracle.model.state import State, Tx


def count_usage(commit: Commit) -> None:
    """What the commit uses goes into the ledger, the days and the budgets."""
    command, days = commit.command, commit.tx.state.usage_days
    commit.head.ledger = ledger.merge(commit.head.ledger, command.usage)
    budgets.spend(commit, command.usage)
    for key, line in rules.by_day(command.usage, commit.moment_us).items():
        place = (command.tenant, commit.number, *key)
        old = days.get(place)
        days.put(place, line if old is None else rules.check_sums(old + line))


def count_call(tx: Tx, number: int, after: Execution, before: Execution | None) -> None:
    """A tool call was begun, ended or begun again."""
    counts, old = execution_rules.counts, tx.state.call_sums.get((number,)) or CallSums()
    added = rules.add_calls(counts(after), counts(before), -1)
    if added != rules.NO_CALLS:
        kept = (old.calls, old.succeeded, old.failed, old.duration_ms)
        tx.state.call_sums.put(
            (number,), CallSums(*rules.check_calls(rules.add_calls(kept, rules.check_calls(added))))
        )


def list_usage(tx: Tx, query: ListUsage) -> list[UsageRecord]:
    """What was recorded in a session, oldest first."""
    found: list[UsageRecord] = []
    for record in _records(tx, query):
        if query.limit is not None and len(found) >= query.limit:
            break
        found.append(record)
    return found


def _records(tx: Tx, query: ListUsage) -> Iterator[UsageRecord]:
    standing = find(tx, query.tenant, query.session)
    if standing is None:
        return
    since = (standing.number, query.after[0])
    for (_, revision), turn in tx.state.turns.scan((standing.number,), since=since):
        for n, entry in enumerate(ledger.read_usage(turn.id, turn.usage), start=1):
            if (revision, n) > query.after:
                yield UsageRecord(
                    session=query.session,
                    revision=revision,
                    n=n,
                    turn=turn.id,
                    entry=entry,
                    created_us=turn.created_us,
                )


def get_stats(tx: Tx, query: GetStats) -> Stats:
    """A session in numbers; zeros for an unknown one."""
    standing = find(tx, query.tenant, query.session)
    if standing is None:
        return Stats(session=query.session)
    head = standing.head
    calls = tx.state.call_sums.get((standing.number,)) or CallSums()
    tally = rules.Tally()
    for key, line in tx.state.usage_days.scan((query.tenant, standing.number)):
        tally.add((), key[-1], line)
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


def delete_usage(tx: Tx, command: DeleteUsage) -> UsageDeleted:
    """A session's executions and uses go, and with them every sum of theirs."""
    standing = find(tx, command.tenant, command.session)
    if standing is None:
        return UsageDeleted(0, 0)
    check_alive(command.session, standing.head)
    check_guard(command.session, standing.head, command.guard, tx.now_us)
    number, records = standing.number, 0
    for key, turn in list(tx.state.turns.scan((number,))):
        if turn.usage is not None:
            records += len(ledger.read_usage(turn.id, turn.usage))
            bare = replace(turn, usage=None, usage_digest=ledger.digest(turn.usage))
            tx.state.turns.update(key, bare)
    executions = ticket_marks.drop_executions(tx.state, command.tenant, number)
    if executions:
        wake(tx, standing)
        told = encode_json({"revision": standing.head.revision}, rules.FORGOTTEN)
        put_document(tx, number, rules.FORGOTTEN, told)
    standing.head.ledger = None
    save_head(tx, standing)
    budgets.forget_sums(tx, command.tenant, command.session, number)
    return UsageDeleted(executions, records)


def days_of(state: State, number: int) -> dict[rules.DayKey, UsageDay]:
    """The days of a session, counted from its turns."""
    turns = (turn for _, turn in state.turns.scan((number,)) if turn.usage is not None)
    return rules.sum_days(
        (turn.created_us, entry)
        for turn in turns
        for entry in ledger.read_usage(turn.id, turn.usage)
    )


def calls_of(state: State, number: int) -> CallSums:
    """The tool calls of a session, counted."""
    sums = rules.NO_CALLS
    for (_, id), data in state.executions.scan((number,)):
        counts = execution_rules.counts(execution_rules.read(id, data))
        sums = rules.add_calls(sums, counts)
    return CallSums(*sums)


def rebuild(state: State) -> None:
    """Days, counted calls and what of the budgets is used."""
    for (tenant, _), row in state.sessions.scan():
        for key, line in days_of(state, row.number).items():
            state.usage_days.place((tenant, row.number, *key), line)
        calls = calls_of(state, row.number)
        if calls.calls:
            state.call_sums.place((row.number,), calls)
    budgets.rebuild(state)
