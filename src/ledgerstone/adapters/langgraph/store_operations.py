"""What a batch does with the store: all its reads first, then its puts in one commit.

An item is a memory below the root. Its vectors are memories of their own, below a second root, in
a namespace that ends with the item's key; each says which text it is of, so that one which an
overtaken writer left behind is not believed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from langgraph.store.base import (
    Item,
    ListNamespacesOp,
    MatchCondition,
    Result,
    SearchItem,
    SearchOp,
)

from ledgerstone.adapters.langgraph.store_batch import (
    PREFIX,
    Batch,
    Name,
    Put,
    text_digest,
    texts_of,
)
from ledgerstone.adapters.langgraph.store_filters import matches
from ledgerstone.adapters.sync_async import AnyStore, each, of
from ledgerstone.clock import SystemClock
from ledgerstone.commands.memories import GetMemories, MemoryName, SearchMemories
from ledgerstone.errors import Misuse
from ledgerstone.records.memories import Forget, Memory, Remember
from ledgerstone.rules import namespaces

NAMESPACES_CHUNK = 1000
ANY = "*"
NEAR_FIRST = 32
GROWTH = 4
FRESH = 0.9
"""A time to live of which more is left is not begun anew: reading would be writing every time."""
SWEEP_ROWS = 1000
SWEEP_ROUNDS = 1000


class Vectors(NamedTuple):
    """What was embedded, by its text."""

    texts: Mapping[str, Sequence[float]]
    queries: Mapping[str, Sequence[float]]


class StoreOperations:
    """Coroutines over a sync or an async store."""

    def __init__(self, store: AnyStore, root: str, model: str | None) -> None:
        """`model`: the name of the vectors' space; None when there are none."""
        self._store = store
        self._root = root
        self._vector_root = f"{root}#vectors"
        self._model = model
        self._clock = SystemClock()

    async def carry_out(self, batch: Batch, vectors: Vectors) -> list[Result]:
        """One answer for each operation; puts answer None."""
        results: list[Result] = [None] * batch.count
        seen: dict[Name, Memory] = {}
        if batch.gets:
            found = await self._get((one.namespace, one.key) for one in batch.gets.values())
            for n, (namespace, key, refresh) in batch.gets.items():
                memory = found.get((namespace, key))
                results[n] = None if memory is None else _item(memory)
                if memory is not None and refresh:
                    seen[namespace, key] = memory
        for n, search in batch.searches.items():
            hits = await self._search(search, vectors.queries)
            results[n] = [_search_item(memory, score) for memory, score in hits]
            if search.refresh_ttl:
                seen |= {_name_of(memory): memory for memory, _ in hits}
        for n, asked in batch.lists.items():
            results[n] = await self._namespaces(asked)
        await self._refresh(seen)
        if batch.puts:
            await self._put(batch.puts, vectors.texts)
        return results

    async def sweep(self) -> int:
        """Remove what has ended, of the whole tenant; how much went."""
        total = 0
        for _ in range(SWEEP_ROUNDS):
            gone = await of(self._store.memories.sweep(SWEEP_ROWS))
            total += gone
            if gone < SWEEP_ROWS:
                break
        return total

    async def _get(self, names: Iterable[Name]) -> dict[Name, Memory]:
        wanted = list(dict.fromkeys(names))
        if not wanted:
            return {}
        asked = tuple(
            MemoryName(namespaces.join((self._root, *segments)), key) for segments, key in wanted
        )
        [found] = await of(self._store.read(GetMemories(tenant=self._tenant, names=asked)))
        return {name: one for name, one in zip(wanted, found, strict=True) if one is not None}

    async def _search(
        self, search: SearchOp, queries: Mapping[str, Sequence[float]]
    ) -> list[tuple[Memory, float | None]]:
        if not search.limit:
            return []
        end = search.offset + search.limit
        found: dict[Name, tuple[Memory, float | None]] = {}
        if search.query:
            found = await self._by_vector(search, queries[search.query], end)
        if len(found) < end:
            below = self._store.memories.iter((self._root, *search.namespace_prefix))
            async for memory in each(below):
                if matches(search.filter or {}, memory.value):
                    found.setdefault(_name_of(memory), (memory, None))
                if len(found) == end:
                    break
        return list(found.values())[search.offset : end]

    async def _by_vector(
        self, search: SearchOp, vector: Sequence[float], wanted: int
    ) -> dict[Name, tuple[Memory, float | None]]:
        """The nearest items, each by the nearest of its vectors."""
        limit = max(NEAR_FIRST, wanted * GROWTH)
        while True:
            hits = await of(
                self._store.memories.search(
                    (self._vector_root, *search.namespace_prefix),
                    vector=vector,
                    model=self._model or "",
                    limit=limit,
                )
            )
            found = await self._items_of_vectors(search, hits)
            if len(found) >= wanted or len(hits) < limit:
                return dict(list(found.items())[:wanted])
            limit *= GROWTH

    async def _items_of_vectors(
        self, search: SearchOp, hits: Sequence[Memory]
    ) -> dict[Name, tuple[Memory, float | None]]:
        """The items of vectors that still are theirs, in the order of the vectors."""
        owners = [(hit.namespace[1:-1], hit.namespace[-1]) for hit in hits]
        depth = len(search.namespace_prefix)
        items = await self._get(owner for owner in owners if len(owner[0]) >= depth)
        found: dict[Name, tuple[Memory, float | None]] = {}
        for owner, hit in zip(owners, hits, strict=True):
            item = items.get(owner)
            if item is None or owner in found or not matches(search.filter or {}, item.value):
                continue
            if _is_current(hit.value, item.value):
                found[owner] = (item, hit.score)
        return found

    async def _namespaces(self, asked: ListNamespacesOp) -> list[tuple[str, ...]]:
        """Namespaces in order, cut to their depth; "*" stands for one segment of any name."""
        if not asked.limit:
            return []
        prefix = _longest_prefix(asked)
        match = (self._root, *prefix)
        if asked.match_conditions in ((), ((PREFIX, prefix),)):
            depth = None if asked.max_depth is None else asked.max_depth + 1
            found = await of(
                self._store.memories.namespaces(
                    match=match, max_depth=depth, limit=asked.limit, offset=asked.offset
                )
            )
            return [one[1:] for one in found]
        kept: dict[tuple[str, ...], None] = {}
        end = asked.offset + asked.limit
        for offset in count(0, NAMESPACES_CHUNK):
            page = await of(
                self._store.memories.namespaces(match=match, limit=NAMESPACES_CHUNK, offset=offset)
            )
            kept |= dict.fromkeys(_matching(page, asked))
            if len(page) < NAMESPACES_CHUNK or len(kept) >= end:
                break
        return list(kept)[asked.offset : end]

    async def _put(self, puts: Mapping[Name, Put], embedded: Mapping[str, Sequence[float]]) -> None:
        outdated = await self._vectors_of(puts)
        changes: list[Remember | Forget] = [Forget(one.namespace, one.key) for one in outdated]
        for (segments, key), put in puts.items():
            home = (self._root, *segments)
            if put.value is None:
                changes.append(Forget(home, key))
                continue
            changes.append(Remember(home, key, put.value, ttl_s=put.ttl_s))
            changes += [
                Remember(
                    (self._vector_root, *segments, key),
                    str(n),
                    {"path": one.path, "n": one.n, "text": text_digest(one.text)},
                    ttl_s=put.ttl_s,
                    vector=embedded[one.text],
                    model=self._model or "",
                )
                for n, one in enumerate(put.texts)
            ]
        await of(self._store.memories.batch(changes))

    async def _vectors_of(self, names: Iterable[Name]) -> list[Memory]:
        """The vectors that items have by now."""
        if self._model is None:
            return []
        wanted = list(names)
        texts = [namespaces.join((self._vector_root, *ns, key)) for ns, key in wanted]
        queries = [SearchMemories(tenant=self._tenant, namespace=text) for text in texts]
        pages = await of(self._store.read(*queries))
        # Below ("a",), "b" lie the vectors of ("a", "b"), "c" too.
        return [
            one
            for (ns, _), page in zip(wanted, pages, strict=True)
            for one in page
            if len(one.namespace) == len(ns) + 2
        ]

    async def _refresh(self, seen: Mapping[Name, Memory]) -> None:
        """Begin the time to live of what was read anew, and that of its vectors."""
        now_us = self._clock.now_us()
        old = [name for name, one in seen.items() if _needs_refresh(one, now_us)]
        if not old:
            return
        names = [((self._root, *segments), key) for segments, key in old]
        names += [(one.namespace, one.key) for one in await self._vectors_of(old)]
        for namespace, key in names:
            await of(self._store.memories.get(namespace, key, touch=True))

    @property
    def _tenant(self) -> str:
        tenant = self._store.tenant
        if tenant is None:
            raise Misuse("a LedgerStore needs a store of one tenant: store.for_tenant(name)")
        return tenant


def _name_of(memory: Memory) -> Name:
    return memory.namespace[1:], memory.key


def _item(memory: Memory) -> Item:
    namespace, key = _name_of(memory)
    return Item(
        value=memory.value,
        key=key,
        namespace=namespace,
        created_at=memory.created_at,
        updated_at=memory.updated_at,
    )


def _search_item(memory: Memory, score: float | None) -> SearchItem:
    namespace, key = _name_of(memory)
    return SearchItem(namespace, key, memory.value, memory.created_at, memory.updated_at, score)


def _longest_prefix(asked: ListNamespacesOp) -> tuple[str, ...]:
    """What all matches begin with, as far as the conditions say."""
    paths = [one.path for one in asked.match_conditions or () if one.match_type == PREFIX]
    heads = [path[: path.index(ANY)] if ANY in path else path for path in paths]
    return max(heads, default=(), key=len)


def _matching(
    page: Iterable[tuple[str, ...]], asked: ListNamespacesOp
) -> Iterator[tuple[str, ...]]:
    for one in page:
        namespace = one[1:]
        if all(_fits(condition, namespace) for condition in asked.match_conditions or ()):
            yield namespace[: asked.max_depth]


def _fits(condition: MatchCondition, namespace: tuple[str, ...]) -> bool:
    path = condition.path
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == PREFIX else namespace[-len(path) :]
    return all(asked in (ANY, found) for asked, found in zip(path, part, strict=True))


def _is_current(mark: Any, value: Any) -> bool:
    """Whether a vector is of what an item says now."""
    texts, n = texts_of(value, mark["path"]), int(mark["n"])
    return n < len(texts) and text_digest(texts[n]) == str(mark["text"])


def _needs_refresh(memory: Memory, now_us: int) -> bool:
    if memory.ttl_us is None or memory.expires_us is None:
        return False
    return memory.expires_us - now_us < memory.ttl_us * FRESH
