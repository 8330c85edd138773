"""Copying a store, and the one hash that says whether two stores hold the same."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeAlias, TypeVar

from ledgerstone.api.blob_reading import AsyncBlobReader
from ledgerstone.api.blobs import upload
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import pause
from ledgerstone.commands import Command
from ledgerstone.commands.sessions import CountSessions, SessionFilter
from ledgerstone.commands.transfer import (
    PAGE_BYTES,
    PAGE_ROWS,
    Chunk,
    ExportSessions,
    ExportTable,
    ImportRows,
    IsCopyUnfinished,
    MarkCopy,
    Row,
)
from ledgerstone.errors import CopyConflict, CopyDisturbed, OutcomeUnknown, SessionNotFound
from ledgerstone.records.transfer import TenantCopied, TenantRoot
from ledgerstone.rules.transfer import (
    AFTER_SESSIONS,
    BEFORE_SESSIONS,
    BLOBS,
    OF_A_TENANT,
    SESSIONS,
    TABLES,
    TURNS,
    Table,
    Tally,
)

A = TypeVar("A")
Progress = Callable[[str, int, int], object]
"""What is being done, how many of it are done, and how many there are."""

Item: TypeAlias = tuple[str, Row]
"""A table and a row of it."""

REPEATS_MAX = 4
REPEAT_PAUSE_S = 0.1

ROWS_BESIDE = 4
"""About what a session has besides its nodes."""
_REVISION = SESSIONS.columns.index("revision")
_ORD = SESSIONS.columns.index("ord")


def silent(phase: str, done: int, total: int) -> None:
    """Report no progress."""


async def pages_of(handle: AsyncHandle, table: Table) -> AsyncIterator[list[Row]]:
    """The rows of a tenant's table, in order, a page at a time."""
    after: Row | None = None
    while True:
        query = ExportTable(tenant=handle.tenant, table=table.name, after=after)
        page = await handle.ask(query)
        if page.rows:
            yield page.rows
        if page.next is None:
            return
        after = page.next


async def chunks_of(handle: AsyncHandle, sessions: list[str]) -> AsyncIterator[list[Chunk]]:
    """The rows of the tables of some sessions, a page at a time; each table in order."""
    left = tuple(sessions)
    table: str | None = None
    after: Row | None = None
    while left:
        query = ExportSessions(tenant=handle.tenant, sessions=left, table=table, after=after)
        page = await handle.ask(query)
        if page.chunks:
            yield page.chunks
        table, after = page.table, page.next
        if table is None:
            left = left[page.covered :]


def groups_of(rows: list[Row]) -> Iterator[list[Row]]:
    """Session rows, about so many at a time that what belongs to them fits in a page."""
    group: list[Row] = []
    size = 0
    for row in rows:
        if group and size + row[_ORD] > PAGE_ROWS:
            yield group
            group, size = [], 0
        group.append(row)
        size += row[_ORD] + ROWS_BESIDE
    if group:
        yield group


async def tally_of(handle: AsyncHandle, phase: str, progress: Progress) -> Tally:
    """Everything that the tenant has, counted and hashed."""
    tally, done = Tally(), 0
    total = await _count_sessions(handle)
    for table in OF_A_TENANT:
        async for rows in pages_of(handle, table):
            tally.add(table.name, rows)
            for group in groups_of(rows) if table is SESSIONS else ():
                await _add_sessions(handle, group, tally)
                done += len(group)
                progress(phase, done, total)
    return tally


async def _add_sessions(handle: AsyncHandle, group: list[Row], *tallies: Tally) -> None:
    async for chunks in chunks_of(handle, [row[0] for row in group]):
        for chunk in chunks:
            for tally in tallies:
                tally.add(chunk.table, chunk.rows)


async def root_of_tenant(handle: AsyncHandle, progress: Progress = silent) -> TenantRoot:
    """The root of what the tenant has now; of one moment only when nobody writes."""
    return (await tally_of(handle, "hashing", progress)).root(handle.tenant)


async def _count_sessions(handle: AsyncHandle) -> int:
    everything = SessionFilter(deleted=True)
    return await handle.ask(CountSessions(tenant=handle.tenant, where=everything))


class AsyncTargetRows:
    """Rows that the target of a copy has already, in order, a page in memory at a time."""

    def __init__(self, tenant: str, pages: AsyncIterator[list[Item]]) -> None:
        self._tenant = tenant
        self._pages = pages
        self._held: list[Item] = []
        self.count = 0

    async def any(self) -> bool:
        """Whether the target has anything that was not met yet."""
        if not self._held:
            async for page in self._pages:
                self._held = page
                break
        return bool(self._held)

    async def rest(self, items: list[Item]) -> list[Item]:
        """The source's rows that the target does not have; CopyConflict when it has others."""
        while items and await self.any():
            size = min(len(items), len(self._held))
            held, self._held = self._held[:size], self._held[size:]
            if held != items[:size]:
                raise self._conflict(next(a for a, b in zip(held, items, strict=False) if a != b))
            items = items[size:]
            self.count += size
        return items

    async def end(self) -> None:
        """CopyConflict when the target has more than the source."""
        if await self.any():
            raise self._conflict(self._held[0])

    def _conflict(self, item: Item) -> CopyConflict:
        table, row = item
        return CopyConflict(table, " ".join(map(str, TABLES[table].key_of(row))), self._tenant)


class AsyncCopy:
    """One tenant on its way: `begin` for every tenant, then `run` for every tenant, then `end`.

    From `begin` to `end` the target is marked as the target of a copy that has not ended.

    What the target has already is a part of what a copy that was killed has brought, from the
    start of each table: it is met again and passed over. Anything else is a CopyConflict, found
    before the first row is written where it stands in a table of the tenant.
    """

    def __init__(self, source: AsyncHandle, target: AsyncHandle, progress: Progress) -> None:
        self._source = source
        self._target = target
        self._progress = progress
        self._tally = Tally()
        self._known: dict[str, int] = {}
        self._made: list[Row] = []
        self._waiting: list[Chunk] = []
        self._waiting_rows = 0
        self._waiting_bytes = 0
        self._written = 0
        self._blobs = 0
        self._blob_bytes = 0
        self._turns = 0
        self._marked = False

    async def begin(self) -> None:
        """Mark the target, unless it holds something else."""
        for table in OF_A_TENANT:
            self._known[table.name] = await self._compare(table)
        tenant = self._target.tenant
        if not await self._target.ask(IsCopyUnfinished(tenant=tenant)):
            await self._send(MarkCopy(tenant=tenant))
            self._marked = True

    async def end(self) -> None:
        """Remove the mark: the copy is proved, the target is as complete as its source."""
        if not await self._source.ask(IsCopyUnfinished(tenant=self._source.tenant)):
            await self._unmark()

    async def give_up(self) -> None:
        """Remove the mark of this copy if nothing was written."""
        if self._marked and not self._written and not self._blobs:
            await self._unmark()

    async def _unmark(self) -> None:
        await self._send(MarkCopy(tenant=self._target.tenant, ended=True))

    async def run(self) -> TenantCopied:
        """Everything that the tenant has, and the proof."""
        for table in BEFORE_SESSIONS:
            await self._bring_table(table)
        await self._bring_bytes()
        await self._bring_sessions()
        for table in AFTER_SESSIONS:
            await self._bring_table(table)
        await self._bring_table(TURNS, self._turns)
        # Their age comes last: bytes that nothing names yet must be young, or a collector has them.
        await self._bring_table(BLOBS)
        await self._prove()
        root = self._tally.root(self._source.tenant)
        return TenantCopied(
            tenant=root.tenant,
            root=root.root,
            rows=root.rows,
            written=self._written,
            blobs=self._blobs,
            blob_bytes=self._blob_bytes,
        )

    async def _compare(self, table: Table) -> int:
        """How many rows the target has already; CopyConflict when they are others."""
        seen = AsyncTargetRows(self._target.tenant, self._rows(self._target, table))
        if not await seen.any():
            return 0
        async for items in self._rows(self._source, table):
            if await seen.rest(items):
                break
        await seen.end()
        return seen.count

    async def _rows(self, handle: AsyncHandle, table: Table) -> AsyncIterator[list[Item]]:
        """The rows of a table, as they are compared: blobs are the same whatever their age."""
        async for rows in pages_of(handle, table):
            yield [(table.name, row[:2] if table is BLOBS else row) for row in rows]

    async def _bring_table(self, table: Table, total: int = 0) -> None:
        done = 0
        known = 0 if table is BLOBS else self._known[table.name]
        after: Row | None = None
        async for rows in pages_of(self._source, table):
            size = self._tally.add(table.name, rows)
            passed = max(0, min(len(rows), known - done))
            if passed:
                after = table.key_of(rows[passed - 1])
            if passed < len(rows):
                await self._put(Chunk(table.name, rows[passed:], after), size)
                after = table.key_of(rows[-1])
            done += len(rows)
            self._progress(table.name, done, max(done, total))
        await self._flush()

    async def _bring_sessions(self) -> None:
        total, done = await _count_sessions(self._source), 0
        async for rows in pages_of(self._source, SESSIONS):
            self._tally.add(SESSIONS.name, rows)
            known = max(0, self._known[SESSIONS.name] - done)
            for group in groups_of(rows[:known]):
                await self._meet_sessions(group)
            for group in groups_of(rows[known:]):
                await self._make_sessions(group)
                self._progress("sessions", done, total)
            self._turns += sum(row[_REVISION] for row in rows)
            done += len(rows)
            self._progress("sessions", done, max(done, total))

    async def _make_sessions(self, group: list[Row]) -> None:
        """Copy sessions that the target does not have."""
        self._made += group
        async for chunks in chunks_of(self._source, [row[0] for row in group]):
            for chunk in chunks:
                await self._put(chunk, self._tally.add(chunk.table, chunk.rows))
        await self._flush()

    async def _meet_sessions(self, group: list[Row]) -> None:
        """Sessions that the target has: as a whole if it has all of them, else row by row."""
        mine, theirs = Tally(), Tally()
        await _add_sessions(self._source, group, self._tally, mine)
        await _add_sessions(self._target, group, theirs)
        if mine.differs(theirs) is None and mine.rows == theirs.rows:
            return
        for row in group:
            await self._complete(row[0])
        await self._flush()

    async def _complete(self, session: str) -> None:
        """Copy what the target lacks of a session."""
        seen = AsyncTargetRows(self._target.tenant, self._items(session))
        async for chunks in chunks_of(self._source, [session]):
            for chunk in chunks:
                left = chunk
                if TABLES[chunk.table].rooted:
                    left = await self._unseen(seen, chunk)
                if left.rows:
                    await self._put(left, 0)
        await seen.end()

    async def _items(self, session: str) -> AsyncIterator[list[Item]]:
        """What the target has of a session, as it is compared."""
        async for chunks in chunks_of(self._target, [session]):
            for chunk in chunks:
                if TABLES[chunk.table].rooted:
                    yield [(chunk.table, row) for row in chunk.rows]

    async def _unseen(self, seen: AsyncTargetRows, chunk: Chunk) -> Chunk:
        """The rest of a chunk, of which the target has the beginning."""
        left = await seen.rest([(chunk.table, row) for row in chunk.rows])
        passed = len(chunk.rows) - len(left)
        if not passed:
            return chunk
        after = TABLES[chunk.table].key_of(chunk.rows[passed - 1])
        return Chunk(chunk.table, chunk.rows[passed:], after)

    async def _bring_bytes(self) -> None:
        """The bytes of blobs, one piece in memory at a time."""
        done = 0
        async for rows in pages_of(self._source, BLOBS):
            for ref, size_bytes, media_type, *_ in rows:
                done += 1
                if done <= self._known[BLOBS.name]:
                    continue
                async with AsyncBlobReader(self._source, ref) as reader:
                    await upload(
                        self._target,
                        reader,
                        media_type=media_type,
                        size_bytes=size_bytes,
                        expected=ref,
                    )
                self._blobs += 1
                self._blob_bytes += size_bytes
                self._progress("bytes", done, done)

    async def _put(self, chunk: Chunk, size: int) -> None:
        """Queue a chunk; chunks are written together, a page at a time."""
        self._waiting.append(chunk)
        self._waiting_rows += len(chunk.rows)
        self._waiting_bytes += size
        if self._waiting_rows >= 2 * PAGE_ROWS or self._waiting_bytes >= PAGE_BYTES:
            await self._flush()

    async def _flush(self) -> None:
        """Sessions first, then what belongs to them."""
        chunks = self._waiting
        if self._made:
            chunks = [Chunk(SESSIONS.name, self._made), *chunks]
        if chunks:
            command = ImportRows(tenant=self._target.tenant, chunks=tuple(chunks))
            try:
                self._written += await self._send(command)
            except SessionNotFound:
                # It came after the sessions were read.
                raise CopyDisturbed(self._source.tenant, SESSIONS.name) from None
        self._made, self._waiting, self._waiting_rows, self._waiting_bytes = [], [], 0, 0

    async def _send(self, command: Command[A]) -> A:
        """The same rows again change nothing, so an answer that was lost is asked for again."""
        for attempt in range(1, REPEATS_MAX):
            try:
                return await self._target.write(command)
            except OutcomeUnknown:
                await pause(REPEAT_PAUSE_S * attempt)
        return await self._target.write(command)

    async def _prove(self) -> None:
        """The source is what was read, and the target is what the source is."""
        again = await tally_of(self._source, "checking the source", self._progress)
        moved = again.differs(self._tally)
        if moved is not None:
            raise CopyDisturbed(self._source.tenant, moved)
        found = await tally_of(self._target, "checking the target", self._progress)
        differs = found.differs(self._tally)
        if differs is not None:
            raise CopyConflict(differs, "", self._target.tenant)
