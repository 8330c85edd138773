"""One list becomes another: keep the common prefix, supersede the rest, append the new tail."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import sha256

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.commits import commit, stamped
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.commands.nodes import ReadMessages, ReadPath
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import CommitTurn, NewNode, Rewind
from ledgerstone.errors import InvalidValue, LeafMoved
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.blobs import all_named
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Base, Replaced

TRIES_MAX = 5


class Plan(msgspec.Struct, frozen=True, kw_only=True):
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


class Wanted(msgspec.Struct, frozen=True):
    """The list as it shall be, each body encoded once."""

    messages: list[Message]
    encoded: list[bytes]
    digests: tuple[bytes, ...]


async def replace_list(
    handle: AsyncHandle,
    plan: Plan,
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
    wanted = Wanted(given, encoded, tuple(sha256(data).digest() for data in encoded))
    if base is not None and (base.session, base.branch) != (plan.session, plan.branch):
        raise InvalidValue("base", "it belongs to another session or branch")
    for left in range(TRIES_MAX, -1, -1):
        revision, seen = (None, base) if base is not None else await _read(handle, plan)
        try:
            return await _attempt(handle, plan, wanted, seen, revision=revision, after=after)
        except LeafMoved:
            if plan.expected_leaf is not UNSET or left == 0:
                raise
            base = None
    raise AssertionError("the loop above answers or raises")


async def _read(handle: AsyncHandle, plan: Plan) -> tuple[int, Base]:
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


async def _attempt(
    handle: AsyncHandle,
    plan: Plan,
    wanted: Wanted,
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
    answer = await commit(handle, stamped(command), plan.lease)
    pairs = zip(nodes, answer.placed, strict=True)
    added = bodies.placed_messages(plan.session, fresh, pairs)
    names = (*seen.ids[:kept], *(node.id for node in nodes))
    digests = (*seen.digests[:kept], *wanted.digests[same:])
    base = Base(plan.session, plan.branch, answer.leaf, names, digests)
    return Replaced(
        kept=kept,
        superseded=answer.superseded,
        added=added,
        base=base,
        revision=answer.revision,
    )


def _start(seen: Base, after: str | None) -> int:
    if after is None:
        return 0
    try:
        return seen.ids.index(after) + 1
    except ValueError:
        raise InvalidValue("after", f"{after!r} is no message of this path") from None


def _common(wanted: Wanted, seen: Base, start: int) -> int:
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
    """The new tail. An id that a superseded message keeps is not given twice: a new one is."""
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
