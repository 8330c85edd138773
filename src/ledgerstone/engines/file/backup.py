"""A store directory copied while it is open: every journal up to its last whole line."""

from __future__ import annotations

import msgspec

from ledgerstone.engines.file.disk import Disk, let_go, write_new
from ledgerstone.engines.file.folder import ABOUT, Folder
from ledgerstone.engines.file.journal import SESSIONS, Journal, journal_name
from ledgerstone.engines.file.lines import STORE
from ledgerstone.engines.file.recovery import Loaded
from ledgerstone.engines.file.snapshot import CLOSED, Closed
from ledgerstone.ports.backend import Progress


def copy_journals(folder: Folder, books: Loaded, target: str, progress: Progress) -> None:
    """Write a new directory and flush it; nobody may write to the store meanwhile.

    OSError, and Corrupt when a journal is damaged.
    """
    for fault in books.faults.values():
        raise fault.error()
    disk, source = Disk(), folder.disk
    disk.make_folder(target)
    root = disk.open_folder(target)
    try:
        disk.make_folder(SESSIONS, root)
        sessions = disk.open_folder(SESSIONS, root)
        try:
            journals = list(books.journals.values())
            total = sum(journal.size for journal in journals)
            done = 0
            for journal in journals:
                where = root if journal.number == STORE else sessions
                write_new(disk, where, journal_name(journal.number), [_lines(folder, journal)])
                done += journal.size
                progress(done, total)
            disk.sync_folder(sessions)
        finally:
            let_go(disk, sessions)
        if books.pos:
            closed = Closed(books.pos, books.last).signed()
            write_new(disk, root, CLOSED, [msgspec.json.encode(closed) + b"\n"])
        write_new(disk, root, ABOUT, [source.read(folder.root, ABOUT)])
        disk.sync_folder(root)
    finally:
        let_go(disk, root)


def _lines(folder: Folder, journal: Journal) -> bytes:
    # What stands behind its size is the rest of a line that was never acknowledged.
    return folder.read(journal.number)[: journal.size]
