"""The feed: every commit has a place among all of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace

from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.records.feed import FeedEntry
from tests.oracle.model.rows import TurnRow
from tests.oracle.model.state import Tx


def enter_turn(tx: Tx, number: int, turn: TurnRow) -> None:
    """Keep the row of a commit, and give it its place."""
    state = tx.state
    pos = state.next_number("feed")
    state.turns.insert((number, turn.revision), replace(turn, pos=pos))
    state.turn_ids.insert((number, turn.id), turn.revision)
    state.feed.insert((pos,), (number, turn.revision))


def read_feed(tx: Tx, query: ReadFeed) -> list[FeedEntry]:
    """Commits after a position, or after a revision of one session."""
    found = _of_tenant(tx, query) if query.session is None else _of_session(tx, query)
    return list(islice(found, query.limit))


def _of_tenant(tx: Tx, query: ReadFeed) -> Iterator[FeedEntry]:
    state = tx.state
    for _, (number, revision) in state.feed.scan(since=(query.after + 1,)):
        session = state.session_ids.get((number,))
        row = None if session is None else state.sessions.get((query.tenant, session))
        # The same id may be a session of another tenant, too.
        if session is not None and row is not None and row.number == number:
            yield _entry(session, state.turns[number, revision])


def _of_session(tx: Tx, query: ReadFeed) -> Iterator[FeedEntry]:
    session = query.session or ""
    row = tx.state.sessions.get((query.tenant, session))
    if row is not None:
        since = (row.number, query.after + 1)
        for _, turn in tx.state.turns.scan((row.number,), since=since):
            yield _entry(session, turn)


def _entry(session: str, turn: TurnRow) -> FeedEntry:
    return FeedEntry(
        session=session,
        revision=turn.revision,
        turn=turn.id,
        kind=turn.kind,
        nodes=turn.count,
        created_us=turn.created_us,
        pos=turn.pos,
    )


def feed_end(tx: Tx, query: FeedEnd) -> int:
    """The newest position; 0 before the first commit."""
    return tx.state.counters.get(("feed", 0)) or 0
