"""Verify, for a session in a journal: read the file again, and compare it with the tables."""

from __future__ import annotations

from ledgerstone.backends.file_changes import rows_fields, rows_of
from ledgerstone.backends.file_folder import Folder
from ledgerstone.backends.file_journal import Journal, journal_path, scan
from ledgerstone.backends.file_replay import put_own, put_shared
from ledgerstone.errors import SchemaTooNew
from ledgerstone.model.state import State
from ledgerstone.records.reports import Defect

KIND = "journal"
_ELSEWHERE = ("attachments", "ready")
"""Attachments may stand in the store's journal alone: written before there was a session. And a
worker that looks for work brings the line up to date in memory only: see file_entries.py."""


def check_journal(folder: Folder, state: State, journal: Journal) -> list[Defect]:
    """What does not hold between the file and the tables; nobody may write meanwhile."""
    path = journal_path(journal.number)

    def defect(where: str, detail: str) -> Defect:
        return Defect(journal.session, KIND, where, detail)

    try:
        found = scan(folder.read(journal.number), Journal(journal.number))
    except (OSError, SchemaTooNew) as error:
        return [defect(path, f"can not be read: {error}")]
    if found.fault is not None:
        return [defect(found.fault.where, found.fault.reason)]
    if (found.end.n, found.end.sum) != (journal.n, journal.sum):
        last = found.end.line_number(found.end.n)
        return [defect(f"{path} line {last}", "it ends with another line than was written last")]
    again = State()
    for line in found.lines:
        put_own(again, line)
        put_shared(again, line)
    return [
        defect(f"{path} {table}", "its lines make other rows than those in memory")
        for table in _differing(again, state, journal)
    ]


def _differing(again: State, state: State, journal: Journal) -> list[str]:
    place = (journal.tenant, journal.session, journal.number)
    if (journal.tenant, journal.session) not in again.sessions:
        return ["row"]
    made, known = (
        rows_fields(change for change in rows_of(one, *place) if change.table not in _ELSEWHERE)
        for one in (again, state)
    )
    return [table for table in sorted({*made, *known}) if made.get(table) != known.get(table)]
