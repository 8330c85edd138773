"""The fields of a session as callers give them, checked: for a record, or as a filter."""

from __future__ import annotations

from typing import Any

from msgspec.structs import astuple

from ledgerstone import ids
from ledgerstone.codec import encode_json
from ledgerstone.commands.sessions import CreateSession, SessionFilter
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks, cursors
from ledgerstone.intake.checks import Time
from ledgerstone.records.sessions import SESSION_FIELDS, STATUSES, Cause, Session
from ledgerstone.rules.matching import check_filter

_NAMES = {
    "user",
    "app",
    "status",
    "parent",
    "root",
    "under",
    "id_prefix",
    "deleted",
    "created_after",
    "created_before",
    "metadata_equals",
    "metadata_contains",
}


_TEXTS = tuple(
    name
    for name in SESSION_FIELDS
    if Session.__annotations__[name] == "str | None" and name not in {"user", "parent"}
)
"""Fields that may be any text; the others have a check of their own."""


def checked_session(tenant: str, id: str, fields: dict[str, Any]) -> Session:
    """A Session record, each field checked; InvalidValue names the one that is wrong."""
    unknown = fields.keys() - set(SESSION_FIELDS)
    if unknown:
        raise InvalidValue(sorted(unknown)[0], "a session has no such field")
    user, parent = fields.get("user"), fields.get("parent")
    created: Time = fields.get("created_us") or 0
    texts: dict[str, Any] = {name: checks.maybe_text(fields.get(name), name) for name in _TEXTS}
    status: Any = checks.one_of(fields.get("status", "unknown"), STATUSES, "status")
    return Session(
        id=id,
        tenant=tenant,
        user=None if user is None else ids.check_id(user, "user"),
        app=ids.check_label(fields.get("app", ""), "app"),
        status=status,
        metadata=checks.json_value(fields.get("metadata"), "metadata"),
        parent=checks.maybe_session(parent),
        cause=_cause(fields.get("cause")),
        created_us=checks.whole(checks.micros(created, "created_us"), "created_us"),
        **texts,
    )


def new_session(tenant: str, id: str, create: bool | Session) -> Session | None:
    """The session to make when it is missing: a bare one, or as given."""
    if create is False:
        return None
    if create is True:
        return Session(id=id, tenant=tenant)
    if not isinstance(create, Session):
        raise InvalidValue("create", "True, False or a Session expected")
    return checked_session(tenant, id, {name: getattr(create, name) for name in SESSION_FIELDS})


def ensuring(session: Session) -> CreateSession:
    """The command that makes a session unless it is there."""
    return CreateSession(tenant=session.tenant, session=session, ensure=True, parent_rule="exists")


def _cause(value: Any) -> Cause | None:
    if value is None:
        return None
    kind, id = (value.kind, value.id) if isinstance(value, Cause) else _pair(value)
    return Cause(ids.check_name(kind, "cause"), ids.check_id(id, "cause"))


def _pair(value: Any) -> tuple[Any, Any]:
    if not isinstance(value, tuple | list) or len(value) != 2:
        raise InvalidValue("cause", 'a pair such as ("tool_call", id) expected')
    return value[0], value[1]


def session_filter(where: dict[str, Any]) -> SessionFilter:
    """The filter of a list; None means any. InvalidValue names what is wrong or unknown."""
    unknown = where.keys() - _NAMES
    if unknown:
        raise InvalidValue(sorted(unknown)[0], "there is no such filter")
    user, app, status = where.get("user"), where.get("app"), where.get("status")
    parent, under, prefix = where.get("parent"), where.get("under"), where.get("id_prefix")
    return SessionFilter(
        user=None if user is None else ids.check_id(user, "user"),
        app=None if app is None else ids.check_label(app, "app"),
        status=checks.maybe_one_of(status, STATUSES, "status"),
        parent=checks.maybe_session(parent),
        root=checks.flag(where.get("root", False), "root"),
        under=checks.maybe_session(under),
        id_prefix=None if prefix is None else ids.check_id(prefix, "id_prefix"),
        deleted=checks.flag(where.get("deleted", False), "deleted"),
        created_after_us=checks.maybe_micros(where.get("created_after"), "created_after"),
        created_before_us=checks.maybe_micros(where.get("created_before"), "created_before"),
        metadata_equals=_equals(where),
        metadata_contains=check_filter(where.get("metadata_contains"), "metadata_contains"),
    )


def cursor_scope(tenant: str, where: SessionFilter, order: str) -> bytes:
    """What binds a cursor to this very list."""
    return cursors.scope(tenant, "sessions", order, *astuple(where))


def _equals(where: dict[str, Any]) -> bytes | None:
    # None means any here as well; sessions without metadata cannot be asked for this way.
    value = where.get("metadata_equals")
    return None if value is None else encode_json(value, "metadata_equals")
