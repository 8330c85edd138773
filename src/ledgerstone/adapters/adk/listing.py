"""The list of sessions: a page of the store at a time, and no read per session."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
from google.adk.sessions.session import Session as AdkSession

from ledgerstone.adapters.adk import states
from ledgerstone.adapters.adk.keys import adk_id
from ledgerstone.adapters.adk.marks import Seen, as_listed
from ledgerstone.adapters.adk.reading import as_adk, layer_queries
from ledgerstone.adapters.faces import AnyStore, each, of
from ledgerstone.commands.sessions import GetDocuments
from ledgerstone.records.memories import Memory

PAGE = 500
"""So many documents are asked for by one statement."""


class Listed(msgspec.Struct, frozen=True, gc=False):
    """What a list needs of a session, and no more: there may be very many of them."""

    seen: Seen
    name: str
    user: str


async def sessions(store: AnyStore, app: str, user: str | None) -> list[AdkSession]:
    """Every live session of an app, or of one of its users, with its state, without events."""
    where = {"app": app} if user is None else {"app": app, "user": user}
    found: dict[str, Listed] = {}
    async for one in each(store.sessions.iter(order="updated", **where)):
        if one.user is not None:
            # One that is changed meanwhile comes again, at its new place.
            found.pop(one.id, None)
            found[one.id] = Listed(as_listed(one), adk_id(one), one.user)
    values = await _states(store, app, user, found)
    return [
        as_adk(one.seen, one.name, app, one.user, state=state)
        for one, state in zip(found.values(), values, strict=True)
    ]


async def _states(
    store: AnyStore, app: str, user: str | None, listed: dict[str, Listed]
) -> list[dict[str, Any]]:
    """The state of each, from one snapshot."""
    tenant: Any = store.tenant
    ids = tuple(listed)
    pages = (ids[first : first + PAGE] for first in range(0, len(ids), PAGE))
    asked = [GetDocuments(tenant=tenant, sessions=page, name="state") for page in pages]
    of_app, of_users, *found = await of(store.read(*layer_queries(tenant, app, user), *asked))
    by_user: dict[str, list[Memory]] = defaultdict(list)
    for memory in of_users:
        by_user[memory.namespace[-1]].append(memory)
    documents: dict[str, bytes] = {id: data for page in found for id, data in page.items()}
    return [
        states.merged(documents.get(id), of_app, by_user[one.user]) for id, one in listed.items()
    ]
