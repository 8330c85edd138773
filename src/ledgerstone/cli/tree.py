"""`ledgerstone tree`: the message graph of a session, drawn.

A straight trunk, and side branches to the right of it. A conversation that never branched is one
column. Where it did, the side branches come first, each one step to the right, and the trunk goes
on below them:

    ● 1
    ├─● 2
    │ ● 3
    ● 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from rich.text import Text

from ledgerstone.cli.graph import Dot, Picture, picture
from ledgerstone.cli.options import AsJson, SessionId, StoreUrl, Tenant, reading
from ledgerstone.cli.output import (
    ROLE_STYLES,
    console,
    moment,
    plural,
    print_json,
    print_line,
    visible,
)

EXAMPLE = "Example: ledgerstone tree trip --store agent.db"
ID_CHARS = 13
BESIDE = "├─"
PASSING = "│ "
PLAIN_SIGNS = str.maketrans({"●": "*", "✗": "x", "├": "|", "│": "|", "─": "-", "◀": "<"})


def run(
    session: SessionId,
    *,
    store: StoreUrl = None,
    tenant: Tenant = "default",
    as_json: AsJson = False,
) -> None:
    """Draw the message graph of a session.

    One line per node, side branches to the right, a mark where a branch stands, and crosses for
    tombstones. What was said is not shown; `ledgerstone show` does that.
    """
    with reading(store, tenant) as opened:
        found = picture(opened, session)
    if as_json:
        print_json(found)
        return
    _print_title(found)
    for line in draw(found.nodes, found.trunk):
        _print_node(line, found)


def _print_title(found: Picture) -> None:
    dead = sum(node.deleted_us is not None for node in found.nodes)
    facts = [
        f"revision {found.revision}",
        plural(len(found.nodes) - dead, "node"),
        plural(dead, "tombstone") if dead else "",
        plural(len(found.leaves), "branch"),
    ]
    print_line(f"{found.session}: {', '.join(filter(None, facts))}", "bold")
    if not found.nodes:
        print_line("nothing was committed yet")
    for name in found.empty:
        print_line(f"◀ {name} stands before the first node")


def _print_node(line: Line, found: Picture) -> None:
    out = console()
    node = line.dot
    dead = node.deleted_us is not None
    said = (
        f"{node.seq:>3} {_what(node):<10} {_short(node.id):<{ID_CHARS}} {moment(node.created_us)}"
    )
    text = Text.assemble(
        (line.rails, "dim"),
        ("✗" if dead else "●", "red" if dead else ROLE_STYLES.get(node.role, "blue")),
        (said, "dim" if dead else ""),
    )
    if dead:
        text.append(f"  deleted {moment(node.deleted_us)}", "red")
    for name in found.names_at(node.id):
        text.append(f"  ◀ {visible(name)}", "bold")
    if not (out.encoding or "").lower().startswith("utf"):
        text = Text(text.plain.translate(PLAIN_SIGNS))
    out.print(text, soft_wrap=True)


def _what(node: Dot) -> str:
    name = node.role or node.kind
    return visible(f"{name} {node.label}".strip() if not node.role else name)


def _short(name: str) -> str:
    """An id as far as it tells nodes apart: the end of a UUIDv7 is the random part."""
    shown = visible(name)
    return shown if len(shown) <= ID_CHARS else "…" + shown[1 - ID_CHARS :]


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
