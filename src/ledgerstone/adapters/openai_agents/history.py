"""The history of a session's branch: how its items are read and written, over any store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from msgspec.structs import replace

from ledgerstone import formats
from ledgerstone.adapters import native_bytes
from ledgerstone.adapters.openai_agents_items import Item, by_message, is_own, kept, natives
from ledgerstone.adapters.sync_async import AnyStore, each, of
from ledgerstone.commands.nodes import ReadMessages, ReadPath
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import InvalidValue, LeafMoved, RevisionMoved, SessionNotFound
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Head, Session

LIMIT_MAX = (1 << 31) - 1
POP_TRIES_MAX = 50
"""Every failed try is another writer's success, so this many in a row are no accident."""

T = TypeVar("T")


@dataclass(frozen=True)
class Snapshot:
    """The newest items, and a way to put others in their stead unless somebody wrote since.

    What the SDK's compaction asks of a session; it looks at these three names only.
    """

    items: list[Item]
    complete: bool
    replace_suffix: Callable[[int, list[Item]], Awaitable[bool]]


@dataclass(frozen=True)
class BranchHistory:
    """The messages of a branch, and how they are written."""

    store: AnyStore
    session: str
    branch: str
    lease: AnyLease | None
    create: Session

    @property
    def where(self) -> dict[str, Any]:
        """Where queries look."""
        return {"tenant": self.store.tenant or "", "session": self.session}

    async def last(self, limit: int) -> list[Item]:
        """The newest items, oldest first."""
        if limit == 0:
            return []
        _, found = await self.newest(min(limit, LIMIT_MAX))
        if not all(map(is_own, found)):
            # One of another origin may be several items or none, by what was said before it.
            found = await self.messages()
        return natives(found)[-limit:]

    async def newest(self, last: int | None) -> tuple[Head | None, list[Message]]:
        """Where the session stands, and the newest messages of the branch, at one moment."""
        head, found = await of(
            self.store.read(
                GetHead(tenant=self.store.tenant or "", id=self.session),
                ReadMessages(**self.where, branch=self.branch, last=last),
            )
        )
        return head, await self._with_bytes(found)

    async def messages(self) -> list[Message]:
        """All messages of the branch."""
        found = await of(self.store.messages.history(self.session, branch=self.branch))
        return await self._with_bytes(found)

    async def window(self, limit: int) -> tuple[str | None, list[Message]]:
        """The newest node, and at least `limit` messages with one more before them, at one moment.

        All of them, when one of another origin is among them: what it says depends on those before.
        """
        where = {**self.where, "branch": self.branch}
        for most in (min(limit, LIMIT_MAX) + 1, None):
            path, found = await of(
                self.store.read(ReadPath(**where, last=1), ReadMessages(**where, last=most))
            )
            if all(map(is_own, found)):
                break
        return (path[-1].id if path else None), await self._with_bytes(found)

    async def tip(self) -> str | None:
        """The newest live node of the branch."""
        path = await of(self.store.nodes.path(self.session, branch=self.branch, limit=1))
        return path[-1].id if path else None

    async def add(self, messages: Sequence[Message]) -> None:
        """Append in one commit; makes the session when there is none."""
        await of(
            self.store.messages.append(
                self.session, *messages, create=self.create, branch=self.branch, lease=self.lease
            )
        )

    async def ensure(self) -> None:
        """Make the session when there is none."""
        if await of(self.store.sessions.get(self.session)) is None:
            await of(self.store.messages.append(self.session, create=self.create))

    async def is_owner(self, *, writes: bool) -> bool:
        """Return whether the session is known to be the user's; InvalidValue if it is another's.

        A write to a session without a user makes it this user's. Nothing is known of a new session:
        somebody else may create it first.
        """
        user = self.create.user
        found = await of(self.store.sessions.get(self.session))
        if found is None or found.user == user:
            return found is not None
        if found.user is not None:
            raise InvalidValue(
                "user",
                f"session {self.session!r} belongs to another user than {user!r:.60}; "
                "use another session id, or leave user out to open it for whoever owns it",
            )
        if writes and found.deleted_us is None:
            # The time is left to the store: this is a change of its own.
            await of(self.store.sessions.put(replace(found, user=user, updated_us=0)))
        return False

    async def pop(self) -> Item | None:
        """Take the newest item off; of a message that is several items, only the last goes."""
        for tries_left in range(POP_TRIES_MAX, -1, -1):
            head, found = await self.newest(2)
            if head is not None and found and not is_own(found[-1]):
                head, found = await self.newest(None)
            if head is None or not found:
                return None
            items = by_message(found)[-1]
            try:
                await self._take_off(found, items[:-1], head.revision)
            except (RevisionMoved, LeafMoved):
                if tries_left == 0:
                    raise
                continue
            if items:
                return items[-1]
        return None

    async def clear(self, *, purge: bool) -> None:
        """Supersede what the branch holds; with `purge` remove the session, with all branches."""
        messages = self.store.messages
        try:
            # First this, also before a purge, which would ask nobody for a lease.
            await of(messages.clear(self.session, branch=self.branch, lease=self.lease))
        except SessionNotFound:
            return
        if purge:
            await of(self.store.sessions.purge(self.session))

    async def replace_all(self, messages: Sequence[Message]) -> None:
        """Make the list exactly these messages, in one commit."""
        await self._replace(messages, create=self.create)

    async def replace_tail(
        self, after: str | None, messages: Sequence[Message], leaf: str | None
    ) -> bool:
        """Put messages behind `after`; False when the branch does not stand at `leaf` any more."""
        try:
            await self._replace(messages, after=after, expected_leaf=leaf)
        except LeafMoved:
            return False
        return True

    async def prune(self, before: str | None, gone: Callable[[Any], bool]) -> None:
        """Hide the oldest messages, up to `before`, as long as all their items may go."""
        if before is None:
            return
        hidden = []
        oldest_first = self.store.messages.iter(self.session, branch=self.branch, at=before)
        async for message in each(oldest_first):
            if not all(gone(item) for item in natives([message])):
                break
            hidden.append(message.id)
        if hidden:
            await self.tombstone(hidden)

    async def tombstone(self, nodes: Sequence[str]) -> None:
        """Hide nodes."""
        await of(self.store.nodes.tombstone(self.session, nodes, lease=self.lease))

    async def _take_off(self, found: Sequence[Message], rest: list[Item], revision: int) -> None:
        """Replace the newest message by the rest of its items."""
        if rest:
            after = found[-2].id if len(found) > 1 else None
            await self._replace(kept(rest), after=after, expected_revision=revision)
            return
        await of(
            self.store.messages.pop(
                self.session, branch=self.branch, lease=self.lease, expected_revision=revision
            )
        )

    async def _replace(self, messages: Sequence[Message], **options: Any) -> None:
        await of(
            self.store.messages.replace(
                self.session, messages, branch=self.branch, lease=self.lease, **options
            )
        )

    async def _with_bytes(self, found: list[Message]) -> list[Message]:
        """The messages with the bytes that those of other frameworks keep as blobs."""
        known = await native_bytes.get(self.store, (one for one in found if not is_own(one)))
        if not known:
            return found
        return [one if is_own(one) else formats.with_bytes(one, known) for one in found]


async def settled(work: Coroutine[Any, Any, T]) -> T:
    """The outcome of a write; a cancellation goes on only when the write has come to its end.

    The SDK takes back what a cancelled run wrote, and must not meet a write that is on its way.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # Looked at, or asyncio would complain that nobody did.
    raise cancelled
