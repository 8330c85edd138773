"""The context of a path: its newest compaction, what came since, and how it begins."""

from __future__ import annotations

from ledgerstone.commands.context import FindCompaction, ReadContext
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.messages import messages_of
from ledgerstone.handlers.nodes import (
    Stretch,
    end_of,
    is_live_message,
    node_by_id,
    read_path,
    row_of,
    stretches,
    tip_of,
)
from ledgerstone.handlers.registry import handles
from ledgerstone.records.context import CompactionPoint, ContextRows
from ledgerstone.records.messages import Message
from ledgerstone.tables.graph import NODES_COMPACTIONS, NodeRow
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx

SYSTEM_CHUNK = 8
"""A path begins with one or two system messages, if any."""


class _Path:
    """One path of a session: its straight stretches, newest first."""

    def __init__(self, tx: Tx, head: Head, session: str, parts: list[Stretch]) -> None:
        self.tx, self.head, self.session, self.parts = tx, head, session, parts

    async def read(
        self, *, after_seq: int = 0, before_seq: int | None = None, first: int | None = None
    ) -> list[Message]:
        """Its live messages by position, oldest first."""
        rows = await read_path(
            self.tx, self.head, self.parts, after_seq=after_seq, before_seq=before_seq, first=first
        )
        return await messages_of(self.tx, self.head, self.session, rows)

    async def newest_request(self, below: int) -> NodeRow | None:
        """The newest live compaction request on it before an ord."""
        for part in self.parts:
            last = min(part.last, below - 1)
            row = await newest_compaction(self.tx, self.head.number, part.first, last)
            if row is not None:
                return row
        return None

    def has(self, ord: int) -> bool:
        """Whether the node at an ord is on it."""
        return any(part.first <= ord <= part.last for part in self.parts)


@handles(ReadContext)
async def read_context(tx: Tx, query: ReadContext) -> ContextRows:
    head = await find_head(tx, query.tenant, query.session)
    leaf = 0 if head is None else await end_of(tx, head, query.branch, query.at)
    if head is None or leaf == 0:
        return ContextRows()
    path = _Path(tx, head, query.session, await stretches(tx, head, leaf))
    found = await _summarised(path)
    if found is None:
        return ContextRows(tail=await path.read())
    request, summary = found
    first = await _tail_seq(path, request)
    return ContextRows(
        system=await _leading(path, first),
        request=request,
        summary=summary,
        tail=await path.read(after_seq=first - 1),
    )


@handles(FindCompaction)
async def find_compaction(tx: Tx, query: FindCompaction) -> CompactionPoint | None:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return None
    if query.branch is None:
        path, on_path = _Path(tx, head, query.session, [Stretch(1, head.ord, 1)]), True
    else:
        tip = await tip_of(tx, head, query.branch)
        if tip is None:
            return None
        path, on_path = _Path(tx, head, query.session, await stretches(tx, head, tip[0])), True
        if query.tail_start is not None:
            tail = await node_by_id(tx, head.number, query.tail_start)
            live = tail is not None and tail.deleted_us is None and tail.role is not None
            on_path = live and tail is not None and path.has(tail.ord)
    row = await path.newest_request(head.ord + 1)
    if row is None:
        return CompactionPoint(on_path=on_path)
    (newest,) = await messages_of(tx, head, query.session, [row_of(row)])
    return CompactionPoint(newest=newest, on_path=on_path)


async def newest_compaction(tx: Tx, number: int, first: int, last: int) -> NodeRow | None:
    """The newest live compaction request from one ord to another."""
    while first <= last:
        rows = await tx.scan(
            NODES_COMPACTIONS, number, after=(first - 1,), before=(last + 1,), limit=1,
            reverse=True,
        )  # fmt: skip
        if not rows:
            return None
        if is_live_message(row_of(rows[0])):
            return rows[0]
        last = rows[0].ord - 1
    return None


async def _summarised(path: _Path) -> tuple[Message, Message] | None:
    """The newest request that is followed by its summary, with it."""
    below = path.head.ord + 1
    while row := await path.newest_request(below):
        below = row.ord
        pair = await path.read(after_seq=row.seq - 1, first=2)
        if len(pair) == 2 and pair[1].body.is_summary:
            return pair[0], pair[1]
    return None


async def _tail_seq(path: _Path, request: Message) -> int:
    """Where the tail starts; a start that is not on the path before the request is none."""
    meta = request.body.compaction
    start = None if meta is None else meta.tail_start_id
    if start is None:
        return request.seq
    row = await node_by_id(path.tx, path.head.number, start)
    if row is None or not path.has(row.ord) or row.seq > request.seq:
        return request.seq
    return row.seq


async def _leading(path: _Path, before_seq: int) -> list[Message]:
    """The system messages that a path begins with, before a position."""
    found: list[Message] = []
    after = 0
    while True:
        chunk = await path.read(after_seq=after, before_seq=before_seq, first=SYSTEM_CHUNK)
        for message in chunk:
            if message.role != "system":
                return found
            found.append(message)
            after = message.seq
        if len(chunk) < SYSTEM_CHUNK:
            return found
