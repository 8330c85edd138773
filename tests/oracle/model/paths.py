"""Paths: walking the graph from a node up to its root.

A parent is always older than its child, so its ord is smaller. That makes every question about
two paths a walk in which the greater ord steps up.
"""

from __future__ import annotations

from collections.abc import Iterator

from ledgerstone.errors import LeafMoved
from tests.oracle.model.rows import NodeRow
from tests.oracle.model.standing import Standing
from tests.oracle.model.state import Tx

MAIN = "main"


def upwards(tx: Tx, number: int, start: int) -> Iterator[NodeRow]:
    """The node with this ord and its ancestors, tombstoned ones too, newest first."""
    nodes = tx.state.nodes
    while start:
        row = nodes[(number, start)]
        yield row
        start = row.parent


def live_ancestor(tx: Tx, number: int, start: int) -> int:
    """The effective leaf: the node itself or its nearest live ancestor; 0 when there is none."""
    return next((row.ord for row in upwards(tx, number, start) if row.live), 0)


def meeting(tx: Tx, number: int, a: int, b: int) -> tuple[int, list[NodeRow], list[NodeRow]]:
    """The last common ord of two paths and what only each of them has, newest first."""
    nodes = tx.state.nodes
    only_a: list[NodeRow] = []
    only_b: list[NodeRow] = []
    while a != b:
        if a > b:
            only_a.append(nodes[(number, a)])
            a = only_a[-1].parent
        else:
            only_b.append(nodes[(number, b)])
            b = only_b[-1].parent
    return a, only_a, only_b


def id_of(tx: Tx, number: int, at: int) -> str | None:
    """The id of the node with this ord; None for 0."""
    row = tx.state.nodes.get((number, at))
    return None if row is None else row.id


def node_by_id(tx: Tx, standing: Standing, node: str) -> NodeRow | None:
    """The node, tombstoned and vacuumed ones too."""
    at = tx.state.node_ids.get((standing.tenant, node, standing.number))
    return None if at is None else tx.state.nodes[(standing.number, at)]


def live_by_id(tx: Tx, standing: Standing, node: str) -> NodeRow | None:
    """The node, when it is not tombstoned."""
    row = node_by_id(tx, standing, node)
    return row if row is not None and row.live else None


def stored_leaf(tx: Tx, standing: Standing, branch: str) -> int | None:
    """The ord at which a branch stands; None when there is no such branch."""
    if branch == MAIN:
        return standing.head.leaf
    return tx.state.branches.get((standing.number, branch))


def check_expected(
    tx: Tx, standing: Standing, branch: str, stored: int, expected: str | None
) -> None:
    """LeafMoved unless the branch stands, as stored or effectively, at the expected node."""
    effective = id_of(tx, standing.number, live_ancestor(tx, standing.number, stored))
    if expected not in (effective, id_of(tx, standing.number, stored)):
        raise LeafMoved(branch, expected, effective)
