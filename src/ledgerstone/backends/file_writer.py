"""The one writer of a store: a command is a line, and the line is on disk before the tables move.

When the disk refuses a line, the journal is cut back to where it was and nothing has happened. When
a flush fails, nobody knows what is on disk: the command's outcome is unknown, and no further line
is written until the store was closed and opened again.
"""

from __future__ import annotations

import threading
from typing import Any

from ledgerstone.backends.changes import Changes
from ledgerstone.backends.file_closed import CLOSED, write_closed
from ledgerstone.backends.file_disk import append_all, from_os, let_go
from ledgerstone.backends.file_entries import Entry, entry_of
from ledgerstone.backends.file_folder import SNAPSHOT, TORN_END, Folder
from ledgerstone.backends.file_journal import Journal, journal_name, journal_path
from ledgerstone.backends.file_lines import STORE, Line
from ledgerstone.backends.file_recovery import Loaded
from ledgerstone.backends.file_shared import mentions_of
from ledgerstone.backends.file_snapshot import Snapshot, encode_snapshot
from ledgerstone.clock import Clock
from ledgerstone.commands import Command
from ledgerstone.errors import (
    Corrupt,
    InvalidValue,
    NotSupported,
    OutcomeUnknown,
    Unavailable,
)
from ledgerstone.model.handlers import WRITES
from ledgerstone.model.state import Handler, Tx


class Writer:
    """Carries out commands, one at a time.

    `writing` is held for a whole command, its flush included; `tables` only while rows move, so
    that is the one readers take.
    """

    def __init__(self, folder: Folder, books: Loaded, clock: Clock, *, flush: bool) -> None:
        self.folder = folder
        self.books = books
        self.writing = threading.Lock()
        self.tables = threading.Lock()
        self.poison: str | None = None
        self.broken: str | None = None
        self.changes = Changes()
        self._clock = clock
        self._flush = flush
        self._unflushed: set[int] = set()
        self._to_remove: set[int] = set()

    def carry_out(
        self, command: Command[Any], handler: Handler | None = None, *, at_us: int | None = None
    ) -> Any:
        """The answer; it means that the command is on disk.

        `handler` is given for the store's own commands, `at_us` for those that happened before.
        """
        handler = handler or WRITES.get(type(command))
        if handler is None:
            raise NotSupported(type(command).__name__, "file")
        with self.writing:
            if self.poison is not None:
                raise Unavailable(self.poison)
            now_us = self._clock.now_us() if at_us is None else at_us
            answer, entry = self._plan(command, handler, now_us)
            if entry is None:
                return answer
            line = entry.line
            if line is not None:
                self._store(entry, line)
            self._move(entry)
            if line is not None and (line.drop or entry.rewrite):
                self._remove_rests(line)
            return answer

    def _plan(
        self, command: Command[Any], handler: Handler, now_us: int
    ) -> tuple[Any, Entry | None]:
        """Run the command and take it back again."""
        state = self.books.state
        with self.tables:
            state.begin()
            try:
                answer = handler(Tx(state, now_us, shared=False), command)
                changes = state.changes()
                entry = entry_of(self.books, command, now_us, changes)
            except UnicodeEncodeError as error:
                reason = f"lone surrogates are only allowed in bodies: {error}"
                raise InvalidValue("text", reason) from None
            finally:
                try:
                    state.rollback()
                except BaseException as error:
                    self._break(error)
                    raise
        return answer, entry

    def _move(self, entry: Entry) -> None:
        """The line is on disk: now books and tables follow it, all the way or never again."""
        with self.tables:
            try:
                self.books.state.apply(entry.changes)
                if entry.line is not None:
                    self._enter(entry, entry.line)
            except BaseException as error:
                self._break(error)
                raise OutcomeUnknown("the command is on disk, but not in memory") from error
        self.changes.tell()

    def _enter(self, entry: Entry, line: Line) -> None:
        books, number = self.books, line.number
        journal = books.journals.get(number) or Journal(number)
        tenant, session = ("", "") if number == STORE else (line.tenant, line.session)
        size, first = journal.size + len(entry.data), journal.first
        if entry.rewrite:
            size, first = len(entry.data), line.n
        books.journals[number] = Journal(
            number, tenant, session, first, line.n, line.pos, size, entry.sum
        )
        books.pos, books.last = line.pos, (number, line.n)
        books.fresh_lines += 1
        books.fresh_bytes += len(entry.data)
        if number == STORE:
            if entry.rewrite:
                books.mentions.clear()
            books.mentions.update(mentions_of(line))
        if line.drop is not None:
            books.dropped[line.drop[0]] = line.drop[1]
            books.journals.pop(line.drop[0], None)
            self._to_remove.add(line.drop[0])
            self._unflushed.discard(line.drop[0])

    def _break(self, error: BaseException) -> None:
        """The tables cannot be trusted any more; nothing is read from them again."""
        self.broken = f"the tables in memory are incomplete ({error!r}); open the store again"
        self.poison = self.broken

    # --- to the disk

    def _store(self, entry: Entry, line: Line) -> None:
        """Write the line; when this returns it is on disk."""
        journal = self.books.journals.get(line.number) or Journal(line.number)
        if line.drop or entry.rewrite:
            self._remove_snapshot()
        if entry.rewrite:
            self._rewrite(journal, entry.data)
        else:
            self._append(journal, entry.data)

    def _append(self, journal: Journal, data: bytes) -> None:
        disk, folder = self.folder.disk, self.folder.folder_of(journal.number)
        path = f"{self.folder.path}/{journal_path(journal.number)}"
        file = self._open(journal, folder, path)
        try:
            try:
                append_all(disk, file, data)
            except BaseException as error:
                self._take_back(file, journal, path, error)
                if isinstance(error, OSError):
                    raise from_os(error, path) from error
                raise
            if not self._flush:
                self._unflushed.add(journal.number)
                return
            try:
                disk.sync(file)
                if journal.n == 0:
                    disk.sync_folder(folder)
            except BaseException as error:
                self._cut(file, journal)  # So that it is unlikely to come back; no promise.
                self._refuse_more(path, error)
                raise OutcomeUnknown(f"{path} could not be flushed: {error}") from error
        finally:
            let_go(disk, file)

    def _open(self, journal: Journal, folder: int, path: str) -> int:
        disk, name = self.folder.disk, journal_name(journal.number)
        try:
            file = self._create(folder, name) if journal.n == 0 else disk.open(folder, name)
        except FileNotFoundError:
            raise Corrupt("journal", path, "file", "it is gone; restore it from a copy") from None
        except OSError as error:
            raise from_os(error, path) from error
        try:
            found = disk.size(file)
        except OSError as error:
            let_go(disk, file)
            raise from_os(error, path) from error
        if found != journal.size:
            let_go(disk, file)
            reason = f"{found} bytes, {journal.size} expected: somebody else changed it"
            raise Corrupt("journal", path, "size", reason)
        return file

    def _create(self, folder: int, name: str) -> int:
        disk = self.folder.disk
        try:
            file = disk.create(folder, name)
        except FileExistsError:
            return disk.open(folder, name)  # A command that failed made it and left it empty.
        try:
            disk.close_to_others(file)
        except OSError:
            let_go(disk, file)
            raise
        return file

    def _take_back(self, file: int, journal: Journal, path: str, error: BaseException) -> None:
        """Half a line must not stay; when it cannot be cut off, nothing more is written."""
        if not self._cut(file, journal):
            self._refuse_more(path, error)
            raise OutcomeUnknown(f"{path} could not be written: {error}") from error

    def _cut(self, file: int, journal: Journal) -> bool:
        """Whether the journal ends again where it did, on disk too: one rest may be there at most,
        and a crash may make one of its own."""
        try:
            self.folder.disk.truncate(file, journal.size)
            if self._flush:
                self.folder.disk.sync(file)
        except OSError:
            return False
        return True

    def _refuse_more(self, path: str, error: BaseException) -> None:
        self.poison = f"writing {path} failed ({error}); close the store and open it again"
        # Whoever opens it next flushes everything first, since nobody says that it is on disk.
        self.folder.remove(self.folder.root, CLOSED, quiet=True)

    def _rewrite(self, journal: Journal, data: bytes) -> None:
        folder = self.folder.folder_of(journal.number)
        path = f"{self.folder.path}/{journal_path(journal.number)}"
        disk, name = self.folder.disk, journal_name(journal.number)
        try:
            temp = self.folder.prepare(folder, name, [data])
        except OSError as error:
            raise from_os(error, path) from error
        try:
            disk.rename(folder, temp, name)
            disk.sync_folder(folder)
        except BaseException as error:
            self._refuse_more(path, error)
            raise OutcomeUnknown(f"{path} could not be replaced: {error}") from error

    # --- what must go

    def _remove_snapshot(self) -> None:
        """Before bytes are removed for good: a snapshot may hold them too."""
        folder = self.folder
        try:
            if folder.remove(folder.root, SNAPSHOT):
                folder.disk.sync_folder(folder.root)
        except OSError as error:
            raise from_os(error, f"{folder.path}/{SNAPSHOT}") from error
        self.books.snapshot_bytes = 0

    def _remove_rests(self, line: Line) -> None:
        """After bytes are gone by right: take away the files that still hold them."""
        self.remove_dropped()
        name = journal_name(line.number) + TORN_END
        self.folder.remove(self.folder.folder_of(line.number), name, quiet=True)

    def remove_dropped(self) -> None:
        """Unlink the journals of purged sessions; what resists is tried again later."""
        folder = self.folder
        try:
            for number in sorted(self._to_remove):
                for name in (journal_name(number), journal_name(number) + TORN_END):
                    folder.remove(folder.sessions, name)
            if self._to_remove:
                folder.disk.sync_folder(folder.sessions)
            self._to_remove.clear()
        except OSError:
            return  # It is in `warnings`, and opening the store finishes it.

    def warnings(self) -> list[str]:
        """What a person should know of the files."""
        found = [self.poison] if self.poison is not None else []
        for number in sorted(self._to_remove):
            path = journal_path(number)
            found.append(f"{path} is of a purged session and could not be removed yet")
        return found

    # --- snapshots

    def write_snapshot(self, *, closing: bool = False) -> bool:
        """Whether one was written. It is a cache, so a disk that refuses it breaks nothing."""
        with self.writing:
            books, folder = self.books, self.folder
            if self.poison is not None or books.faults or not books.pos:
                return False
            journals = [books.journals[number] for number in sorted(books.journals)]
            try:
                if closing:
                    self._flush_rest()
                head = Snapshot(
                    pos=books.pos,
                    last=books.last,
                    vouches=not self._unflushed,
                    journals=journals,
                    dropped=sorted(books.dropped.items()),
                    mentions=sorted(books.mentions),
                )
                # Nobody moves the tables while `writing` is held, and readers do no harm.
                data = encode_snapshot(books.state, head)
                folder.replace(folder.root, SNAPSHOT, data)
            except OSError:
                return False
            books.fresh_lines = books.fresh_bytes = 0
            books.snapshot_bytes = sum(map(len, data))
            return True

    def write_closed(self) -> bool:
        """Remember that the last line is whole; a disk that refuses it breaks nothing."""
        with self.writing:
            books = self.books
            if self.poison is not None or books.faults or not books.pos:
                return False
            try:
                self._flush_rest()
                write_closed(self.folder, books.pos, books.last)
            except OSError:
                return False
            return True

    def _flush_rest(self) -> None:
        """A store that is closed is on disk, whatever its durability was while it was open."""
        disk, folder = self.folder.disk, self.folder
        for number in sorted(self._unflushed & set(self.books.journals)):
            file = disk.open(folder.folder_of(number), journal_name(number))
            try:
                disk.sync(file)
            finally:
                let_go(disk, file)
        if self._unflushed:
            disk.sync_folder(folder.sessions)
            disk.sync_folder(folder.root)
        self._unflushed.clear()
