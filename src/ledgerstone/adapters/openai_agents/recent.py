"""The items that a session object has read before, so that it reads only what is new.

A Runner asks for the whole history at every turn. What was read stays true as long as only
messages were added since, and the chain of commits says whether that is so: its link at the known
revision must be the same, and every commit after it one that takes nothing away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ledgerstone.adapters.faces import of
from ledgerstone.adapters.openai_agents.place import Place, history, newest
from ledgerstone.adapters.openai_agents_items import Item, is_own, natives
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.turns import ListTurns
from ledgerstone.records.messages import Message

ITEMS_MAX = 2000
"""Longer histories are read each time: an object that is kept for long must not grow with them."""
COMMITS_MAX = 50
ADDING = frozenset({"append", "usage"})
"""Commits that neither hide nor change a message."""


@dataclass(frozen=True)
class Known:
    """A history at one commit. Nobody else ever holds these items."""

    revision: int
    link: str
    last: Message
    items: list[Item]


class Recent:
    """What one session object knows. The first read keeps nothing: most objects serve one run."""

    def __init__(self) -> None:
        self._asked = False
        self._known: Known | None = None

    async def read(self, place: Place) -> list[Item]:
        """All items of the branch, for the caller to keep."""
        known = None if self._known is None else await _grown(place, self._known)
        if known is None and not self._asked:
            self._asked = True
            return natives(await history(place))
        if known is None:
            head, found = await newest(place, None)
            items = natives(found)
            if head is None or not found or len(found) > ITEMS_MAX or not all(map(is_own, found)):
                self._known = None
                return items
            known = Known(head.revision, head.link, found[-1], items)
        self._known = known
        return [_copy(item) for item in known.items]


async def _grown(place: Place, known: Known) -> Known | None:
    """The history as it is now; None when more happened than that it grew."""
    where: dict[str, Any] = {"tenant": place.tenant, "session": place.session}
    commits, found = await of(
        place.store.read(
            ListTurns(**where, after_revision=known.revision - 1, limit=COMMITS_MAX),
            ReadMessages(**where, branch=place.branch, after_seq=known.last.seq - 1),
        )
    )
    if not commits or len(commits) == COMMITS_MAX or commits[0].link != known.link:
        return None
    if any(one.kind not in ADDING for one in commits[1:]):
        return None
    if not found or found[0].id != known.last.id or not all(map(is_own, found)):
        return None
    now, fresh = commits[-1], natives(found[1:])
    if len(known.items) + len(fresh) > ITEMS_MAX:
        return None
    return Known(now.revision, now.link, found[-1], [*known.items, *fresh])


def _copy(value: Any) -> Any:
    """JSON that the caller may change."""
    if type(value) is dict:
        return {key: _copy(one) if type(one) in _NESTED else one for key, one in value.items()}
    if type(value) is list:
        return [_copy(one) if type(one) in _NESTED else one for one in value]
    return value


_NESTED = (dict, list)
