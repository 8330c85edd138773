"""Verify, for a journal: read the file again, and compare it with the tables."""

from __future__ import annotations

from collections.abc import Iterable

from ledgerstone.backends.file_changes import rows_fields, rows_of
from ledgerstone.backends.file_folder import Folder
from ledgerstone.backends.file_journal import Journal, journal_path, scan
from ledgerstone.backends.file_lines import STORE
from ledgerstone.backends.file_recovery import Loaded
from ledgerstone.backends.file_replay import put_common, put_own
from ledgerstone.backends.file_shared import loose_of, store_only
from ledgerstone.errors import SchemaTooNew
from ledgerstone.model.state import Change, State
from ledgerstone.records.reports import Defect

KIND = "journal"
OTHER_ROWS = "its lines make other rows than those in memory"


def check_journal(folder: Folder, books: Loaded, journal: Journal) -> list[Defect]:
    """What does not hold between a session's file and the tables; nobody may write meanwhile."""
    again = State()
    defects = _read(folder, journal, again)
    if defects:
        return defects
    return [
        Defect(journal.session, KIND, f"{journal_path(journal.number)} {table}", OTHER_ROWS)
        for table in _differing(again, books, journal)
    ]


def check_store(folder: Folder, books: Loaded) -> list[Defect]:
    """The same for the journal of what belongs to no session."""
    journal = books.journals.get(STORE)
    if journal is None:
        return []
    again = State()
    defects = _read(folder, journal, again)
    if defects:
        return defects
    made, known = (rows_fields(store_only(state)) for state in (again, books.state))
    return [
        Defect("", KIND, f"{journal_path(STORE)} {table}", OTHER_ROWS)
        for table in _unequal(made, known)
    ]


def _read(folder: Folder, journal: Journal, again: State) -> list[Defect]:
    """Fill the tables from the file; what is wrong with the file itself."""
    path = journal_path(journal.number)

    def defect(where: str, detail: str) -> Defect:
        return Defect(journal.session, KIND, where, detail)

    try:
        found = scan(folder.read(journal.number), Journal(journal.number))
    except (OSError, SchemaTooNew) as error:
        return [defect(path, f"cannot be read: {error}")]
    if found.fault is not None:
        return [defect(found.fault.where, found.fault.reason)]
    if (found.end.n, found.end.sum) != (journal.n, journal.sum):
        last = found.end.line_number(found.end.n)
        return [defect(f"{path} line {last}", "it ends with another line than was written last")]
    for line in found.lines:
        put_own(again, line)
        put_common(again, line)
    return []


def _differing(again: State, books: Loaded, journal: Journal) -> list[str]:
    place = (journal.tenant, journal.session, journal.number)
    if (journal.tenant, journal.session) not in again.sessions:
        return ["row"]
    # A worker that looks for work brings the line up to date in memory only: see file_entries.py.
    # And loose rows may stand in the store's journal, written before there was a session.
    loose = loose_of(journal.tenant, journal.session)
    elsewhere = {"ready", *(table for table, whose in loose if (table, whose) in books.mentions)}

    def rows(state: State) -> Iterable[Change]:
        return (change for change in rows_of(state, *place) if change.table not in elsewhere)

    return _unequal(rows_fields(rows(again)), rows_fields(rows(books.state)))


def _unequal(made: dict[str, object], known: dict[str, object]) -> list[str]:
    return [table for table in sorted({*made, *known}) if made.get(table) != known.get(table)]
