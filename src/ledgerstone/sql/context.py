"""The context of a path: its newest compaction, what came since, and how it begins."""

from __future__ import annotations

from ledgerstone.commands.context import FindCompaction, ReadContext
from ledgerstone.records.context import CompactionPoint, ContextRows
from ledgerstone.records.messages import Message
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import base_of, find_outline
from ledgerstone.sql.messages import messages_of, read_path
from ledgerstone.sql.paths import Stretch, end_of, stretches, tip_of
from ledgerstone.sql.tx import Tx

SYSTEM_CHUNK = 8
"""A path begins with one or two system messages, if any."""
ORD_MAX = (1 << 32) - 1


class _Path:
    """One path of a session."""

    def __init__(self, tx: Tx, head: HeadRow, session: str, leaf: int) -> None:
        self.tx, self.head, self.session, self.leaf = tx, head, session, leaf

    async def read(
        self, *, after_seq: int = 0, before_seq: int | None = None, first: int | None = None
    ) -> list[Message]:
        """Its live messages by position, oldest first."""
        rows = await read_path(
            self.tx, self.head, self.leaf, after_seq=after_seq, before_seq=before_seq, first=first
        )
        return await messages_of(self.tx, self.head, self.session, rows)


async def read_context(tx: Tx, query: ReadContext) -> ContextRows:
    """The tail from the newest compaction with a summary on, or everything."""
    head = await find_outline(tx, query.tenant, query.session)
    leaf = 0 if head is None else await end_of(tx, head, query.branch, query.at)
    if head is None or leaf == 0:
        return ContextRows()
    path = _Path(tx, head, query.session, leaf)
    parts = await stretches(tx, head, leaf)
    found = await _summarised(path, parts)
    if found is None:
        return ContextRows(tail=await path.read())
    request, summary = found
    first = await _tail_seq(path, parts, request)
    return ContextRows(
        system=await _leading(path, first),
        request=request,
        summary=summary,
        tail=await path.read(after_seq=first - 1),
    )


async def find_compaction(tx: Tx, query: FindCompaction) -> CompactionPoint | None:
    """The newest request of a branch or of the session, and whether a message is on the path."""
    head = await find_outline(tx, query.tenant, query.session)
    if head is None:
        return None
    parts, on_path = [Stretch(1, ORD_MAX, 1)], True
    if query.branch is not None:
        tip = await tip_of(tx, head, query.branch)
        if tip is None:
            return None
        parts = await stretches(tx, head, tip[0]) if tip[0] else []
        on_path = query.tail_start is None or await _is_live(tx, head, parts, query.tail_start)
    place = await _newest(tx, head, parts, ORD_MAX)
    if place is None:
        return CompactionPoint(on_path=on_path)
    rows = await read_path(tx, head, place[0], last=1)
    (newest,) = await messages_of(tx, head, query.session, rows)
    return CompactionPoint(newest=newest, on_path=on_path)


async def _newest(
    tx: Tx, head: HeadRow, parts: list[Stretch], below: int
) -> tuple[int, int] | None:
    """Ord and seq of the newest live request on a path, before an ord."""
    base = base_of(head)
    for part in parts:
        last = min(part.last, below - 1)
        if part.first <= last:
            row = await tx.one("newest_compaction", base + part.first, base + last)
            if row is not None:
                return row[0], row[1]
    return None


async def _summarised(path: _Path, parts: list[Stretch]) -> tuple[Message, Message] | None:
    """The newest request that is followed by its summary, with it."""
    below = ORD_MAX
    while place := await _newest(path.tx, path.head, parts, below):
        below, seq = place
        pair = await path.read(after_seq=seq - 1, first=2)
        if len(pair) == 2 and pair[1].body.is_summary:
            return pair[0], pair[1]
    return None


async def _tail_seq(path: _Path, parts: list[Stretch], request: Message) -> int:
    """Where the tail starts; a start that is not on the path before the request is none."""
    meta = request.body.compaction
    start = None if meta is None else meta.tail_start_id
    if start is None:
        return request.seq
    row = await path.tx.one("find_place", path.head.number, start)
    if row is None or not _is_on(parts, row[0]) or row[1] > request.seq:
        return request.seq
    return int(row[1])


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


async def _is_live(tx: Tx, head: HeadRow, parts: list[Stretch], id: str) -> bool:
    """Whether a live message stands on a path."""
    row = await tx.one("find_place", head.number, id)
    if row is None:
        return False
    ord, _, deleted_us, role, _ = row
    return deleted_us is None and role is not None and _is_on(parts, ord)


def _is_on(parts: list[Stretch], ord: int) -> bool:
    return any(part.first <= ord <= part.last for part in parts)
