"""Which session of the store is meant by what ADK calls it."""

from __future__ import annotations

from typing import Any

from ledgerstone import ids
from ledgerstone.adapters.adk.keys import opens, store_id
from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.commands.sessions import GetSession
from ledgerstone.errors import InvalidValue


async def place_of(store: AnyStore, app: str, user: str, name: str, *, unowned: bool) -> str:
    """The id of the session that ADK made, or of another one that opens by its own id.

    Forks, and sessions of other frameworks, are such. What is not there yet is ADK's to make.
    """
    id = store_id(app, user, name)
    if not _may_be_id(name):
        return id
    tenant: Any = store.tenant
    asked = (GetSession(tenant=tenant, id=id), GetSession(tenant=tenant, id=name))
    made, other = await of(store.read(*asked))
    return name if made is None and opens(other, app, user, unowned=unowned) else id


def _may_be_id(name: str) -> bool:
    try:
        ids.check_id(name, "session_id")
    except InvalidValue:
        return False
    return True
