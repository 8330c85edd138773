"""What the tests of LedgerStore share."""

from __future__ import annotations

from collections.abc import Sequence

from langgraph.store.base import IndexConfig, Item

DIMS = 8


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Letters counted into a few boxes: equal texts are near, no network is needed."""
    return [[float(sum(ord(c) % DIMS == n for c in text)) for n in range(DIMS)] for text in texts]


async def aembed(texts: Sequence[str]) -> list[list[float]]:
    return embed(texts)


def index(*fields: str) -> IndexConfig:
    """An index over fields; none means the whole item."""
    return {"dims": DIMS, "embed": embed, "fields": list(fields) or None}


def names(items: Sequence[Item]) -> list[tuple[tuple[str, ...], str]]:
    """Namespace and key of each."""
    return [(one.namespace, one.key) for one in items]
