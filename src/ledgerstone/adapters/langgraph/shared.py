"""What reading, writing and tidying up share: the store, and what is known of its threads."""

from __future__ import annotations

from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage

from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.adapters.langgraph.chains import EMPTY, Chain, Chains, Key, text_bytes
from ledgerstone.adapters.langgraph.messages import Messages
from ledgerstone.adapters.langgraph.opaques import Opaques
from ledgerstone.adapters.langgraph.threads import Known, Threads, name_of
from ledgerstone.adapters.langgraph.values import Tree
from ledgerstone.commands import Query
from ledgerstone.commands.nodes import ReadMessages, ReadPath
from ledgerstone.errors import Misuse
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Head

REFUSE = "refuse"


class Shared(NamedTuple):
    """A store, what is known of its threads, and how values are said."""

    store: AnyStore
    opaques: Opaques
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

    def compare(self, session: str, known: Known, head: Head | None) -> None:
        """What others committed since makes everything that is known of a session doubtful."""
        stands = (0, 0) if head is None else (head.incarnation, head.revision)
        if known.stood not in (None, stands):
            self.forget(session, known)
        known.stood = stands

    def forget(self, session: str, known: Known | None = None) -> None:
        """Read everything of a session again when it is needed.

        `known`: what the caller has of it; among very many threads it may be known anew meanwhile.
        """
        for one in (known, self.threads[session]):
            if one is not None:
                one.forget()
        self.chains.forget(session)

    async def chain(self, session: str, key: Key) -> Chain:
        """The list of messages that ends at a node, as it is in the store."""
        found = self.chains.get(session, key)
        if found is not None:
            return found
        tip, first = key
        [stored] = await self.read(ReadMessages(tenant=self.tenant, session=session, at=tip))
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
        """Messages of a path as a chain, which is kept."""
        items, nodes = self.messages.revive(stored)
        chain = Chain(items, nodes, *key)
        self.chains.put(session, chain, text_bytes(items))
        self.threads[session].point_at(chain)
        return chain

    def places(self, session: str) -> ThreadPlaces:
        """What is stored of a thread already."""
        return ThreadPlaces(self, session)


class ThreadPlaces:
    """What is stored of one thread; `more` are nodes that the commit in hand will add."""

    def __init__(self, core: Shared, session: str) -> None:
        self._core = core
        self._session = session
        self._known: Known = core.threads[session]
        self.nodes: dict[bytes, tuple[str, str | None]] = {}
        self.texts: dict[bytes, str] = {}
        self.chains: list[Chain] = []

    def add(self, key: str, pristine: BaseMessage, node: str) -> None:
        """A node that will be there."""
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
        with self._known.lock:
            keys = list(reversed(self._known.tips))
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
        chain, length = self.longest(given)
        return (chain.upto(length).tree, length) if length else None

    def node_of(self, key: str, id: str | None) -> tuple[str, str | None] | None:
        """One of this commit's, or the very message; not one that only says the same.

        That might be deleted some day, and this one with it.
        """
        name = name_of(key)
        found = self.nodes.get(name)
        if found is None and id is not None:
            found = self._known.nodes.get(name)
            return found if found is not None and found[1] == id else None
        return found

    def said_by(self, text: str) -> str | None:
        return self.texts.get(name_of(text)) if self.texts else None
