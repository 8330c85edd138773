"""Where things of ADK are in a store: its keys are an app, a user and an id."""

from __future__ import annotations

from typing import Any

from ledgerstone import ids
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.commands.sessions import GetSession
from ledgerstone.errors import InvalidValue
from ledgerstone.records.sessions import Session

ADK = "adk"
FRAMEWORKS = ("", "agent-framework", "pydantic-ai")
"""Apps that other adapters write into sessions: names of frameworks, not of ADK apps."""


def store_id(app_name: str, user_id: str, session_id: str) -> str:
    """The id of an ADK session in the store. Two users may use one id, so it takes all three.

    It is what `store.messages.last`, `store.leases.hold` and the rest are asked with. InvalidValue
    for an app or a user that could have no state: nothing may be stored under such a name.
    """
    return ids.derive(ADK, *_owner(app_name, user_id), session_id)


def name_of(session_id: str | None) -> str:
    """The id of a session as ADK compares it; empty for none."""
    return _text(session_id or "", "session_id").strip()


def owner_id(app_name: str, user_id: str) -> str:
    """Whom artifacts of a user belong to: a user of one app is not the same one of another.

    InvalidValue as of `store_id`.
    """
    return ids.derive(ADK, *_owner(app_name, user_id))


def adk_id(session: Session) -> str:
    """What ADK calls a session; one that ADK did not make by its id in the store.

    A fork has the metadata of the session it was made from, hence the id in it.
    """
    known = session.metadata.get(ADK) if isinstance(session.metadata, dict) else None
    if isinstance(known, dict) and known.get("id") == session.id:
        return str(known.get("session"))
    return session.id


async def stored_id(store: AnyStore, app: str, user: str, name: str, *, unowned: bool) -> str:
    """The id of the session that ADK made, or of another one that opens by its own id.

    Forks, and sessions of other frameworks, are such. What is not there yet is ADK's to make.
    """
    id = store_id(app, user, name)
    try:
        ids.check_id(name, "session_id")
    except InvalidValue:
        return id  # The name is no id of a session.
    tenant: Any = store.tenant
    queries = (GetSession(tenant=tenant, id=id), GetSession(tenant=tenant, id=name))
    made, other = await of(store.read(*queries))
    return name if made is None and _may_open(other, app, user, unowned=unowned) else id


def metadata_of(id: str, session_id: str) -> dict[str, dict[str, str]]:
    return {ADK: {"id": id, "session": session_id}}


def app_space(app_name: str) -> tuple[str, ...]:
    return (ADK, app_name, "app")


def user_space(app_name: str, user_id: str | None = None) -> tuple[str, ...]:
    """The namespace of a user's state, or that above all users of the app."""
    below = () if user_id is None else (user_id,)
    return (ADK, app_name, "user", *below)


def memory_space(app_name: str, user_id: str) -> tuple[str, ...]:
    return (ADK, app_name, "memory", user_id)


def _may_open(session: Session | None, app: str, user: str, *, unowned: bool) -> bool:
    """Whether a session that ADK did not make is this user's to open, by its id in the store."""
    if session is None or session.app not in (*FRAMEWORKS, app):
        return False
    return session.user == user or (unowned and session.user is None)


def _owner(app_name: str, user_id: str) -> tuple[str, str]:
    app, user = _text(app_name, "app_name"), _text(user_id, "user_id")
    return ids.check_id(app, "app_name"), ids.check_id(user, "user_id")


def _text(value: object, field: str) -> str:
    if not isinstance(value, str):
        raise InvalidValue(field, f"text expected, got {type(value).__name__}")
    return value
