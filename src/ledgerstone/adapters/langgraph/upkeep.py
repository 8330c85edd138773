"""Deleting, copying and pruning threads, and taking over a session that began elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import Any, cast

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.checkpoint.base.id import uuid6

from ledgerstone.adapters.langgraph.context import SaverContext
from ledgerstone.adapters.langgraph.envelopes import VERSION, next_version
from ledgerstone.adapters.langgraph.messages import FORMAT, OPAQUE, fresh_all, is_opaque
from ledgerstone.adapters.langgraph.reading import DETACHED, CheckpointReader, stored_of
from ledgerstone.adapters.langgraph.threads import (
    KIND,
    THREAD_KEY,
    node_id,
    ref_of,
    session_id,
    short_id,
)
from ledgerstone.adapters.langgraph.values import COUNTERS, MAIN, References
from ledgerstone.adapters.langgraph.writing import CheckpointWriter, request_of
from ledgerstone.adapters.sync_async import each, of
from ledgerstone.clock import SystemClock, to_datetime
from ledgerstone.errors import InvalidValue, SessionNotFound
from ledgerstone.formats.natives import NATIVE
from ledgerstone.ids import check_id
from ledgerstone.records.nodes import MESSAGE, Node

STRATEGIES = ("keep_latest", "delete")
HIDE_AT_ONCE = 500


class BadArgument(InvalidValue, ValueError):
    """An invalid argument: a ValueError too, as LangGraph's own savers raise it."""


class Upkeep:
    def __init__(
        self, core: SaverContext, reader: CheckpointReader, writer: CheckpointWriter
    ) -> None:
        self._core = core
        self._reader = reader
        self._writer = writer

    async def delete_thread(self, thread: object) -> None:
        """Remove a thread for good, with everything else that its session holds."""
        session = session_id(thread)
        await of(self._core.store.sessions.purge(session))
        self._core.forget(session)

    async def delete_for_runs(self, run_ids: Iterable[str]) -> None:
        """Remove the checkpoints that some runs wrote; messages that others show stay."""
        _check_ids(run_ids, "run_ids")
        doomed: dict[str, list[str]] = {}
        for run_id in dict.fromkeys(run_ids):
            async for node in each(self._of_run(str(run_id))):
                doomed.setdefault(node.session, []).append(node.id)
        for session, nodes in doomed.items():
            await self._hide(session, nodes)

    def _of_run(self, run_id: str) -> Any:
        nodes = self._core.store.nodes
        try:
            return nodes.iter(kind=KIND, run_id=check_id(run_id, "run_id"))
        except InvalidValue:
            # No id of ours can be so: it stands in the metadata only.
            return nodes.iter(kind=KIND, meta_contains={"run_id": run_id})

    async def copy_thread(self, source: object, target: object) -> None:
        """Copy all checkpoints and writes to a thread that does not exist yet."""
        name, sessions = str(target), self._core.store.sessions
        try:
            made = await of(sessions.copy(session_id(source), session_id(name)))
        except SessionNotFound:
            return
        kept = {key: one for key, one in (made.metadata or {}).items() if key != THREAD_KEY}
        if made.id != name:
            kept[THREAD_KEY] = name
        if kept != (made.metadata or {}):
            await of(sessions.update(made.id, metadata=kept or None))
        self._core.forget(made.id)

    async def prune(self, threads: Iterable[object], strategy: str) -> None:
        """Keep the newest checkpoint of each namespace, or nothing.

        What a delta channel of a kept checkpoint is rebuilt from is kept as well.
        """
        if strategy not in STRATEGIES:
            raise BadArgument("strategy", f"{strategy!r} is none of {', '.join(STRATEGIES)}")
        _check_ids(threads, "thread_ids")
        for thread in threads:
            if strategy == "delete":
                await self.delete_thread(thread)
            else:
                await self._keep_latest(session_id(thread))

    async def _keep_latest(self, session: str) -> None:
        newest: dict[str, Node] = {}
        others: list[str] = []
        async for node in each(self._core.store.nodes.iter(session, kind=KIND, order="-id")):
            if newest.setdefault(node.label, node) is not node:
                others.append(node.id)
        needed: set[str] = set()
        for node in newest.values():
            needed |= await self._needed_by(session, node)
        await self._hide(session, [id for id in others if id not in needed])

    async def _needed_by(self, session: str, node: Node) -> set[str]:
        """Ancestors back to where every delta channel of a checkpoint was last whole."""
        [stored] = await self._reader.beside(session, [node])
        open_ = set(stored.meta.get(COUNTERS) or ()) - stored.channels.keys()
        found: set[str] = set()
        if not open_:
            return found
        walk = self._reader.ancestry(session, node.label, stored.body.get("p"))
        async with aclosing(walk) as ancestors:
            async for one in ancestors:
                found.add(node_id(one.id, one.ns))
                open_ -= one.channels.keys()
                if not open_:
                    break
        return found

    async def _hide(self, session: str, nodes: Sequence[str]) -> None:
        """Tombstone checkpoints, then the messages that only they showed, and erase both."""
        if not nodes:
            return
        await self._detach(session, set(nodes))
        await self._tombstone(session, nodes)
        await self._tombstone(session, await self._lost_messages(session))
        await of(self._core.store.admin.vacuum(session))
        self._core.forget(session)

    async def _tombstone(self, session: str, nodes: Sequence[str]) -> None:
        for n in range(0, len(nodes), HIDE_AT_ONCE):
            await of(self._core.store.nodes.tombstone(session, nodes[n : n + HIDE_AT_ONCE]))

    async def _detach(self, session: str, doomed: set[str]) -> None:
        """Make checkpoints that stay the first of their line when their parent goes."""
        turn = self._core.store.turns.begin(session, id=short_id())
        turn.warns = False
        count = 0
        checkpoints = self._core.store.nodes.iter(session, kind=KIND, notes=True)
        async for node in each(checkpoints):
            parent = stored_of(node).body.get("p")
            if node.id in doomed or parent is None or node_id(parent, node.label) not in doomed:
                continue
            turn.note(node.id, DETACHED, parent)
            count += 1
        if count:
            await of(turn.commit())

    async def _lost_messages(self, session: str) -> list[str]:
        """Messages of this adapter's that neither main nor a checkpoint shows any more."""
        store = self._core.store
        # These first: what is said from now on is shown by something that is not looked at here.
        own = [
            node.id async for node in each(store.nodes.iter(session, kind=MESSAGE)) if _is_own(node)
        ]
        on_paths: set[str] = set()
        for branch in await of(store.branches.list(session)):
            on_paths.update(
                one.id for one in await of(store.messages.history(session, branch=branch.name))
            )
        references = References()
        # The newest first: their paths are the longest, and those of older ones lie on them.
        checkpoints = store.nodes.iter(session, kind=KIND, order="-id", notes=True, resolve=True)
        async for node in each(checkpoints):
            stored = stored_of(node)
            references.add(stored.trees, stored.values)
        for tip, _ in references.tips:
            if tip not in on_paths:
                on_paths.update(one.id for one in await self._core.path(session, at=tip))
        return [id for id in own if id not in on_paths and id not in references.nodes]

    async def adopt(self, thread: object, channel: str = MAIN) -> CheckpointTuple | None:
        """A checkpoint whose messages are all those of the session, whoever wrote them.

        None when there are no messages. A later one keeps the other channels.
        """
        core = self._core
        newest: RunnableConfig = {"configurable": {"thread_id": thread}}
        ref = ref_of(newest)
        stored = await core.path(ref.session)
        if not stored:
            return None
        chain = core.decoded(ref.session, (stored[-1].id, None), stored)
        before = await self._reader.tuple_at(newest)
        checkpoint = _next(before, channel, fresh_all(chain.items))
        step = -1 if before is None else before.metadata.get("step", -1)
        metadata = {"source": "update", "step": step + 1, "parents": {}}
        if before is not None:
            ref = ref._replace(checkpoint=before.checkpoint["id"])
            core.threads[ref.session].asked.put(cast(str, ref.node), None)
        parent = ref.config(ref.checkpoint or "")
        config = await self._writer.put(request_of(parent, checkpoint, metadata, {channel: 1}))
        return await self._reader.tuple_at(config)


def _next(before: CheckpointTuple | None, channel: str, messages: list[Any]) -> Checkpoint:
    old: Any = before.checkpoint if before is not None else {}
    versions = old.get("channel_versions", {})
    highest = max(versions.values(), default=None)
    found = {
        "v": VERSION,
        "id": str(uuid6(clock_seq=-1)),
        "ts": to_datetime(SystemClock().now_us()).isoformat(),
        "channel_values": {**old.get("channel_values", {}), channel: messages},
        "channel_versions": {**versions, channel: next_version(highest)},
        "versions_seen": old.get("versions_seen", {}),
        "updated_channels": [channel],
    }
    return cast(Checkpoint, found)


def _check_ids(given: object, field: str) -> None:
    """Raise BadArgument for a text, whose letters would be taken for ids."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadArgument(field, f"a list of ids expected, got {type(given).__name__}")


def _is_own(node: Node) -> bool:
    extra = (node.body or {}).get("extra") or {}
    mark = extra.get(NATIVE)
    return is_opaque(extra.get(OPAQUE)) or (type(mark) is list and mark[:1] == [FORMAT])
