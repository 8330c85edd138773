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
from ledgerstone.adapters.faces import AnyStore, Faces, of
from ledgerstone.adapters.importing.openai_source import CHUNK, Row, Source, item_of
from ledgerstone.adapters.openai_agents_items import kept
from ledgerstone.commands.nodes import GetMessage
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.records.messages import Message

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
    unreadable: int = 0
    """Rows that were left out, as the SDK leaves them out."""


@dataclass(frozen=True)
class Job:
    """One import: from where, to where, and how."""

    store: AnyStore
    source: Source
    table: str
    app: str
    skip_unreadable: bool
    done: Imported


def import_sessions(
    store: AnyStore,
    path: str | Path,
    *,
    sessions_table: str = "agent_sessions",
    messages_table: str = "agent_messages",
    only: Callable[[str], bool] | None = None,
    app: str = "",
    skip_unreadable: bool = False,
) -> Imported:
    """Read the file and write its sessions under their ids, with the branches of an
    AdvancedSQLiteSession; usage is not taken along.

    `only(session id)` chooses. Errors: NotADatabase for another file, NotSupported for a newer
    one, Corrupt for a damaged one or a row that is no item (unless `skip_unreadable`), and those
    of `messages.append`. What was written before an error stays, and counts as known next time.
    """
    with closing(Source(path, sessions_table, messages_table)) as source:
        job = Job(store, source, messages_table, app, skip_unreadable, Imported())
        Faces(store).now(_run(job, only))
        return job.done


async def aimport_sessions(
    store: AnyStore,
    path: str | Path,
    *,
    sessions_table: str = "agent_sessions",
    messages_table: str = "agent_messages",
    only: Callable[[str], bool] | None = None,
    app: str = "",
    skip_unreadable: bool = False,
) -> Imported:
    """The same, for a program with an event loop."""
    with closing(Source(path, sessions_table, messages_table)) as source:
        job = Job(store, source, messages_table, app, skip_unreadable, Imported())
        await Faces(store).later(_run(job, only))
        return job.done


async def _run(job: Job, only: Callable[[str], bool] | None) -> None:
    for session, created_us in job.source.sessions():
        if only is not None and not only(session):
            continue
        await of(job.store.sessions.ensure(session, app=job.app, created_us=created_us))
        job.done.sessions += 1
        branches = job.source.branches(session)
        if branches:
            await _branches(job, session, branches)
            continue
        for rows in job.source.rows(session):
            await _append(job, session, MAIN, _messages(job, session, MAIN, rows))


async def _branches(job: Job, session: str, names: Sequence[str]) -> None:
    """Each branch from where it left one that is there already."""
    paths: list[Way] = []
    there = {one.name for one in await of(job.store.branches.list(session))} | {MAIN}
    for name in names:
        rows = job.source.branch_rows(session, name)
        shared = max((_shared(path, rows) for path in paths), key=len, default=[])
        own = _messages(job, session, name, rows[len(shared) :])
        if name not in there:
            before = [id for _, id in shared if id is not None]
            await of(job.store.branches.create(session, name, at=before[-1] if before else None))
        job.done.branches += name != MAIN
        for first in range(0, len(own), CHUNK):
            await _append(job, session, name, own[first : first + CHUNK])
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
    job: Job, session: str, branch: str, found: Sequence[tuple[Row, Message | None]]
) -> None:
    """One commit for those that are not there."""
    messages = [one for _, one in found if one is not None]
    tenant = job.store.tenant or ""
    queries = [GetMessage(tenant=tenant, id=one.id, session=session) for one in messages]
    there = await of(job.store.read(*queries)) if queries else []
    fresh = [one for one, old in zip(messages, there, strict=True) if old is None]
    if fresh:
        await of(job.store.messages.append(session, *fresh, branch=branch))
    job.done.messages += len(fresh)
    job.done.known += len(messages) - len(fresh)


def _messages(
    job: Job, session: str, branch: str, rows: Sequence[Row]
) -> list[tuple[Row, Message | None]]:
    """Rows as messages; None for one that is left out."""
    found: list[tuple[Row, Message | None]] = []
    for row in rows:
        try:
            (made,) = kept([item_of(row, job.table)])
        except (Corrupt, InvalidValue) as error:
            if not job.skip_unreadable:
                raise _refusal(job, row, error) from None
            job.done.unreadable += 1
            found.append((row, None))
            continue
        name = ids.derive("openai-agents", job.table, session, branch, str(row.number))
        found.append((row, replace(made, id=name, created_us=row.created_us)))
    return found


def _refusal(job: Job, row: Row, error: Corrupt | InvalidValue) -> Corrupt:
    if isinstance(error, Corrupt):
        return error
    return Corrupt(job.table, str(row.number), "message_data", str(error))
