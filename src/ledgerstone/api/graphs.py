"""One graph becomes another: nodes that stand there stay, the others go, new ones come."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.commits import commit, stamped
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loading import ALL_NODES
from ledgerstone.codec import encode_json
from ledgerstone.commands.nodes import ListNodes
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import BranchMove, CommitTurn, NewNode
from ledgerstone.errors import InvalidValue, RevisionMoved
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.blobs import all_named
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import MESSAGE, Node
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import ReplacedGraph
from ledgerstone.rules.bodies import decode_body

TRIES_MAX = 5
_CONTENT = ("id", "kind", "role", "body", "label", "run_id", "meta", "format", "refs", "parent")


class WantedGraph(msgspec.Struct, frozen=True, kw_only=True):
    """The graph as it shall be, and under which guard."""

    session: str
    branch: str
    given: list[Node | Message]
    nodes: tuple[NewNode, ...]
    leaf: str | None
    lease: AnyLease | None
    expected_revision: int | None
    create: Session | None


def new_graph_nodes(given: Iterable[Node | Message]) -> tuple[NewNode, ...]:
    """The nodes to store; each follows the one before it unless it names a parent."""
    made: list[NewNode] = []
    for node in given:
        before = made[-1].id if made else None
        made.append(_new_node(node, before))
    known: set[str | None] = {None}
    for new in made:
        if new.id in known:
            raise InvalidValue("id", f"the same id is given to two nodes: {new.id!r}")
        if new.parent not in known:
            raise InvalidValue(
                "parent", f"{new.parent!r} is no node before {new.id!r} in the graph"
            )
        known.add(new.id)
    return tuple(made)


async def replace_graph(handle: AsyncHandle, wanted: WantedGraph) -> ReplacedGraph:
    """Read what stands there, and commit the difference at that very revision.

    If somebody committed meanwhile, read again and repeat, unless the caller named a revision.
    """
    for left in range(TRIES_MAX, -1, -1):
        try:
            return await _attempt(handle, wanted)
        except RevisionMoved:
            if wanted.expected_revision is not None or left == 0:
                raise
    raise AssertionError("the loop above answers or raises")


async def _attempt(handle: AsyncHandle, wanted: WantedGraph) -> ReplacedGraph:
    place: dict[str, Any] = {"tenant": handle.tenant, "session": wanted.session}
    head, found = await handle.backend.aread(
        (
            GetHead(tenant=handle.tenant, id=wanted.session),
            ListNodes(**place, order="ord", limit=ALL_NODES),
        )
    )
    revision = wanted.expected_revision
    if revision is None:
        revision = 0 if head is None else head.revision
    fresh, gone = _difference(wanted.nodes, found)
    command = CommitTurn(
        **place,
        turn=ids.new_id(),
        kind="replace",
        guard=checks.guard(wanted.lease, revision),
        create=wanted.create,
        parent_rule="exists",
        branch=wanted.branch,
        nodes=fresh,
        tombstones=gone,
        branches=(BranchMove(wanted.branch, wanted.leaf),),
        blobs=_blobs_of(wanted, {node.id for node in fresh}),
    )
    answer = await commit(handle, stamped(command), wanted.lease)
    return ReplacedGraph(
        kept=len(wanted.nodes) - len(fresh),
        removed=len(gone),
        added=answer.placed,
        leaf=answer.leaf,
        revision=answer.revision,
    )


def _difference(
    wanted: Sequence[NewNode], found: Sequence[Node]
) -> tuple[tuple[NewNode, ...], tuple[str, ...]]:
    """The nodes that are new, and the ids of those that go."""
    stored = {node.id: _content(_new_node(node, None)) for node in found}
    fresh = tuple(new for new in wanted if stored.get(new.id) != _content(new))
    kept = {new.id for new in wanted} - {new.id for new in fresh}
    return fresh, tuple(id for id in stored if id not in kept)


def _blobs_of(wanted: WantedGraph, fresh: set[str]) -> tuple[str, ...]:
    """What the new messages name; those that stay named theirs when they came."""
    pairs = zip(wanted.given, wanted.nodes, strict=True)
    messages = [_as_message(node) for node, new in pairs if new.id in fresh]
    return all_named(one.body for one in messages if one is not None)


def _content(node: NewNode) -> tuple[object, ...]:
    return tuple(getattr(node, name) for name in _CONTENT)


def _new_node(node: Node | Message, before: str | None) -> NewNode:
    message = _as_message(node)
    if message is None:
        assert isinstance(node, Node)
        new = bodies.node_of(node, on_path=False)
    else:
        id = ids.check_id(message.id, "id") if message.id else ids.new_id()
        new = bodies.message_node(message, id, bodies.salt(), None)
    return replace(new, parent=_parent(node, before), on_path=False)


def _as_message(node: Node | Message) -> Message | None:
    """A node of kind message, as graphs are read, is a message."""
    if isinstance(node, Message):
        return node
    if node.kind != MESSAGE:
        return None
    try:
        body = decode_body(encode_json(node.body, "body"))
    except msgspec.MsgspecError as error:
        raise InvalidValue("body", f"of a message: {error}") from None
    return Message(body=body, id=node.id, run_id=node.run_id, created_us=node.created_us)


def _parent(node: Node | Message, before: str | None) -> str | None:
    """Its own one; what was not stored yet and names none follows the one before it."""
    open_ = UNSET if isinstance(node, Node) or node.ord else None
    return before if node.parent is open_ else checks.maybe_id(node.parent, "parent")
