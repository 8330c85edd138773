"""Where a session's items are, and the work on them: coroutines over a store of either colour."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from msgspec.structs import replace

from ledgerstone import formats
from ledgerstone.adapters import native_bytes
from ledgerstone.adapters.faces import AnyStore, each, of
from ledgerstone.adapters.openai_agents_items import Item, by_message, is_own, kept, natives
from ledgerstone.commands.nodes import ReadMessages, ReadPath
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import InvalidValue, LeafMoved, RevisionMoved, SessionNotFound
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Head, Session

LIMIT_MAX = (1 << 31) - 1
POP_TRIES_MAX = 50
"""Every failed try is another writer's success, so this many in a row are no accident."""


@dataclass(frozen=True)
class Place:
    """A branch of a session, and how it is written to."""

    store: AnyStore
    session: str
    branch: str
    lease: AnyLease | None
    create: Session

    @property
    def tenant(self) -> str:
        return self.store.tenant or ""


@dataclass(frozen=True)
class Snapshot:
    """The newest items, and a way to put others in their stead unless somebody wrote since.

    What the SDK's compaction asks of a session; it looks at these three names only.
    """

    items: list[Item]
    complete: bool
    replace_suffix: Callable[[int, list[Item]], Awaitable[bool]]


async def last(place: Place, limit: int) -> list[Item]:
    """The newest items, oldest first."""
    if limit == 0:
        return []
    _, found = await newest(place, min(limit, LIMIT_MAX))
    if not all(map(is_own, found)):
        # One of another origin may be several items or none, by what was said before it.
        found = await history(place)
    return natives(found)[-limit:]


async def add(place: Place, messages: Sequence[Message]) -> None:
    """Append in one commit; makes the session when there is none."""
    await of(
        place.store.messages.append(
            place.session,
            *messages,
            create=place.create,
            branch=place.branch,
            lease=place.lease,
        )
    )


async def ensure(place: Place) -> None:
    """Make the session when there is none."""
    if await of(place.store.sessions.get(place.session)) is None:
        await of(place.store.messages.append(place.session, create=place.create))


async def is_owner(place: Place, *, writes: bool) -> bool:
    """Return whether the session is known to be the user's; InvalidValue if it is another's.

    A write to a session without a user makes it this user's. Nothing is known of a new session:
    somebody else may create it first.
    """
    user = place.create.user
    found = await of(place.store.sessions.get(place.session))
    if found is None or found.user == user:
        return found is not None
    if found.user is not None:
        raise InvalidValue(
            "user",
            f"session {place.session!r} belongs to another user than {user!r:.60}; "
            "use another session id, or leave user out to open it for whoever owns it",
        )
    if writes and found.deleted_us is None:
        # The time is left to the store: this is a change of its own.
        await of(place.store.sessions.put(replace(found, user=user, updated_us=0)))
    return False


async def pop(place: Place) -> Item | None:
    """Take the newest item off; of a message that is several items, only the last goes."""
    for left in range(POP_TRIES_MAX, -1, -1):
        head, found = await newest(place, 2)
        if head is not None and found and not is_own(found[-1]):
            head, found = await newest(place, None)
        if head is None or not found:
            return None
        items = by_message(found)[-1]
        try:
            await _take_off(place, found, items[:-1], head.revision)
        except (RevisionMoved, LeafMoved):
            if left == 0:
                raise
            continue
        if items:
            return items[-1]
    return None


async def newest(place: Place, last: int | None) -> tuple[Head | None, list[Message]]:
    """Where the session stands, and the newest messages of the branch, at one moment."""
    where: dict[str, Any] = {"tenant": place.tenant, "session": place.session}
    head, found = await of(
        place.store.read(
            GetHead(tenant=place.tenant, id=place.session),
            ReadMessages(**where, branch=place.branch, last=last),
        )
    )
    return head, await whole(place, found)


async def history(place: Place) -> list[Message]:
    """All messages of the branch."""
    found = await of(place.store.messages.history(place.session, branch=place.branch))
    return await whole(place, found)


async def whole(place: Place, found: list[Message]) -> list[Message]:
    """The messages with the bytes that those of other frameworks keep as blobs."""
    known = await native_bytes.get(place.store, (one for one in found if not is_own(one)))
    if not known:
        return found
    return [one if is_own(one) else formats.with_bytes(one, known) for one in found]


async def _take_off(
    place: Place, found: Sequence[Message], rest: list[Item], revision: int
) -> None:
    messages = place.store.messages
    if not rest:
        await of(
            messages.pop(
                place.session, branch=place.branch, lease=place.lease, expected_revision=revision
            )
        )
        return
    await of(
        messages.replace(
            place.session,
            kept(rest),
            after=found[-2].id if len(found) > 1 else None,
            branch=place.branch,
            lease=place.lease,
            expected_revision=revision,
        )
    )


async def clear(place: Place, *, purge: bool) -> None:
    """Supersede what the branch holds; with `purge` remove the session, with all branches."""
    try:
        # First this, also before a purge, which would ask nobody for a lease.
        await of(place.store.messages.clear(place.session, branch=place.branch, lease=place.lease))
    except SessionNotFound:
        return
    if purge:
        await of(place.store.sessions.purge(place.session))


async def replace_all(place: Place, messages: Sequence[Message]) -> None:
    """Make the list exactly these messages, in one commit."""
    await of(
        place.store.messages.replace(
            place.session,
            messages,
            branch=place.branch,
            create=place.create,
            lease=place.lease,
        )
    )


async def tip(place: Place) -> str | None:
    """The newest live node of the branch."""
    path = await of(place.store.nodes.path(place.session, branch=place.branch, limit=1))
    return path[-1].id if path else None


async def window(place: Place, limit: int) -> tuple[str | None, list[Message]]:
    """The newest node, and at least `limit` messages with one more before them, at one moment.

    All of them, when one of another origin is among them: what it says depends on those before.
    """
    where: dict[str, Any] = {
        "tenant": place.tenant,
        "session": place.session,
        "branch": place.branch,
    }
    for most in (min(limit, LIMIT_MAX) + 1, None):
        path, found = await of(
            place.store.read(ReadPath(**where, last=1), ReadMessages(**where, last=most))
        )
        if all(map(is_own, found)):
            break
    return (path[-1].id if path else None), await whole(place, found)


async def replace_tail(
    place: Place, after: str | None, messages: Sequence[Message], leaf: str | None
) -> bool:
    """Put messages behind `after`; False when the branch does not stand at `leaf` any more."""
    try:
        await of(
            place.store.messages.replace(
                place.session,
                messages,
                after=after,
                branch=place.branch,
                expected_leaf=leaf,
                lease=place.lease,
            )
        )
    except LeafMoved:
        return False
    return True


async def prune(place: Place, before: str | None, gone: Callable[[Any], bool]) -> None:
    """Hide the oldest messages, up to `before`, as long as all their items may go."""
    if before is None:
        return
    hidden = []
    async for message in each(
        place.store.messages.iter(place.session, branch=place.branch, at=before)
    ):
        if not all(gone(item) for item in natives([message])):
            break
        hidden.append(message.id)
    if hidden:
        await of(place.store.nodes.tombstone(place.session, hidden, lease=place.lease))
