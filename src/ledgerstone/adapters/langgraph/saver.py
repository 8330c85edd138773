"""LedgerSaver: LangGraph's checkpoints on a store.

    graph = builder.compile(checkpointer=LedgerSaver(store))

A thread is a session. Its messages are message nodes of that session, stored once, which every
other framework sees; a checkpoint holds only where its lists end. Needs the extra:
pip install "ledgerstone[langgraph]".
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from ledgerstone.adapters.langgraph.chains import Chains
from ledgerstone.adapters.langgraph.context import REFUSE, SaverContext
from ledgerstone.adapters.langgraph.envelopes import next_version
from ledgerstone.adapters.langgraph.listing import Listing
from ledgerstone.adapters.langgraph.messages import Messages
from ledgerstone.adapters.langgraph.reading import CheckpointReader
from ledgerstone.adapters.langgraph.serializer import CheckedSerializer, strict_serde
from ledgerstone.adapters.langgraph.threads import Threads
from ledgerstone.adapters.langgraph.upkeep import Upkeep
from ledgerstone.adapters.langgraph.values import MAIN
from ledgerstone.adapters.langgraph.writing import CheckpointWriter, request_of
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner
from ledgerstone.api_sync.store import Store
from ledgerstone.intake import checks

CACHE_BYTES = 64 * 1024 * 1024
CHECKS = ("fingerprint", "digest")
DIVERGENCES = ("allow", REFUSE)


class LedgerSaver(BaseCheckpointSaver[int]):
    """Checkpoints of graphs in a sync or async store, for blocking and async graphs.

    `allow`: classes of your own, or (module, name) pairs, that may be revived from the store; all
    others are refused, when they are written and when they are read. `serde`: another serializer;
    one that encrypts also keeps messages unreadable. `check`: how a message is told from the
    stored one: "fingerprint" compares its fields, "digest" its whole JSON. `on_divergence`:
    "refuse" raises LeafMoved for a checkpoint whose parent is not the newest one, unless that was
    asked for by its id, as time travel does. `cache_bytes`: for decoded messages.

    config["configurable"]["ledger_lease"] may hold a lease of the session: then checkpoints are
    fenced by it.
    """

    def __init__(
        self,
        store: AnyStore,
        *,
        serde: SerializerProtocol | None = None,
        allow: Iterable[type | tuple[str, ...]] = (),
        check: str = "fingerprint",
        on_divergence: str = "allow",
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        super().__init__(serde=serde or strict_serde(allow))
        self._runner = StoreRunner(store)
        self._check = checks.one_of(check, CHECKS, "check")
        core = SaverContext(
            store,
            self._messages(),
            Chains(checks.positive(cache_bytes, "cache_bytes")),
            Threads(blocking=isinstance(store, Store)),
            checks.one_of(on_divergence, DIVERGENCES, "on_divergence"),
        )
        self._equip(core)

    def _messages(self) -> Messages:
        return Messages(CheckedSerializer(self.serde), check=self._check)

    def _equip(self, core: SaverContext) -> None:
        self._core = core
        self._reader = CheckpointReader(core)
        self._writer = CheckpointWriter(core)
        self._upkeep = Upkeep(core, self._reader, self._writer)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> LedgerSaver:
        """The same saver, which also revives these classes."""
        clone = super().with_allowlist(extra_allowlist)
        assert isinstance(clone, LedgerSaver)
        if clone is not self:
            clone._equip(self._core._replace(messages=clone._messages()))
        return clone

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Integers: values are named by content, so that versions need nothing random in them.

        A thread that another saver began with texts goes on with texts.
        """
        return next_version(current)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that the config names, or the newest one; None when there is none."""
        return self._runner.run_sync(self._reader.tuple_at(config))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._runner.run_async(self._reader.tuple_at(config))

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints, the newest first; without a config those of all threads."""
        listing = Listing(self._core, self._reader, config, filter, before, limit)
        while page := self._runner.run_sync(listing.page()):
            yield from page

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        listing = Listing(self._core, self._reader, config, filter, before, limit)
        while page := await self._runner.run_async(listing.page()):
            for one in page:
                yield one

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint in one commit.

        LeafMoved when divergence is refused; InvalidValue or NotSupported name what cannot be
        stored, and then nothing is.
        """
        request = request_of(config, checkpoint, metadata, new_versions)
        return self._runner.run_sync(self._writer.put(request))

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        request = request_of(config, checkpoint, metadata, new_versions)
        return await self._runner.run_async(self._writer.put(request))

    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Store what a task wrote, beside a checkpoint that may come later."""
        self._runner.run_sync(self._writer.put_writes(config, list(writes), task_id, task_path))

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        await self._runner.run_async(
            self._writer.put_writes(config, list(writes), task_id, task_path)
        )

    def delete_thread(self, thread_id: str) -> None:
        """Remove a thread for good, with everything that its session holds."""
        self._runner.run_sync(self._upkeep.delete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        await self._runner.run_async(self._upkeep.delete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that these runs wrote, in any thread."""
        self._runner.run_sync(self._upkeep.delete_for_runs(run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        await self._runner.run_async(self._upkeep.delete_for_runs(run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a whole thread to a new one; AlreadyExists when there is one of that name."""
        self._runner.run_sync(self._upkeep.copy_thread(source_thread_id, target_thread_id))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._runner.run_async(self._upkeep.copy_thread(source_thread_id, target_thread_id))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Keep the newest checkpoint of each namespace, with what it needs; or delete all.

        InvalidValue, a ValueError, for another strategy, or a text where ids are expected.
        """
        self._runner.run_sync(self._upkeep.prune(thread_ids, strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        await self._runner.run_async(self._upkeep.prune(thread_ids, strategy))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """What delta channels were written since they were last stored whole."""
        return self._runner.run_sync(self._reader.delta_history(config, channels))

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._runner.run_async(self._reader.delta_history(config, channels))

    def adopt(self, thread_id: str, *, channel: str = MAIN) -> CheckpointTuple | None:
        """Make a checkpoint of all messages of the session, whoever wrote them.

        A session that another framework began has no checkpoint: get_tuple says None, and a graph
        would begin without its messages. None when there are no messages.
        """
        return self._runner.run_sync(self._upkeep.adopt(thread_id, channel))

    async def aadopt(self, thread_id: str, *, channel: str = MAIN) -> CheckpointTuple | None:
        return await self._runner.run_async(self._upkeep.adopt(thread_id, channel))
