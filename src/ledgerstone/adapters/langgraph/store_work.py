"""What a batch does with the store: all its reads first, then its puts in one commit.

An item is a memory below the root. Its vectors are memories of their own, below a second root, in
a namespace that ends with the item's key; each says which text it is of, so that one which an
overtaken writer left behind is not believed.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from langgraph.store.base import Item, Result, SearchItem

from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.adapters.langgraph.store_filters import matches
from ledgerstone.adapters.langgraph.store_plan import Name, Plan, Put, Search, mark_of, texts_of
from ledgerstone.adapters.langgraph.store_spaces import listed
from ledgerstone.clock import SystemClock
from ledgerstone.commands.memories import GetMemories, MemoryName, SearchMemories
from ledgerstone.errors import Misuse
from ledgerstone.records.memories import Forget, Memory, Remember
from ledgerstone.rules import namespaces

CHUNK = 500
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


class Work:
    """Coroutines over a store of either colour."""

    def __init__(self, store: AnyStore, root: str, model: str | None) -> None:
        """`model`: the name of the vectors' space; None when there are none."""
        self._store = store
        self._root = root
        self._vector_root = f"{root}#vectors"
        self._model = model
        self._clock = SystemClock()

    async def carry_out(self, plan: Plan, vectors: Vectors) -> list[Result]:
        """One answer for each operation; puts answer None."""
        results: list[Result] = [None] * plan.count
        seen: dict[Name, Memory] = {}
        if plan.gets:
            found = await self._get([one.name for one in plan.gets.values()])
            for n, (name, refresh) in plan.gets.items():
                memory = found.get(name)
                results[n] = None if memory is None else self._item(memory)
                if memory is not None and refresh:
                    seen[name] = memory
        for n, search in plan.searches.items():
            hits = await self._search(search, vectors.queries)
            results[n] = [self._search_item(memory, score) for memory, score in hits]
            if search.refresh:
                seen |= {self._name(memory): memory for memory, _ in hits}
        for n, spaces in plan.spaces.items():
            results[n] = await listed(self._store, self._root, spaces)
        await self._refresh(seen)
        if plan.puts:
            await self._put(plan.puts, vectors.texts)
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
        asked = tuple(MemoryName(self._text(segments), key) for segments, key in wanted)
        [found] = await of(self._store.read(GetMemories(tenant=self._tenant, names=asked)))
        return {name: one for name, one in zip(wanted, found, strict=True) if one is not None}

    async def _search(
        self, search: Search, queries: Mapping[str, Sequence[float]]
    ) -> list[tuple[Memory, float | None]]:
        if not search.limit:
            return []
        end = search.offset + search.limit
        found: dict[Name, tuple[Memory, float | None]] = {}
        if search.query:
            found = await self._near(search, queries[search.query], end)
        if len(found) < end:
            async with aclosing(self._plain(search, found)) as rest:
                async for memory in rest:
                    found[self._name(memory)] = (memory, None)
                    if len(found) == end:
                        break
        return list(found.values())[search.offset : end]

    async def _plain(
        self, search: Search, known: Mapping[Name, Any]
    ) -> AsyncGenerator[Memory, None]:
        """Items by namespace and key that are not known yet; the filter is judged here."""
        after: MemoryName | None = None
        while True:
            query = SearchMemories(
                tenant=self._tenant, namespace=self._text(search.prefix), after=after, limit=CHUNK
            )
            [page] = await of(self._store.read(query))
            for one in page:
                if self._name(one) not in known and matches(search.conditions, one.value):
                    yield one
            if len(page) < CHUNK:
                return
            after = MemoryName(namespaces.join(page[-1].namespace), page[-1].key)

    async def _near(
        self, search: Search, vector: Sequence[float], wanted: int
    ) -> dict[Name, tuple[Memory, float | None]]:
        """The nearest items, each by the nearest of its vectors."""
        count = max(NEAR_FIRST, wanted * GROWTH)
        while True:
            hits = await of(
                self._store.memories.search(
                    (self._vector_root, *search.prefix),
                    vector=vector,
                    model=self._model or "",
                    limit=count,
                )
            )
            found = await self._believed(search, hits)
            if len(found) >= wanted or len(hits) < count:
                return dict(list(found.items())[:wanted])
            count *= GROWTH

    async def _believed(
        self, search: Search, hits: Sequence[Memory]
    ) -> dict[Name, tuple[Memory, float | None]]:
        """The items of vectors that still are theirs, in the order of the vectors."""
        owners = [(hit.namespace[1:-1], hit.namespace[-1]) for hit in hits]
        depth = len(search.prefix)
        items = await self._get(owner for owner in owners if len(owner[0]) >= depth)
        found: dict[Name, tuple[Memory, float | None]] = {}
        for owner, hit in zip(owners, hits, strict=True):
            item = items.get(owner)
            if item is None or owner in found or not matches(search.conditions, item.value):
                continue
            if _is_of(hit.value, item.value):
                found[owner] = (item, hit.score)
        return found

    async def _put(self, puts: Mapping[Name, Put], embedded: Mapping[str, Sequence[float]]) -> None:
        changes: list[Remember | Forget] = await self._outdated(puts)
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
                    {"path": one.path, "n": one.n, "text": mark_of(one.text)},
                    ttl_s=put.ttl_s,
                    vector=embedded[one.text],
                    model=self._model or "",
                )
                for n, one in enumerate(put.texts)
            ]
        await of(self._store.memories.batch(changes))

    async def _outdated(self, puts: Mapping[Name, Put]) -> list[Remember | Forget]:
        """The vectors that these items have by now, to be forgotten first."""
        if self._model is None:
            return []
        kept = await self._vectors_of(puts)
        return [Forget(one.namespace, one.key) for page in kept.values() for one in page]

    async def _vectors_of(self, names: Iterable[Name]) -> dict[Name, list[Memory]]:
        wanted = list(names)
        texts = [namespaces.join((self._vector_root, *ns, key)) for ns, key in wanted]
        queries = [SearchMemories(tenant=self._tenant, namespace=text) for text in texts]
        pages = await of(self._store.read(*queries))
        # Below ("a",), "b" lie the vectors of ("a", "b"), "c" too.
        return {
            (ns, key): [one for one in page if len(one.namespace) == len(ns) + 2]
            for (ns, key), page in zip(wanted, pages, strict=True)
        }

    async def _refresh(self, seen: Mapping[Name, Memory]) -> None:
        """Begin the time to live of what was read anew, and that of its vectors."""
        now_us = self._clock.now_us()
        old = [name for name, one in seen.items() if _is_worn(one, now_us)]
        if not old:
            return
        places = [((self._root, *segments), key) for segments, key in old]
        if self._model is not None:
            kept = await self._vectors_of(old)
            places += [(one.namespace, one.key) for page in kept.values() for one in page]
        for namespace, key in places:
            await of(self._store.memories.get(namespace, key, touch=True))

    def _text(self, segments: tuple[str, ...]) -> str:
        return namespaces.join((self._root, *segments))

    def _name(self, memory: Memory) -> Name:
        return memory.namespace[1:], memory.key

    def _item(self, memory: Memory) -> Item:
        return Item(
            value=memory.value,
            key=memory.key,
            namespace=memory.namespace[1:],
            created_at=memory.created_at,
            updated_at=memory.updated_at,
        )

    def _search_item(self, memory: Memory, score: float | None) -> SearchItem:
        return SearchItem(
            memory.namespace[1:],
            memory.key,
            memory.value,
            memory.created_at,
            memory.updated_at,
            score,
        )

    @property
    def _tenant(self) -> str:
        tenant = self._store.tenant
        if tenant is None:
            raise Misuse("a LedgerStore needs a store of one tenant: store.for_tenant(name)")
        return tenant


def _is_of(mark: Any, value: Any) -> bool:
    """Whether a vector is of what an item says now."""
    texts, n = texts_of(value, mark["path"]), int(mark["n"])
    return n < len(texts) and mark_of(texts[n]) == str(mark["text"])


def _is_worn(memory: Memory, now_us: int) -> bool:
    if memory.ttl_us is None or memory.expires_us is None:
        return False
    return memory.expires_us - now_us < memory.ttl_us * FRESH
