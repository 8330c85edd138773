"""Verify, for journals: read the files again, and compare them with the rows in memory."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ledgerstone.engines.file.folder import Folder
from ledgerstone.engines.file.homes import Home, Rows, rows_of, shared_rows
from ledgerstone.engines.file.journal import Journal, journal_path, scan
from ledgerstone.engines.file.journal_writes import homes_of, is_mentioned
from ledgerstone.engines.file.lines import STORE, Line, changed
from ledgerstone.engines.file.recovery import Loaded
from ledgerstone.engines.file.replay import Replay
from ledgerstone.engines.memory.rows import MemoryRows
from ledgerstone.errors import SchemaTooNew
from ledgerstone.records.reports import Defect
from ledgerstone.tables.work import READY

KIND = "journal"
OTHER_ROWS = "its lines make other rows than those in memory"


class StoreLines:
    """The lines of the store's journal by the sessions they tell of: read again when it changed."""

    def __init__(self, folder: Folder, books: Loaded) -> None:
        self._folder = folder
        self._books = books
        self._seen: object = None
        self._found: dict[tuple[str, Home], list[Line]] = {}
        self._defects: list[Defect] = []

    def of(self, number: int, tenant: str, session: str) -> tuple[list[Line], list[Defect]]:
        """Of each line that tells of the session, what it says of it; or what is wrong with it."""
        journal = self._books.journals[STORE]
        seen = (journal.sum, self._folder.stamp(STORE))
        if seen != self._seen:
            self._found.clear()
            lines, self._defects = _read(self._folder, journal, "")
            for line in lines:
                for part in line.parts:
                    own = changed(line, put=None, gone={}, parts=(part,))
                    self._found.setdefault((line.tenant, part.home), []).append(own)
            self._seen = seen
        homes = homes_of(number, session)
        found = [line for home in homes for line in self._found.get((tenant, home), ())]
        return found, [replace(defect, session=session) for defect in self._defects]


def check_session(
    folder: Folder, books: Loaded, store: StoreLines, number: int, tenant: str, session: str
) -> list[Defect]:
    """What does not hold between the files of a session and its rows; nobody writes meanwhile."""
    lines: list[Line] = []
    journal = books.journals.get(number)
    if journal is not None:
        found, defects = _read(folder, journal, session)
        if defects:
            return defects
        lines += found
    if is_mentioned(books, number, tenant, session):
        found, defects = store.of(number, tenant, session)
        if defects:
            return defects
        lines += found
    made = rows_of(_replayed(books, lines), number, tenant, session)
    known = rows_of(books.rows, number, tenant, session)
    # A look for work brings the line up to date in memory only: see journal_writes.py.
    return [
        Defect(session, KIND, f"{journal_path(number)} {table}", OTHER_ROWS)
        for table in _differing(made, known)
        if table != READY.name
    ]


def check_store(folder: Folder, books: Loaded) -> list[Defect]:
    """The same for the journal of what belongs to no session."""
    journal = books.journals.get(STORE)
    if journal is None:
        return []
    lines, defects = _read(folder, journal, "")
    if defects:
        return defects
    made, known = (
        {(table, key): row for table, key, row in shared_rows(rows)}
        for rows in (_replayed(books, lines), books.rows)
    )
    return [
        Defect("", KIND, f"{journal_path(STORE)} {table}", OTHER_ROWS)
        for table in _differing(made, known)
    ]


def _read(folder: Folder, journal: Journal, session: str) -> tuple[list[Line], list[Defect]]:
    """The lines of a file, and what is wrong with it."""
    path = journal_path(journal.number)

    def defect(where: str, detail: str) -> tuple[list[Line], list[Defect]]:
        return [], [Defect(session, KIND, where, detail)]

    try:
        found = scan(folder.read(journal.number), Journal(journal.number))
    except (OSError, SchemaTooNew) as error:
        return defect(path, f"cannot be read: {error}")
    if found.fault is not None:
        return defect(found.fault.where, found.fault.reason)
    if (found.end.n, found.end.sum) != (journal.n, journal.sum):
        where = f"{path} line {found.end.lines}"
        return defect(where, "it ends with another line than was written last")
    return found.lines, []


def _replayed(books: Loaded, lines: Iterable[Line]) -> MemoryRows:
    """The rows that the lines make, put in the order in which they were written."""
    replay, rows = Replay(), MemoryRows()
    outdated = books.outdated()
    for line in sorted(lines, key=lambda line: line.pos):
        replay.put(line, outdated)
    replay.fill(rows, damaged=True)  # Lines of other journals are missing.
    return rows


def _differing(made: Rows, known: Rows) -> list[str]:
    """The names of the tables whose rows are not the same."""
    keys = (key for key in {*made, *known} if made.get(key) != known.get(key))
    return sorted({table.name for table, _ in keys})
