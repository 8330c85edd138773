"""store.feed: every commit in the order it happened, to read or to follow."""

from __future__ import annotations

import secrets

from msgspec.structs import replace

from ledgerstone.api.handle import AsyncHandle
from ledgerstone.commands import feed as queries
from ledgerstone.commands.sessions import GetHead
from ledgerstone.errors import InvalidValue, StoreClosed
from ledgerstone.intake import checks, cursors
from ledgerstone.intake.checks import LIMIT_MAX, SessionRef
from ledgerstone.records.feed import FeedEntry, FeedPage

NOW = "now"
POLL_S = 5.0
CHUNK = 200
NONCE_BITS = 32


class AsyncFeed:
    """What was committed: of the tenant, or of one session."""

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle = handle

    async def read(
        self,
        *,
        after: str | int | None = None,
        session: SessionRef | None = None,
        limit: int = LIMIT_MAX,
    ) -> FeedPage:
        """Commits after a cursor; "now" has none yet. Of one session a revision will do as well.

        InvalidValue for a foreign cursor, and for a revision without a session.
        """
        name = None if session is None else checks.session_id(session)
        wanted = checks.page_limit(limit)
        start = await self._start(after, name)
        found, _ = await self._entries(start, name, wanted + 1)
        entries = [self._with_cursor(entry) for entry in found[:wanted]]
        cursor = None
        if entries or after is not None:
            place: tuple[int, ...] = (start,)
            if entries:
                place = (found[len(entries) - 1].pos if name is None else entries[-1].revision,)
            elif after == NOW:
                # Two ends of the feed must not compare equal or not: others commit between them.
                place = (start, secrets.randbits(NONCE_BITS))
            cursor = self._handle.cursor(self._scope(name), place)
        return FeedPage(entries=entries, cursor=cursor, has_more=len(found) > wanted)

    def follow(
        self,
        session: SessionRef | None = None,
        *,
        after: str | int | None = None,
        poll_s: float = POLL_S,
    ) -> AsyncFollowing:
        """Every commit, and then each new one as it comes; resumed by the last entry's cursor.

        Of one session by its revision. None begins at the first commit, "now" at the next.
        Ends when the store is closed. `poll_s`: look at least so often, whatever the backend says.
        """
        name = None if session is None else checks.session_id(session)
        self._check_after(after, name)
        if not checks.seconds(poll_s, "poll_s"):
            raise InvalidValue("poll_s", "more than 0 expected")
        return AsyncFollowing(self, name, after, poll_s)

    # --- inside

    def _check_after(self, after: object, session: str | None) -> int | None:
        """The position or revision; None when it is the end as it stands at the first step."""
        if after is None:
            return 0
        if after == NOW:
            return None
        if not isinstance(after, str):
            if session is None:
                raise InvalidValue("after", "a cursor or 'now' expected; a revision is a session's")
            return checks.whole(after, "after")  # type: ignore[arg-type]
        place: int = self._handle.cursor_place(self._scope(session), after)[0]
        return place

    async def _start(self, after: object, session: str | None) -> int:
        start = self._check_after(after, session)
        if start is not None:
            return start
        if session is None:
            return await self._handle.ask(queries.FeedEnd(tenant=self._handle.tenant))
        head = await self._handle.ask(GetHead(tenant=self._handle.tenant, id=session))
        return 0 if head is None else head.revision

    async def _entries(
        self, after: int, session: str | None, limit: int
    ) -> tuple[list[FeedEntry], int]:
        """Entries after a place, and where to go on: past what other tenants committed."""
        tenant = self._handle.tenant
        query = queries.ReadFeed(tenant=tenant, after=after, session=session, limit=limit)
        if session is not None:
            own = await self._handle.ask(query)
            return own, own[-1].revision if own else after
        entries: list[FeedEntry]
        entries, end = await self._handle.backend.aread((query, queries.FeedEnd(tenant=tenant)))
        if len(entries) < limit:
            return entries, max(after, end)
        return entries, entries[-1].pos

    def _with_cursor(self, entry: FeedEntry) -> FeedEntry:
        cursor = self._handle.cursor(self._scope(None), (entry.pos,))
        return replace(entry, cursor=cursor, pos=entry.pos if self._handle.operator else 0)

    def _scope(self, session: str | None) -> bytes:
        return cursors.scope(self._handle.tenant, "feed", session)


class AsyncFollowing:
    """The feed as an iterator that waits; nothing is skipped, nothing comes twice."""

    def __init__(
        self, feed: AsyncFeed, session: str | None, after: str | int | None, poll_s: float
    ) -> None:
        self._feed = feed
        self._session = session
        self._after = after
        self._poll_s = poll_s
        self._place: int | None = None
        self._seen = -1
        self._entries: list[FeedEntry] = []
        self._next = 0
        self._more = True

    def __aiter__(self) -> AsyncFollowing:
        return self

    async def __anext__(self) -> FeedEntry:
        while self._next == len(self._entries):
            await self._refill()
        entry = self._entries[self._next]
        self._next += 1
        return self._feed._with_cursor(entry)

    async def _refill(self) -> None:
        """Read on; wait first when the last read came to the end."""
        feed, seen = self._feed, self._seen
        try:
            if not self._more or seen < 0:
                # The number is asked for before the rows: what comes between the two moves it.
                seen = await feed._handle.backend.achanged(seen, self._poll_s)
            if self._place is None:
                self._place = await feed._start(self._after, self._session)
            found, place = await feed._entries(self._place, self._session, CHUNK)
        except StoreClosed:
            raise StopAsyncIteration from None
        # Together, after the last wait: a cancelled step loses nothing.
        self._entries, self._next, self._place = found, 0, place
        self._seen, self._more = seen, len(found) == CHUNK
