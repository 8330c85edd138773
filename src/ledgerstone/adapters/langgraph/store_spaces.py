"""Which namespaces hold items, matched segment by segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ledgerstone.adapters.faces import AnyStore, of
from ledgerstone.adapters.langgraph.store_plan import ANY, PREFIX, Spaces

CHUNK = 1000


async def listed(store: AnyStore, root: str, asked: Spaces) -> list[tuple[str, ...]]:
    """Namespaces in order, cut to their depth; "*" stands for one segment of any name."""
    if not asked.limit:
        return []
    literal = _longest_literal(asked)
    simple = asked.conditions in ((), ((PREFIX, literal),))
    end = asked.offset + asked.limit
    if simple:
        found = await of(
            store.memories.namespaces(
                match=(root, *literal),
                max_depth=None if asked.max_depth is None else asked.max_depth + 1,
                limit=asked.limit,
                offset=asked.offset,
            )
        )
        return [one[1:] for one in found]
    kept: dict[tuple[str, ...], None] = {}
    offset = 0
    while len(kept) < end:
        page = await of(
            store.memories.namespaces(match=(root, *literal), limit=CHUNK, offset=offset)
        )
        for one in _matching(page, asked):
            kept[one] = None
        if len(page) < CHUNK:
            break
        offset += CHUNK
    return list(kept)[asked.offset : end]


def _matching(page: Iterable[tuple[str, ...]], asked: Spaces) -> Iterator[tuple[str, ...]]:
    for one in page:
        namespace = one[1:]
        if all(_fits(kind, path, namespace) for kind, path in asked.conditions):
            yield namespace[: asked.max_depth]


def _fits(kind: str, path: tuple[str, ...], namespace: tuple[str, ...]) -> bool:
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if kind == PREFIX else namespace[-len(path) :]
    return all(asked in (ANY, found) for asked, found in zip(path, part, strict=True))


def _longest_literal(asked: Spaces) -> tuple[str, ...]:
    """What all matches begin with, as far as the conditions say."""
    best: tuple[str, ...] = ()
    for kind, path in asked.conditions:
        if kind == PREFIX:
            head = path[: path.index(ANY)] if ANY in path else path
            best = max(best, head, key=len)
    return best
