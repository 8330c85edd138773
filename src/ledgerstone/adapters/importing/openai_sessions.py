"""Moves sessions of openai-agents' SQLiteSession files into a store.

    from ledgerstone.adapters.importing.openai_sessions import import_sessions

    print(import_sessions(store, "conversations.db"))

The file is only read. Ids follow from those of the source, so a second run adds what is new and
nothing twice: after an interruption, or when the source has grown.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.adapters.importing import openai_usage
from ledgerstone.adapters.importing.importers import Progress, Transfer, in_both_ways
from ledgerstone.adapters.importing.openai_source import CHUNK, MESSAGES, SESSIONS, Row, Source
from ledgerstone.adapters.importing.sources import json_object
from ledgerstone.adapters.openai_agents_items import kept
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session

MAIN = "main"
Way: TypeAlias = list[tuple[int, str | None]]
"""The rows of a branch, and the message that each became."""


@dataclass
class Imported:
    """What came of it: counts of sessions, branches beside main, and messages."""

    sessions: int = 0
    branches: int = 0
    messages: int = 0
    known: int = 0
    """Messages that were there from an earlier run."""
    usages: int = 0
    """Turns whose use of tokens was recorded, or has grown since an earlier run."""
    unreadable: int = 0
    """Rows that were left out, as the SDK leaves them out, and sessions whose id no store takes."""


@dataclass(frozen=True)
class OpenAITransfer(Transfer[Source, Imported]):
    """One import, and what the file does not say of its sessions."""

    app: str
    model: str


async def _import(
    store: AnyStore,
    source: str | Path,
    *,
    sessions_table: str = SESSIONS,
    messages_table: str = MESSAGES,
    only: Callable[[str], bool] | None = None,
    app: str = "",
    model: str = openai_usage.UNKNOWN,
    skip_unreadable: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Read the file and write its sessions under their ids, with the branches of an
    AdvancedSQLiteSession, and what its turns used.

    `only(session id)` chooses. `model` is whose usage that was, since the file does not say; it is
    recorded with the time of the import. Errors: NotADatabase for another file, NotSupported for a
    newer one, Corrupt for a damaged one, and unless `skip_unreadable` for a row that is no item,
    and InvalidValue for an id that a store does not take; those of `messages.append`. What was
    written before an error stays, and counts as known next time.
    """
    with closing(Source(source, sessions_table, messages_table)) as opened:
        transfer = OpenAITransfer(store, opened, skip_unreadable, Imported(), app, model)
        for session, created_us in opened.sessions():
            if (only is not None and not only(session)) or not _is_valid_id(transfer, session):
                continue
            await _session(transfer, Session(id=session, app=app, created_us=created_us))
            transfer.done.sessions += 1
            if progress is not None:
                progress(session, transfer.done.sessions)
        return transfer.done


import_sessions, aimport_sessions = in_both_ways(_import)


def check_source(source: str | Path) -> None:
    """The errors that `import_sessions` has for a source before it reads a session."""
    Source(source).close()


def _is_valid_id(transfer: OpenAITransfer, session: str) -> bool:
    """Whether a store takes such an id; InvalidValue unless it may be left out."""
    try:
        ids.check_id(session, "session_id")
    except InvalidValue:
        if not transfer.skip_unreadable:
            raise
        transfer.done.unreadable += 1
        return False
    return True


async def _session(transfer: OpenAITransfer, made: Session) -> None:
    names = transfer.source.branches(made.id)
    if names:
        await _branches(transfer, made, names)
    else:
        for rows in transfer.source.rows(made.id):
            await _append(transfer, made, MAIN, _messages(transfer, made.id, MAIN, rows))
    # Also when it holds nothing.
    await _ensure(transfer, made)
    await _usage(transfer, made)


async def _usage(transfer: OpenAITransfer, made: Session) -> None:
    turns = transfer.source.usage(made.id)
    known = await openai_usage.recorded(transfer.store, made.id) if turns else {}
    for turn in turns:
        try:
            is_new = await openai_usage.record(transfer.store, made, transfer.model, turn, known)
        except Corrupt as error:
            transfer.skip(error)
        else:
            transfer.done.usages += is_new


async def _ensure(transfer: OpenAITransfer, made: Session) -> None:
    if await of(transfer.store.sessions.get(made.id)) is None:
        await of(transfer.store.messages.append(made.id, create=made))


async def _branches(transfer: OpenAITransfer, made: Session, names: Sequence[str]) -> None:
    """Each branch from where it left one that is there already."""
    session, paths = made.id, list[Way]()
    there = {one.name for one in await of(transfer.store.branches.list(session))} | {MAIN}
    for name in names:
        rows = transfer.source.branch_rows(session, name)
        shared = max((_shared(path, rows) for path in paths), key=len, default=[])
        own = _messages(transfer, session, name, rows[len(shared) :])
        if name not in there:
            before = [id for _, id in shared if id is not None]
            await _ensure(transfer, made)
            await of(
                transfer.store.branches.create(session, name, at=before[-1] if before else None)
            )
        transfer.done.branches += name != MAIN
        for first in range(0, len(own), CHUNK):
            await _append(transfer, made, name, own[first : first + CHUNK])
        paths.append([*shared, *((row.number, one.id if one else None) for row, one in own)])


def _shared(path: Way, rows: Sequence[Row]) -> Way:
    """The beginning that rows have in common with a branch that is there."""
    count = 0
    for (number, _), row in zip(path, rows, strict=False):
        if number != row.number:
            break
        count += 1
    return path[:count]


async def _append(
    transfer: OpenAITransfer,
    made: Session,
    branch: str,
    found: Sequence[tuple[Row, Message | None]],
) -> None:
    """One commit for those that are not there."""
    messages = [one for _, one in found if one is not None]
    fresh = await transfer.absent(made.id, messages)
    if fresh:
        await of(transfer.store.messages.append(made.id, *fresh, branch=branch, create=made))
    transfer.done.messages += len(fresh)
    transfer.done.known += len(messages) - len(fresh)


def _messages(
    transfer: OpenAITransfer, session: str, branch: str, rows: Sequence[Row]
) -> list[tuple[Row, Message | None]]:
    """Rows as messages; None for one that is left out."""
    found: list[tuple[Row, Message | None]] = []
    for row in rows:
        try:
            made = _message(transfer.source.table, row)
        except Corrupt as error:
            transfer.skip(error)
            found.append((row, None))
            continue
        # With time and text: the rows of another file have the same numbers.
        origin = ("openai-agents", transfer.source.table, session, branch, str(row.number))
        name = ids.derive(*origin, str(row.created_us), str(row.data))
        found.append((row, replace(made, id=name)))
    return found


def _message(table: str, row: Row) -> Message:
    """The item of a row; Corrupt when it is none."""
    key = str(row.number)
    try:
        (made,) = kept([json_object(row.data, table, key, "message_data")])
    except InvalidValue as error:
        raise Corrupt(table, key, "message_data", str(error)) from None
    return replace(made, created_us=row.created_us)
