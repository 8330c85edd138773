"""Opening: read the journals, find out what a crash or damage did to them, and put it in order.

Commands are strictly one after the other, so a crash can leave one unfinished line in the whole
store, at the end of one journal. It is cut off, and kept beside the journal. Everything else that
does not hold is damage. It is never skipped: a damaged session says so wherever it is asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ledgerstone.engines.file.disk import append_all, let_go, opened
from ledgerstone.engines.file.folder import SNAPSHOT, TORN_END, Folder
from ledgerstone.engines.file.homes import Home
from ledgerstone.engines.file.journal import (
    Fault,
    Journal,
    Scan,
    journal_name,
    journal_path,
    scan,
)
from ledgerstone.engines.file.lines import STORE, TAIL_BYTES, Line, sum_in
from ledgerstone.engines.file.replay import Outdated, Replay, mentions_of
from ledgerstone.engines.file.snapshot import (
    BadSnapshot,
    Closed,
    Snapshot,
    decode_head,
    load_rows,
    read_closed,
    read_snapshot,
)
from ledgerstone.engines.memory.rows import MemoryRows
from ledgerstone.errors import Corrupt
from ledgerstone.tables.graph import TURNS


class Loaded(msgspec.Struct):
    """A store as it was found.

    dropped   the journals that purges removed, and how many lines each had
    mentions  the tenant and home of what the store's journal says of sessions
    unclean   whether the store's journal has rows that must leave the disk; `to_erase` the sessions
              whose own journals do
    faults    what is damaged, by number; `claims` how many lines such a journal must have had
    names     the tenant and id of damaged journals, where anything told it
    vouched   whether it was closed on purpose, or nothing was written since
    fresh     lines and bytes that no snapshot holds
    """

    rows: MemoryRows
    journals: dict[int, Journal]
    pos: int = 0
    last: tuple[int, int] = (STORE, 0)
    dropped: dict[int, int] = msgspec.field(default_factory=dict)
    mentions: set[tuple[str, Home]] = msgspec.field(default_factory=set)
    unclean: bool = False
    to_erase: set[int] = msgspec.field(default_factory=set)
    faults: dict[int, Fault] = msgspec.field(default_factory=dict)
    claims: dict[int, int] = msgspec.field(default_factory=dict)
    names: dict[int, tuple[str, str]] = msgspec.field(default_factory=dict)
    warnings: list[str] = msgspec.field(default_factory=list)
    vouched: bool = False
    fresh_lines: int = 0
    fresh_bytes: int = 0
    snapshot_bytes: int = 0

    def outdated(self) -> Outdated:
        """What rows in the store's journal count no more."""
        bases = {each.number: each.base for each in self.journals.values() if each.base}
        named = {
            (each.tenant, each.session): each.base for each in self.journals.values() if each.base
        }
        return Outdated(self.dropped, bases, named)


class _Outdated(Exception):
    """The snapshot does not fit the journals."""


def load(folder: Folder, *, flush: bool) -> Loaded:
    """Everything in the directory, and with `flush` all of it on disk.

    Corrupt when what all sessions share is damaged.
    """
    found = _load(folder)
    if flush and not found.vouched:
        # Whoever had it before did not close it. What we read may be in a cache only, and what he
        # took back may still be on disk.
        disk = folder.disk
        for number in found.journals:
            with opened(disk, folder.folder_of(number), journal_name(number)) as file:
                disk.sync(file)
        disk.sync_folder(folder.sessions)
        disk.sync_folder(folder.root)
    return found


def _load(folder: Folder) -> Loaded:
    warnings: list[str] = []
    closed = read_closed(folder, warnings)
    snapshot, body = _snapshot(folder, warnings)
    if snapshot is not None:
        try:
            return _Loading(folder, snapshot, closed, warnings).from_snapshot(body)
        except (_Outdated, BadSnapshot) as error:
            warnings.append(f"{SNAPSHOT} was not used: {error}")
    store = scan(folder.read(STORE) if STORE in folder.journals() else b"", Journal(STORE))
    if snapshot is not None and any(_removes(line) > snapshot.pos for line in store.lines):
        # A purge came after it and could not remove it: its bytes must go.
        folder.remove(folder.root, SNAPSHOT)
        snapshot = None
        warnings.pop()
    return _Loading(folder, snapshot, closed, warnings).from_journals(store)


def _removes(line: Line) -> int:
    """The position of a line after which no older snapshot may be there; 0 for any other line."""
    return line.pos if line.drops else 0


def _snapshot(folder: Folder, warnings: list[str]) -> tuple[Snapshot | None, bytes]:
    try:
        body = read_snapshot(folder)
        return (None, b"") if body is None else (decode_head(body), body)
    except BadSnapshot as error:
        warnings.append(f"{SNAPSHOT} was not used: {error}")
        return None, b""


class _Loading:
    """One attempt to read everything, with the snapshot or without it."""

    def __init__(
        self,
        folder: Folder,
        snapshot: Snapshot | None,
        closed: Closed | None,
        warnings: list[str],
    ) -> None:
        self.folder = folder
        self.snapshot = snapshot
        self.closed = closed
        self.found = Loaded(MemoryRows(), {}, warnings=list(warnings))
        self.replay = Replay()
        self.scans: dict[int, Scan] = {}
        self.claims: dict[int, int] = {}
        self.names: dict[int, tuple[str, str]] = {}

    def from_snapshot(self, body: bytes) -> Loaded:
        if self.snapshot is None:
            raise _Outdated("there is none")
        starts = {journal.number: journal for journal in self.snapshot.journals}
        start = starts.pop(STORE, Journal(STORE))
        self._check_start(start)
        there = STORE in self.folder.journals()
        store = scan(self.folder.read(STORE, start.size) if there else b"", start)
        if any(map(_removes, store.lines)):
            raise _Outdated("a purge came after it")
        load_rows(body, self.replay, self.snapshot)
        self.found.snapshot_bytes = len(body)
        self.found.dropped = dict(self.snapshot.dropped)
        self.found.mentions = set(self.snapshot.mentions)
        self._read_store(store)
        self._read_sessions(starts)
        return self._finish()

    def from_journals(self, store: Scan) -> Loaded:
        self._read_store(store)
        self._read_sessions({})
        return self._finish()

    # --- reading

    def _read_store(self, store: Scan) -> None:
        found = self.found
        self.scans[STORE] = store
        for line in store.lines:
            found.dropped.update(line.drops)
            found.mentions.update(mentions_of(line))
            if line.erases:
                found.to_erase.add(line.erases)
        found.to_erase.difference_update(found.dropped)
        found.fresh_lines += len(store.lines)
        self._note(store)

    def _read_sessions(self, starts: dict[int, Journal]) -> None:
        numbers = [number for number in self.folder.journals() if number != STORE]
        lost = set(starts) - set(numbers) - set(self.found.dropped)
        if lost:
            raise _Outdated(f"{journal_path(min(lost))} is missing")
        for number in numbers:
            if number in self.found.dropped:
                self._finish_purge(number)
                continue
            start = starts.get(number) or Journal(number)
            self._check_start(start)
            data = self.folder.read(number, start.size)
            found = scan(data, start)
            self.scans[number] = found
            self.found.fresh_bytes += len(data)
            self.found.fresh_lines += len(found.lines)
            self._note(found)

    def _check_start(self, start: Journal) -> None:
        """_Outdated when a journal does not go on where the snapshot left it."""
        if start.n == 0:
            return
        where = journal_path(start.number)
        try:
            before = self.folder.read(start.number, start.size - TAIL_BYTES - 1)
        except FileNotFoundError:
            raise _Outdated(f"{where} is missing") from None
        line = before[:TAIL_BYTES]
        if before[TAIL_BYTES : TAIL_BYTES + 1] != b"\n" or sum_in(line) != start.sum:
            raise _Outdated(f"{where} is shorter than it says, or another")

    def _note(self, found: Scan) -> None:
        """What the lines of a journal tell about all journals."""
        for line in (*found.lines, *found.witnesses):
            for number, n in line.after:
                self._claim(number, n)
            if line.pos > self.found.pos:
                self.found.pos, self.found.last = line.pos, (line.number, line.n)
        for line in found.witnesses:
            if line.number == found.end.number != STORE:
                self._claim(line.number, line.n)
                self.names[line.number] = (line.tenant, line.session)
        self._claim(found.end.number, found.end.n)
        if found.end.session:
            self.names[found.end.number] = (found.end.tenant, found.end.session)

    def _claim(self, number: int, n: int) -> None:
        self.claims[number] = max(n, self.claims.get(number, 0))

    def _finish_purge(self, number: int) -> None:
        """A crash came between a purge and the removal of the journal."""
        self.folder.remove(self.folder.sessions, journal_name(number))
        self.folder.remove(self.folder.sessions, journal_name(number) + TORN_END)
        self.folder.disk.sync_folder(self.folder.sessions)

    # --- judging

    def _finish(self) -> Loaded:
        found = self.found
        self._hear_witnesses()
        for number in found.dropped:
            self.claims.pop(number, None)
        self._check_count()
        torn = self._torn()
        if torn is not None:
            self._cut(torn)
        self._find_faults()
        for number, each in self.scans.items():
            if each.end.n > 0:
                found.journals[number] = each.end
        self._replay()
        return found

    def _replay(self) -> None:
        """All lines of all journals, in the order in which they were written."""
        found, replay = self.found, self.replay
        outdated = found.outdated()
        lines = sorted(_lines(self.scans.values()), key=lambda line: line.pos)
        for line in lines:
            found.unclean |= replay.put(line, outdated) and line.number == STORE
        for number in (*found.dropped, *found.faults, *found.journals):
            replay.raise_number(number)
        if found.faults:
            # Lines that cannot be read had places in the feed, one each at most.
            replay.raise_serial(TURNS, found.pos)
            self._show_damaged()
        replay.fill(found.rows, damaged=bool(found.faults))

    def _hear_witnesses(self) -> None:
        """Lines that a snapshot or a closing vouches for must be there."""
        found = self.found
        snapshot = self.snapshot
        if snapshot is not None and not (snapshot.vouches or found.snapshot_bytes):
            snapshot = None  # It does not fit, and never said that it must.
        if snapshot is not None:
            for journal in snapshot.journals:
                self._claim(journal.number, journal.n)
                if journal.session:
                    self.names.setdefault(journal.number, (journal.tenant, journal.session))
        found.vouched = self.closed is not None and self.closed.pos >= found.pos
        for witness in (snapshot, self.closed):
            if witness is not None:
                self._claim(*witness.last)
                if witness.pos > found.pos:
                    found.pos, found.last = witness.pos, witness.last

    def _check_count(self) -> None:
        """Every position stands in some journal, or stood in one that was dropped."""
        gone = sum(self.found.dropped.values())
        lacking = self.found.pos - gone - sum(self.claims.values())
        store = self.scans[STORE].fault
        if store is not None and (lacking or not store.torn):
            raise store.error()
        if lacking:
            what = f"{lacking} lines are in no journal" if lacking > 0 else "lines are there twice"
            raise Corrupt(
                "store", self.folder.path, "positions",
                f"{what}: a journal was cut short, is missing or was copied; "
                "restore the directory from a copy",
            )  # fmt: skip

    def _torn(self) -> Scan | None:
        """The journal with an unfinished last line; two of them cannot come from one crash."""
        found = [
            each
            for each in self.scans.values()
            if each.fault is not None
            and each.fault.torn
            # Whoever knows of this line has seen it whole: then it is damage.
            and self.claims[each.end.number] == each.end.n
        ]
        return found[0] if len(found) == 1 else None

    def _cut(self, torn: Scan) -> None:
        folder, number = self.folder, torn.end.number
        where, name = folder.folder_of(number), journal_name(number)
        data = folder.read(number, torn.end.size)
        _keep(folder, where, name + TORN_END, data)
        with opened(folder.disk, where, name) as file:
            folder.disk.truncate(file, torn.end.size)
            folder.disk.sync(file)
        if torn.end.n == 0:
            folder.remove(where, name)
        folder.disk.sync_folder(where)
        torn.fault = None
        self.found.warnings.append(
            f"the last line of {journal_path(number)} was unfinished: {len(data)} bytes were cut "
            f"off and kept in {name}{TORN_END}; nothing acknowledged was in them"
        )

    def _find_faults(self) -> None:
        found = self.found
        for number, n in self.claims.items():
            each = self.scans.get(number)
            if each is None:
                found.faults[number] = Fault(number, 1, "the file is missing")
            elif each.fault is not None:
                found.faults[number] = each.fault
            elif each.end.n < n:
                reason = f"{n - each.end.n} lines are missing at the end"
                found.faults[number] = Fault(number, each.end.lines + 1, reason)
            elif n == 0 and number != STORE:
                # Made by a command that never wrote to it.
                self.folder.remove(self.folder.sessions, journal_name(number))
        if STORE in found.faults:
            raise found.faults[STORE].error()
        found.claims = {number: self.claims[number] for number in found.faults}

    def _show_damaged(self) -> None:
        """A damaged session is listed, by its id alone when nothing else of it could be read."""
        for number in self.found.faults:
            self.found.journals.pop(number, None)
            name = self.names.get(number)
            if name is not None:
                self.found.names[number] = name
                self.replay.show(number, *name)


def _lines(scans: Iterable[Scan]) -> Iterable[Line]:
    for each in scans:
        yield from each.lines
        each.lines = []


def _keep(folder: Folder, where: int, name: str, data: bytes) -> None:
    """Add what is cut off to the file beside the journal."""
    if not data:
        return
    disk = folder.disk
    try:
        file = disk.create(where, name)
        disk.close_to_others(file)
    except FileExistsError:
        file = disk.open(where, name)
    try:
        append_all(disk, file, data)
        disk.sync(file)
    finally:
        let_go(disk, file)
