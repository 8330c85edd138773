"""The nearest vectors of a store: indexes in memory that follow what is stored.

Every search asks first whether its spaces have moved, so it sees what anybody committed before it
began, in this process or another.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from functools import partial

from ledgerstone.api.handle import AsyncResource
from ledgerstone.api.loop_async import offload
from ledgerstone.commands.embeddings import ListSpaces, ListVectorNames, ReadVectors
from ledgerstone.ports.vectors import Accept, NearStore
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.rules.vectors import FLOAT_BYTES, other_dimension
from ledgerstone.vectors.opening import PGVECTOR
from ledgerstone.vectors.ranking import GROWTH, scored
from ledgerstone.vectors.space_index import Found, SpaceIndex

KEPT_BYTES = 256 * 1024 * 1024
"""What the indexes of one store may take together; the least recently used goes first."""
INDEXES_MAX = 256
"""Maximum indexes of one store: what one takes beside its vectors is not in KEPT_BYTES."""
STORE_ROWS = 2000
"""A smaller space is searched faster in memory than a database can be asked."""
STORE_FIRST, STORE_SPARE, STORE_LAST = 40, 4, 4096
"""How many candidates an index in the database is asked for: some more than wanted, at first."""
READ_BYTES = 8 * 1024 * 1024
READ_ROWS = 4096


class AsyncNearest(AsyncResource):
    """Searches over the spaces of a tenant."""

    async def search(
        self,
        kind: str,
        query: Sequence[float],
        count: int,
        *,
        model: str | None,
        accept: Accept,
        strict: bool = False,
    ) -> Found:
        """The best rows of a kind, in one space or in all, ties by id.

        Rows of another dimension than the query's score 0, or are InvalidValue when `strict`.
        """
        spaces = [one for one in await self._spaces() if one.count and model in (None, one.model)]
        if strict:
            _check_dimensions(spaces, len(query))
        found: Found = []
        for space in spaces:
            if space.dimension == len(query):
                found += await self._nearest(space, kind, query, count, accept)
        best = _best(found, count)
        if len(best) == count and best[-1][0] > 0:
            return best
        for space in spaces:
            if space.dimension != len(query):
                # Nothing is near or far from there: a zero vector finds all of it, by id.
                zero = (0.0,) * space.dimension
                found += await self._nearest(space, kind, zero, count, accept)
        return _best(found, count)

    async def _spaces(self) -> list[Space]:
        return await self._ask(self._all)

    async def _nearest(
        self, space: Space, kind: str, query: Sequence[float], count: int, accept: Accept
    ) -> Found:
        near = await self._in_store(space, kind, query, count, accept)
        if near is not None:
            return near
        if space.count * space.dimension * FLOAT_BYTES > KEPT_BYTES:
            self._handle.equipment.indexes.pop((self._tenant, space.model), None)
            return await self._in_blocks(space, kind, query, count, accept)
        followed = self._kept(space.model)
        await self._follow(followed, space)
        self._make_room(space.model)
        return await offload(partial(followed.nearest, kind, query, count, accept))

    async def _in_store(
        self, space: Space, kind: str, query: Sequence[float], count: int, accept: Accept
    ) -> Found | None:
        """By an index in the database; None when that does not find enough, or is not worth it."""
        backend, tenant = self._handle.backend, self._tenant
        if space.count < STORE_ROWS or not isinstance(backend, NearStore):
            return None
        engine = await offload(lambda: self._handle.equipment.engine)
        wanted = max(STORE_FIRST, STORE_SPARE * count)
        while engine.name == PGVECTOR and wanted <= STORE_LAST:
            rows = await backend.anear(tenant, space, kind, tuple(query), wanted)
            if rows is None:
                return None
            found = _best(scored(query, filter(accept, rows)), count)
            # Nothing is told of what has no angle with the query, or points away from it.
            if len(found) == count and found[-1][0] > 0:
                return found
            wanted = wanted * GROWTH if len(rows) == wanted else STORE_LAST + 1
        return None

    async def _follow(self, followed: SpaceIndex, space: Space) -> None:
        """Bring an index up to date; `space` is what was read last."""
        rows_max = _rows_max(space)
        while (after := followed.missing(space)) is not None:
            read = ReadVectors(tenant=self._tenant, model=space.model, after=after, limit=rows_max)
            spaces, rows = await self._handle.backend.aread((self._all, read))
            space = _named(spaces, space.model) or space
            complete = len(rows) < rows_max
            await offload(partial(followed.take, space, after, rows, complete))
            if complete and followed.missing(space) is not None:
                space = await self._compare(followed, space)

    async def _compare(self, followed: SpaceIndex, space: Space) -> Space:
        """Something was dropped: keep what is still there."""
        names = ListVectorNames(tenant=self._tenant, model=space.model)
        spaces, there = await self._handle.backend.aread((self._all, names))
        space = _named(spaces, space.model) or space
        await offload(partial(followed.keep, space, there))
        return space

    async def _in_blocks(
        self, space: Space, kind: str, query: Sequence[float], count: int, accept: Accept
    ) -> Found:
        """A space that is too large to be kept: block by block, the best so far in hand."""
        best: dict[str, tuple[float, VectorRow]] = {}
        after, rows_max = 0, _rows_max(space)
        while True:
            read = ReadVectors(tenant=self._tenant, model=space.model, after=after, limit=rows_max)
            spaces, rows = await self._handle.backend.aread((self._all, read))
            now = _named(spaces, space.model) or space
            block = SpaceIndex(self._handle.equipment.engine)
            block.take(now, 0, rows, True)
            near = await offload(partial(block.nearest, kind, query, count, accept))
            for row in rows:
                best.pop(row.id, None)  # Put again while this went on: the later one counts.
            best |= {one[1].id: one for one in near}
            best = {one[1].id: one for one in _best(best.values(), count)}
            if len(rows) < rows_max:
                return list(best.values())
            after = rows[-1].change

    @property
    def _all(self) -> ListSpaces:
        return ListSpaces(tenant=self._tenant)

    def _kept(self, model: str) -> SpaceIndex:
        """The index of a space, as the most recently used one."""
        equipment, key = self._handle.equipment, (self._tenant, model)
        found: SpaceIndex | None = equipment.indexes.pop(key, None)
        # Two threads may make one each: the later stays, and both are right.
        equipment.indexes[key] = found = found or SpaceIndex(equipment.engine)
        return found

    def _make_room(self, model: str) -> None:
        indexes = self._handle.equipment.indexes
        total = sum(one.size_bytes for one in list(indexes.values()))
        for key in list(indexes):
            if total <= KEPT_BYTES and len(indexes) <= INDEXES_MAX:
                return
            if key != (self._tenant, model):
                gone = indexes.pop(key, None)
                total -= 0 if gone is None else gone.size_bytes


def _best(found: Iterable[tuple[float, VectorRow]], count: int) -> Found:
    return heapq.nsmallest(count, found, key=lambda one: (-one[0], one[1].id))


def _named(spaces: list[Space], model: str) -> Space | None:
    return next((one for one in spaces if one.model == model), None)


def _rows_max(space: Space) -> int:
    return max(1, min(READ_ROWS, READ_BYTES // (space.dimension * FLOAT_BYTES)))


def _check_dimensions(spaces: list[Space], given: int) -> None:
    for space in spaces:
        if space.dimension != given:
            raise other_dimension(space.model, space.dimension, given)
