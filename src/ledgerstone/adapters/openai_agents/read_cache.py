"""The items that a session object has read before, so that it reads only what is new.

A Runner asks for the whole history at every turn. What was read stays true as long as only
messages were added since, and the chain of commits says whether that is so: its link at the known
revision must be the same, and every commit after it one that takes nothing away.
"""

from __future__ import annotations

from dataclasses import dataclass

from msgspec import msgpack

from ledgerstone.adapters.openai_agents.history import BranchHistory
from ledgerstone.adapters.openai_agents_items import Item, is_own, natives
from ledgerstone.adapters.sync_async import of
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.turns import ListTurns
from ledgerstone.records.messages import Message

ITEMS_MAX = 2000
"""Longer histories are read each time: an object that is kept for long must not grow with them."""
COMMITS_MAX = 50
ADDING = frozenset({"append", "usage"})
"""Commits that neither hide nor change a message."""


@dataclass(frozen=True)
class CachedItems:
    """A history at one commit.

    The items are packed, read by read: callers may change what they get, and bytes are smaller
    than the items and sooner copied.
    """

    revision: int
    link: str
    last: Message
    count: int
    chunks: list[bytes]

    def items(self) -> list[Item]:
        return [item for chunk in self.chunks for item in msgpack.decode(chunk)]


class ReadCache:
    """The items that one session object has read."""

    def __init__(self) -> None:
        self._known: CachedItems | None = None

    async def read(self, history: BranchHistory) -> list[Item]:
        """All items of the branch, for the caller to keep."""
        known = None if self._known is None else await _grown(history, self._known)
        if known is not None:
            self._known = known
            return known.items()
        head, found = await history.newest(None)
        items = natives(found)
        self._known = None
        if head is not None and 0 < len(found) <= ITEMS_MAX and all(map(is_own, found)):
            chunk = _packed(items)
            if chunk is not None:
                self._known = CachedItems(head.revision, head.link, found[-1], len(items), [chunk])
        return items


async def _grown(history: BranchHistory, known: CachedItems) -> CachedItems | None:
    """The history as it is now; None when anything but an append happened."""
    where = history.where
    commits, found = await of(
        history.store.read(
            ListTurns(**where, after_revision=known.revision - 1, limit=COMMITS_MAX),
            ReadMessages(**where, branch=history.branch, after_seq=known.last.seq - 1),
        )
    )
    if not commits or len(commits) == COMMITS_MAX or commits[0].link != known.link:
        return None
    if any(one.kind not in ADDING for one in commits[1:]):
        return None
    if not found or found[0].id != known.last.id or not all(map(is_own, found)):
        return None
    now, fresh = commits[-1], natives(found[1:])
    count = known.count + len(fresh)
    chunk = _packed(fresh)
    if count > ITEMS_MAX or chunk is None:
        return None
    chunks = [*known.chunks, chunk] if fresh else known.chunks
    return CachedItems(now.revision, now.link, found[-1], count, chunks)


def _packed(items: list[Item]) -> bytes | None:
    """None for what msgpack cannot express: lone surrogates, and integers beyond 64 bits."""
    try:
        return msgpack.encode(items)
    except (OverflowError, UnicodeEncodeError):
        return None
