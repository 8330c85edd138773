"""Which sessions a list is about, checked; and the cursor scope it gives the list."""

from __future__ import annotations

from typing import Any

from ledgerstone import ids
from ledgerstone.api import checks, cursors
from ledgerstone.codec import encode_json
from ledgerstone.commands.sessions import SessionFilter
from ledgerstone.errors import InvalidValue
from ledgerstone.records.sessions import STATUSES
from ledgerstone.rules.filters import check_filter

_NAMES = {
    "user",
    "app",
    "status",
    "parent",
    "deleted",
    "created_after",
    "created_before",
    "metadata_equals",
    "metadata_contains",
}


def session_filter(where: dict[str, Any]) -> SessionFilter:
    """The filter of a list; None means any. InvalidValue names what is wrong or unknown."""
    unknown = where.keys() - _NAMES
    if unknown:
        raise InvalidValue(sorted(unknown)[0], "there is no such filter")
    user, app, status = where.get("user"), where.get("app"), where.get("status")
    parent = where.get("parent")
    return SessionFilter(
        user=None if user is None else ids.check_id(user, "user"),
        app=None if app is None else ids.check_label(app, "app"),
        status=None if status is None else checks.one_of(status, STATUSES, "status"),
        parent=None if parent is None else checks.session_id(parent),
        deleted=checks.flag(where.get("deleted", False), "deleted"),
        created_after_us=checks.maybe_micros(where.get("created_after"), "created_after"),
        created_before_us=checks.maybe_micros(where.get("created_before"), "created_before"),
        metadata_equals=_equals(where),
        metadata_contains=check_filter(where.get("metadata_contains"), "metadata_contains"),
    )


def cursor_scope(tenant: str, where: SessionFilter, order: str) -> bytes:
    """What binds a cursor to this very list."""
    equals = None if where.metadata_equals is None else where.metadata_equals.hex()
    return cursors.scope(
        tenant,
        "sessions",
        order,
        where.user,
        where.app,
        where.status,
        where.parent,
        where.deleted,
        where.created_after_us,
        where.created_before_us,
        equals,
        where.metadata_contains,
    )


def list_key(key: list[Any]) -> tuple[int, str]:
    """The key of a session list, out of a cursor."""
    at, id = key
    return at, id


def _equals(where: dict[str, Any]) -> bytes | None:
    # None means "any" for every other filter, so here too; sessions without metadata are found
    # by passing the filter as an explicit empty value is not possible and not needed.
    value = where.get("metadata_equals")
    return None if value is None else encode_json(value, "metadata_equals")
