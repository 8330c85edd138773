"""store.memories: JSON values under namespaces and keys, and the nearest of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.nearest import AsyncNearest
from ledgerstone.api.pages import CHUNK, AsyncPages
from ledgerstone.commands import memories as commands
from ledgerstone.commands.memories import MemoryName
from ledgerstone.intake import checks
from ledgerstone.intake.memories import batch_changes, memory_name, namespace_text, new_memory
from ledgerstone.intake.vectors import Vector, rounded
from ledgerstone.records.embeddings import VectorRow
from ledgerstone.records.memories import Forget, Memory, Namespace, Remember
from ledgerstone.rules import namespaces
from ledgerstone.rules.matching import Condition, encode_filter, matches, parse_filter
from ledgerstone.rules.memories import KIND, name_of

GROWTH = 4


class AsyncMemories:
    """What an agent knows beyond one conversation. What has ended looks absent."""

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle = handle
        self._nearest = AsyncNearest(handle)

    async def put(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        *,
        ttl_s: float | None = None,
        vector: Vector | None = None,
        model: str = "",
        if_absent: bool = False,
    ) -> Memory:
        """Remember a value; a second put replaces all of it, the vector and the end too.

        `if_absent`: what is there already stays and is the answer. InvalidValue when the model's
        vectors have another dimension.
        """
        new = new_memory(
            namespace,
            key,
            value,
            ttl_s=ttl_s,
            vector=vector,
            model=model,
            if_absent=if_absent,
        )
        return await self._handle.write(commands.PutMemory(tenant=self._handle.tenant, memory=new))

    async def get(self, namespace: Namespace, key: str, *, touch: bool = False) -> Memory | None:
        """One, or None. `touch`: its time to live begins anew."""
        name = memory_name(namespace, key)
        if checks.flag(touch, "touch"):
            return await self._handle.write(
                commands.TouchMemory(
                    tenant=self._handle.tenant, namespace=name.namespace, key=name.key
                )
            )
        return (await self._get((name,)))[0]

    async def _get(self, names: tuple[MemoryName, ...]) -> list[Memory | None]:
        return await self._handle.ask(commands.GetMemories(tenant=self._handle.tenant, names=names))

    async def delete(self, namespace: Namespace, key: str) -> bool:
        """Remove one; False when there was none."""
        name = memory_name(namespace, key)
        return await self._handle.write(
            commands.DeleteMemory(
                tenant=self._handle.tenant, namespace=name.namespace, key=name.key
            )
        )

    async def batch(self, changes: Iterable[Remember | Forget]) -> list[Memory | bool]:
        """Several puts and deletes in order, all of them or none; what each would answer."""
        given = batch_changes(changes)
        if not given:
            return []
        return await self._handle.write(
            commands.ChangeMemories(tenant=self._handle.tenant, changes=given)
        )

    def iter(self, prefix: Namespace = ()) -> AsyncPages[Memory]:
        """Everything at or below a namespace, by namespace and key, complete, in chunks."""
        query = commands.SearchMemories(
            tenant=self._handle.tenant, namespace=namespace_text(prefix, "prefix"), limit=CHUNK
        )
        return AsyncPages(partial(self._page, query))

    async def _page(self, query: commands.SearchMemories, last: Memory | None) -> list[Memory]:
        after = None if last is None else MemoryName(namespaces.join(last.namespace), last.key)
        return await self._handle.ask(replace(query, after=after))

    async def search(
        self,
        prefix: Namespace = (),
        *,
        vector: Vector | None = None,
        model: str = "",
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the field
        limit: int = 10,
        offset: int = 0,
    ) -> list[Memory]:
        """At or below a namespace: with a vector the nearest, best first, with their score;
        without one by namespace and key.

        InvalidValue when the model's vectors have another dimension.
        """
        below = namespace_text(prefix, "prefix")
        conditions = parse_filter(filter)
        limit, offset = checks.positive(limit, "limit"), checks.whole(offset, "offset")
        model = ids.check_label(model, "model")
        if vector is not None:
            near = await self._near(below, rounded(vector), model, conditions, offset + limit)
            return near[offset : offset + limit]
        return await self._handle.ask(
            commands.SearchMemories(
                tenant=self._handle.tenant,
                namespace=below,
                filter=encode_filter(conditions),
                limit=limit,
                offset=offset,
            )
        )

    async def _near(
        self,
        below: str,
        query: Sequence[float],
        model: str,
        conditions: tuple[Condition, ...],
        wanted: int,
    ) -> list[Memory]:
        """The values of what is near; when the filter or time has taken some, more are sought."""

        def accept(row: VectorRow) -> bool:
            return row.namespace.startswith(below)

        count = wanted
        while True:
            rows = await self._nearest.search(
                KIND, query, count, model=model, accept=accept, strict=True
            )
            values = await self._get(tuple(name_of(row.id) for _, row in rows))
            found = [
                replace(value, score=score)
                for (score, _), value in zip(rows, values, strict=True)
                if value is not None and matches(conditions, value.value)
            ]
            if len(found) >= wanted or len(rows) < count:
                return found
            count *= GROWTH

    async def namespaces(
        self,
        *,
        match: Namespace = (),
        suffix: Namespace = (),
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """Namespaces that hold something, in order: at or below `match`, ending with `suffix`,
        cut to so many segments.
        """
        return await self._handle.ask(
            commands.ListNamespaces(
                tenant=self._handle.tenant,
                prefix=namespace_text(match, "match"),
                suffix=namespaces.split(namespace_text(suffix, "suffix")),
                max_depth=None if max_depth is None else checks.positive(max_depth, "max_depth"),
                limit=checks.positive(limit, "limit"),
                offset=checks.whole(offset, "offset"),
            )
        )

    async def sweep(self, limit: int = 1000) -> int:
        """Remove at most so many that have ended; how many went."""
        return await self._handle.write(
            commands.SweepMemories(
                tenant=self._handle.tenant, limit=checks.positive(limit, "limit")
            )
        )
