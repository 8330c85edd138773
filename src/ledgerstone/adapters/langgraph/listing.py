"""Lists of checkpoints, page by page."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointTuple
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.adapters.langgraph.context import SaverContext
from ledgerstone.adapters.langgraph.reading import CheckpointReader, StoredCheckpoint, stored_of
from ledgerstone.adapters.langgraph.threads import DERIVED, KIND, THREAD_KEY, ref_of
from ledgerstone.adapters.sync_async import of
from ledgerstone.commands.nodes import ListNodes
from ledgerstone.commands.sessions import GetHead
from ledgerstone.intake import checks
from ledgerstone.records.nodes import Node

PAGE = 50


class Listing:
    """One call of `list`: what is asked for, and how far it has come."""

    def __init__(
        self,
        core: SaverContext,
        reader: CheckpointReader,
        config: RunnableConfig | None,
        where: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> None:
        self._core = core
        self._reader = reader
        self._where = where or {}
        self._left = None if limit is None else checks.whole(limit, "limit")
        self._done = limit == 0
        ref = ref_of(config) if config else None
        self._id = None if ref is None else ref.checkpoint
        self._threads = {} if ref is None else {ref.session: ref.thread}
        end = ((before or {}).get("configurable") or {}).get("checkpoint_id")
        self._query = ListNodes(
            tenant=core.tenant,
            session=None if ref is None else ref.session,
            kind=KIND,
            label=config["configurable"].get("checkpoint_ns") if config else None,
            before_id=ids.check_id(end, "before.checkpoint_id") if end else None,
            order="-id",
            notes=True,
            resolve=True,
        )

    async def page(self) -> list[CheckpointTuple]:
        """The next checkpoints; an empty list at the end."""
        while not self._done:
            nodes = await self._nodes()
            stored = [one for one in map(stored_of, nodes) if await self._fits(one)]
            if self._left is not None:
                stored = stored[: self._left]
                self._left -= len(stored)
                self._done |= self._left == 0
            if stored:
                threads = [await self._thread(one.session) for one in stored]
                return await self._reader.complete(stored, threads)
        return []

    async def _nodes(self) -> list[Node]:
        # Of those that are looked through for one that fits, most do not.
        any_fits = not self._where and self._id is None
        most = min(PAGE, self._left) if self._left and any_fits else PAGE
        [found] = await self._core.read(replace(self._query, limit=most))
        nodes: list[Node] = found
        self._done = len(nodes) < most
        if nodes:
            last = nodes[-1]
            self._query = replace(self._query, after=(last.id, last.session, last.ord))
            await self._compare(dict.fromkeys(node.session for node in nodes))
        return nodes

    async def _compare(self, sessions: Collection[str]) -> None:
        """Messages that were deleted or amended since are not shown as they were."""
        core = self._core
        heads = await core.read(*(GetHead(tenant=core.tenant, id=session) for session in sessions))
        for session, head in zip(sessions, heads, strict=True):
            cache = core.threads[session]
            if not cache.putting:
                core.compare(session, cache, head)

    async def _fits(self, stored: StoredCheckpoint) -> bool:
        if self._id is not None and stored.id != self._id:
            return False
        meta = stored.meta
        if "more" in stored.body and self._where.keys() - meta.keys():
            # Metadata that JSON cannot say, as infinity, is kept beside the rest.
            [made] = await self._reader.complete([stored], [""])
            meta = dict(made.metadata)
        return all(meta.get(key) == value for key, value in self._where.items())

    async def _thread(self, session: str) -> str:
        """The name of a thread; one that is no id stands in the session's metadata."""
        if session not in self._threads:
            name = session
            if session.startswith(DERIVED):
                found = await of(self._core.store.sessions.get(session))
                name = ((found and found.metadata) or {}).get(THREAD_KEY, session)
            self._threads[session] = name
        return self._threads[session]
