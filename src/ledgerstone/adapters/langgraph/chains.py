"""Chains: lists of messages as paths of message nodes, kept decoded by the node they end at.

A path never changes, and a message that is deleted or amended moves the session's revision, after
which `SaverContext.compare` drops the cache. What is cached is never handed out: callers get
copies, and may change them as they like.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple, TypeAlias

from langchain_core.messages import BaseMessage

POINTER_BYTES = 16
MESSAGE_BYTES = 1500
"""What a decoded message takes besides its text."""

Compare = Callable[[Sequence[BaseMessage], Sequence[BaseMessage]], int]


Key: TypeAlias = tuple[str, str | None]
"""The node a list ends at, and the one it begins with when its path is older."""


class Chain(NamedTuple):
    """A list of messages, and for each of them the node where the list may part or go on."""

    items: Sequence[BaseMessage] = ()
    nodes: Sequence[str | None] = ()
    tip: str | None = None
    first: str | None = None
    """The first node, when the path has older messages that are not of this list."""

    @property
    def last(self) -> str | None:
        """The last node that is still there."""
        return self.nodes[-1] if self.nodes else None

    @property
    def tree(self) -> dict[str, object]:
        found: dict[str, object] = {"$tip": self.tip, "n": len(self.items)}
        return found if self.first is None else {**found, "f": self.first}

    def common(self, given: Sequence[BaseMessage], compare: Compare) -> int:
        """How many messages at the beginning are the same, up to a place where it may part."""
        length = compare(self.items, given)
        while length and self.nodes[length - 1] is None:
            length -= 1
        return length

    def upto(self, length: int) -> Chain:
        if length == len(self.items):
            return self
        if not length:
            return EMPTY
        nodes = self.nodes[:length]
        return Chain(self.items[:length], nodes, nodes[-1], self.first)

    def upto_node(self, tip: str) -> Chain | None:
        """The part that ends at a node, or None when it is not on the path."""
        if tip not in self.nodes:
            return None
        return self.upto(list(self.nodes).index(tip) + 1)

    def without(self, hidden: Collection[str]) -> Chain:
        """The list without some messages; it still ends where it ended."""
        if not hidden:
            return self
        kept: list[int] = []
        begin = 0
        for n, node in enumerate(self.nodes):
            if node is not None:
                kept += () if node in hidden else range(begin, n + 1)
                begin = n + 1
        items, nodes = [self.items[n] for n in kept], [self.nodes[n] for n in kept]
        return Chain(items, nodes, self.tip, self.first)

    def followed_by(self, items: Sequence[BaseMessage], nodes: Sequence[str]) -> Chain:
        if not items:
            return self
        return Chain([*self.items, *items], [*self.nodes, *nodes], nodes[-1], self.first)


EMPTY = Chain()


class Chains:
    """Decoded chains of all threads, the longest unused ones forgotten first."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._kept: OrderedDict[tuple[str, str, str | None], tuple[Chain, int]] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, session: str, key: Key) -> Chain | None:
        with self._lock:
            found = self._kept.get((session, *key))
            if found is None:
                return None
            self._kept.move_to_end((session, *key))
            return found[0]

    def put(self, session: str, chain: Chain, new_bytes: int) -> None:
        """Keep a list; `new_bytes` is what its messages take that are in no other one."""
        if chain.tip is None:
            return
        size = new_bytes + POINTER_BYTES * len(chain.items)
        key = (session, chain.tip, chain.first)
        with self._lock:
            self._drop(key)
            self._kept[key] = (chain, size)
            self._bytes += size
            while self._bytes > self._most_bytes and self._kept:
                self._drop(next(iter(self._kept)))

    def of(self, session: str, keys: Iterable[Key]) -> list[Chain]:
        with self._lock:
            found = [self._kept.get((session, *key)) for key in keys]
            return [one[0] for one in found if one is not None]

    def forget(self, session: str) -> None:
        with self._lock:
            for key in [key for key in self._kept if key[0] == session]:
                self._drop(key)

    def _drop(self, key: tuple[str, str, str | None]) -> None:
        found = self._kept.pop(key, None)
        if found is not None:
            self._bytes -= found[1]


def text_bytes(items: Iterable[BaseMessage]) -> int:
    """About what decoded messages take."""
    return sum(MESSAGE_BYTES + len(one.content) for one in items)
