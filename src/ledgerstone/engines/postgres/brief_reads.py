"""Reads in one round trip: one statement is a snapshot by itself.

A handler runs over what one statement brought, or over the one statement it asks for. As soon as
it asks for anything else, nothing is lost: the caller starts over, in a transaction.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter
from typing import Any, TypeVar

import msgspec

from ledgerstone.commands import Query
from ledgerstone.commands.embeddings import ListSpaces
from ledgerstone.commands.leases import GetLease
from ledgerstone.commands.nodes import CountMessages, ReadMessages
from ledgerstone.commands.runs import GetRun
from ledgerstone.commands.sessions import GetDocument, GetDocuments, GetSession, ListSessions
from ledgerstone.engines.postgres.rows import Asking, PostgresRows, ask
from ledgerstone.handlers.messages import COLUMNS
from ledgerstone.tables.graph import NODES
from ledgerstone.tables.runs import RUNS
from ledgerstone.tables.sessions import HEADS, SESSIONS_BY_ID, Head, SessionRow
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import Range

R = TypeVar("R", bound=msgspec.Struct)
Row = tuple[Any, ...]

TAIL_MAX = 200
WHOLE_MAX = 500
"""Of longer ones the round trips do not matter, and rows of several kinds cost more than one."""
_SINGLE = frozenset(
    (
        *(GetDocument, GetDocuments, GetLease, GetRun, GetSession),
        *(CountMessages, ListSessions, ListSpaces),
    )
)
_OUTLINE = 7
_ID, _BODY = COLUMNS.index("id"), COLUMNS.index("body")


class AskedForMore(Exception):
    """One statement was not enough."""


def may_be_brief(query: Query[Any]) -> bool:
    """Whether it is worth trying."""
    if type(query) is not ReadMessages:
        return type(query) in _SINGLE
    return (
        (query.last is None or query.last <= TAIL_MAX)
        and query.first is None
        and query.branch == "main"
        and query.at is None
        and not query.deleted
        and not query.after_seq
    )


async def brief_rows(asking: Asking, query: Query[Any]) -> PostgresRows:
    """The rows that a query may be answered over; they raise AskedForMore for others."""
    if type(query) is not ReadMessages:
        return PostgresRows(Once(asking), query.tenant)
    key, wanted = (query.tenant, query.session), query.last
    if wanted is None:
        return _whole(asking, key, await ask(asking, "read_whole", *key, WHOLE_MAX))
    return _tail(asking, key, await ask(asking, "read_tail", *key, wanted + 1))


class Once:
    """One statement, and no second one."""

    def __init__(self, asking: Asking) -> None:
        self._asking: Asking | None = asking

    async def fetch(self, text: str, arguments: Sequence[Any]) -> list[Row]:
        asking, self._asking = self._asking, None
        if asking is None:
            raise AskedForMore
        return await asking.fetch(text, arguments)


def _tail(asking: Asking, key: Key, rows: list[Row]) -> PostgresRows:
    """The last messages of a session that never branched, and one more: most often the parent.

    The columns of `read_tail`: the outline, those of a message, and the id of its run.
    """
    outline = rows[0][:_OUTLINE] if rows else None
    messages = [row[_OUTLINE:-1] for row in rows if row[_OUTLINE] is not None]
    run = _OUTLINE + COLUMNS.index("run")
    return _Path(asking, key, outline, messages, {row[run]: row[-1] for row in rows})


def _whole(asking: Asking, key: Key, rows: list[Row]) -> PostgresRows:
    """All messages of a short session that never branched; the rows of `read_whole`."""
    outline, names = None, dict[int, str]()
    messages = [row for row in rows if row[_BODY] is not None]
    for row in rows:
        if row[_BODY] is None and row[_ID] is None:
            outline = (*row[:6], row[-1])
        elif row[_BODY] is None:
            names[row[0]] = row[_ID]
    if outline is not None and (outline[5] or outline[2] > WHOLE_MAX):
        raise AskedForMore
    return _Path(asking, key, outline, messages, names)


class _Path(PostgresRows):
    """Messages of main with all that their records need, and nothing else."""

    def __init__(
        self,
        asking: Asking,
        key: Key,
        outline: Row | None,
        messages: list[Row],
        names: dict[int, str],
    ) -> None:
        super().__init__(asking, key[0])
        self._session = None
        self._messages = sorted(messages, key=itemgetter(0))
        self._names = names
        if outline is not None:
            number, leaf, tip, tip_seq, branched, amended, runs = outline
            if branched:
                raise AskedForMore
            self._session = _session(number, key)
            self._straight = (0,), (tip + 1,)
            self.seen[HEADS] = {
                (number,): Head(
                    number, leaf=leaf, tip=tip, tip_seq=tip_seq, amended=amended, runs=runs
                )
            }

    async def find(self, index: Index[R], key: Key) -> R | None:
        if index is not SESSIONS_BY_ID:
            raise AskedForMore
        return self._session  # type: ignore[return-value]

    async def load(self, table: Table[R], key: Key) -> R | None:
        if table is not HEADS:
            raise AskedForMore
        return await super().load(table, key)

    async def load_many(self, table: Table[R], keys: Sequence[Key]) -> list[R | None]:
        raise AskedForMore

    async def range(self, wanted: Range[Any]) -> list[Any]:
        index, columns, bounds = wanted.index, wanted.columns, (wanted.after, wanted.before)
        if index is NODES.primary and columns == COLUMNS and bounds == self._straight:
            rows = self._messages[::-1] if wanted.reverse else self._messages
            return rows[: wanted.limit]
        if wanted.after is None or wanted.before is None:
            raise AskedForMore
        ords = range(wanted.after[0] + 1, wanted.before[0])
        if index is RUNS.primary and columns == ("n", "id"):
            return [(n, id) for n, id in self._names.items() if n in ords]
        if index is not NODES.primary or columns != ("ord", "id"):
            raise AskedForMore
        found = [(row[0], row[_ID]) for row in self._messages if row[0] in ords]
        if len(found) < len(ords):
            # Nodes that are hidden, or no messages. The id at a place never changes: it may be
            # asked for later.
            found = await super().range(wanted)
            if len(found) < len(ords):
                raise AskedForMore
        return found


def _session(number: int, key: Key) -> SessionRow:
    """What is known of a session whose messages are read."""
    nothing = (None,) * (len(SessionRow.__struct_fields__) - 3)
    return SessionRow(number, *key, *nothing)
