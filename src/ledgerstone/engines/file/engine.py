"""The one writer of a store: a change set is a line, and it is on disk before the rows are placed.

When the disk refuses a line, the journal is cut back to where it was and nothing has happened. When
a flush fails, nobody knows what is on disk: the command's outcome is unknown, and no further line
is written until the store was closed and opened again.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import msgspec

from ledgerstone.clock import Clock
from ledgerstone.commands import Command
from ledgerstone.commands.sessions import PurgeSession
from ledgerstone.engines.changes import Changes
from ledgerstone.engines.file.cleaning import Cleaned, clean
from ledgerstone.engines.file.disk import append_all, from_os, let_go, mapped
from ledgerstone.engines.file.folder import SNAPSHOT, TORN_END, Folder
from ledgerstone.engines.file.journal import Journal, follow, journal_name, journal_path, scan
from ledgerstone.engines.file.journal_writes import ERASING, JournalWrite, as_base, journal_write
from ledgerstone.engines.file.lines import STORE, Line, encode_line
from ledgerstone.engines.file.recovery import Loaded
from ledgerstone.engines.file.replay import mentions_of
from ledgerstone.engines.file.snapshot import (
    CLOSED,
    Snapshot,
    encode_snapshot,
    write_closed,
)
from ledgerstone.errors import (
    Corrupt,
    InvalidValue,
    LedgerstoneError,
    OutcomeUnknown,
    Unavailable,
)
from ledgerstone.handlers.registry import HANDLERS
from ledgerstone.tables.graph import TURNS
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now


class FileEngine:
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

    def write(self, command: Command[Any]) -> Any:
        """The answer; it means that the change set is on disk."""
        with self.writing:
            if self.poison is not None:
                raise Unavailable(self.poison)
            if isinstance(command, (*ERASING, PurgeSession)):
                self._erase()  # What a disk refused the last time.
            answer, made = self._plan(command)
            if made is None or (made.line is None and not made.changes):
                return answer
            end = None if made.line is None else self._store(made, made.line)
            self._move(made, end)
            if made.line is not None:
                self._remove_bytes(command, made, made.line)
            return answer

    def _plan(self, command: Command[Any]) -> tuple[Any, JournalWrite | None]:
        """Run the handler; nothing is changed by that."""
        handler = HANDLERS[type(command)]
        rows, now_us = self.books.rows, self._clock.now_us()
        before = rows.given
        tx = Tx(rows, now_us)
        try:
            answer = run_now(handler(tx, command))
            with self.tables:
                changes = [
                    one
                    for one in rows.changes(tx)
                    if rows.tables[one.table].get(one.key) != one.row
                ]
                given, rows.given = rows.given, before  # Readers see no place before its row.
        except BaseException:
            rows.given = before
            raise
        if not changes and not isinstance(command, PurgeSession):
            return answer, None
        try:
            made = journal_write(self.books, command, now_us, changes)
        except UnicodeEncodeError as error:
            raise _unreadable(error) from None
        made.given = given
        return answer, made

    def _move(self, made: JournalWrite, end: Journal | None) -> None:
        """The line is on disk: now rows and books follow it, all the way or never again."""
        with self.tables:
            try:
                self.books.rows.place(made.changes)
                self.books.rows.given = made.given
                if made.line is not None and end is not None:
                    self._enter(made, made.line, end)
            except BaseException as error:
                self._break(error)
                raise OutcomeUnknown("the command is on disk, but not in memory") from error
        self.changes.tell()

    def _enter(self, made: JournalWrite, line: Line, end: Journal) -> None:
        books = self.books
        books.fresh_lines += 1
        books.fresh_bytes += max(end.size - self._size(line.number), 0)
        books.journals[line.number] = end
        books.pos, books.last = line.pos, (line.number, line.n)
        books.mentions.update(mentions_of(line))
        for number, n in line.drops:
            books.dropped[number] = n
            books.journals.pop(number, None)
            self._to_remove.add(number)
            self._unflushed.discard(number)
        books.unclean |= made.clean and made.gone is None
        if line.erases:
            books.to_erase.add(line.erases)

    def _size(self, number: int) -> int:
        journal = self.books.journals.get(number)
        return 0 if journal is None else journal.size

    def _break(self, error: BaseException) -> None:
        """The tables cannot be trusted any more; nothing is read from them again."""
        self.broken = f"the tables in memory are incomplete ({error!r}); open the store again"
        self.poison = self.broken

    # --- to the disk

    def _store(self, made: JournalWrite, line: Line) -> Journal:
        """Write the line; when this returns it is on disk. Where its journal ends then."""
        journal = self.books.journals.get(line.number) or Journal(line.number)
        if made.rewrite or made.clean or line.drops:
            self._remove_snapshot()
        if made.clean and made.gone is not None:
            return self._clean_store(made, line)
        try:
            data, found = encode_line(line)
        except UnicodeEncodeError as error:
            raise _unreadable(error) from None
        if made.rewrite:
            self._rewrite(journal.number, [data])
            end = Journal(line.number)
        else:
            self._append(journal, data)
            end = msgspec.structs.replace(journal)
        follow(end, line, found, len(data))
        return end

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

    def _rewrite(self, number: int, data: Sequence[bytes]) -> None:
        folder = self.folder.folder_of(number)
        path = f"{self.folder.path}/{journal_path(number)}"
        disk, name = self.folder.disk, journal_name(number)
        try:
            temp = self.folder.prepare(folder, name, data)
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

    def _remove_bytes(self, command: Command[Any], made: JournalWrite, line: Line) -> None:
        """After bytes are gone by right: take away what still holds them."""
        if made.rewrite or made.clean or line.drops:
            self.remove_dropped()
            name = journal_name(line.number) + TORN_END
            self.folder.remove(self.folder.folder_of(line.number), name, quiet=True)
        if isinstance(command, ERASING):
            self._erase()

    def finish_erasing(self) -> None:
        """What a crash interrupted; when a disk refuses it, it is tried again later."""
        with self.writing:
            try:
                self._erase()
            except LedgerstoneError:
                return

    def _erase(self) -> None:
        """Write journals anew that have rows which must leave the disk."""
        books = self.books
        if not books.unclean and not books.to_erase:
            return
        books.unclean = True  # Until the end, whatever fails before it.
        self._remove_snapshot()
        for number in sorted(books.to_erase):
            if number in books.journals:
                self._replace_by_base(books.journals[number])
        books.to_erase &= books.faults.keys()  # A damaged journal waits until it is restored.
        books.journals[STORE] = self._clean_store()
        books.unclean = False

    def _replace_by_base(self, journal: Journal) -> None:
        """All rows of a session, in the place of its last line."""
        found = self._scanned(journal)
        base = as_base(self.books, found[-1])
        data, journal_sum = encode_line(base)
        self._rewrite(journal.number, [data])
        torn = journal_name(journal.number) + TORN_END
        self.folder.remove(self.folder.sessions, torn, quiet=True)
        end = self.books.journals[journal.number] = Journal(journal.number)
        follow(end, base, journal_sum, len(data))

    def _clean_store(self, made: JournalWrite | None = None, line: Line | None = None) -> Journal:
        """Write the store's journal without what counts no more, and with one line more."""
        books = self.books
        outdated = books.outdated()
        lines = self._scanned(books.journals[STORE])
        gone = None
        if made is not None and line is not None:
            gone = made.gone
            outdated = outdated._replace(dropped={**books.dropped, **dict(line.drops)})
            lines.append(line)
        feed = books.rows.given.serials.get(TURNS, 0)
        found: Cleaned = clean(lines, outdated, gone, feed, books.to_erase)
        self._rewrite(STORE, found.data)
        self.folder.remove(self.folder.root, journal_name(STORE) + TORN_END, quiet=True)
        last = found.lines[-1]
        books.mentions.clear()
        for left in found.lines:
            books.mentions.update(mentions_of(left))
        return Journal(
            STORE, lines=len(found.lines), n=last.n, pos=last.pos, size=found.size, sum=found.sum
        )

    def _scanned(self, journal: Journal) -> list[Line]:
        """The lines of a journal, read again; Corrupt when they are not what was written."""
        path = f"{self.folder.path}/{journal_path(journal.number)}"
        with mapped(path):
            data = self.folder.read(journal.number)[: journal.size]
        found = scan(data, Journal(journal.number))
        if found.fault is not None:
            raise found.fault.error()
        if (found.end.n, found.end.sum) != (journal.n, journal.sum):
            raise Corrupt("journal", path, "end", "it ends with another line than was written last")
        return found.lines

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
        if self.books.unclean or self.books.to_erase:
            found.append("rows that were erased could not be removed from their journals yet")
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
            if books.unclean or books.to_erase:
                return False  # It would hide that rows have to be removed.
            given = books.rows.given
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
                    number=given.number,
                    serials={table.name: key for table, key in given.serials.items()},
                )
                # Nobody moves the tables while `writing` is held, and readers do no harm.
                data = encode_snapshot(books.rows, head)
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


def _unreadable(error: UnicodeEncodeError) -> InvalidValue:
    return InvalidValue("text", f"lone surrogates are only allowed in bodies: {error}")
