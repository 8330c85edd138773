"""Which reads are too short for a thread of their own.

Waking a thread and being woken by it takes longer than reading a head or the last messages of a
session (docs/adr/0012). What is named here touches a few pages, however large the store.
"""

from __future__ import annotations

from typing import Any

from ledgerstone.commands import Query
from ledgerstone.commands.leases import GetLease
from ledgerstone.commands.nodes import GetMessage, ReadMessages
from ledgerstone.commands.runs import GetRun, LatestRun
from ledgerstone.commands.sessions import GetHead, GetSession
from ledgerstone.commands.turns import GetTurn

MESSAGES_MAX = 100

_POINTS = frozenset((GetHead, GetLease, GetMessage, GetRun, GetSession, GetTurn, LatestRun))


def is_brief(query: Query[Any]) -> bool:
    """Whether a read may run on the event loop itself."""
    if type(query) in _POINTS:
        return True
    if type(query) is not ReadMessages:
        return False
    wanted = query.first if query.last is None else query.last
    return wanted is not None and wanted <= MESSAGES_MAX
