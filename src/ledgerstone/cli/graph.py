"""The graph of a session, collected through the public API: live nodes and tombstones."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import msgspec
from msgspec.structs import replace

from ledgerstone import Message, Node, Store
from ledgerstone.cli.options import find_session
from ledgerstone.records.turns import TurnInfo

_SUPERSEDING = ("replace", "clear", "checkpoint")


class Dot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node without its body."""

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


class Leaf(msgspec.Struct, frozen=True):
    """Where a branch stands; None before the first node."""

    branch: str
    node: str | None


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """A session's graph without any body."""

    session: str
    revision: int
    leaves: list[Leaf]
    nodes: list[Dot]

    @property
    def trunk(self) -> str | None:
        """Where main stands: its path is drawn straight."""
        return next((leaf.node for leaf in self.leaves if leaf.branch == "main"), None)

    @property
    def empty(self) -> list[str]:
        """Branches that stand at no node, though the session has nodes."""
        return [leaf.branch for leaf in self.leaves if leaf.node is None and self.nodes]

    def names_at(self, node: str) -> list[str]:
        return [leaf.branch for leaf in self.leaves if leaf.node == node]


def picture(store: Store, session: str) -> Picture:
    """Everything there is to draw; SessionNotFound."""
    find_session(store, session)
    head = store.sessions.head(session)
    dots = {node.id: _of_node(node) for node in store.nodes.iter(session, order="ord")}
    branches = store.branches.list(session)
    for branch in branches:
        _add(dots, store.messages.history(session, branch=branch.name, deleted=True))
    above = _add_superseded(store, session, dots)
    _add_missing_parents(store, session, dots, above)
    return Picture(
        session=session,
        revision=0 if head is None else head.revision,
        leaves=[Leaf(branch.name, branch.leaf) for branch in branches],
        nodes=sorted(dots.values(), key=lambda dot: dot.ord),
    )


def _add_superseded(store: Store, session: str, dots: dict[str, Dot]) -> dict[str, str]:
    """A replace hides what it supersedes; the revision before it still shows that.

    Answers which message stood above each of them there.
    """
    above: dict[str, str] = {}
    for turn in _turns(store, session):
        if turn.kind not in _SUPERSEDING or turn.revision == 1:
            continue
        view = store.sessions.at(session, turn.revision - 1)
        path = [] if view is None else view.messages
        _add(dots, [_now(store, message) for message in path if message.id not in dots])
        above |= {low.id: high.id for high, low in pairwise(path)}
    return above


def _add_missing_parents(
    store: Store, session: str, dots: dict[str, Dot], above: dict[str, str]
) -> None:
    """Add the tombstones between other nodes.

    One that is no message cannot be read any more: what hung below it is drawn below the
    message that stood above both.
    """
    for start in list(dots.values()):
        dot = start
        while dot.parent is not None and dot.parent not in dots:
            found = store.messages.get(dot.parent, session=session)
            if found is None:
                dots[dot.id] = replace(dot, parent=above.get(start.id))
                break
            dot = dots[found.id] = _of_message(found)


def _turns(store: Store, session: str) -> Iterator[TurnInfo]:
    """The whole commit history, page by page."""
    revision = 0
    while found := store.turns.list(session, after_revision=revision):
        yield from found
        revision = found[-1].revision


def _now(store: Store, message: Message) -> Message:
    """The message with its tombstone, which an earlier revision did not know of."""
    return store.messages.get(message.id, session=message.session) or message


def _add(dots: dict[str, Dot], messages: list[Message]) -> None:
    for message in messages:
        dots.setdefault(message.id, _of_message(message))


def _of_node(node: Node) -> Dot:
    body = node.body if node.kind == "message" and isinstance(node.body, dict) else {}
    return Dot(
        id=node.id,
        parent=node.parent if isinstance(node.parent, str) else None,
        ord=node.ord,
        seq=node.seq,
        kind=node.kind,
        role=str(body.get("role", "")),
        label=node.label,
        run_id=node.run_id,
        created_us=node.created_us,
    )


def _of_message(message: Message) -> Dot:
    return Dot(
        id=message.id,
        parent=message.parent,
        ord=message.ord,
        seq=message.seq,
        kind="message",
        role=message.role,
        run_id=message.run_id,
        created_us=message.created_us,
        deleted_us=message.deleted_us,
    )
