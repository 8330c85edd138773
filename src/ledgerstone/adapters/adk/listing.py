"""The list of sessions: a page of the store at a time, and no read per session unless asked."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from google.adk.sessions.session import Session as AdkSession

from ledgerstone.adapters.adk import states as layers
from ledgerstone.adapters.adk.keys import adk_id
from ledgerstone.adapters.adk.reading import as_adk, layer_queries
from ledgerstone.adapters.faces import AnyStore, each, of
from ledgerstone.commands.sessions import GetDocument
from ledgerstone.records.memories import Memory
from ledgerstone.records.sessions import Session

PAGE = 500


async def sessions(
    store: AnyStore, app: str, user: str | None, *, states: bool
) -> list[AdkSession]:
    """Every live session of an app, or of one of its users, without events."""
    where = {"app": app} if user is None else {"app": app, "user": user}
    found: dict[str, Session] = {}
    async for one in each(store.sessions.iter(order="updated", **where)):
        if one.user is not None:
            # One that is changed meanwhile comes again, at its new place.
            found.pop(one.id, None)
            found[one.id] = one
    values = await _states(store, app, user, list(found.values())) if states else {}
    return [
        as_adk(one, adk_id(one), app, one.user or "", state=values.get(one.id, {}))
        for one in found.values()
    ]


async def _states(
    store: AnyStore, app: str, user: str | None, listed: list[Session]
) -> dict[str, dict[str, Any]]:
    tenant: Any = store.tenant
    of_app, of_users = await of(store.read(*layer_queries(tenant, app, user)))
    by_user: dict[str, list[Memory]] = defaultdict(list)
    for memory in of_users:
        by_user[memory.namespace[-1]].append(memory)
    found = {}
    for first in range(0, len(listed), PAGE):
        page = listed[first : first + PAGE]
        asked = [GetDocument(tenant=tenant, session=one.id, name="state") for one in page]
        for one, document in zip(page, await of(store.read(*asked)), strict=True):
            found[one.id] = layers.merged(document, of_app, by_user[one.user or ""])
    return found
