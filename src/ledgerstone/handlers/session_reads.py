"""What is read of sessions: one of them, and lists of them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ledgerstone.codec import encode_json
from ledgerstone.commands import sessions as commands
from ledgerstone.commands.sessions import SessionFilter
from ledgerstone.handlers.heads import descendants, find_head, find_session, number_of
from ledgerstone.handlers.nodes import id_at, node_at
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.sessions import named_branches, session_of
from ledgerstone.records import sessions as records
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Page, Picker, Session
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import read_body, read_json, read_object
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.matching import contains
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.tables.sessions import (
    DOCUMENTS,
    HEADS,
    SESSIONS_BY_CREATION,
    SESSIONS_BY_ID,
    SESSIONS_BY_PARENT,
    SESSIONS_BY_RECENCY,
    SESSIONS_BY_USER,
    Head,
    SessionRow,
)
from ledgerstone.tables.transaction import Tx

_COLUMNS = {"updated": "recency", "created": "created_us", "id": "id"}
_INDEXES = {
    "recency": SESSIONS_BY_RECENCY,
    "created_us": SESSIONS_BY_CREATION,
    "id": SESSIONS_BY_ID,
}
_TOP = "\U0010ffff" * 256  # Ids are shorter.
_PIECE_ROWS = 200
_SPARE_ROWS = 8
"""A piece may lose its last rows again, so a little more is read than is asked for."""


@handles(commands.GetSession)
async def get_session(tx: Tx, query: commands.GetSession) -> Session | None:
    found = await find_session(tx, query.tenant, query.id)
    return None if found is None else session_of(*found)


@handles(commands.GetHead)
async def get_head(tx: Tx, query: commands.GetHead) -> records.Head | None:
    head = await find_head(tx, query.tenant, query.id)
    if head is None or head.revision == 0:
        return None
    names = ((head.number, "config"), (head.number, "frames"))
    config, frames = await tx.get_many(DOCUMENTS, names)
    framed = read_object(None if frames is None else frames.body, "documents", query.id, "frames")
    return records.Head(
        session=query.id,
        revision=head.revision,
        incarnation=head.incarnation,
        leaf=await id_at(tx, head.number, head.leaf),
        effective_leaf=await id_at(tx, head.number, head.tip),
        seq=head.tip_seq,
        messages=head.messages,
        user_messages=head.users,
        nodes=head.live,
        fence=head.fence,
        lease=head.lease(query.id) if is_live(head, tx.now_us) else None,
        branches=await named_branches(tx, head) if head.named else [],
        ledger=ledger.visible(head.ledger, query.id),
        config=None if config is None else read_json(config.body, "documents", query.id, "config"),
        frames=framed.get("frames", []),
        current_frame=framed.get("current", ""),
        checkpoint=head.checkpoint,
        link=head.link.hex(),
        updated_us=head.updated_us,
    )


@handles(commands.GetPicker)
async def get_picker(tx: Tx, query: commands.GetPicker) -> Picker | None:
    found = await find_session(tx, query.tenant, query.id)
    if found is None:
        return None
    session, head = session_of(*found), found[1]
    node = await node_at(tx, head.number, head.first_user) if head.first_user else None
    first = None
    if node is not None and node.body is not None:
        first = Message(body=read_body(node.body, node.id)).text
    return Picker(query.id, session.cwd, session.parent, session.cause, first, head.users)


@handles(commands.GetDocument)
async def get_document(tx: Tx, query: commands.GetDocument) -> bytes | None:
    number = await number_of(tx, query.tenant, query.session)
    document = None if number is None else await tx.get(DOCUMENTS, number, query.name)
    return None if document is None else document.body


@handles(commands.GetDocuments)
async def get_documents(tx: Tx, query: commands.GetDocuments) -> dict[str, bytes]:
    """The same of several sessions, in the order in which they were named."""
    rows = [await tx.find(SESSIONS_BY_ID, query.tenant, id) for id in query.sessions]
    ids = {row.number: row.id for row in rows if row is not None}
    documents = await tx.get_many(DOCUMENTS, [(number, query.name) for number in ids])
    return {ids[one.number]: one.body for one in documents if one is not None}


class _Found(NamedTuple):
    row: SessionRow
    head: Head


@handles(commands.ListSessions)
async def list_sessions(tx: Tx, query: commands.ListSessions) -> Page[Session]:
    search = _Search(tx, query.tenant, query.where, query.order, query.after)
    enough = query.offset + query.limit + 1
    found: list[_Found] = []
    size = enough + _SPARE_ROWS
    while len(found) < enough and not search.ended:
        found += await search.with_heads(await search.rows(size))
        size = max(size, _PIECE_ROWS)
    found = found[query.offset : enough]
    items = [session_of(row, head) for row, head in found[: query.limit]]
    total = await _count(tx, query.tenant, query.where) if query.total else None
    return Page(items, len(found) > query.limit, None, total)


@handles(commands.CountSessions)
async def count_sessions(tx: Tx, query: commands.CountSessions) -> int:
    return await _count(tx, query.tenant, query.where)


async def _count(tx: Tx, tenant: str, where: SessionFilter) -> int:
    bounded = where.created_after_us is not None or where.created_before_us is not None
    search = _Search(tx, tenant, where, "created" if bounded else "id", None)
    rows_tell = where.deleted and where.metadata_contains is None
    count = 0
    while not search.ended:
        rows = await search.rows(_PIECE_ROWS)
        count += len(rows if rows_tell else await search.with_heads(rows))
    return count


class _Search:
    """The sessions that fit a filter and come after a key, piece by piece in one order.

    Most pieces are a part of an index whose column after the prefix is the order, roughly: rows of
    one recency or one time of creation are a bucket, put in exact order here, so every piece has
    whole buckets. Where no index has the order, the rows of a user, a parent, a family or an id's
    beginning are one piece.
    """

    def __init__(
        self,
        tx: Tx,
        tenant: str,
        where: SessionFilter,
        order: str,
        after: tuple[int, str] | None,
    ) -> None:
        self.tx, self.where = tx, where
        self.reverse = order.startswith("-")
        self.column = _COLUMNS[order.removeprefix("-")]
        self.index = _INDEXES[self.column]
        self.prefix: tuple[str, ...] = (tenant,)
        if where.id_prefix is not None:
            self.index = SESSIONS_BY_ID
        elif where.user is not None:
            self.index, self.prefix = SESSIONS_BY_USER, (tenant, where.user)
        elif where.parent is not None:
            self.index, self.prefix = SESSIONS_BY_PARENT, (tenant, where.parent)
        self.low, self.high = self._bounds(after)
        self.edge = None if after is None else self._key(*after)
        self.fragment = _fragment(where.metadata_contains)
        self.ended = False

    def _bounds(self, after: tuple[int, str] | None) -> tuple[Any, Any]:
        """Between which values of the column the list lies; it includes neither."""
        low: Any = None
        high: Any = None
        if self.column == "id" and self.where.id_prefix is not None:
            low, high = _around(self.where.id_prefix)
        if self.column == "created_us":
            first, high = self.where.created_after_us, self.where.created_before_us
            low = None if first is None else first - 1
        if after is None:
            return low, high
        if self.column == "id":
            return (low, after[1]) if self.reverse else (after[1], high)
        # The page before may have ended inside of a bucket.
        bucket = after[0] >> RECENCY_SHIFT if self.column == "recency" else after[0]
        if self.reverse:
            return low, bucket + 1 if high is None else min(high, bucket + 1)
        return bucket - 1 if low is None else max(low, bucket - 1), high

    def _key(self, value: int, id: str) -> tuple[int, str]:
        """Ids go up where a list by time goes down."""
        if self.column == "id":
            return 0, id
        return -value if self.reverse else value, id

    def _key_of(self, found: _Found) -> tuple[int, str]:
        row, head = found
        return self._key(head.updated_us if self.column == "recency" else row.created_us, row.id)

    async def rows(self, size: int) -> list[SessionRow]:
        """The next rows that may fit as far as they tell; sets `ended` when there are no more."""
        return [row for row in await self._piece(size) if self._may_fit(row)]

    async def _piece(self, size: int) -> list[SessionRow]:
        if self.where.under is not None:
            self.ended = True
            return await descendants(self.tx, self.prefix[0], self.where.under)
        if self.index.columns[len(self.prefix)] != self.column:
            self.ended = True
            return await self._only_piece()
        rows = await self.tx.scan(
            self.index,
            *self.prefix,
            after=None if self.low is None else (self.low,),
            before=None if self.high is None else (self.high,),
            limit=size,
            reverse=self.reverse,
        )
        if len(rows) < size:
            self.ended = True
            return rows
        if self.column != "id":
            last = getattr(rows[-1], self.column)
            whole = [row for row in rows if getattr(row, self.column) != last]
            rows = whole or await self.tx.scan(self.index, *self.prefix, last)
        edge = getattr(rows[-1], self.column)
        if self.reverse:
            self.high = edge
        else:
            self.low = edge
        return rows

    async def _only_piece(self) -> list[SessionRow]:
        if self.where.id_prefix is None:
            return await self.tx.scan(self.index, *self.prefix)
        low, high = _around(self.where.id_prefix)
        return await self.tx.scan(self.index, *self.prefix, after=(low,), before=(high,))

    def _may_fit(self, row: SessionRow) -> bool:
        where = self.where
        for wanted, actual in (
            (where.user, row.user),
            (where.app, row.app),
            (where.status, row.status),
            (where.parent, row.parent),
            (where.metadata_equals, b"null" if row.metadata is None else row.metadata),
        ):
            if wanted is not None and wanted != actual:
                return False
        if where.root and row.parent is not None:
            return False
        if where.id_prefix is not None and not row.id.startswith(where.id_prefix):
            return False
        if where.created_after_us is not None and row.created_us < where.created_after_us:
            return False
        if where.created_before_us is not None and row.created_us >= where.created_before_us:
            return False
        return self.fragment is None or self.fragment in (row.metadata or b"")

    async def with_heads(self, rows: list[SessionRow]) -> list[_Found]:
        """Those rows that are in the list, in its order."""
        found = []
        heads = await self.tx.get_many(HEADS, [(row.number,) for row in rows])
        for row, head in zip(rows, heads, strict=True):
            # Without a head it is damaged, and nobody could look at it; verify names it.
            if head is not None and self._fits(row, head):
                found.append(_Found(row, head))
        return sorted(found, key=self._key_of, reverse=self._ids_go_down)

    @property
    def _ids_go_down(self) -> bool:
        return self.reverse and self.column == "id"

    def _fits(self, row: SessionRow, head: Head) -> bool:
        if head.deleted_us is not None and not self.where.deleted:
            return False
        if self.edge is not None:
            key = self._key_of(_Found(row, head))
            if key >= self.edge if self._ids_go_down else key <= self.edge:
                return False
        wanted = self.where.metadata_contains
        return wanted is None or contains(session_of(row, head).metadata, wanted)


def _around(prefix: str) -> tuple[str, str]:
    """Texts below and above all ids with this beginning, as ids are sorted."""
    last = prefix[-1]
    before = "\ud7ff" if last == "\ue000" else chr(ord(last) - 1)  # No surrogates.
    return prefix[:-1] + before + _TOP, prefix + _TOP


def _fragment(wanted: dict[str, Any] | None) -> bytes | None:
    """Bytes that the metadata of every fitting row contain; most others need not be decoded."""
    for key, value in (wanted or {}).items():
        if not isinstance(value, dict):
            return encode_json({key: value}, "filter")[1:-1]
    return None
