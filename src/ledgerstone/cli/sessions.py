"""`ledgerstone sessions`: what is in a store."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ledgerstone import NotSupported, Session, Store
from ledgerstone.cli.options import AsJson, StoreUrl, Tenant, reading
from ledgerstone.cli.output import moment, print_json, print_line, print_table, visible
from ledgerstone.records.sessions import Head

EXAMPLE = "Example: ledgerstone sessions --store agent.db --user ada"

User = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Only of this user.", show_default=False)
]
App = Annotated[
    str | None, typer.Option("--app", metavar="NAME", help="Only of this app.", show_default=False)
]
Limit = Annotated[int, typer.Option("--limit", metavar="N", help="At most so many, up to 200.")]
Cursor = Annotated[
    str | None,
    typer.Option("--cursor", metavar="TEXT", help="Go on where a page ended.", show_default=False),
]
Deleted = Annotated[bool, typer.Option("--deleted", help="Deleted ones too.")]
HEADERS = ("SESSION", "USER", "TITLE", "MESSAGES", "REVISION", "UPDATED", "STATE")


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
        page = opened.sessions.list(
            user=user, app=app, deleted=deleted, limit=limit, cursor=cursor, total=True
        )
        found = [(session, opened.sessions.head(session)) for session in page.items]
        others = [] if found else other_tenants(root, tenant)
    if as_json:
        items = [_plain(session, head) for session, head in found]
        print_json({"sessions": items, "total": page.total, "cursor": page.cursor})
        return
    if not found:
        print_line(f"no sessions of tenant {visible(tenant)}")
        if others:
            print_line(f"other tenants here: {', '.join(map(visible, others))}; see --tenant")
        return
    print_table(HEADERS, [_row(session, head) for session, head in found])
    if page.has_more:
        print_line(f"{len(found)} of {page.total}; the next ones: --cursor {page.cursor}", "dim")


def other_tenants(store: Store, tenant: str) -> list[str]:
    """None where a role may not know who else is there."""
    try:
        return [name for name in store.admin.tenants() if name != tenant]
    except NotSupported:
        return []


def _plain(session: Session, head: Head | None) -> dict[str, Any]:
    return {
        "session": session,
        "revision": 0 if head is None else head.revision,
        "messages": 0 if head is None else head.messages,
        "nodes": 0 if head is None else head.nodes,
        "branches": [] if head is None else head.branches,
        "lease": None if head is None else head.lease,
    }


def _row(session: Session, head: Head | None) -> tuple[str, ...]:
    return (
        visible(session.id),
        visible(session.user or ""),
        visible(session.title or ""),
        str(0 if head is None else head.messages),
        str(0 if head is None else head.revision),
        moment(session.updated_us),
        state_of(session, head),
    )


def state_of(session: Session, head: Head | None) -> str:
    """In a word or two: deleted, held, or its own status."""
    if session.deleted_us is not None:
        return "deleted"
    if head is not None and head.lease is not None:
        return f"held, fence {head.lease.fence}"
    return "" if session.status == "unknown" else session.status


run.__name__ = "sessions"
