"""Reading checkpoints: one, many, and the history of delta channels."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    PendingWrite,
    writes_sort_key,
)
from langgraph.checkpoint.serde.types import TASKS

from ledgerstone.adapters.langgraph import conversation, envelopes
from ledgerstone.adapters.langgraph.context import SaverContext
from ledgerstone.adapters.langgraph.threads import (
    KIND,
    ChannelState,
    CheckpointRef,
    ThreadCache,
    ThreadHead,
    checkpoint_id,
    config_of,
    node_id,
    ref_of,
)
from ledgerstone.adapters.langgraph.values import (
    LoadedMessages,
    Reader,
    References,
    Tree,
    chain_key,
    main_channel,
)
from ledgerstone.adapters.sync_async import of
from ledgerstone.commands.nodes import GetMessage, GetNode, ListNodes, ReadPath
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import Corrupt
from ledgerstone.records.nodes import Node, Note
from ledgerstone.records.sessions import Head

AGAIN = "="
"""The note of a checkpoint that was put twice: what it says now."""
DETACHED = "^"
"""The note of a checkpoint whose parent was removed: the id of that parent."""
CHANNEL_NOTE = "c:"
WRITES_NOTE = "w:"
ANCESTORS_AT_ONCE = 64
SENDS_VERSION = 4
"""From this form of a checkpoint on, tasks to be started stand in a channel."""


class PendingTree(NamedTuple):
    """One pending write, still as a tree."""

    path: str
    task: str
    idx: int
    channel: str
    tree: Tree


class StoredCheckpoint(NamedTuple):
    session: str
    ns: str
    id: str
    body: dict[str, Any]
    meta: dict[str, Any]
    notes: Mapping[str, Note]
    values: Mapping[str, bytes]
    ord: int = 0

    @property
    def channels(self) -> dict[str, Tree]:
        """The trees of its channels, those in notes too."""
        found = {}
        for name, tree in self.body["val"].items():
            if type(tree) is not dict or "$note" not in tree:
                found[name] = tree
            elif CHANNEL_NOTE + name in self.notes:
                found[name] = self.notes[CHANNEL_NOTE + name].body
        return found

    @property
    def writes(self) -> list[PendingTree]:
        """Its pending writes, in the order in which LangGraph applies them."""
        found: dict[tuple[str, int], PendingTree] = {}
        for key, note in sorted(self.notes.items(), key=lambda item: item[1].created_us):
            if not key.startswith(WRITES_NOTE):
                continue
            body = note.body
            task = body["t"] if "t" in body else envelopes.unpack_task(key.split(":", 2)[2])
            path = envelopes.unpack_path(body["p"])
            for idx, (channel, tree) in indexed_writes(body):
                found.setdefault((task, idx), PendingTree(path, task, idx, channel, tree))
        return sorted(found.values(), key=lambda one: writes_sort_key(one.path, one.task, one.idx))

    @property
    def trees(self) -> list[Tree]:
        """Everything in it that may point at messages."""
        written = (write.tree for write in self.writes)
        return [*self.channels.values(), *written, self.body.get("more")]

    @property
    def state(self) -> ChannelState:
        return ChannelState(self.body["ver"], self.body["val"])


def indexed_writes(body: dict[str, Any]) -> Iterator[tuple[int, tuple[str, Tree]]]:
    """The writes of a note with their indexes; most are numbered from 0."""
    writes = body["w"]
    return zip(body.get("i") or range(len(writes)), writes, strict=True)


def stored_of(
    node: Node, notes: Mapping[str, Note] | None = None, values: Mapping[str, bytes] | None = None
) -> StoredCheckpoint:
    """A node as a checkpoint; one that was put twice says what it says now."""
    beside = node.notes or {} if notes is None else notes
    body, meta = node.body, node.meta
    if AGAIN in beside:
        body, meta = beside[AGAIN].body["body"], beside[AGAIN].body["meta"]
    if DETACHED in beside and body.get("p") == beside[DETACHED].body:
        body = {key: one for key, one in body.items() if key != "p"}
    kept = node.resolved or {} if values is None else values
    meta = envelopes.unpack_meta(meta, "np" in body)
    id = checkpoint_id(node.id, node.label)
    return StoredCheckpoint(node.session, node.label, id, body, meta, beside, kept, node.ord)


class CheckpointReader:
    def __init__(self, core: SaverContext) -> None:
        self._core = core

    async def latest(self, ref: CheckpointRef) -> tuple[StoredCheckpoint | None, Head | None]:
        """The checkpoint that a config names, or the newest one of its namespace; and the head."""
        core, session = self._core, ref.session
        cache = core.threads[session]
        query: Any = ListNodes(
            tenant=core.tenant,
            session=session,
            kind=KIND,
            label=ref.ns,
            order="-id",
            limit=1,
            notes=True,
            resolve=True,
        )
        if ref.node is not None:
            query = GetNode(
                tenant=core.tenant, session=session, id=ref.node, notes=True, resolve=True
            )
            cache.asked.put(ref.node, None)
        head, answer = await core.read(GetHead(tenant=core.tenant, id=session), query)
        if not cache.putting:
            core.compare(session, cache, head)
        node = answer if ref.node is not None else next(iter(answer), None)
        if node is None or node.kind != KIND or node.label != ref.ns:
            return None, head
        found = stored_of(node)
        cache.states.put(node.id, found.state)
        return found, head

    async def tuple_at(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the newest one, with what others said since."""
        core, ref = self._core, ref_of(config)
        cache = core.threads[ref.session]
        stored, head = await self.latest(ref)
        if stored is None:
            body = await conversation.first_checkpoint(core, ref, head)
            if body is None:
                return None
            id, meta = conversation.first_id(ref.session), conversation.FIRST_META
            shown = StoredCheckpoint(ref.session, ref.ns, id, body, meta, {}, {})
        elif AGAIN not in stored.notes:
            shown = stored._replace(body=await conversation.current(core, ref, stored, head))
        else:
            shown = stored
        given = config if ref.checkpoint is not None else None
        [made] = await self.complete([shown], [ref.thread], given)
        if stored is not None and head is not None and ref.checkpoint is None and not ref.ns:
            self._cache_head(stored, cache, head)
        return made

    def _cache_head(self, stored: StoredCheckpoint, cache: ThreadCache, head: Head) -> None:
        """Cache what a put will ask, when the newest checkpoint is main's last node.

        Its list is main's then; and a commit that names the revision finds out when that moved.
        """
        revision = (head.incarnation, head.revision)
        if cache.putting or cache.head is not None or cache.revision != revision:
            return
        if head.effective_leaf != stored.id or AGAIN in stored.notes:
            return
        trees = stored.body["val"]
        main = main_channel(name for name, tree in trees.items() if chain_key(tree) is not None)
        key = None if main is None else chain_key(trees[main])
        chain = None if key is None else self._core.chains.get(stored.session, key)
        if chain is not None and chain.items:
            cache.head = ThreadHead(*revision, chain.last, {"": stored.id})

    async def complete(
        self,
        stored: Sequence[StoredCheckpoint],
        threads: Sequence[str],
        config: RunnableConfig | None = None,
    ) -> list[CheckpointTuple]:
        """Checkpoints with their messages, which are read together."""
        loaded = await self._fetch(stored)
        made = []
        for one, thread in zip(stored, threads, strict=True):
            found = self._tuple(one, thread, loaded[one.session], config)
            version = one.body.get("v", envelopes.VERSION)
            if version < SENDS_VERSION and one.body.get("p") is not None:
                await self._add_sends(one, found.checkpoint)
            made.append(found)
        return made

    async def _add_sends(self, stored: StoredCheckpoint, checkpoint: Any) -> None:
        """Before form 4, tasks to be started stood at the parent; now they are a channel."""
        core, values = self._core, checkpoint["channel_values"]
        parent_node = node_id(stored.body["p"], stored.ns)
        node = await core.checkpoint(stored.session, parent_node, resolve=True)
        if node is None or TASKS in values:
            return
        parent = stored_of(node)
        reader = await self._values_of(parent)
        sends = [_pending(reader, one)[2] for one in parent.writes if one.channel == TASKS]
        if sends:
            versions = checkpoint["channel_versions"]
            values[TASKS] = sends
            versions[TASKS] = max(versions.values()) if versions else envelopes.next_version(None)

    async def _values_of(self, stored: StoredCheckpoint) -> Reader:
        loaded = await self._fetch([stored])
        return Reader(self._core.messages.serializer, stored.values, loaded[stored.session])

    async def _fetch(self, stored: Sequence[StoredCheckpoint]) -> dict[str, LoadedMessages]:
        """The messages that checkpoints point at, by session."""
        references: dict[str, References] = {}
        for one in stored:
            references.setdefault(one.session, References()).add(one.trees, one.values)
        return {session: await self._fetch_of(session, one) for session, one in references.items()}

    async def _fetch_of(self, session: str, references: References) -> LoadedMessages:
        found, core = LoadedMessages(), self._core
        for key in references.tips:
            chain = core.chains.get(session, key)
            # The newest one is read first; the older ones are mostly its beginning.
            for other in () if chain is not None else list(found.chains.values()):
                if other.first == key[1]:
                    chain = chain or other.upto_node(key[0])
            found.chains[key] = chain or await core.chain(session, key)
        wanted = [node for node in references.nodes if not found.take_from_chain(node)]
        if wanted:
            queries = [GetMessage(tenant=core.tenant, id=id, session=session) for id in wanted]
            for id, one in zip(wanted, await core.read(*queries), strict=True):
                revived = [] if one is None else core.messages.revive([one])[0]
                found.singles[id] = revived[0] if revived else None
        return found

    def _tuple(
        self,
        stored: StoredCheckpoint,
        thread: str,
        loaded: LoadedMessages,
        config: RunnableConfig | None,
    ) -> CheckpointTuple:
        reader = Reader(self._core.messages.serializer, stored.values, loaded)
        body = stored.body
        more = reader.read(body.get("more") or {}, "checkpoint")
        metadata = {**stored.meta, **more.pop("metadata", {})}
        checkpoint = {
            "v": body.get("v", envelopes.VERSION),
            "id": stored.id,
            "ts": envelopes.unpack_ts(body["ts"], stored.id),
            "channel_values": {
                name: reader.read(tree, f"channel_values.{name}")
                for name, tree in stored.channels.items()
            },
            "channel_versions": dict(body["ver"]),
            "versions_seen": envelopes.unpack_seen(body["seen"]) if "seen" in body else {},
            "updated_channels": envelopes.unpack_updated(body.get("upd"), body["ver"]),
            **more,
        }
        parent = body.get("p")
        return CheckpointTuple(
            config=config or config_of(thread, stored.ns, stored.id),
            checkpoint=cast(Checkpoint, checkpoint),
            metadata=cast(CheckpointMetadata, metadata),
            parent_config=None if parent is None else config_of(thread, stored.ns, parent),
            pending_writes=[_pending(reader, write) for write in stored.writes],
        )

    async def ancestry(
        self, session: str, ns: str, id: str | None
    ) -> AsyncGenerator[StoredCheckpoint, None]:
        """Yield a checkpoint and its ancestors, newest first; Corrupt when they form a cycle."""
        walked: set[str] = set()
        while id is not None:
            nodes = await self._nodes(session, ns, id)
            if not nodes:
                return
            for stored in await self.beside(session, nodes):
                if stored.id != id:
                    break  # The one before was put again, with another parent.
                if id in walked:
                    raise Corrupt("nodes", id, "parent", "the parents form a cycle")
                walked.add(id)
                yield stored
                id = stored.body.get("p")

    async def _nodes(self, session: str, ns: str, id: str) -> list[Node]:
        """A checkpoint and its ancestors, newest first, as far as one read goes."""
        core, cursor = self._core, node_id(id, ns)
        [path] = await core.read(
            ReadPath(
                tenant=core.tenant, session=session, at=cursor, kind=KIND, last=ANCESTORS_AT_ONCE
            )
        )
        near = {one.id: one for one in path}
        if cursor not in near:
            one = await core.checkpoint(session, cursor)
            near = {} if one is None else {cursor: one}
        found: list[Node] = []
        # A path may lead over checkpoints that are no ancestors: only the parents count.
        while cursor in near:
            found.append(near.pop(cursor))
            parent = found[-1].body.get("p")
            cursor = "" if parent is None else node_id(parent, ns)
        return found

    async def beside(self, session: str, nodes: Sequence[Node]) -> list[StoredCheckpoint]:
        """Nodes as checkpoints, with notes and values read together."""
        store = self._core.store
        notes = await of(store.nodes.notes(session, [node.id for node in nodes]))
        wanted = {digest for node in nodes for digest in node.values}
        wanted |= {d for by in notes.values() for note in by.values() for d in note.values}
        values = await of(store.nodes.values(session, wanted)) if wanted else {}
        return [stored_of(node, notes.get(node.id, {}), values) for node in nodes]

    async def delta_history(
        self, config: RunnableConfig, channels: Sequence[str]
    ) -> dict[str, DeltaChannelHistory]:
        """What each channel was written along the ancestors, back to where it was last whole."""
        ref = ref_of(config)
        writes: dict[str, list[PendingWrite]] = {name: [] for name in channels}
        seeds: dict[str, Any] = {}
        target = (await self.latest(ref))[0] if channels else None
        cursor = None if target is None else target.body.get("p")
        open_ = set(channels)
        async with aclosing(self.ancestry(ref.session, ref.ns, cursor)) as ancestors:
            async for stored in ancestors:
                await self._collect(stored, open_, writes, seeds)
                open_ -= seeds.keys()
                if not open_:
                    break
        return {name: _history(writes[name], seeds, name) for name in channels}

    async def _collect(
        self,
        stored: StoredCheckpoint,
        channels: set[str],
        writes: dict[str, list[PendingWrite]],
        seeds: dict[str, Any],
    ) -> None:
        reader = await self._values_of(stored)
        for write in reversed(stored.writes):
            if write.channel in channels:
                writes[write.channel].append(_pending(reader, write))
        trees = stored.channels
        for name in channels & trees.keys():
            seeds[name] = reader.read(trees[name], f"channel_values.{name}")


def _pending(reader: Reader, write: PendingTree) -> PendingWrite:
    return (write.task, write.channel, reader.read(write.tree, f"writes.{write.channel}"))


def _history(
    newest_first: list[PendingWrite], seeds: dict[str, Any], name: str
) -> DeltaChannelHistory:
    found: DeltaChannelHistory = {"writes": newest_first[::-1]}
    if name in seeds:
        found["seed"] = seeds[name]
    return found
