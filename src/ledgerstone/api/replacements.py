"""A list or a graph becomes another: what stands there stays, only the rest is committed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.commits import commit
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loading import ALL_NODES
from ledgerstone.codec import encode_json
from ledgerstone.commands.nodes import ListNodes, ReadMessages, ReadPath
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import BranchMove, CommitTurn, NewNode, Rewind
from ledgerstone.errors import InvalidValue, LeafMoved, RevisionMoved
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.blobs import all_named
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import MESSAGE, Node
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Base, Replaced, ReplacedGraph
from ledgerstone.rules.bodies import decode_body

TRIES_MAX = 5
_CONTENT = ("id", "kind", "role", "body", "label", "run_id", "meta", "format", "refs", "parent")


class ListReplacement(msgspec.Struct, frozen=True, kw_only=True):
    """Where a list is replaced, under which guard, and what travels along."""

    kind: str
    session: str
    branch: str
    lease: AnyLease | None
    expected_revision: int | None
    expected_leaf: str | UnsetType | None
    create: Session | None = None
    run: Run | None = None
    run_id: str | None = None

    @property
    def may_skip(self) -> bool:
        """Whether a replace that changes nothing needs no commit: nothing else was asked."""
        asked = (self.lease, self.expected_revision, self.run)
        return self.expected_leaf is UNSET and all(one is None for one in asked)


class WantedList(msgspec.Struct, frozen=True):
    """The list as it shall be, each body encoded once."""

    messages: list[Message]
    encoded: list[bytes]
    digests: tuple[bytes, ...]


async def replace_list(
    handle: AsyncHandle,
    plan: ListReplacement,
    messages: Iterable[object],
    *,
    base: Base | None,
    after: str | None,
) -> Replaced:
    """Make the list so; read it first unless `base` says how it stands.

    If somebody moved the leaf meanwhile, read again and repeat, unless the caller named a leaf.
    """
    given = bodies.to_messages(messages)
    encoded = [bodies.encode_body(message.body) for message in given]
    wanted = WantedList(given, encoded, tuple(sha256(data).digest() for data in encoded))
    if base is not None and (base.session, base.branch) != (plan.session, plan.branch):
        raise InvalidValue("base", "it belongs to another session or branch")
    for left in range(TRIES_MAX, -1, -1):
        revision, seen = (None, base) if base is not None else await _read(handle, plan)
        try:
            return await _attempt_list(handle, plan, wanted, seen, revision=revision, after=after)
        except LeafMoved:
            if plan.expected_leaf is not UNSET or left == 0:
                raise
            base = None
    raise AssertionError("the loop above answers or raises")


async def _read(handle: AsyncHandle, plan: ListReplacement) -> tuple[int, Base]:
    tenant, session, branch = handle.tenant, plan.session, plan.branch
    head, tip, path = await handle.backend.aread(
        (
            GetHead(tenant=tenant, id=session),
            ReadPath(tenant=tenant, session=session, branch=branch, last=1),
            ReadMessages(tenant=tenant, session=session, branch=branch),
        )
    )
    found = [sha256(bodies.encode_body(message.body)).digest() for message in path]
    leaf = tip[-1].id if tip else None
    names = tuple(message.id for message in path)
    return (0 if head is None else head.revision), Base(session, branch, leaf, names, tuple(found))


async def _attempt_list(
    handle: AsyncHandle,
    plan: ListReplacement,
    wanted: WantedList,
    seen: Base,
    *,
    revision: int | None,
    after: str | None,
) -> Replaced:
    if plan.expected_leaf is not UNSET and plan.expected_leaf != seen.leaf:
        raise LeafMoved(plan.branch, plan.expected_leaf, seen.leaf)
    start = _start(seen, after)
    same = _common(wanted, seen, start)
    kept = start + same
    fresh = wanted.messages[same:]
    if kept == len(seen.ids) and not fresh and kept and revision is not None and plan.may_skip:
        return Replaced(kept=kept, superseded=0, added=[], base=seen, revision=revision)
    turn, nodes = _nodes(fresh, wanted.encoded[same:], set(seen.ids[kept:]), plan.run_id)
    whole = kept == len(seen.ids)
    target = seen.leaf if whole else (seen.ids[kept - 1] if kept else None)
    command = CommitTurn(
        tenant=handle.tenant,
        session=plan.session,
        turn=turn,
        kind=plan.kind,
        guard=checks.guard(plan.lease, plan.expected_revision),
        create=plan.create,
        parent_rule="exists",
        branch=plan.branch,
        rewind=Rewind(to=target, expected=seen.leaf, supersede=True),
        nodes=tuple(nodes),
        blobs=all_named(one.body for one in fresh),
        run=plan.run,
    )
    answer = await commit(handle, command, plan.lease)
    pairs = zip(nodes, answer.placed, strict=True)
    added = bodies.placed_messages(plan.session, fresh, pairs)
    names = (*seen.ids[:kept], *(node.id for node in nodes))
    digests = (*seen.digests[:kept], *wanted.digests[same:])
    base = Base(plan.session, plan.branch, answer.leaf, names, digests)
    return Replaced(
        kept=kept, superseded=answer.superseded, added=added, base=base, revision=answer.revision
    )


def _start(seen: Base, after: str | None) -> int:
    if after is None:
        return 0
    try:
        return seen.ids.index(after) + 1
    except ValueError:
        raise InvalidValue("after", f"{after!r} is no message of this path") from None


def _common(wanted: WantedList, seen: Base, start: int) -> int:
    """How many of the wanted messages stand there already: same body, same id when given.

    An id that was drawn when the message was made was not given: a program builds the same list
    anew for every call.
    """
    count = 0
    for message, digest, id, old in zip(
        wanted.messages, wanted.digests, seen.ids[start:], seen.digests[start:], strict=False
    ):
        if digest != old or (message.id and message.id != id and not message.drawn):
            break
        count += 1
    return count


def _nodes(
    fresh: Sequence[Message], encoded: Sequence[bytes], gone: set[str], run_id: str | None
) -> tuple[str, list[NewNode]]:
    """The nodes to append. An id that a superseded message keeps is replaced by a new one."""
    clean = [
        replace(message, parent=None, id="" if message.id in gone else message.id)
        for message in fresh
    ]
    names = ids.new_ids(len(clean) + 1)
    nodes = []
    for n, (message, body) in enumerate(zip(clean, encoded, strict=True)):
        id = ids.check_id(message.id, "id") if message.id else names[n + 1]
        nodes.append(bodies.message_node(message, id, bodies.salt(), run_id, body))
    return names[0], nodes


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
            return await _attempt_graph(handle, wanted)
        except RevisionMoved:
            if wanted.expected_revision is not None or left == 0:
                raise
    raise AssertionError("the loop above answers or raises")


async def _attempt_graph(handle: AsyncHandle, wanted: WantedGraph) -> ReplacedGraph:
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
    answer = await commit(handle, command, wanted.lease)
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
    """The parent that it names; a new node without one follows the node before it."""
    open_ = UNSET if isinstance(node, Node) or node.ord else None
    return before if node.parent is open_ else checks.maybe_id(node.parent, "parent")
