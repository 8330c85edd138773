"""Drawing a graph line by line: a straight trunk, and side branches to the right of it.

A conversation that never branched is one column. Where it did, the side branches come first,
each one step to the right, and the trunk goes on below them:

    ● 1
    ├─● 2
    │ ● 3
    ● 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

BESIDE = "├─"
PASSING = "│ "


class Dot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node as the drawing knows it: no body."""

    id: str
    parent: str | None
    ord: int
    seq: int
    kind: str
    role: str = ""
    label: str = ""
    run_id: str | None = None
    created_us: int = 0
    deleted_us: int | None = None


class Line(NamedTuple):
    """One node and what stands left of it."""

    rails: str
    dot: Dot


def draw(dots: Sequence[Dot], trunk: str | None) -> Iterator[Line]:
    """The lines from top to bottom; `trunk` is the node whose path is drawn straight."""
    by_id = {dot.id: dot for dot in dots}
    children: dict[str | None, list[Dot]] = {}
    for dot in dots:
        children.setdefault(dot.parent if dot.parent in by_id else None, []).append(dot)
    straight = _path(by_id, trunk)
    # A stack instead of recursion: a graph may branch deeper than Python can call.
    stack = _spread(children.get(None, []), straight, "")
    while stack:
        rails, lead, dot = stack.pop()
        yield Line(rails + lead, dot)
        inner = rails if not lead else rails + PASSING
        stack += _spread(children.get(dot.id, []), straight, inner)


def _spread(siblings: list[Dot], straight: set[str], rails: str) -> list[tuple[str, str, Dot]]:
    """What comes next, last first: side branches beside the rails, then the trunk on them."""
    if not siblings:
        return []
    ahead = next((dot for dot in siblings if dot.id in straight), siblings[-1])
    beside = [(rails, BESIDE, dot) for dot in reversed(siblings) if dot is not ahead]
    return [(rails, "", ahead), *beside]


def _path(by_id: dict[str, Dot], leaf: str | None) -> set[str]:
    found: set[str] = set()
    while leaf is not None and leaf in by_id and leaf not in found:
        found.add(leaf)
        leaf = by_id[leaf].parent
    return found
