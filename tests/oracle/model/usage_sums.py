"""Sums of use over groups, from the days that are kept and, at the edges, from the turns."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from ledgerstone.commands.usage import SummariseUsage
from ledgerstone.records.stats import UsageSum
from ledgerstone.rules import ledger
from ledgerstone.rules import usage as rules
from tests.oracle.model.rows import SessionRow
from tests.oracle.model.state import State, Tx


def summarise_usage(tx: Tx, query: SummariseUsage) -> list[UsageSum]:
    """Sums per group: whole days as they are kept, the rest as the turns tell it."""
    tally = rules.Tally()
    for session, row in _sessions(tx.state, query):
        if "run" in query.by:
            uses = _uses(tx.state, row.number, 0, tx.state.heads[(row.number,)].revision)
            rules.tell(query, tally, uses, session, row.user)
        else:
            _add_session(tx.state, query, tally, session, row)
    return tally.sums(query.by)


def _sessions(state: State, query: SummariseUsage) -> Iterator[tuple[str, SessionRow]]:
    """The sessions a question is about."""
    if query.session is None:
        rows = ((key[1], row) for key, row in state.sessions.scan((query.tenant,)))
    else:
        names = _below(state, query) if query.include_children else {query.session}
        found = ((name, state.sessions.get((query.tenant, name))) for name in sorted(names))
        rows = ((name, row) for name, row in found if row is not None)
    for session, row in rows:
        if query.user is None or row.user == query.user:
            yield session, row


def _below(state: State, query: SummariseUsage) -> set[str]:
    """A session, those it is the parent of, and theirs."""
    children: dict[str, list[str]] = {}
    for (_, id), row in state.sessions.scan((query.tenant,)):
        if row.parent is not None:
            children.setdefault(row.parent, []).append(id)
    found, stack = set[str](), [query.session or ""]
    while stack:
        name = stack.pop()
        if name not in found:
            found.add(name)
            stack += children.get(name, [])
    return found


def _add_session(
    state: State, query: SummariseUsage, tally: rules.Tally, session: str, row: SessionRow
) -> None:
    first, last = rules.whole_days(query.since_us, query.until_us)
    edges = rules.edge_days(query.since_us, query.until_us)
    for place, line in state.usage_days.scan((query.tenant, row.number)):
        key = place[2:]
        if first <= key[0] < last:
            group = rules.group_of(query.by, key, session, row.user, None)
            tally.add(group, key[-1], line)
    for day in edges:
        rules.tell(query, tally, _uses_of_day(state, query.tenant, row, day), session, row.user)


def _uses(state: State, number: int, after: int, last: int) -> list[rules.Use]:
    """The uses of the commits after one, up to another."""
    found: list[rules.Use] = []
    for revision in range(after + 1, last + 1):
        turn = state.turns[(number, revision)]
        if turn.usage is not None:
            found += [(turn.created_us, entry) for entry in ledger.read_usage(turn.id, turn.usage)]
    return found


def _uses_of_day(state: State, tenant: str, row: SessionRow, day: int) -> list[rules.Use]:
    """The uses of one day. Times rise with revisions, unless a record was imported with a time
    of its own: then the sums of the day do not fit, and every use is looked at.
    """
    number, revision = row.number, state.heads[(row.number,)].revision
    lines = state.usage_days.scan((tenant, number, day))
    wanted = {key[2:]: line for key, line in lines}
    if not wanted:
        return []

    def before(us: int) -> int:
        turns = range(1, revision + 1)
        return bisect_left(turns, us, key=lambda n: state.turns[(number, n)].created_us)

    start_us = day * rules.US_PER_DAY
    uses = _uses(state, number, before(start_us), before(start_us + rules.US_PER_DAY))
    if rules.sum_days(uses) != wanted:
        uses = _uses(state, number, 0, revision)
    return [use for use in uses if rules.day_of(use[0]) == day]
