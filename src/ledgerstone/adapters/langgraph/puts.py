"""What a put has to store: which messages are new, where they go, and how the rest is said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from langchain_core.messages import BaseMessage
from langgraph.checkpoint.serde.types import _DeltaSnapshot
from msgspec.structs import replace

from ledgerstone.adapters.langgraph import conversation, envelopes
from ledgerstone.adapters.langgraph.chains import Chain, text_bytes
from ledgerstone.adapters.langgraph.context import REFUSE, MessageIndex, SaverContext
from ledgerstone.adapters.langgraph.messages import is_list
from ledgerstone.adapters.langgraph.reading import stored_of
from ledgerstone.adapters.langgraph.threads import (
    ChannelState,
    CheckpointRef,
    ThreadCache,
    ThreadHead,
    View,
    node_id,
    short_id,
)
from ledgerstone.adapters.langgraph.values import (
    MAIN,
    Tree,
    Writer,
    chain_key,
    digests,
    has_new,
    main_channel,
)
from ledgerstone.errors import LeafMoved
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message

INPUT = "__start__"


class PutRequest(NamedTuple):
    """What a put was given, as it was then: LangGraph goes on changing it."""

    ref: CheckpointRef
    """The parent."""
    id: str
    version: int
    ts: str
    values: dict[str, Any]
    versions: dict[str, Any]
    seen: dict[str, dict[str, Any]]
    updated: list[str] | None
    more: dict[str, Any]
    metadata: dict[str, Any]
    changed: frozenset[str]
    run_id: str | None
    lease: AnyLease | None

    @property
    def node(self) -> str:
        return node_id(self.id, self.ref.ns)


class CheckpointPut:
    """What one put stores, decided by where the session ended when that was looked at."""

    def __init__(
        self,
        core: SaverContext,
        request: PutRequest,
        cache: ThreadCache,
        head: ThreadHead,
        *,
        aside: bool,
    ) -> None:
        """`aside`: main's path stays as it is."""
        self.core = core
        self.request = request
        self.ref = request.ref
        self.cache = cache
        self.head = head
        self.on_main = not aside and not self.ref.ns
        latest = head.latest.get("")
        self.begins_elsewhere = latest is None and conversation.is_first(self.ref)
        """Whether the parent is the first checkpoint of a session that began elsewhere."""
        self.is_newest = self.ref.checkpoint == latest or self.begins_elsewhere
        """Whether it goes on from the newest checkpoint of the root graph."""
        self.index = MessageIndex(core, self.ref.session)
        self.before = ChannelState({}, {})
        """The channels of the parent."""
        self.last_message = head.last_message
        self.trees: dict[str, Tree] = {}
        self.body: dict[str, Any] = {}
        self.meta: dict[str, Any] = {}
        self.refs: list[str] = []
        self.values: dict[str, bytes] = {}
        self.notes: dict[str, Tree] = {}
        """Channels whose values say messages that are no nodes yet."""
        self.start = False
        """Whether main's path begins anew."""
        self.parent: str | None = None
        """The node that the checkpoint follows, when it is not the branch's last one."""
        self.main_messages: list[Message] = []
        self.aside_messages: list[list[Message]] = []
        self.chains: list[tuple[str, Chain, int]] = []
        self.nodes: list[tuple[str, BaseMessage, str]] = []
        self.views: list[View] = []
        """The conversation as the run has it; several when it is not known which."""
        self.first: dict[str, Any] | None = None
        """The body of the parent, when that is to be stored along."""
        self._has_seen = False
        """Whether the run has seen what others added after the parent."""
        self._rewrites = False
        """Whether its list has some of the conversation, but not the beginning."""

    async def plan(self) -> None:
        """Decide everything; reads only what this process has not cached."""
        self.before = await self._state_before()
        if self.on_main:
            conversation.refuse_delta(self)
            if self.begins_elsewhere:
                chain = await self._chain_of(self.before.values[MAIN])
                if chain.items:
                    self.first = conversation.first_body(chain, self.request.ts)
        lists: dict[str, list[BaseMessage]] = {}
        rest: list[str] = []
        values = self.request.values
        for name in dict.fromkeys((*self.request.versions, *values)):
            if self._is_unchanged(name):
                self.trees[name] = self.before.values[name]
            elif name in values and is_list(_whole(values[name])):
                lists[name] = _whole(values[name])
            elif name in values:
                rest.append(name)
        unchanged = {name for name, tree in self.trees.items() if chain_key(tree) is not None}
        main = main_channel({*lists, *unchanged}) if self.on_main else None
        for name in sorted(lists, key=lambda one: one != main):
            await self._plan_list(name, lists[name], is_main=name == main)
        if main is not None and main not in lists:
            await self._plan_unchanged_main(main)
        elif main is None and self.on_main:
            await self._plan_no_main(rest)
        for name in rest:
            self.trees[name] = self._write(name, values[name])
        self._make_body()

    async def _state_before(self) -> ChannelState:
        ref = self.ref
        if ref.node is None:
            return ChannelState({}, {})
        if self.begins_elsewhere:
            return conversation.state_before(self)
        found = self.cache.states.get(ref.node)
        if found is None:
            node = await self.core.checkpoint(ref.session, ref.node)
            if node is None:
                return ChannelState({}, {})
            found = stored_of(node).state
            self.cache.states.put(ref.node, found)
        return found

    def _is_unchanged(self, name: str) -> bool:
        """Whether a channel says what it said in the parent, under the same version."""
        request, before = self.request, self.before
        if name in request.changed or name not in before.values or name not in request.versions:
            return False
        tree = before.values[name]
        in_note = type(tree) is dict and "$note" in tree
        return not in_note and before.versions.get(name) == request.versions[name]

    async def _plan_list(self, name: str, given: list[BaseMessage], *, is_main: bool) -> None:
        """A chain for a channel that holds messages; one of the root graph's is main's path."""
        base = await self._chain_of(self.before.values.get(name))
        if is_main and await self._take_up(name, base):
            return
        is_delta = type(self.request.values[name]) is _DeltaSnapshot
        if is_main and is_delta and not base.items:
            # Checkpoints between two snapshots hold no list; main's path has the last one.
            base = await self._chain_of({"$tip": self.head.last_message})
        chain, length = self.index.longest(given, base, main=is_main)
        grown, messages = self._grow(name, chain.upto(length), given, length)
        if is_main:
            grown = self._put_on_main(base, chain, grown, messages, length)
            self.views = _own_views(name, grown)
        else:
            grown = self._put_aside(grown, messages, length)
        self._add_chain(name, grown, len(messages))
        self.trees[name] = {"$delta": grown.tree} if is_delta else grown.tree

    async def _plan_unchanged_main(self, main: str) -> None:
        chain = await self._chain_of(self.trees[main])
        if not await self._take_up(main, chain):
            self._refuse_foreign(chain)
            self._follow(chain)
            self.views = _own_views(main, chain)

    async def _plan_no_main(self, names: Sequence[str]) -> None:
        """No channel holds messages: one was emptied, or there has been none."""
        emptied = self._emptied(names)
        if emptied is not None:
            base = await self._chain_of(self.before.values.get(emptied))
            found = await conversation.divergence(self, emptied, base)
            if found is not None:
                found.part_seen(self.core, [], changed=True)
            self.start, self.last_message = True, None
        elif not self.is_newest:
            await self._go_back()
        else:
            views = self.cache.views.get(str(self.ref.node), ())
            self.views = [one._replace(own=True) for one in views]

    async def _take_up(self, main: str, base: Chain) -> bool:
        """Keep what others added to the conversation after the parent.

        A run that has not seen it goes on after it. True when nothing is left to be done for main.
        """
        changed = main not in self.trees
        is_cleared = base.items and self.head.last_message is None
        if not changed and is_cleared and self.is_newest:
            self.trees[main] = []  # By others.
            return True
        found = await conversation.divergence(self, main, base)
        if found is None:
            return False
        self.index.chains.append(found.whole)
        value = _whole(self.request.values.get(main))
        given = value if is_list(value) else None
        shown = found.part_seen(self.core, given, changed=changed)
        if shown is not None and not found.seen:
            self._refuse_foreign(base)
        if shown is None and changed:
            ids_there = {one.id for one in found.whole.items}
            self._has_seen = True
            self._rewrites = any(one.id in ids_there for one in given or ())
            return False
        new = given if given is not None and shown is not None else []
        begin = 0 if shown is None else len(shown.items)
        grown, self.main_messages = self._grow(main, found.whole, new, begin)
        if self.main_messages:
            self.last_message = self.main_messages[-1].id
        self._add_chain(main, grown, len(self.main_messages))
        self.views = [found.view(main, shown, grown)]
        self.trees[main] = grown.tree
        return True

    def _emptied(self, names: Sequence[str]) -> str | None:
        """The channel whose list of messages has become an empty one."""
        shown = {one.channel for one in self.cache.views.get(str(self.ref.node), ())}
        before = self.before.values
        shown |= {name for name, tree in before.items() if chain_key(tree) is not None}
        values = self.request.values
        return next((name for name in names if name in shown and values[name] == []), None)

    async def _go_back(self) -> None:
        """Stand where an older checkpoint without messages stood; those after it are not shown."""
        core, session, node = self.core, self.ref.session, None
        if self.ref.node is not None:
            node = await core.checkpoint(session, self.ref.node)
        if node is None:
            self.start, self.last_message = True, None
            return
        before = await core.path(session, at=node.id, last=1)
        self.parent = node.id
        self.last_message = before[0].id if before else None

    async def _chain_of(self, tree: Tree) -> Chain:
        return await self.core.chain_of(self.ref.session, tree)

    def _grow(
        self, channel: str, chain: Chain, given: list[BaseMessage], begin: int
    ) -> tuple[Chain, list[Message]]:
        """A chain that goes on with the messages of a list from `begin` on, and those as nodes."""
        keep, path = self.core.messages.keep, f"channel_values.{channel}"
        kept = [keep(one, f"{path}[{n}]") for n, one in enumerate(given) if n >= begin]
        names = [short_id() for _ in kept]
        for one, node in zip(kept, names, strict=True):
            self.index.add(one.key, one.pristine, node)
            self.nodes.append((one.key, one.pristine, node))
        messages = [replace(one.message, id=node) for one, node in zip(kept, names, strict=True)]
        return chain.followed_by([one.pristine for one in kept], names), messages

    def _add_chain(self, channel: str, chain: Chain, added: int) -> None:
        """A list of messages, the last of which are new."""
        self.index.chains.append(chain)
        new = chain.items[len(chain.items) - added :]
        self.chains.append((channel, chain, text_bytes(new)))

    def _put_on_main(
        self, base: Chain, chain: Chain, grown: Chain, messages: list[Message], length: int
    ) -> Chain:
        """Put new messages on main's path, after the last one that stays."""
        last = self.head.last_message
        attach = grown.nodes[length - 1] if length else None
        if length and last in (chain.tip, attach) and length == len(chain.items):
            attach = last
        self._refuse_foreign(base)
        if not messages:
            self._follow(grown)
            return grown
        if attach is None and last is not None:
            if base.items or self._rewrites or not self.is_newest:
                # The list begins anew (trimmed, summarised, another one), as does the conversation.
                self.start = True
            else:
                grown = grown._replace(first=messages[0].id)
        elif attach != last:
            messages[0] = replace(messages[0], parent=attach)
        self.main_messages = messages
        self.last_message = messages[-1].id
        return grown

    def _put_aside(self, grown: Chain, messages: list[Message], length: int) -> Chain:
        """Put new messages beside main's path."""
        if not messages:
            return grown
        attach = grown.nodes[length - 1] if length else None
        if attach is None:
            # They follow main's last node, whose path is not theirs.
            grown = grown._replace(first=messages[0].id)
        else:
            messages[0] = replace(messages[0], parent=attach)
        for n in range(1, len(messages)):
            messages[n] = replace(messages[n], parent=messages[n - 1].id)
        self.aside_messages.append(messages)
        return grown

    def _follow(self, chain: Chain) -> None:
        """The checkpoint stands after a list that is there already."""
        if chain.last is not None and chain.last != self.head.last_message:
            self.parent = chain.last
            self.last_message = chain.last

    def _refuse_foreign(self, base: Chain) -> None:
        """Messages that somebody else added after the parent are not passed over in silence."""
        if self.core.on_divergence != REFUSE or not base.items or self.ref.node in self.cache.asked:
            return
        if base.last != self.head.last_message and not self._has_seen:
            raise LeafMoved("main", base.last, self.head.last_message, conversation.HINT)

    def _write(self, name: str, value: Any) -> Tree:
        """The value of a channel; input that says messages goes to a note, as that can shrink."""
        late: bool | frozenset[str] = False
        if name == INPUT:
            late = True if is_list(value) else frozenset((MAIN, *self.cache.chained))
        writer = Writer(self.core.messages, self.index, late=late)
        tree = writer.write(value, f"channel_values.{name}")
        self.values |= writer.values
        if name == INPUT and has_new(tree):
            self.notes[name] = tree
            return {"$note": True}
        return tree

    def _make_body(self) -> None:
        request = self.request
        body: dict[str, Any] = {
            "ts": envelopes.pack_ts(request.ts, request.id),
            "ver": request.versions,
            "val": self.trees,
        }
        if request.version != envelopes.VERSION:
            body["v"] = request.version
        if self.ref.checkpoint is not None:
            body["p"] = self.ref.checkpoint
        if request.seen:
            body["seen"] = envelopes.pack_seen(request.seen)
        if request.updated is not None:
            body["upd"] = envelopes.pack_updated(request.updated, request.versions)
        self.meta, odd, missing = envelopes.pack_meta(request.metadata)
        if missing:
            body["np"] = True
        more = {**request.more, "metadata": odd} if odd else request.more
        if more:
            writer = Writer(self.core.messages, self.index)
            body["more"] = writer.write(more, "checkpoint")
            self.values |= writer.values
        self.body = body
        self.refs = list(dict.fromkeys(digests([*self.trees.values(), body.get("more")])))


def _whole(value: Any) -> Any:
    """A channel's value, out of the wrapping that says that it is a snapshot of a delta channel."""
    return value.value if type(value) is _DeltaSnapshot else value


def _own_views(channel: str, chain: Chain) -> list[View]:
    return [] if chain.tip is None else [View(channel, (chain.tip, chain.first), own=True)]
