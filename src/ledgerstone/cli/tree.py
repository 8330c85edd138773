"""`ledgerstone tree`: the message graph of a session, drawn."""

from __future__ import annotations

from rich.text import Text

from ledgerstone.cli.drawing import Dot, Line, draw
from ledgerstone.cli.graph import Picture, picture
from ledgerstone.cli.options import AsJson, SessionId, StoreUrl, Tenant, reading
from ledgerstone.cli.output import console, moment, plural, print_json, print_line, visible

EXAMPLE = "Example: ledgerstone tree trip --store agent.db"
ID_CHARS = 13
STYLES = {"system": "magenta", "user": "cyan", "assistant": "green", "tool": "yellow"}
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
        plural(len(found.leaves), "branch").replace("branchs", "branches"),
    ]
    print_line(f"{visible(found.session)}: {', '.join(filter(None, facts))}", "bold")
    if not found.nodes:
        print_line("nothing was committed yet")
    for name in found.empty:
        print_line(f"◀ {visible(name)} stands before the first node")


def _print_node(line: Line, found: Picture) -> None:
    out = console()
    node = line.dot
    dead = node.deleted_us is not None
    said = (
        f"{node.seq:>3} {_what(node):<10} {_short(node.id):<{ID_CHARS}} {moment(node.created_us)}"
    )
    text = Text.assemble(
        (line.rails, "dim"),
        ("✗" if dead else "●", "red" if dead else STYLES.get(node.role, "blue")),
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


run.__name__ = "tree"
