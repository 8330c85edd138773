"""A store in a directory: rows in memory, and a readable journal per session on disk."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from ledgerstone.clock import Clock, SystemClock
from ledgerstone.commands import Command, Query
from ledgerstone.commands.blobs import PutChunk
from ledgerstone.commands.transfer import ImportRows
from ledgerstone.commands.turns import VerifySession, VerifyStore
from ledgerstone.engines.changes import WaitingForChanges
from ledgerstone.engines.file.backup import copy_journals
from ledgerstone.engines.file.damage import Damage
from ledgerstone.engines.file.disk import Disk, mapped
from ledgerstone.engines.file.engine import FileEngine
from ledgerstone.engines.file.folder import BLOBS, SNAPSHOT, TORN_END, Folder
from ledgerstone.engines.file.homes import number_of
from ledgerstone.engines.file.journal_writes import split_import
from ledgerstone.engines.file.lines import VERSION, time_text
from ledgerstone.engines.file.recovery import load
from ledgerstone.engines.file.verify import StoreLines, check_session, check_store
from ledgerstone.errors import InvalidValue, NotSupported, StoreClosed, Unavailable
from ledgerstone.handlers.registry import handler_of
from ledgerstone.handlers.tenants import list_tenants
from ledgerstone.ports.backend import Progress
from ledgerstone.records.reports import Capabilities, Defect, Health, StoreStats, Verified
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

A = TypeVar("A")

DURABILITIES = ("power", "process")
_VERIFYING = (VerifySession, VerifyStore)
SNAPSHOT_LINES = 64
"""A store that is closed writes a snapshot when so many lines are in none."""
SNAPSHOT_BYTES = 8 * 1024 * 1024
"""An open store writes one when so many bytes are in none, and as many as the last one had."""


def open_file(
    path: str,
    *,
    durability: str | None = None,
    clock: Clock | None = None,
    disk: Disk | None = None,
    snapshot_lines: int = SNAPSHOT_LINES,
    snapshot_bytes: int = SNAPSHOT_BYTES,
) -> FileBackend:
    """Open or create a store directory.

    Busy when it is open already, NotADatabase, SchemaTooNew or Corrupt when it cannot be used,
    InvalidValue when the path is none for a directory, ReadOnly, StorageFull.
    """
    level = durability or "power"
    if level not in DURABILITIES:
        raise InvalidValue("durability", f"file knows power and process, not {level!r}")
    clock = clock or SystemClock()
    path = path.rstrip("/") or "/"
    folder = Folder(path, disk or Disk(), time_text(clock.now_us()))
    try:
        with mapped(path):
            books = load(folder, flush=level == "power")
        engine = FileEngine(folder, books, clock, flush=level == "power")
        engine.finish_erasing()
    except BaseException:
        folder.close()
        raise
    return FileBackend(engine, clock, level, snapshot_lines, snapshot_bytes)


class FileBackend(WaitingForChanges):
    """A store in one directory, for one process at a time.

    Commands are carried out by a thread of its own, one after the other: no Ctrl-C ever comes
    between a line and the tables. Reads run where they are asked, and wait for no disk.
    """

    def __init__(
        self,
        engine: FileEngine,
        clock: Clock,
        durability: str,
        snapshot_lines: int,
        snapshot_bytes: int,
    ) -> None:
        self._engine = engine
        self._books = engine.books
        self._folder = engine.folder
        self._path = engine.folder.path
        self._clock = clock
        self._pid = os.getpid()
        self._damage = Damage(engine.books)
        self._store_lines = StoreLines(engine.folder, engine.books)
        self._snapshot_lines = snapshot_lines
        self._snapshot_bytes = snapshot_bytes
        self._changes = engine.changes
        self._accepting = threading.Lock()
        self._thread = ThreadPoolExecutor(1, "ledgerstone-file")
        self._last: Future[None] | None = None
        self._snapshot_asked = False
        self._opened_at = engine.books.pos
        self.cursor_key = engine.folder.cursor_key
        self._capabilities = Capabilities(
            name="file",
            durability=durability,
            multi_process=False,
            bytes_folder=os.path.join(os.path.abspath(self._path), BLOBS),
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def write(self, command: Command[A]) -> A:
        """Carry the command out; the answer means that its line is on disk."""
        job = self._accept(command)
        try:
            return job.result()  # type: ignore[no-any-return]
        except BaseException:
            # An interrupted caller's command that nobody began is not carried out later.
            job.cancel()
            raise

    async def awrite(self, command: Command[A]) -> A:
        """The same; cancelling the wait does not touch the command."""
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[A] = loop.create_future()

        def tell(job: Future[Any]) -> None:
            with suppress(RuntimeError):  # The loop is closed: nobody is left to be told.
                loop.call_soon_threadsafe(_answer, answered, job)

        self._accept(command).add_done_callback(tell)
        return await answered

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        self._check_usable()
        if any(isinstance(query, _VERIFYING) for query in queries):
            # The journal must stand still while it is compared with the tables.
            with self._engine.writing:
                return self._read(queries)
        return self._read(queries)

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        """The same in the caller's own thread: the lock it takes is never held across a flush."""
        if any(isinstance(query, _VERIFYING) for query in queries):
            return await asyncio.to_thread(self.read, queries)
        return self.read(queries)

    def tenants(self) -> list[str]:
        self._check_usable()
        with self._engine.tables:
            return run_now(list_tenants(Tx(self._books.rows, self._clock.now_us())))

    def health(self) -> Health:
        """Not ok when a journal is damaged or writing failed."""
        self._check_usable()
        self._folder.check_place()
        with self._engine.writing, self._engine.tables, mapped(self._path):
            warnings = [*self._damage.warnings, *self._engine.warnings(), *self._books.warnings]
        if self._capabilities.durability != "power":
            warnings.append("durability is 'process': a power cut may lose acknowledged turns")
        return Health(
            backend="file",
            ok=not self._damage and self._engine.poison is None,
            durability=self._capabilities.durability,
            schema=VERSION,
            warnings=warnings,
        )

    def stats(self) -> StoreStats:
        """The rows of every table, and the sizes of the files."""
        self._check_usable()
        self._folder.check_place()
        with self._engine.writing, self._engine.tables, mapped(self._path):
            tables = self._books.rows.tables
            counts = {table.name: len(rows) for table, rows in tables.items()}
            return StoreStats(counts=counts, sizes_bytes=self._sizes())

    def backup(self, target: str, progress: Progress) -> None:
        """Commits wait meanwhile: journals of several sessions make one moment only together."""
        self._check_usable()
        with self._engine.writing, mapped(target):
            copy_journals(self._folder, self._books, target, progress)

    def close(self) -> None:
        """Finish what was accepted, then let go; closing twice is fine."""
        if os.getpid() != self._pid:
            return  # The directory is the parent's; this copy let go of it when it was made.
        with self._accepting:
            if self._last is None:
                self._last = self._submit_finish()
        self._changes.close()
        if not threading.current_thread().name.startswith("ledgerstone-file"):
            # A forgotten store may be closed by the very thread that has to finish the rest.
            self._last.result()

    # --- inside

    def _submit_finish(self) -> Future[None]:
        try:
            last = self._thread.submit(self._finish)
        except RuntimeError:
            # The interpreter ends and has ended all threads, after what they had accepted.
            last = Future()
            self._finish()
            last.set_result(None)
        self._thread.shutdown(wait=False)
        return last

    def _accept(self, command: Command[Any]) -> Future[Any]:
        self._check_usable()
        if isinstance(command, PutChunk):
            raise NotSupported("blobs in the database", "file", "name a directory with blobs=")
        if handler_of(type(command)) is None:
            raise NotSupported(type(command).__name__, "file")
        with self._accepting:
            if self._last is not None:
                raise StoreClosed(f"the store {self._path} is closed")
            return self._thread.submit(self._carry_out, command)

    def _carry_out(self, command: Command[Any]) -> Any:
        if self._damage:
            with self._engine.tables:
                self._damage.check(command)
        if isinstance(command, ImportRows):
            answer: Any = sum(self._engine.write(part) for part in split_import(command))
        else:
            answer = self._engine.write(command)
        fresh, written = self._books.fresh_bytes, self._books.snapshot_bytes
        if fresh >= max(self._snapshot_bytes, written) and not self._snapshot_asked:
            with suppress(RuntimeError):  # The store is being closed, which writes one itself.
                self._thread.submit(self._snapshot)
                self._snapshot_asked = True
        return answer

    def _snapshot(self) -> None:
        """Asked for as a command of its own, so that nobody's answer waits for it."""
        self._snapshot_asked = False
        self._engine.write_snapshot()

    def _read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        with self._engine.tables:
            if self._engine.broken is not None:
                raise Unavailable(self._engine.broken)
            tx = Tx(self._books.rows, self._clock.now_us())
            answers = [self._answer(tx, query) for query in queries]
        for n, query in enumerate(queries):
            if isinstance(query, VerifySession):
                answers[n] = self._verify(query, answers[n])
            elif isinstance(query, VerifyStore) and query.whole:
                answers[n] = _with(answers[n], check_store(self._folder, self._books))
        return answers

    def _answer(self, tx: Tx, query: Query[Any]) -> Any:
        handler = handler_of(type(query))
        if handler is None:
            raise NotSupported(type(query).__name__, "file")
        if isinstance(query, VerifySession):
            damaged = self._damage.verified(query.tenant, query.session)
            if damaged is not None:
                return damaged
        self._damage.check(query)
        return run_now(handler(tx, query))

    def _verify(self, query: VerifySession, answer: Verified) -> Verified:
        """The answer of the handler, and what the file itself says."""
        number = number_of(self._books.rows, query.tenant, query.session)
        if not number or number in self._books.faults:
            return answer
        place = (number, query.tenant, query.session)
        return _with(answer, check_session(self._folder, self._books, self._store_lines, *place))

    def _sizes(self) -> dict[str, int]:
        sizes = {"journals": 0, "snapshot": 0, "torn": 0}
        folder = self._folder
        for place in (folder.root, folder.sessions):
            for name in folder.disk.names(place):
                kind = "snapshot" if name == SNAPSHOT else "journals"
                kind = "torn" if name.endswith(TORN_END) else kind
                if kind != "journals" or name.endswith(".jsonl"):
                    # What a read-only opening keeps in memory has no file.
                    with suppress(FileNotFoundError):
                        sizes[kind] += os.stat(name, dir_fd=place, follow_symlinks=False).st_size
        return sizes

    def _finish(self) -> None:
        """The last thing the thread does: nothing is accepted any more."""
        try:
            self._engine.remove_dropped()
            if self._books.fresh_lines >= self._snapshot_lines:
                self._engine.write_snapshot(closing=True)
            if self._books.pos != self._opened_at or not self._books.vouched:
                self._engine.write_closed()
        finally:
            with self._engine.writing, self._engine.tables:
                self._folder.close()

    def _check_usable(self) -> None:
        if os.getpid() != self._pid:
            raise StoreClosed("this store was opened before a fork; open it again in the child")
        if self._last is not None:
            raise StoreClosed(f"the store {self._path} is closed")


def _with(answer: Verified, found: list[Defect]) -> Verified:
    return replace(answer, defects=[*answer.defects, *found])


def _answer(answered: asyncio.Future[A], job: Future[A]) -> None:
    if answered.done():
        return  # Cancelled; the command was carried out all the same.
    error = job.exception()
    if error is None:
        answered.set_result(job.result())
    elif isinstance(error, Exception):
        answered.set_exception(error)
    else:
        interrupted = Unavailable("interrupted before the command was carried out")
        interrupted.__cause__ = error
        answered.set_exception(interrupted)
