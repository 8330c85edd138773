"""From a change set to its one line: which rows, and in which journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from ledgerstone.commands import Command
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.commands.sessions import PurgeSession
from ledgerstone.commands.transfer import Chunk, ImportRows
from ledgerstone.commands.usage import DeleteUsage
from ledgerstone.commands.work import TakeWork
from ledgerstone.engines.file.codec import Keys, put_of
from ledgerstone.engines.file.homes import (
    NOBODY,
    Home,
    Numbers,
    budgets_of,
    home_of,
    number_of,
    rows_of,
)
from ledgerstone.engines.file.journal import Journal
from ledgerstone.engines.file.lines import STORE, VERSION, Line, Part, time_text
from ledgerstone.engines.file.recovery import Loaded
from ledgerstone.engines.memory.rows import Change, LastNumbers
from ledgerstone.rules import transfer
from ledgerstone.tables.graph import TURNS
from ledgerstone.tables.sessions import HEADS, PURGED, SESSIONS
from ledgerstone.tables.usage import BUDGETS
from ledgerstone.tables.work import READY

ERASING = (VacuumSession, DeleteUsage)
"""What they take away must leave the disk too."""
_OWNED = ("turns", "attachments", "artifacts", "evidence")
"""Tables of a tenant whose rows begin with what decides about their journal."""
_OF_A_SESSION = {table.name for table in (transfer.SESSIONS, *transfer.OF_A_SESSION)}


class JournalWrite(msgspec.Struct):
    """What one command writes, and places when it is written.

    line     None when nothing of it is kept on disk, as with the sweep of a purged session
    rewrite  the line replaces all lines of its session's journal
    clean    the store's journal has rows that are erased, and is written anew
    gone     the session that was purged: its rows go together with the writing of the line
    given    the numbers that are given out then
    """

    changes: list[Change]
    line: Line | None = None
    rewrite: bool = False
    clean: bool = False
    gone: tuple[str, str] | None = None
    given: LastNumbers = LastNumbers(0, {})


def journal_write(
    books: Loaded, command: Command[Any], now_us: int, changes: list[Change]
) -> JournalWrite:
    """The line of a change set, before it is placed."""
    parts = _by_home(books, _written(books, command, changes))
    for home in parts:
        if home.number in books.faults:
            raise books.faults[home.number].error()
    purged = _purged_number(changes)
    if purged or isinstance(command, PurgeSession):
        return _purge(books, command, now_us, changes, parts, purged)
    if not parts:
        return JournalWrite(changes)
    number = _journal_of(books, command, parts)
    line = _line(books, command, now_us, number, parts)
    if not isinstance(command, ERASING):
        return JournalWrite(changes, line)
    erased = number or number_of(books.rows, command.tenant, command.session)
    clean = is_mentioned(books, erased, command.tenant, command.session)
    if number:
        return JournalWrite(changes, as_base(books, line, changes), rewrite=True, clean=clean)
    return JournalWrite(changes, msgspec.structs.replace(line, erases=erased), clean=clean)


def _journal_of(books: Loaded, command: Command[Any], parts: dict[Home, list[Change]]) -> int:
    """Whose journal the line goes to: of the one session it concerns, if besides budgets moved."""
    numbers = {home.number for home in parts if home.number}
    others = [change for home in parts if not home.number for change in parts[home]]
    if len(numbers) != 1 or (others and isinstance(command, ERASING)):
        return STORE
    number = numbers.pop()
    own = (NOBODY, Home(0, _name_of(books, number, parts)))
    moved = all(change.table is BUDGETS and change.row is not None for change in others)
    return number if moved and all(home.number or home in own for home in parts) else STORE


def as_base(books: Loaded, line: Line, changes: Iterable[Change] = ()) -> Line:
    """The line with all rows of its session, for the place of all lines before it.

    Those have said what was left of budgets, so it is said again.
    """
    rows = rows_of(books.rows, line.number, line.tenant, line.session)
    for table, key, row in changes:
        rows[table, key] = row
    found = put_of((table, row) for (table, _), row in rows.items() if row is not None)
    left = budgets_of(books.rows, line.tenant, line.session)
    parts = tuple(
        Part(number=home.number, session=home.session, put=put_of((BUDGETS, row) for row in of))
        for home, of in left.items()
    )
    fields = {"v": VERSION, "base": True, "skips": line.n - 1, "prev": "", "sum": ""}
    return msgspec.structs.replace(line, **fields, put=found, gone={}, parts=parts)


def is_mentioned(books: Loaded, number: int, tenant: str, session: str) -> bool:
    """Whether the store's journal tells of a session."""
    return any((tenant, home) in books.mentions for home in homes_of(number, session))


def homes_of(number: int, session: str) -> tuple[Home, ...]:
    """Where rows of a session belong, if it has a number and if not."""
    return (Home(number), Home(0, session)) if number else (Home(0, session),)


def _written(
    books: Loaded, command: Command[Any], changes: Sequence[Change]
) -> Iterable[tuple[Change, Any]]:
    """The changes that are written, each with a row that says whose it is.

    Not those of a purged session, whose journal is gone already; and of a look for work only what
    concerns a session that was taken, or lost a dead batch: others that it came across only got
    their place in the line, and whoever looks next does it again.
    """
    found = []
    for change in changes:
        row = change.row
        if row is None:
            row = books.rows.tables[change.table][change.key]
        swept = change.table.owner is not None and row.number in books.dropped
        if change.table is not PURGED and not swept:
            found.append((change, row))
    if isinstance(command, TakeWork):
        taken = {row.number for change, row in found if change.table is not READY}
        found = [one for one in found if one[1].number in taken]
    return found


def _by_home(books: Loaded, written: Iterable[tuple[Change, Any]]) -> dict[Home, list[Change]]:
    found: dict[Home, list[Change]] = {}
    written = list(written)
    numbers = Numbers(books.rows, (change for change, _ in written))
    for change, row in written:
        found.setdefault(home_of(change.table, row, numbers), []).append(change)
    return found


def _purged_number(changes: Iterable[Change]) -> int:
    """The session that a purge took away, if this was one."""
    return next((key[0] for table, key, row in changes if table is HEADS and row is None), 0)


def _purge(
    books: Loaded,
    command: Command[Any],
    now_us: int,
    changes: list[Change],
    parts: dict[Home, list[Change]],
    number: int,
) -> JournalWrite:
    """A line in the store's journal; what it tells of the session goes, and the session's own."""
    session = getattr(command, "id", "")
    clean = is_mentioned(books, number, command.tenant, session)
    rest = {home: of for home, of in parts.items() if home not in homes_of(number, session)}
    if not number and not rest and not clean:
        return JournalWrite(changes)
    said: dict[str, Any] = {"feed": books.rows.given.serials.get(TURNS, 0)}
    if number:
        # Its journal has said what was left of budgets.
        moved = rest.setdefault(NOBODY, [])
        known = {change.key for change in moved if change.table is BUDGETS}
        for row in budgets_of(books.rows, command.tenant, session).get(NOBODY, ()):
            if BUDGETS.key_of(row) not in known:
                moved.append(Change(BUDGETS, BUDGETS.key_of(row), row))
        journal = books.journals.get(number)
        said.update(session=session, drops=((number, journal.n if journal else 0),))
    line = msgspec.structs.replace(_line(books, command, now_us, STORE, rest), **said)
    return JournalWrite(changes, line, clean=clean, gone=(command.tenant, session))


def _line(
    books: Loaded,
    command: Command[Any],
    now_us: int,
    number: int,
    parts: dict[Home, list[Change]],
) -> Line:
    journal = books.journals.get(number) or Journal(number)
    said: dict[str, Any] = {}
    others = []
    for home, changes in parts.items():
        if home == Home(number):
            said = _rows(changes)
        else:
            others.append(Part(number=home.number, session=home.session, **_rows(changes)))
    return Line(
        pos=books.pos + 1,
        n=journal.n + 1,
        at=time_text(now_us),
        do=type(command).__name__,
        v=VERSION if journal.n == 0 else 0,
        tenant=command.tenant,
        session=_name_of(books, number, parts),
        number=number,
        after=(books.last, *sorted(books.claims.items())) if books.pos else (),
        parts=tuple(others),
        prev=journal.sum,
        **said,
    )


def _name_of(books: Loaded, number: int, parts: dict[Home, list[Change]]) -> str:
    """The session that a journal is of."""
    if number == STORE:
        return ""
    row = books.rows.tables[SESSIONS].get((number,))
    if row is None:
        row = next(row for table, _, row in parts[Home(number)] if table is SESSIONS)
    return str(row.id)


def _rows(changes: Iterable[Change]) -> dict[str, Any]:
    gone: Keys = {}
    for table, key, row in changes:
        if row is None:
            gone.setdefault(table.name, []).append(key)
    put = put_of((table, row) for table, _, row in changes if row is not None)
    return {"put": put, "gone": gone}


def split_import(command: ImportRows) -> Iterator[ImportRows]:
    """The same rows in the same order, those of one journal at a time: a line is of one."""
    chunks = (piece for chunk in command.chunks if chunk.rows for piece in transfer.by_owner(chunk))
    for _, group in groupby(chunks, key=_owner):
        yield ImportRows(tenant=command.tenant, chunks=tuple(group))


def _owner(chunk: Chunk) -> tuple[str, Any]:
    """Chunks of one owner may stand in one line: those of a session, or of the store."""
    if chunk.table in _OF_A_SESSION:
        return "session", chunk.rows[0][0]
    return (chunk.table, chunk.rows[0][0]) if chunk.table in _OWNED else ("store", None)
