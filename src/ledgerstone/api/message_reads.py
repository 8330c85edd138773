"""The reading half of store.messages."""

from __future__ import annotations

from typing import Any, TypeAlias, cast, get_args

from msgspec.structs import replace

from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.api.pages import CHUNK, AsyncPages
from ledgerstone.commands import nodes as queries
from ledgerstone.commands.context import FindCompaction
from ledgerstone.commands.sessions import GetSession
from ledgerstone.errors import InvalidValue, SessionNotFound
from ledgerstone.intake import checks, cursors
from ledgerstone.intake.checks import LIMIT_DEFAULT, IdRef, SessionRef
from ledgerstone.records.messages import Message, Visibility
from ledgerstone.records.sessions import Page, SeqRange

MessageList: TypeAlias = list[Message]
ORDERS = ("seq", "-seq")


class AsyncMessageReads(AsyncResource):
    """Paths, pages and single messages; absence is None or empty, never an error.

    With `missing="raise"` an unknown session is SessionNotFound.
    """

    async def last(
        self,
        session: SessionRef,
        n: int = 50,
        *,
        branch: str = "main",
        at: IdRef | None = None,
        missing: Missing = "empty",
    ) -> MessageList:
        """The newest n messages, oldest first; never clamped."""
        checks.positive(n, "n")
        return await self._path(session, branch, at, missing, last=n)

    async def history(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        at: IdRef | None = None,
        after_seq: int = 0,
        deleted: bool = False,
        missing: Missing = "empty",
    ) -> MessageList:
        """The complete path, oldest first, never clamped; `at` reads the path of another node."""
        checks.whole(after_seq, "after_seq")
        where = {"after_seq": after_seq, "deleted": deleted}
        return await self._path(session, branch, at, missing, **where)

    async def list(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        order: str = "seq",
        deleted: bool = False,
        run_id: IdRef | None = None,
        visibility: str | None = None,
        limit: int = LIMIT_DEFAULT,
        offset: int = 0,
        cursor: str | None = None,
        total: bool = False,
        missing: Missing = "empty",
    ) -> Page[Message]:
        """A page of the path, or of what one run wrote; from either end.

        `visibility="all"`: only what everybody may see; "internal": only what is for the model.
        A page has at most 200 items: `Page.limit` is the limit that was applied. `history` and
        `iter` are the complete reads. InvalidValue for a foreign cursor, a limit below 1 or a
        negative offset.
        """
        target, tenant = checks.session_id(session), self._tenant
        checks.one_of(missing, get_args(Missing), "missing")
        query = queries.ListMessages(
            tenant=tenant,
            session=target,
            branch=checks.branch_name(branch),
            run_id=checks.maybe_id(run_id, "run_id"),
            visibility=_visibility(visibility),
            deleted=checks.flag(deleted, "deleted"),
            newest_first=checks.one_of(order, ORDERS, "order") == "-seq",
            limit=checks.page_limit(limit),
            offset=checks.whole(offset, "offset"),
            total=checks.flag(total, "total"),
        )
        filters = (
            query.branch, query.run_id, query.visibility, query.deleted, query.newest_first,
        )  # fmt: skip
        if cursor is not None:
            key, incarnation = await self._cursor_key(target, filters, cursor, offset)
            query = replace(query, after=key)
            page: Page[Message] = await self._handle.page(query, missing)
        else:
            found, page = await self._handle.backend.aread(
                (GetSession(tenant=tenant, id=target), query)
            )
            if found is None and missing == "raise":
                raise SessionNotFound(target)
            incarnation = 0 if found is None else found.incarnation
            page = replace(page, limit=query.limit)
        if not page.has_more:
            return page
        scope = self._scope(target, filters, incarnation)
        last = page.items[-1]
        return replace(page, cursor=self._handle.cursor(scope, (last.seq, last.ord)))

    def iter(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        at: IdRef | None = None,
        deleted: bool = False,
        missing: Missing = "empty",
    ) -> AsyncPages[Message]:
        """Every message of the path as it stands at the first step, oldest first, in chunks."""
        target = checks.session_id(session)
        name = checks.branch_name(branch)
        end = checks.maybe_id(at, "at")

        async def fetch(after: Message | None) -> MessageList:
            nonlocal end
            if end is None:
                newest = await self._path(target, name, None, missing, last=1, deleted=deleted)
                if not newest:
                    return []
                end = newest[-1].id
            seq = 0 if after is None else after.seq
            where = {"first": CHUNK, "after_seq": seq, "deleted": deleted}
            return await self._path(target, name, end, missing, **where)

        return AsyncPages(fetch, chunk=CHUNK)

    async def range(
        self, session: SessionRef, first: int, last: int, *, missing: Missing = "empty"
    ) -> MessageList:
        """Messages of the main path by inclusive position, from 1."""
        wanted = SeqRange(first, last)
        return await self._ask(
            queries.ReadRange(
                tenant=self._tenant,
                session=checks.session_id(session),
                first=wanted.first,
                last=wanted.last,
            ),
            missing,
        )

    async def get(self, id: IdRef, *, session: SessionRef | None = None) -> Message | None:
        """By id, soft-deleted ones too; without a session, the oldest one of the tenant."""
        if session is None and isinstance(id, Message) and id.session:
            session = id.session
        return await self._ask(
            queries.GetMessage(
                tenant=self._tenant,
                id=checks.record_id(id, "id"),
                session=None if session is None else checks.session_id(session),
            )
        )

    async def count(
        self, session: SessionRef, *, branch: str = "main", missing: Missing = "empty"
    ) -> int:
        """How many live messages the path has."""
        return await self._ask(
            queries.CountMessages(
                tenant=self._tenant,
                session=checks.session_id(session),
                branch=checks.branch_name(branch),
            ),
            missing,
        )

    async def versions(self, id: IdRef, *, session: SessionRef | None = None) -> MessageList:
        """Every version of a message, the original first; empty when there is none."""
        name = checks.record_id(id, "id")
        if session is None:
            found = await self.get(id)
            if found is None:
                return []
            session = found.session
        return await self._ask(
            queries.GetVersions(tenant=self._tenant, session=checks.session_id(session), id=name)
        )

    async def latest_compaction(
        self, session: SessionRef, *, missing: Missing = "empty"
    ) -> Message | None:
        """The newest compaction request of the session, or None."""
        query = FindCompaction(tenant=self._tenant, session=checks.session_id(session))
        found = await self._ask(query, missing)
        return None if found is None else found.newest

    async def _path(
        self,
        session: SessionRef,
        branch: str,
        at: IdRef | None,
        missing: Missing = "empty",
        **options: Any,
    ) -> MessageList:
        return await self._ask(
            queries.ReadMessages(
                tenant=self._tenant,
                session=checks.session_id(session),
                branch=checks.branch_name(branch),
                at=checks.maybe_id(at, "at"),
                **options,
            ),
            missing,
        )

    async def _cursor_key(
        self, session: str, filters: tuple[Any, ...], cursor: str, offset: int
    ) -> tuple[tuple[int, int], int]:
        """The key in a cursor of this list, and the incarnation it was made under."""
        if offset:
            raise InvalidValue("offset", "give an offset or a cursor, not both")
        found = await self._ask(GetSession(tenant=self._tenant, id=session))
        incarnation = 0 if found is None else found.incarnation
        scope = self._scope(session, filters, incarnation)
        seq, place = self._handle.cursor_place(scope, cursor)
        return (seq, place), incarnation

    def _scope(self, session: str, filters: tuple[Any, ...], incarnation: int) -> bytes:
        return cursors.scope(self._tenant, "messages", session, *filters, incarnation)


def _visibility(value: str | None) -> Visibility | None:
    if value is None:
        return None
    return cast(Visibility, checks.one_of(value, get_args(Visibility), "visibility"))
