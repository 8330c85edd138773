"""Which reads are too short for a thread of their own.

Waking a thread and being woken by it takes longer than reading a head or the last messages of a
session (docs/adr/0012). What is named here touches a few pages, however large the store.
"""

from __future__ import annotations

from typing import Any

from ledgerstone.commands import Query

MESSAGES_MAX = 100

POINTS = frozenset(
    ("GetHead", "GetLease", "GetMessage", "GetRun", "GetSession", "GetTurn", "LatestRun")
)
"""By name: nothing is imported that nobody asks."""


def is_brief(query: Query[Any]) -> bool:
    """Whether a read may run on the event loop itself."""
    name = type(query).__name__
    if name in POINTS:
        return True
    if name != "ReadMessages":
        return False
    asked: Any = query
    wanted = asked.first if asked.last is None else asked.last
    return wanted is not None and bool(wanted <= MESSAGES_MAX)
