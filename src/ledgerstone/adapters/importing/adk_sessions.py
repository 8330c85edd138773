"""Moves sessions of Google ADK's DatabaseSessionService and SqliteSessionService into a store.

    from ledgerstone.adapters.importing.adk_sessions import import_sessions

    print(import_sessions(store, "sessions.db"))

The source is only read. A second run takes what is new and nothing twice: after an interruption, or
when the source has grown. Old tables (version 0) keep the actions of events pickled; those are
counted and left, since unpickling runs what is in them. What they did to the state is in the state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from google.adk.events.event import Event
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from ledgerstone.adapters.adk import states
from ledgerstone.adapters.adk.events import message_of, native_of
from ledgerstone.adapters.adk.keys import app_space, metadata_of, store_id, user_space
from ledgerstone.adapters.importing.adk_source import Source, micros, seconds
from ledgerstone.adapters.importing.importers import Progress, Transfer, in_both_ways
from ledgerstone.adapters.importing.sources import json_object
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.codec import check_json
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import Corrupt, InvalidValue, SessionDeleted, SessionRetired
from ledgerstone.intake.memories import new_memory
from ledgerstone.records.memories import Remember
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Session

Key: TypeAlias = tuple[str, str, str]
Only: TypeAlias = Callable[[str, str, str], bool]
CHUNK = 200
"""Events in one commit."""
_OLD_JSON = (
    "content",
    "grounding_metadata",
    "custom_metadata",
    "usage_metadata",
    "citation_metadata",
    "input_transcription",
    "output_transcription",
)
_OLD_PLAIN = (
    *("author", "branch", "turn_complete", "error_code", "error_message"),
    *("interrupted", "partial"),
)


@dataclass
class Imported:
    """What came of it."""

    sessions: int = 0
    events: int = 0
    known: int = 0
    """Events that were there from an earlier run."""
    continued: int = 0
    """Sessions that went on in the store since, or were deleted; nothing was added to them."""
    app_values: int = 0
    user_values: int = 0
    """Values of state that apps and users share; those that the store has stay as they are."""
    actions_left: int = 0
    """Events of old tables whose pickled actions were not looked at."""
    unreadable: int = 0
    """Sessions, events and states that were left out: they are none, or no store takes them."""


AdkTransfer: TypeAlias = Transfer[Source, Imported]


async def _import(
    store: AnyStore,
    source: str | Path,
    *,
    only: Only | None = None,
    skip_unreadable: bool = False,
    progress: Progress | None = None,
) -> Imported:
    """Read a SQLite file (its path or url) or a postgresql:// database, and write its sessions.

    `only(app, user, session)` chooses. They open with LedgerSessionService by their ids. Errors:
    NotADatabase for something else, SchemaTooNew and NotSupported for other tables, Corrupt naming
    the row (unless `skip_unreadable`), and those of a commit. What was written before an error
    stays, and is known next time.
    """
    with closing(Source(source)) as opened:
        transfer = AdkTransfer(store, opened, skip_unreadable, Imported())
        await _sessions(transfer, only, progress)
        if only is None:
            await _shared_states(transfer)
        return transfer.done


import_sessions, aimport_sessions = in_both_ways(_import)


def check_source(source: str | Path) -> None:
    """The errors that `import_sessions` has for a source before it reads a session."""
    Source(source).close()


async def _sessions(transfer: AdkTransfer, only: Only | None, progress: Progress | None) -> None:
    chosen = (key for key in transfer.source.sessions() if only is None or only(*key))
    for count, key in enumerate(chosen, start=1):
        await _session(transfer, key)
        if progress is not None:
            progress(key[2], count)


async def _shared_states(transfer: AdkTransfer) -> None:
    """What the sessions of an app or of a user share."""
    for app, text in transfer.source.app_states():
        state = _state(transfer, text, "app_states", app)
        transfer.done.app_values += await _share(
            transfer, app_space(app), state, ("app_states", app)
        )
    for app, user, text in transfer.source.user_states():
        state = _state(transfer, text, "user_states", user)
        row = ("user_states", user)
        transfer.done.user_values += await _share(transfer, user_space(app, user), state, row)


def _state(transfer: AdkTransfer, text: Any, table: str, key: str) -> dict[str, Any]:
    """A stored state; empty for one that is left out."""
    try:
        state = json_object(text, table, key, "state")
        check_json(state, "state")
    except Corrupt as error:
        transfer.skip(error)
        return {}
    except InvalidValue as error:
        transfer.skip(Corrupt(table, key, error.field, error.reason))
        return {}
    return state


async def _share(
    transfer: AdkTransfer, space: tuple[str, ...], state: dict[str, Any], row: tuple[str, str]
) -> int:
    """Values of an app or a user; the store's own are newer."""
    changes = []
    for key, value in state.items():
        try:
            new_memory(space, key, value)
        except InvalidValue as error:
            transfer.skip(Corrupt(*row, f"state[{key!r:.64}]", error.reason))
            continue
        changes.append(Remember(space, key, value, if_absent=True))
    if changes:
        await of(transfer.store.memories.batch(changes))
    return len(changes)


async def _session(transfer: AdkTransfer, key: Key) -> None:
    found = transfer.source.session(key)
    if found is None:
        return
    try:
        if await _bring(transfer, key, *found):
            transfer.done.sessions += 1
        else:
            transfer.done.continued += 1
    except (SessionDeleted, SessionRetired):
        transfer.done.continued += 1
    except InvalidValue as error:
        transfer.skip(Corrupt("sessions", key[2], error.field, error.reason))


async def _bring(transfer: AdkTransfer, key: Key, text: Any, created_us: int) -> bool:
    """All of a session that is not there yet; False when it went on in the store."""
    store = transfer.store
    app, user, name = key[0], key[1], key[2].strip()
    if not name:
        raise InvalidValue("id", "must not be empty")
    id, tenant = store_id(app, user, name), store.tenant or ""
    head, last = await of(
        store.read(GetHead(tenant=tenant, id=id), ReadMessages(tenant=tenant, session=id, last=1))
    )
    if last and not transfer.source.has(key, last[0].id):
        return False
    state = _state(transfer, text, "sessions", key[2])
    made = Session(id=id, app=app, user=user, metadata=metadata_of(id, name), created_us=created_us)
    await _write(
        transfer, made, _messages(transfer, key), state, 0 if head is None else head.revision
    )
    return True


async def _write(
    transfer: AdkTransfer,
    session: Session,
    messages: Iterator[Message],
    state: dict[str, Any],
    revision: int,
) -> None:
    """So many events with each commit; with the last of them the state."""
    # Of the session's own layer: prefixed keys have no place there, and would change the others.
    own = states.layers_of(state).session
    is_new = not revision
    part = await _absent(transfer, session.id, messages, is_new=is_new)
    while part or not revision:
        following = await _absent(transfer, session.id, messages, is_new=is_new)
        turn = transfer.store.turns.begin(session.id, create=session, expected_revision=revision)
        turn.warns = False
        turn.add(*part)
        if not following:
            states.put(turn, session.app, session.user or "", own)
        revision = (await of(turn.commit())).revision
        transfer.done.events += len(part)
        part = following


async def _absent(
    transfer: AdkTransfer, session: str, messages: Iterator[Message], *, is_new: bool
) -> list[Message]:
    """The next events that the store does not have; none at the end.

    Each is looked for: the source orders them by their times, so one that came late stands among
    those that are there, and one that was taken back in the store must not come again.
    """
    while part := list(islice(messages, CHUNK)):
        if is_new:
            return part
        absent = await transfer.absent(session, part)
        transfer.done.known += len(part) - len(absent)
        if absent:
            return absent
    return []


def _messages(transfer: AdkTransfer, key: Key) -> Iterator[Message]:
    version = transfer.source.version
    for row in transfer.source.events(key):
        try:
            message = _message(row, version)
        except Corrupt as error:
            transfer.skip(error)
            continue
        if version == 0 and row.get("actions") is not None:
            transfer.done.actions_left += 1
        yield message


def _message(row: dict[str, Any], version: int) -> Message:
    """The event of a row; Corrupt when it is none."""
    name = str(row["id"])
    fields = _old_fields(row) if version == 0 else _new_fields(row)
    try:
        event = Event.model_validate(fields)
        # The id as it is stored: an event without one would get another with each run.
        native = {**native_of(event), **_unknown(fields), "id": row["id"]}
        return message_of(native, created_us=micros(event.timestamp))
    except ValidationError as error:
        where = ".".join(str(one) for one in error.errors()[0]["loc"])
        raise Corrupt("events", name, where or "event_data", "no event of ADK") from None
    except InvalidValue as error:
        raise Corrupt("events", name, error.field, error.reason) from None


def _unknown(fields: dict[str, Any]) -> dict[str, Any]:
    """What a newer ADK says of its events: kept, though this one would drop it."""
    known = {*Event.model_fields, *(one.alias for one in Event.model_fields.values())}
    return {to_camel(name): value for name, value in fields.items() if name not in known}


def _new_fields(row: dict[str, Any]) -> dict[str, Any]:
    data = row["event_data"]
    fields = {} if data is None else json_object(data, "events", str(row["id"]), "event_data")
    fields |= {"id": row["id"], "invocation_id": row["invocation_id"]}
    if fields.get("timestamp") is None:
        fields["timestamp"] = seconds(row["timestamp"])
    return fields


def _old_fields(row: dict[str, Any]) -> dict[str, Any]:
    """Columns of their own; all but the pickled one, which is not touched."""
    name = str(row["id"])
    fields = {field: row[field] for field in _OLD_PLAIN if row.get(field) is not None}
    fields |= {field: json_object(row[field], "events", name, field) for field in _there(row)}
    fields |= {"id": row["id"], "invocation_id": row["invocation_id"]}
    fields["timestamp"] = seconds(row["timestamp"])
    if row.get("long_running_tool_ids_json"):
        wrapped = f'{{"ids": {row["long_running_tool_ids_json"]}}}'
        found = json_object(wrapped, "events", name, "long_running_tool_ids_json")
        fields["long_running_tool_ids"] = found["ids"]
    return fields


def _there(row: dict[str, Any]) -> Iterable[str]:
    """Columns of JSON that say something; a stored null says nothing."""
    return [one for one in _OLD_JSON if row.get(one) is not None and row[one] != "null"]
