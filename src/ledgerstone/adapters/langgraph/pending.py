"""Pending writes: what tasks wrote, kept beside the checkpoint they began from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import WRITES_IDX_MAP

from ledgerstone import ids
from ledgerstone.adapters.faces import of
from ledgerstone.adapters.langgraph import envelopes
from ledgerstone.adapters.langgraph.context import MessageIndex, SaverContext
from ledgerstone.adapters.langgraph.reading import WRITES_NOTE, indexed_writes
from ledgerstone.adapters.langgraph.threads import CheckpointRef, name_of, ref_of
from ledgerstone.adapters.langgraph.values import Tree, Writer, has_new
from ledgerstone.errors import InvalidValue, SessionNotFound

LATE = ("messages", "__pregel_tasks")
"""Channels whose writes most often say messages that become nodes soon after."""


class PendingWrites:
    def __init__(self, core: SaverContext) -> None:
        self._core = core

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
        kept: dict[str, bytes] = {}
        for n, (channel, value) in enumerate(writes):
            late = channel in LATE or channel in cache.chained
            writer = Writer(core.opaques, core.messages, index, late=late)
            tree = writer.write(value, f"writes[{n}].{channel}")
            kept |= writer.values
            if channel in WRITES_IDX_MAP:
                idx = WRITES_IDX_MAP[channel]
                special[_key(idx, task)] = _body(task, path, [(idx, channel, tree)])
            else:
                usual.append((n, channel, tree))
        if usual:
            await self._keep(ref, _body(task, path, usual), list(kept.values()), task)
        if special:
            await self._annotate(ref, special, "replace", list(kept.values()))

    async def _keep(
        self, ref: CheckpointRef, body: dict[str, Any], values: list[bytes], task: str
    ) -> None:
        """Ordinary writes: the first of each index stays."""
        cache, node, key = self._core.threads[ref.session], str(ref.node), _key(0, task)
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
                one = _body(task, envelopes.unpack_path(body["p"]), [(idx, channel, tree)])
                await self._annotate(ref, {_key(idx, task): one}, "keep", values)

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


def _key(idx: int, task: str) -> str:
    try:
        return ids.check_name(f"{WRITES_NOTE}{idx}:{_task(task)}", "task_id")
    except InvalidValue:
        return f"{WRITES_NOTE}{idx}:{name_of(task).hex()}"


def _task(task: str) -> str:
    """The id of a task in a key; one that looks packed has to stand in the body."""
    if task.startswith(envelopes.UUID_MARK):
        return name_of(task).hex()
    return envelopes.pack_task(task)


def _body(task: str, path: str, writes: Sequence[tuple[int, str, Tree]]) -> dict[str, Any]:
    indexes = [idx for idx, _, _ in writes]
    said = [[channel, tree] for _, channel, tree in writes]
    body: dict[str, Any] = {"p": envelopes.pack_path(path), "w": said}
    if indexes != list(range(len(indexes))):
        body["i"] = indexes
    if envelopes.unpack_task(_key(0, task).split(":", 2)[2]) != task:
        body["t"] = task
    return body
