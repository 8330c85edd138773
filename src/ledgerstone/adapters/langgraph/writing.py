"""Writing checkpoints, each in one commit, and pending writes beside the ones they began from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP, get_checkpoint_metadata
from msgspec import UNSET

from ledgerstone import ids
from ledgerstone.adapters.langgraph import envelopes
from ledgerstone.adapters.langgraph.context import REFUSE, MessageIndex, SaverContext
from ledgerstone.adapters.langgraph.conversation import FIRST_META, is_first
from ledgerstone.adapters.langgraph.messages import is_from_put
from ledgerstone.adapters.langgraph.puts import CheckpointPut, PutRequest
from ledgerstone.adapters.langgraph.reading import (
    AGAIN,
    CHANNEL_NOTE,
    WRITES_NOTE,
    indexed_writes,
    stored_of,
)
from ledgerstone.adapters.langgraph.threads import (
    KIND,
    START_KIND,
    ChannelState,
    CheckpointRef,
    ThreadCache,
    ThreadHead,
    checkpoint_id,
    name_of,
    new_session,
    ref_of,
    short_id,
)
from ledgerstone.adapters.langgraph.values import Tree, Writer, digests, has_new, settled
from ledgerstone.adapters.sync_async import of
from ledgerstone.api.turn import AsyncTurn
from ledgerstone.api_sync.turn import Turn
from ledgerstone.commands.nodes import ListNodes, ReadMessages
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import (
    AlreadyExists,
    InvalidValue,
    LeafMoved,
    RevisionMoved,
    SessionNotFound,
)

ATTEMPTS = 8
LATE = ("messages", "__pregel_tasks")
"""Channels whose writes most often say messages that become nodes soon after."""
_FIELDS = frozenset(
    ("id", "v", "ts", "channel_values", "channel_versions", "versions_seen", "updated_channels")
)
"""The keys of a checkpoint that a put looks at; others are stored as they are."""


def request_of(
    config: RunnableConfig, checkpoint: Any, metadata: Any, new_versions: Any
) -> PutRequest:
    """A put as LangGraph asks for it; InvalidValue."""
    values = checkpoint["channel_values"]
    envelopes.check_versions(checkpoint["channel_versions"], checkpoint["versions_seen"])
    full_metadata = dict(get_checkpoint_metadata(config, metadata))
    run_id: Any = full_metadata.get("run_id")
    return PutRequest(
        ref=ref_of(config),
        id=str(ids.check_id(checkpoint["id"], "checkpoint.id")),
        version=checkpoint["v"],
        ts=checkpoint["ts"],
        values={key: list(one) if type(one) is list else one for key, one in values.items()},
        versions=dict(checkpoint["channel_versions"]),
        seen={key: dict(one) for key, one in checkpoint["versions_seen"].items()},
        updated=checkpoint.get("updated_channels"),
        more={key: one for key, one in checkpoint.items() if one and key not in _FIELDS},
        metadata=full_metadata,
        changed=frozenset(new_versions),
        run_id=run_id if _is_id(run_id) else None,
        lease=(config.get("configurable") or {}).get("ledger_lease"),
    )


class CheckpointWriter:
    def __init__(self, core: SaverContext) -> None:
        self._core = core

    async def put(self, request: PutRequest) -> RunnableConfig:
        """Store a checkpoint: one commit.

        Errors: LeafMoved when divergence is refused, InvalidValue, NotSupported, and what a
        commit raises.
        """
        cache = self._core.threads[request.ref.session]
        cache.count(1)
        try:
            async with cache.writing:
                await self._put(request, cache)
        finally:
            cache.count(-1)
        return request.ref.config(request.id)

    async def _put(self, request: PutRequest, cache: ThreadCache) -> None:
        core, ref = self._core, request.ref
        for attempt in range(ATTEMPTS):
            head = await self._head(request, cache)
            self._refuse_divergence(request, cache, head)
            again = request.node in cache.states
            # What a run that was given up still puts is older than what the thread shows by now.
            late = not ref.ns and request.id < (head.latest[""] or "")
            put = CheckpointPut(core, request, cache, head, aside=again or late)
            await put.plan()
            try:
                await (self._overwrite(put) if again else self._commit(put))
                return
            except BaseException as error:
                # What was thought of the session may be wrong, or not be so any more.
                core.forget(ref.session, cache)
                if not _is_stale(error, request.node) or attempt == ATTEMPTS - 1:
                    raise
                if isinstance(error, AlreadyExists):
                    cache.states.put(request.node, ChannelState({}, {}))

    async def _head(self, request: PutRequest, cache: ThreadCache) -> ThreadHead:
        """Where the session ends; read only when that is not cached."""
        core, session, ns = self._core, request.ref.session, request.ref.ns
        # The newest checkpoint of a subgraph matters only where divergence is refused.
        label = ns if core.on_divergence == REFUSE else ""
        known = cache.head
        if known is not None and ((ns and not label) or label in known.latest):
            return known
        head, found, last = await core.read(
            GetHead(tenant=core.tenant, id=session),
            ListNodes(
                tenant=core.tenant, session=session, kind=KIND, label=label, order="-id", limit=1
            ),
            ReadMessages(tenant=core.tenant, session=session, last=1),
        )
        core.compare(session, cache, head)
        incarnation, revision = (0, 0) if head is None else (head.incarnation, head.revision)
        newest = checkpoint_id(found[0].id, label) if found else None
        latest = {**(cache.head.latest if cache.head else {}), label: newest}
        foreign = bool(last) and not is_from_put(last[0])
        foreign = foreign and (not found or last[0].ord > found[0].ord)
        last_message = last[0].id if last else None
        cache.head = ThreadHead(incarnation, revision, last_message, latest, foreign)
        return cache.head

    def _refuse_divergence(self, request: PutRequest, cache: ThreadCache, head: ThreadHead) -> None:
        """The second writer from one parent is told so, unless it named the parent itself."""
        if self._core.on_divergence != REFUSE:
            return
        ref = request.ref
        latest = head.latest[ref.ns]
        if latest in (ref.checkpoint, request.id) or (latest is None and is_first(ref)):
            return
        if ref.node is None or ref.node not in cache.asked:
            raise LeafMoved(ref.ns or "main", ref.checkpoint, latest)

    async def _commit(self, put: CheckpointPut) -> None:
        turn = self._begin(put)
        _add_nodes(turn, put)
        shorter = list(_shortened(put))
        for (about, key), body in shorter:
            turn.note(about, key, body, _refs(body))
        answer = await of(turn.commit())
        self._remember(put, answer.revision)
        for (about, key), body in shorter:
            put.cache.hold(about, key, body)

    def _begin(self, put: CheckpointPut) -> Turn | AsyncTurn:
        """A turn with what has no place in the conversation: values, and messages beside it."""
        turn = self._core.store.turns.begin(
            put.ref.session,
            id=short_id(),
            run_id=put.request.run_id,
            lease=put.request.lease,
            expected_revision=put.head.revision,
            # A session without a commit has no head to tell it by; then nothing points anywhere.
            expected_incarnation=put.head.incarnation or None,
            create=new_session(put.ref),
        )
        turn.warns = False
        for messages in put.aside_messages:
            turn.add(*messages, on_path=False)
        for data in put.values.values():
            turn.value(data)
        return turn

    def _remember(self, put: CheckpointPut, revision: int) -> None:
        cache, ref, request, node = put.cache, put.ref, put.request, put.request.node
        latest = dict(put.head.latest)
        latest[ref.ns] = max(request.id, latest.get(ref.ns) or "")
        incarnation = put.head.incarnation or 1
        cache.head = ThreadHead(incarnation, revision, put.last_message, latest)
        cache.revision = incarnation, revision
        cache.states.put(node, ChannelState(put.body["ver"], put.body["val"]))
        for view in put.views:
            cache.show(node, view)
        for channel, chain, size in put.chains:
            self._core.chains.put(ref.session, chain, size)
            if chain.tip is not None:
                cache.tips.put((chain.tip, chain.first), None)
            cache.chained.add(channel)
        for key, pristine, message_node in put.nodes:
            cache.nodes.put(name_of(key), (message_node, pristine.id))
        for name, tree in put.notes.items():
            cache.hold(node, CHANNEL_NOTE + name, tree)

    async def _overwrite(self, put: CheckpointPut) -> None:
        """The same checkpoint a second time: when it says something else, it says that now."""
        node, session = put.request.node, put.ref.session
        stored = await self._core.checkpoint(session, node)
        if stored is None:
            raise AlreadyExists(put.request.id)
        body = put.body | {"val": {**put.trees, **put.notes}}
        now = stored_of(stored)
        meta = envelopes.unpack_meta(put.meta, "np" in body)
        if not put.aside_messages and (now.body, now.meta) == (body, meta):
            return
        turn = self._begin(put)
        turn.note(node, AGAIN, {"body": body, "meta": put.meta}, put.refs)
        await of(turn.commit())
        self._core.forget(session)

    async def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task: str, path: str
    ) -> None:
        """Store pending writes, of a checkpoint that may come later."""
        ref = ref_of(config)
        if ref.node is None:
            raise InvalidValue("configurable.checkpoint_id", "writes belong to a checkpoint")
        core, cache = self._core, self._core.threads[ref.session]
        index = MessageIndex(core, ref.session)
        usual: list[tuple[int, str, Tree]] = []
        special: dict[str, Tree] = {}
        values: dict[str, bytes] = {}
        for n, (channel, value) in enumerate(writes):
            late = channel in LATE or channel in cache.chained
            writer = Writer(core.messages, index, late=late)
            tree = writer.write(value, f"writes[{n}].{channel}")
            values |= writer.values
            if channel in WRITES_IDX_MAP:
                idx = WRITES_IDX_MAP[channel]
                special[_note_key(idx, task)] = _note_body(task, path, [(idx, channel, tree)])
            else:
                usual.append((n, channel, tree))
        if usual:
            await self._keep_first(ref, _note_body(task, path, usual), list(values.values()), task)
        if special:
            await self._annotate(ref, special, "replace", list(values.values()))

    async def _keep_first(
        self, ref: CheckpointRef, body: dict[str, Any], values: list[bytes], task: str
    ) -> None:
        """Ordinary writes: the first of each index stays."""
        cache, node, key = self._core.threads[ref.session], str(ref.node), _note_key(0, task)
        held = has_new(body)
        if held:
            # Before it is written: whoever makes a node of it meanwhile can shorten it then.
            cache.hold(node, key, body)
        if await self._annotate(ref, {key: body}, "keep", values):
            return
        if held:
            cache.held.discard((node, key))
        found = await of(self._core.store.nodes.notes(ref.session, [node], prefix=WRITES_NOTE))
        there = {
            idx
            for name, note in found.get(node, {}).items()
            if name.split(":", 2)[2] == key.split(":", 2)[2]
            for idx, _ in indexed_writes(note.body)
        }
        for idx, (channel, tree) in indexed_writes(body):
            if idx not in there:
                one = _note_body(task, envelopes.unpack_path(body["p"]), [(idx, channel, tree)])
                await self._annotate(ref, {_note_key(idx, task): one}, "keep", values)

    async def _annotate(
        self, ref: CheckpointRef, notes: dict[str, Tree], mode: str, values: list[bytes]
    ) -> int:
        """How many notes were written; the session is made when it is missing."""
        store, id, node = self._core.store, ref.session, str(ref.node)
        try:
            return await of(store.nodes.annotate(id, node, notes, mode=mode, values=values))
        except SessionNotFound:
            await of(store.sessions.ensure(id, metadata=ref.session_metadata))
        return await of(store.nodes.annotate(id, node, notes, mode=mode, values=values))


def _add_nodes(turn: Turn | AsyncTurn, put: CheckpointPut) -> None:
    """Add the new messages of the conversation, and the checkpoint."""
    node = put.request.node
    if put.start:
        turn.node(START_KIND, id=short_id(), parent=None)
    if put.first is not None:
        turn.node(KIND, put.first, id=str(put.ref.node), meta=FIRST_META)
    turn.add(*put.main_messages)
    parent: Any = UNSET if put.parent is None else put.parent
    label, refs = put.ref.ns, put.refs
    turn.node(KIND, put.body, id=node, label=label, meta=put.meta, values=refs, parent=parent)
    for name, tree in put.notes.items():
        turn.note(node, CHANNEL_NOTE + name, tree, _refs(tree))


def _is_stale(error: BaseException, node: str) -> bool:
    """Whether a put failed by what it believed, so that it may try again."""
    if isinstance(error, AlreadyExists):
        return error.id == node
    if isinstance(error, InvalidValue):
        return error.field == "parent"
    return isinstance(error, RevisionMoved)


def _shortened(put: CheckpointPut) -> Iterator[tuple[tuple[str, str], Tree]]:
    """Notes that can point at messages now; the others have to wait for one more put."""
    for about, (body, puts) in put.cache.held.entries():
        shorter = settled(body, put.index)
        if shorter != body:
            yield about, shorter
        else:
            put.cache.hold(*about, body, puts + 1)


def _refs(tree: Tree) -> list[str]:
    return list(dict.fromkeys(digests(tree)))


def _is_id(value: object) -> bool:
    try:
        ids.check_id(value, "run_id")
    except InvalidValue:
        return False
    return True


def _note_key(idx: int, task: str) -> str:
    try:
        return ids.check_name(f"{WRITES_NOTE}{idx}:{_task_in_key(task)}", "task_id")
    except InvalidValue:
        return f"{WRITES_NOTE}{idx}:{name_of(task).hex()}"


def _task_in_key(task: str) -> str:
    """The id of a task in a key; one that looks packed has to stand in the body."""
    if task.startswith(envelopes.UUID_MARK):
        return name_of(task).hex()
    return envelopes.pack_task(task)


def _note_body(task: str, path: str, writes: Sequence[tuple[int, str, Tree]]) -> dict[str, Any]:
    indexes = [idx for idx, _, _ in writes]
    said = [[channel, tree] for _, channel, tree in writes]
    body: dict[str, Any] = {"p": envelopes.pack_path(path), "w": said}
    if indexes != list(range(len(indexes))):
        body["i"] = indexes
    if envelopes.unpack_task(_note_key(0, task).split(":", 2)[2]) != task:
        body["t"] = task
    return body
