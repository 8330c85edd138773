"""Reads in one round trip: one statement is a snapshot by itself.

A handler runs over what one statement brought, or over the one statement it asks for. As soon as
it asks for anything else, nothing is lost: the caller starts over, in a transaction.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable
from operator import itemgetter
from typing import Any

from ledgerstone.backends.postgres_port import PgConnection
from ledgerstone.backends.postgres_tx import PgTx
from ledgerstone.commands import Query
from ledgerstone.commands.embeddings import ListSpaces
from ledgerstone.commands.leases import GetLease
from ledgerstone.commands.nodes import CountMessages, ReadMessages
from ledgerstone.commands.runs import GetRun
from ledgerstone.commands.sessions import GetDocument, GetDocuments, GetSession, ListSessions
from ledgerstone.sql.handlers import READS
from ledgerstone.sql.tx import Row, Tx

TAIL_MAX = 200
WHOLE_MAX = 500
"""Of longer ones the round trips do not matter, and rows of several kinds cost more than one."""
_SINGLE = frozenset(
    (
        *(GetDocument, GetDocuments, GetLease, GetRun, GetSession),
        *(CountMessages, ListSessions, ListSpaces),
    )
)


class AskedForMore(Exception):
    """One statement was not enough."""


async def read_briefly(
    connection: PgConnection, query: Query[Any], now_us: int, ends_s: float
) -> Any:
    """The answer to one query in one round trip; AskedForMore when it takes another one."""
    tx = PgTx(connection, ends_s)
    tx.now_us = now_us
    if type(query) is ReadMessages:
        if query.last is None:
            return await _run(_Whole(await _whole(tx, query), tx), query)
        return await _run(_Tail(await _tail(tx, query), tx, query), query)
    return await _run(_Single(tx), query)


def may_be_brief(query: Query[Any]) -> bool:
    """Whether it is worth trying."""
    if type(query) is ReadMessages:
        return (
            (query.last is None or query.last <= TAIL_MAX)
            and query.first is None
            and query.branch == "main"
            and query.at is None
            and not query.deleted
            and not query.after_seq
        )
    return type(query) in _SINGLE


def _run(tx: Tx, query: Query[Any]) -> Coroutine[Any, Any, Any]:
    return READS[type(query)](tx, query)


async def _tail(tx: PgTx, query: ReadMessages) -> list[Row]:
    """Newest first, and one more than was asked for: most often the parent of the oldest."""
    assert query.last is not None
    rows = await tx.all("read_tail", query.tenant, query.session, query.last + 1)
    rows.sort(key=itemgetter(_OUTLINE), reverse=True)
    return rows


class _Asking:
    """A transaction that knows nothing by itself."""

    now_us = 0

    async def one(self, query: str, *arguments: Any) -> Row | None:
        raise AskedForMore(query)

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        raise AskedForMore(query)

    async def run(self, query: str, *arguments: Any) -> int:
        raise AskedForMore(query)

    async def many(self, query: str, rows: Iterable[Row]) -> int:
        raise AskedForMore(query)

    async def among(self, query: str, values: list[str], *arguments: Any) -> list[Row]:
        raise AskedForMore(query)

    async def pick(self, query: str, **given: Any) -> list[Row]:
        raise AskedForMore(query)


class _Single(_Asking):
    """One statement, and no second one."""

    def __init__(self, tx: PgTx) -> None:
        self.now_us = tx.now_us
        self._tx: PgTx | None = tx

    def _take(self) -> PgTx:
        tx, self._tx = self._tx, None
        if tx is None:
            raise AskedForMore
        return tx

    async def one(self, query: str, *arguments: Any) -> Row | None:
        return await self._take().one(query, *arguments)

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        return await self._take().all(query, *arguments)

    async def among(self, query: str, values: list[str], *arguments: Any) -> list[Row]:
        return await self._take().among(query, values, *arguments)

    async def pick(self, query: str, **given: Any) -> list[Row]:
        return await self._take().pick(query, **given)


_OUTLINE = 7
_MESSAGE = 9
_ID = _OUTLINE + 6


class _Tail(_Asking):
    """The last messages of a session that never branched, with all that their records need.

    The columns of `read_tail`: those of find_outline, of a message, and the id of its run.
    """

    def __init__(self, rows: list[Row], tx: PgTx, query: ReadMessages) -> None:
        self.now_us = tx.now_us
        self._rows = rows
        self._tx = tx
        self._wanted = query.last

    async def one(self, query: str, *arguments: Any) -> Row | None:
        rows = self._rows
        if query == "find_outline":
            return rows[0][:_OUTLINE] if rows else None
        if query != "id_at":
            raise AskedForMore(query)
        oldest = rows[-1]
        if oldest[_OUTLINE] == arguments[0]:
            return (oldest[_ID],)
        return await _id_at(self._tx, *arguments)

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        if query != "run_names":
            raise AskedForMore(query)
        first, last = arguments
        base = self._rows[0][0] << 32
        numbers = range(first - base, last - base + 1)
        at = _OUTLINE + 4
        return list(
            {row[at]: (row[at], row[-1]) for row in self._rows if row[at] in numbers}.values()
        )

    async def pick(self, query: str, **given: Any) -> list[Row]:
        number, branched, tip = self._rows[0][0], self._rows[0][4], self._rows[0][2]
        straight = (given.get("first"), given.get("last")) == (
            (number << 32) + 1,
            (number << 32) + tip,
        )
        if query != "read_straight" or branched or not straight or not given.get("descending"):
            raise AskedForMore(query)
        end = _OUTLINE + _MESSAGE
        rows = self._rows[: self._wanted]
        return [row[_OUTLINE:end] for row in rows if row[_OUTLINE] is not None]


_BODY = _MESSAGE - 2


async def _whole(tx: PgTx, query: ReadMessages) -> list[Row]:
    return await tx.all("read_whole", query.tenant, query.session, WHOLE_MAX)


class _Whole(_Asking):
    """All messages of a short session that never branched; the rows of `read_whole`."""

    def __init__(self, rows: list[Row], tx: PgTx) -> None:
        self.now_us = tx.now_us
        self._tx = tx
        self._messages = [row for row in rows if row[_BODY] is not None]
        self._messages.sort(key=itemgetter(0))
        others = [row for row in rows if row[_BODY] is None]
        self._runs = {row[0]: row[_BODY - 1] for row in others if row[_BODY - 1] is not None}
        self._outline = [(*row[:6], row[-1]) for row in others if row[_BODY - 1] is None]

    async def one(self, query: str, *arguments: Any) -> Row | None:
        if query == "find_outline":
            return self._outline[0] if self._outline else None
        if query != "id_at":
            raise AskedForMore(query)
        return await _id_at(self._tx, *arguments)

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        if query != "run_names":
            raise AskedForMore(query)
        base = self._outline[0][0] << 32
        first, last = (key - base for key in arguments)
        return [(number, id) for number, id in self._runs.items() if first <= number <= last]

    async def pick(self, query: str, **given: Any) -> list[Row]:
        number, _, tip, _, branched, amended, _ = self._outline[0]
        bounds = (given.get("first"), given.get("last"))
        straight = bounds == ((number << 32) + 1, (number << 32) + tip)
        if query != "read_straight" or branched or amended or tip > WHOLE_MAX or not straight:
            raise AskedForMore(query)
        return self._messages


async def _id_at(tx: PgTx, key: int) -> Row:
    """Of a node that is hidden, or no message. The id at a place never changes: it may be asked
    for later."""
    found = await tx.one("id_at", key)
    if found is None:
        raise AskedForMore("id_at")
    return found
