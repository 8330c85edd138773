"""`ledgerstone sessions`: what is in a store."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

from ledgerstone import NotSupported, Session, Store
from ledgerstone.cli.options import (
    AsJson,
    Cursor,
    Limit,
    StoreUrl,
    Tenant,
    option,
    reading,
    switch,
)
from ledgerstone.cli.output import Columns, moment, print_line, print_page
from ledgerstone.records.sessions import Head, Page

EXAMPLE = "Example: ledgerstone sessions --store agent.db --user ada"
User = Annotated[str | None, option("--user", "ID", "Only of this user.")]
App = Annotated[str | None, option("--app", "NAME", "Only of this app.")]
Deleted = Annotated[bool, switch("--deleted", "Deleted ones too.")]


class Listed(NamedTuple):
    """A session and where it stands."""

    session: Session
    head: Head


SESSIONS: Columns[Listed] = {
    "SESSION": lambda one: one.session.id,
    "USER": lambda one: one.session.user,
    "TITLE": lambda one: one.session.title,
    "MESSAGES": lambda one: one.head.messages,
    "REVISION": lambda one: one.head.revision,
    "UPDATED": lambda one: moment(one.session.updated_us),
    "STATE": lambda one: state_of(one.session, one.head),
}


def run(
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    user: User = None,
    app: App = None,
    deleted: Deleted = False,
    limit: Limit = 50,
    cursor: Cursor = None,
    as_json: AsJson = False,
) -> None:
    """List the sessions of a store, the most recently updated first."""
    with reading(store, None) as root:
        opened = root.for_tenant(tenant)
        found = opened.sessions.list(
            user=user, app=app, deleted=deleted, limit=limit, cursor=cursor, total=True
        )
        listed = [Listed(one, opened.sessions.head(one.id) or Head()) for one in found.items]
        others = [] if listed else _other_tenants(root, tenant)
    page = Page(listed, found.has_more, found.cursor, found.total)
    none = f"no sessions of tenant {tenant}"
    print_page("sessions", page, SESSIONS, as_json=as_json, none=none, plain=_plain)
    if others and not as_json:
        print_line(f"other tenants here: {', '.join(others)}; see --tenant")


def _other_tenants(store: Store, tenant: str) -> list[str]:
    """None where a role may not know who else is there."""
    try:
        return [name for name in store.admin.tenants() if name != tenant]
    except NotSupported:
        return []


def _plain(one: Listed) -> dict[str, Any]:
    names = ("revision", "messages", "nodes", "branches", "lease")
    return {"session": one.session, **{name: getattr(one.head, name) for name in names}}


def state_of(session: Session, head: Head) -> str:
    """In a word or two: deleted, held, or its own status."""
    if session.deleted_us is not None:
        return "deleted"
    if head.lease is not None:
        return f"held, fence {head.lease.fence}"
    return "" if session.status == "unknown" else session.status
