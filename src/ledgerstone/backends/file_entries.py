"""Planning a command: run it on the tables, take it back, and say what has to be written.

The tables change only after the line is on disk. So a command that fails leaves no trace, and
readers never wait for a disk nor see what a crash could still undo.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ledgerstone.backends.file_changes import (
    DERIVED,
    dropped_number,
    homes,
    in_memory_only,
    kept_runs,
    rows_fields,
    rows_of,
)
from ledgerstone.backends.file_journal import Journal
from ledgerstone.backends.file_lines import STORE, VERSION, Line, encode_line, time_text
from ledgerstone.backends.file_recovery import Loaded
from ledgerstone.backends.file_replay import LAST_FEED
from ledgerstone.backends.file_shared import LOOSE, loose_of, named_by, store_rows
from ledgerstone.commands import Command
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.commands.sessions import PurgeSession, SweepPurged
from ledgerstone.commands.usage import DeleteUsage
from ledgerstone.commands.work import TakeWork
from ledgerstone.model.state import Change
from ledgerstone.model.tables import ABSENT


class Entry(msgspec.Struct):
    """What one command writes: a line for the end of a journal, or in place of all its lines.

    `data` is empty when nothing of it is kept on disk, as with the sweep of a purged session.
    """

    changes: list[Change]
    data: bytes = b""
    line: Line | None = None
    sum: str = ""
    rewrite: bool = False


ERASING = (VacuumSession, DeleteUsage)
"""What they take away must leave the disk too."""


def entry_of(
    books: Loaded, command: Command[Any], now_us: int, changes: list[Change]
) -> Entry | None:
    """The entry of a command that has just run on `books.state`, before it is taken back.

    None when there is nothing to do.
    """
    number = dropped_number(changes)
    if number is not None:
        return _drop(books, command, now_us, changes, number)
    if isinstance(command, PurgeSession) and _told(books, command):
        # Nothing but loose rows, now or once: the store's journal is written anew without them.
        return _without(books, command, now_us, changes, {"tenant": command.tenant})
    if not changes:
        return None
    if isinstance(command, SweepPurged):
        return Entry(changes)  # The journals of these rows went with the purge.
    rows = _kept(changes) if isinstance(command, TakeWork) else changes
    if in_memory_only(rows):
        return Entry(changes)
    return _line(books, command, now_us, changes, rows)


def _line(
    books: Loaded, command: Command[Any], now_us: int, changes: list[Change], rows: list[Change]
) -> Entry:
    """A line of the one journal that the command concerns."""
    state = books.state
    places = homes(state, rows)
    if len(places) != 1 or places & books.dropped.keys():
        raise RuntimeError(f"{type(command).__name__} changes the journals {sorted(places)}")
    number = places.pop()
    said: dict[str, Any] = {"tenant": command.tenant}
    if number != STORE:
        said.update(number=number, session=state.session_ids[(number,)])
    if isinstance(command, ERASING):
        # All the lines before this one go.
        base = rows_of(state, command.tenant, command.session, number)
        return _entry(books, command, now_us, changes, base, {**said, "base": True})
    return _entry(books, command, now_us, changes, rows, said)


def _kept(changes: list[Change]) -> list[Change]:
    """What is written of a look for work: the session that was taken, or lost a dead batch.

    Others that it came across were only put where they belong in the line: held ones behind the
    end of their lease, deleted ones out of it. Whoever looks next does it again.
    """
    others = ("ready", *DERIVED)
    taken = {key[0] for table, key, *_ in changes if table not in others}
    return [one for one in changes if one.table != "ready" or one.key[0] in taken]


def _drop(
    books: Loaded, command: Command[Any], now_us: int, changes: list[Change], number: int
) -> Entry:
    """A purge: a line in the store's journal, and the session's own journal goes."""
    state = books.state
    session = next(key[1] for table, key, *_ in changes if table == "sessions")
    said: dict[str, Any] = {
        "tenant": command.tenant,
        "session": session,
        "drop": (number, books.journals[number].n),
        "feed": state.counters.get(LAST_FEED) or 0,
    }
    kept = list(kept_runs(state, changes, command.tenant))
    removed = {(table, key) for table, key, _, after in changes if after is ABSENT}
    if removed & books.mentions or named_by(command.tenant, session) & books.mentions:
        return _without(books, command, now_us, changes, said, kept)
    stubs = [change for change in changes if change.table == "stubs"]
    return _entry(books, command, now_us, changes, [*stubs, *kept], said)


def _told(books: Loaded, command: PurgeSession) -> bool:
    """Whether the store's journal has bytes of an id that has no session."""
    known = (command.tenant, command.id) in books.state.sessions
    return not known and not books.mentions.isdisjoint(named_by(command.tenant, command.id))


def _without(
    books: Loaded,
    command: Command[Any],
    now_us: int,
    changes: list[Change],
    said: dict[str, Any],
    more: Iterable[Change] = (),
) -> Entry:
    """The store's journal written anew: what is in it and still there."""
    _check_known(books)
    rows = [*store_rows(books.state, books.mentions), *more]
    feed = books.state.counters.get(LAST_FEED) or 0
    said = {**said, "base": True, "drops": tuple(books.dropped.items()), "feed": feed}
    return _entry(books, command, now_us, changes, rows, said)


def _check_known(books: Loaded) -> None:
    """Corrupt when a damaged journal may have newer rows than those that would be written anew:
    from then on they would win over it, even when it is restored."""
    if not books.faults:
        return
    damaged = {whose for name in books.names.values() for whose in loose_of(*name)}
    nameless = len(books.names) < len(books.faults)
    for mention in books.mentions:
        loose = nameless and mention[0] in LOOSE
        if loose or mention in damaged or mention[0] == "runs":
            raise next(iter(books.faults.values())).error()


def _entry(
    books: Loaded,
    command: Command[Any],
    now_us: int,
    changes: list[Change],
    rows: Iterable[Change],
    said: dict[str, Any],
) -> Entry:
    rewrite = bool(said.get("base"))
    number = said.get("number", STORE)
    journal = books.journals.get(number) or Journal(number)
    line = Line(
        pos=books.pos + 1,
        n=journal.n + 1,
        at=time_text(now_us),
        do=type(command).__name__,
        v=VERSION if rewrite or journal.n == 0 else 0,
        after=(books.last, *sorted(books.claims.items())) if books.pos else (),
        prev=journal.sum,
        **said,
        **rows_fields(rows),
    )
    data, found = encode_line(line)
    return Entry(changes, data, line, found, rewrite)
