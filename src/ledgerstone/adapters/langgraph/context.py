"""What reading, writing and upkeep share: the store, and what is cached of its threads."""

from __future__ import annotations

from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from ledgerstone.adapters.langgraph.chains import EMPTY, Chain, Chains, Key, text_bytes
from ledgerstone.adapters.langgraph.messages import Messages
from ledgerstone.adapters.langgraph.threads import KIND, ThreadCache, Threads, name_of
from ledgerstone.adapters.langgraph.values import Tree, chain_key
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.commands import Query
from ledgerstone.commands.nodes import ReadMessages, ReadPath
from ledgerstone.errors import Misuse
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import Node
from ledgerstone.records.sessions import Head

REFUSE = "refuse"


class SaverContext(NamedTuple):
    """A store, what is cached of its threads, and how values are said."""

    store: AnyStore
    messages: Messages
    chains: Chains
    threads: Threads
    on_divergence: str

    @property
    def tenant(self) -> str:
        tenant = self.store.tenant
        if tenant is None:
            raise Misuse("a saver needs a store of one tenant: store.for_tenant(name)")
        return tenant

    async def read(self, *queries: Query[Any]) -> list[Any]:
        """Several answers from one snapshot."""
        return await of(self.store.read(*queries))

    async def checkpoint(self, session: str, node: str, *, resolve: bool = False) -> Node | None:
        """The node of a checkpoint with its notes, on request with its values."""
        found = await of(self.store.nodes.get(session, node, notes=True, resolve=resolve))
        return found if found is not None and found.kind == KIND else None

    async def path(
        self, session: str, *, at: str | None = None, last: int | None = None
    ) -> list[Message]:
        """Messages up to a node, or to main's leaf."""
        [found] = await self.read(
            ReadMessages(tenant=self.tenant, session=session, at=at, last=last)
        )
        messages: list[Message] = found
        return messages

    def compare(self, session: str, cache: ThreadCache, head: Head | None) -> None:
        """What others committed since makes everything that is cached of a session doubtful."""
        revision = (0, 0) if head is None else (head.incarnation, head.revision)
        if cache.revision not in (None, revision):
            self.forget(session, cache)
        cache.revision = revision

    def forget(self, session: str, cache: ThreadCache | None = None) -> None:
        """Read everything of a session again when it is needed.

        `cache`: what the caller has of it; among very many threads there may be another meanwhile.
        """
        for one in (cache, self.threads[session]):
            if one is not None:
                one.forget()
        self.chains.forget(session)

    async def chain_of(self, session: str, tree: Tree) -> Chain:
        """The list of messages that a channel's tree points at; empty when it points at none."""
        key = chain_key(tree)
        return EMPTY if key is None else await self.chain(session, key)

    async def chain(self, session: str, key: Key) -> Chain:
        """The list of messages that ends at a node, as it is in the store."""
        found = self.chains.get(session, key)
        if found is not None:
            return found
        tip, first = key
        stored = await self.path(session, at=tip)
        if first is not None:
            begin = next((one.ord for one in stored if one.id == first), None)
            if begin is None:
                begin = await self._begin(session, tip, first)
            stored = [one for one in stored if one.ord >= begin]
        return self.decoded(session, key, stored)

    async def _begin(self, session: str, tip: str, first: str) -> int:
        """Where a list begins whose first message was deleted: what followed it still says so."""
        tenant = self.tenant
        messages, nodes = await self.read(
            ReadMessages(tenant=tenant, session=session, at=tip, deleted=True),
            ReadPath(tenant=tenant, session=session, at=tip),
        )
        found = [one.ord for one in (*messages, *nodes) if first in (one.id, one.parent)]
        return min(found, default=0)

    def decoded(self, session: str, key: Key, stored: list[Message]) -> Chain:
        """Messages of a path as a chain, which is cached."""
        items, nodes = self.messages.revive(stored)
        chain = Chain(items, nodes, *key)
        self.chains.put(session, chain, text_bytes(items))
        self.threads[session].tips.put(key, None)
        return chain


class MessageIndex:
    """What is stored of one thread already, and the nodes that the commit in hand will add."""

    def __init__(self, core: SaverContext, session: str) -> None:
        self._core = core
        self._session = session
        self._cache = core.threads[session]
        self.nodes: dict[bytes, tuple[str, str | None]] = {}
        self.texts: dict[bytes, str] = {}
        self.chains: list[Chain] = []

    def add(self, key: str, pristine: BaseMessage, node: str) -> None:
        self.nodes[name_of(key)] = (node, pristine.id)
        if type(pristine.content) is str:
            self.texts[name_of(pristine.content)] = node

    def longest(
        self, given: list[BaseMessage], base: Chain = EMPTY, *, main: bool = False
    ) -> tuple[Chain, int]:
        """The chain that has most of a list's beginning, and how much; `base` is the likeliest.

        `main`: it will be what the session shows, so its path must have nothing before it.
        """
        compare, same = self._core.messages.common, self._core.messages.is_same
        best, length = base, base.common(given, compare)
        if length == len(given):
            return best, length
        keys = [key for key, _ in reversed(self._cache.tips.entries())]
        for chain in [*self.chains, *self._core.chains.of(self._session, keys)]:
            # Only one that has the next message as well can be better; most are told apart there.
            if len(chain.items) <= length or not same(chain.items[length], given[length]):
                continue
            if main and chain.first not in (None, base.first):
                continue
            common = chain.common(given, compare)
            if common > length:
                best, length = chain, common
            if length == len(given):
                break
        return best, length

    def path_of(self, given: list[BaseMessage]) -> tuple[Tree, int] | None:
        """A pointer to the longest stored beginning of a list, and how long that is."""
        chain, length = self.longest(given)
        return (chain.upto(length).tree, length) if length else None

    def node_of(self, key: str, id: str | None) -> tuple[str, str | None] | None:
        """The node that says a message, by its text without the id; and the id it has there.

        One of this commit's, or the very message; not one that only says the same: that might be
        deleted some day, and this one with it.
        """
        name = name_of(key)
        found = self.nodes.get(name)
        if found is None and id is not None:
            found = self._cache.nodes.get(name)
            return found if found is not None and found[1] == id else None
        return found

    def said_by(self, text: str) -> str | None:
        """The node whose whole text this is."""
        return self.texts.get(name_of(text)) if self.texts else None
