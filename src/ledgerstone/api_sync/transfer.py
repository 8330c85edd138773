# Generated from api/transfer.py by tools/make_sync.py: edit that, then run `make sync`.
"""Copying a store, and the one hash that says whether two stores hold the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ledgerstone.api.blob_writing_blocking import upload
from ledgerstone.api.loop_blocking import pause
from ledgerstone.api_sync.blob_reading import BlobReader
from ledgerstone.api_sync.handle import Handle
from ledgerstone.api_sync.transfer_seen import Item, Seen
from ledgerstone.commands.sessions import CountSessions, SessionFilter
from ledgerstone.commands.transfer import (
    PAGE_BYTES,
    PAGE_ROWS,
    Chunk,
    ExportSession,
    ExportTable,
    ImportRows,
    Row,
)
from ledgerstone.errors import CopyConflict, CopyDisturbed, OutcomeUnknown
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

Progress = Callable[[str, int, int], object]
"""What is being done, how many of it are done, and how many there are."""

REPEATS_MAX = 4
REPEAT_PAUSE_S = 0.1

_REVISION = SESSIONS.columns.index("revision")


def silent(phase: str, done: int, total: int) -> None:
    """Nobody wants to know."""


def pages_of(handle: Handle, table: Table) -> Iterator[list[Row]]:
    """The rows of a tenant's table, in order, a page at a time."""
    after: Row | None = None
    while True:
        query = ExportTable(tenant=handle.tenant, table=table.name, after=after)
        page = handle.ask(query)
        if page.rows:
            yield page.rows
        if page.next is None:
            return
        after = page.next


def chunks_of(handle: Handle, session: str) -> Iterator[list[Chunk]]:
    """The rows of a session's tables, in order, a page at a time."""
    table: str | None = None
    after: Row | None = None
    while True:
        query = ExportSession(tenant=handle.tenant, session=session, table=table, after=after)
        page = handle.ask(query)
        if page.chunks:
            yield page.chunks
        if page.table is None:
            return
        table, after = page.table, page.next


def tally_of(handle: Handle, phase: str, progress: Progress) -> Tally:
    """Everything that the tenant has, counted and hashed."""
    tally, done = Tally(), 0
    total = _count_sessions(handle)
    for table in OF_A_TENANT:
        for rows in pages_of(handle, table):
            tally.add(table.name, rows)
            for row in rows if table is SESSIONS else ():
                for chunks in chunks_of(handle, row[0]):
                    for chunk in chunks:
                        tally.add(chunk.table, chunk.rows)
                done += 1
                progress(phase, done, total)
    return tally


def root_of_tenant(handle: Handle, progress: Progress = silent) -> TenantRoot:
    """The root of what the tenant has now; of one moment only when nobody writes."""
    return (tally_of(handle, "hashing", progress)).root(handle.tenant)


def _count_sessions(handle: Handle) -> int:
    everything = SessionFilter(deleted=True)
    return handle.ask(CountSessions(tenant=handle.tenant, where=everything))


def copy_tenant(source: Handle, target: Handle, progress: Progress = silent) -> TenantCopied:
    """Bring everything that the tenant has in one store into another, and prove it."""
    return _Copy(source, target, progress).run()


class _Copy:
    """One tenant on its way.

    What the target has already is a part of what a copy that was killed has brought, from the
    start of each table: it is met again and passed over. Anything else is a CopyConflict, found
    before the first row is written where it stands in a table of the tenant.
    """

    def __init__(self, source: Handle, target: Handle, progress: Progress) -> None:
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

    def run(self) -> TenantCopied:
        """All of it."""
        for table in OF_A_TENANT:
            self._known[table.name] = self._compare(table)
        for table in BEFORE_SESSIONS:
            self._bring_table(table)
        self._bring_bytes()
        self._bring_sessions()
        for table in AFTER_SESSIONS:
            self._bring_table(table)
        self._bring_table(TURNS, self._turns)
        # Their age comes last: bytes that nothing names yet must be young, or a collector has them.
        self._bring_table(BLOBS)
        self._prove()
        root = self._tally.root(self._source.tenant)
        return TenantCopied(
            tenant=root.tenant,
            root=root.root,
            rows=root.rows,
            written=self._written,
            blobs=self._blobs,
            blob_bytes=self._blob_bytes,
        )

    def _compare(self, table: Table) -> int:
        """How many rows the target has already; CopyConflict when they are others."""
        seen = Seen(self._target.tenant, self._rows(self._target, table))
        if not seen.any():
            return 0
        for items in self._rows(self._source, table):
            if seen.rest(items):
                break
        seen.end()
        return seen.count

    def _rows(self, handle: Handle, table: Table) -> Iterator[list[Item]]:
        """The rows of a table, as they are compared: blobs are the same whatever their age."""
        for rows in pages_of(handle, table):
            yield [(table.name, row[:2] if table is BLOBS else row) for row in rows]

    def _bring_table(self, table: Table, total: int = 0) -> None:
        done = 0
        known = 0 if table is BLOBS else self._known[table.name]
        after: Row | None = None
        for rows in pages_of(self._source, table):
            size = self._tally.add(table.name, rows)
            passed = max(0, min(len(rows), known - done))
            if passed:
                after = table.key_of(rows[passed - 1])
            if passed < len(rows):
                self._put(Chunk(table.name, rows[passed:], after), size)
                after = table.key_of(rows[-1])
            done += len(rows)
            self._progress(table.name, done, max(done, total))
        self._flush()

    def _bring_sessions(self) -> None:
        total, done = _count_sessions(self._source), 0
        for rows in pages_of(self._source, SESSIONS):
            self._tally.add(SESSIONS.name, rows)
            for row in rows:
                known = done < self._known[SESSIONS.name]
                if not known:
                    self._made.append(row)
                    self._waiting_rows += 1
                self._bring_session(row[0], known)
                self._turns += row[_REVISION]
                done += 1
                self._progress("sessions", done, max(done, total))
        self._flush()

    def _bring_session(self, session: str, known: bool) -> None:
        seen = Seen(self._target.tenant, self._items(session)) if known else None
        for chunks in chunks_of(self._source, session):
            for chunk in chunks:
                size = self._tally.add(chunk.table, chunk.rows)
                left = chunk
                if seen is not None and TABLES[chunk.table].rooted:
                    left = self._unseen(seen, chunk)
                if left.rows:
                    self._put(left, size)
        if seen is not None:
            seen.end()

    def _items(self, session: str) -> Iterator[list[Item]]:
        """What the target has of a session, as it is compared."""
        for chunks in chunks_of(self._target, session):
            for chunk in chunks:
                if TABLES[chunk.table].rooted:
                    yield [(chunk.table, row) for row in chunk.rows]

    def _unseen(self, seen: Seen, chunk: Chunk) -> Chunk:
        """The rest of a chunk, of which the target has the beginning."""
        left = seen.rest([(chunk.table, row) for row in chunk.rows])
        passed = len(chunk.rows) - len(left)
        if not passed:
            return chunk
        after = TABLES[chunk.table].key_of(chunk.rows[passed - 1])
        return Chunk(chunk.table, chunk.rows[passed:], after)

    def _bring_bytes(self) -> None:
        """The bytes of blobs, one piece in memory at a time."""
        done = 0
        for rows in pages_of(self._source, BLOBS):
            for ref, size_bytes, media_type, *_ in rows:
                done += 1
                if done <= self._known[BLOBS.name]:
                    continue
                with BlobReader(self._source, ref) as reader:
                    upload(
                        self._target,
                        reader,
                        media_type=media_type,
                        size_bytes=size_bytes,
                        expected=ref,
                    )
                self._blobs += 1
                self._blob_bytes += size_bytes
                self._progress("bytes", done, done)

    def _put(self, chunk: Chunk, size: int) -> None:
        """Write it, together with what came before and with what comes next."""
        self._waiting.append(chunk)
        self._waiting_rows += len(chunk.rows)
        self._waiting_bytes += size
        if self._waiting_rows >= PAGE_ROWS or self._waiting_bytes >= PAGE_BYTES:
            self._flush()

    def _flush(self) -> None:
        """Sessions first, then what belongs to them."""
        chunks = self._waiting
        if self._made:
            chunks = [Chunk(SESSIONS.name, self._made), *chunks]
        if chunks:
            command = ImportRows(tenant=self._target.tenant, chunks=tuple(chunks))
            self._written += self._send(command)
        self._made, self._waiting, self._waiting_rows, self._waiting_bytes = [], [], 0, 0

    def _send(self, command: ImportRows) -> int:
        """The same rows again change nothing, so an answer that was lost is asked for again."""
        for attempt in range(1, REPEATS_MAX):
            try:
                return self._target.write(command)
            except OutcomeUnknown:
                pause(REPEAT_PAUSE_S * attempt)
        return self._target.write(command)

    def _prove(self) -> None:
        """The source is what was read, and the target is what the source is."""
        again = tally_of(self._source, "checking the source", self._progress)
        moved = again.differs(self._tally)
        if moved is not None:
            raise CopyDisturbed(self._source.tenant, moved)
        found = tally_of(self._target, "checking the target", self._progress)
        differs = found.differs(self._tally)
        if differs is not None:
            raise CopyConflict(differs, "", self._target.tenant)
