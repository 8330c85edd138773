"""From the lines of journals back to the tables.

A session's own rows are in its own journal, so journals can be read one after the other. Runs and
loose rows may stand in the store's journal as well as in a session's; of those the later line
wins, so they wait until all journals were read and are put in the order of their positions.
"""

from __future__ import annotations

from typing import Any

from ledgerstone.backends.file_changes import BY_NUMBER
from ledgerstone.backends.file_lines import STORE, Line
from ledgerstone.backends.file_rows_tickets import put_executions, put_tickets
from ledgerstone.backends.file_rows_work import forget_work, put_work
from ledgerstone.backends.file_shared import SHARED, put_shared
from ledgerstone.model.state import State
from ledgerstone.model.tables import ABSENT

NEXT_SESSION = ("session", 0)
LAST_FEED = ("feed", 0)


def put_own(state: State, line: Line) -> None:
    """The rows that only this journal holds."""
    number, tenant = line.number, line.tenant
    if number == STORE:
        return
    raise_number(state, number)
    if line.row is not None:
        state.sessions.place((tenant, line.session), line.row.row(number))
        state.session_ids.place((number,), line.session)
    if line.head is not None:
        state.heads.place((number,), line.head.row(number))
    for node in line.nodes:
        state.nodes.place((number, node.ord), node.row())
        state.node_ids.place((tenant, node.id, number), node.ord)
    for turn in line.turns:
        state.turns.place((number, turn.revision), turn.row())
        state.turn_ids.place((number, turn.id), turn.revision)
        state.feed.place((turn.pos,), (number, turn.revision))
        raise_feed(state, turn.pos)
    _put_rest(state, line)
    for table, keys in line.gone.items():
        if table not in SHARED:
            for key in keys:
                forget_work(state, (tenant, number), table, key[0])
                state.tables()[table].place(_whole(table, number, key), ABSENT)


def _put_rest(state: State, line: Line) -> None:
    number = line.number
    for amendment in line.amendments:
        key = (number, amendment.ord, amendment.version)
        state.amendments.place(key, amendment.row())
    for name, leaf in line.branches:
        state.branches.place((number, name), leaf)
    for document in line.documents:
        state.documents.place((number, document.id), document.content())
    for note in line.notes:
        state.notes.place((number, note.node, note.key), note.row())
    for value in line.values:
        state.values.place((number, value.id), value.content())
    of = (line.tenant, number)
    put_work(state, of, line.work, line.ready, line.dead_work, line.outbox)
    for run, updated_us, created_us in line.session_runs:
        state.session_runs.place((number, run), (updated_us, created_us))
    put_tickets(state, line.tenant, number, line.tickets)
    put_executions(state, line.tenant, number, line.executions)
    for counter, value_now in line.counters:
        state.counters.place((counter, number), value_now)


def put_common(state: State, line: Line) -> None:
    """The rows that other journals hold too; lines must come in the order of their positions."""
    raise_feed(state, line.feed)
    put_shared(state, line)


def raise_number(state: State, number: int) -> None:
    """The numbers of sessions go on from the highest ever seen."""
    if number > (state.counters.get(NEXT_SESSION) or 0):
        state.counters.place(NEXT_SESSION, number)


def raise_feed(state: State, pos: int) -> None:
    """No place in the feed is ever given out again, not even that of a purged commit."""
    if pos > (state.counters.get(LAST_FEED) or 0):
        state.counters.place(LAST_FEED, pos)


def _whole(table: str, number: int, key: tuple[Any, ...]) -> tuple[Any, ...]:
    return (number, *key) if table in BY_NUMBER else tuple(key)
