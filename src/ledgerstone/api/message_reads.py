"""The reading half of store.messages: what was said, and what of it is sent to a model."""

from __future__ import annotations

from typing import Any, TypeAlias, get_args

from msgspec.structs import replace

from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.api.pages import CHUNK, AsyncPages
from ledgerstone.commands import nodes as queries
from ledgerstone.commands.context import FindCompaction, ReadContext
from ledgerstone.commands.sessions import GetDocument, GetSession
from ledgerstone.errors import Corrupt, InvalidValue, SessionNotFound
from ledgerstone.intake import checks, cursors
from ledgerstone.intake.checks import LIMIT_DEFAULT, IdRef, SessionRef
from ledgerstone.intake.compaction import checked_count, checked_prune, context_limit
from ledgerstone.records.context import Context, Prune
from ledgerstone.records.document import read_document
from ledgerstone.records.messages import Message, Visibility
from ledgerstone.records.sessions import Page, SeqRange
from ledgerstone.rules.context import Count, build, estimate

MessageList: TypeAlias = list[Message]
ORDERS = ("seq", "-seq")
VISIBILITIES = get_args(Visibility)


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
            visibility=checks.maybe_one_of(visibility, VISIBILITIES, "visibility"),
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
            page: Page[Message] = await self._ask(query, missing)
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
                session=checks.maybe_session(session),
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

    async def context(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        at: IdRef | None = None,
        budget_tokens: int | None = None,
        count: Count | None = None,
        prune: Prune | bool | None = None,
        keep_system: bool = True,
        missing: Missing = "empty",
    ) -> Context:
        """The messages to send now: leading system messages, the newest summary, the tail.

        Nothing that is stored changes. `prune` leaves old tool outputs out (True: as `Prune()`
        says); then whole messages go, oldest first, until `budget_tokens` are met: never a tool
        call without its results, the summary, a system message or the newest message.
        `count(message)` says how many tokens one takes; without it they are estimated from the
        length of the text. InvalidValue when the budget cannot be met.
        """
        if budget_tokens is not None:
            checks.positive(budget_tokens, "budget_tokens")
        checked_count(count)
        wanted = checked_prune(prune)
        checks.flag(keep_system, "keep_system")
        rows = await self._ask(
            ReadContext(
                tenant=self._tenant,
                session=checks.session_id(session),
                branch=checks.branch_name(branch),
                at=checks.maybe_id(at, "at"),
            ),
            missing,
        )
        return build(
            rows,
            keep_system=keep_system,
            prune=wanted,
            budget_tokens=budget_tokens,
            count=count or estimate,
        )

    async def should_compact(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        used_tokens: int | None = None,
        count: Count | None = None,
    ) -> bool:
        """Whether the context has grown beyond what the session's own settings allow.

        They are in the `config` of its document: `auto_compact`, `auto_compact_threshold` and
        `max_context_length`; False while the first is off or the last is 0. `used_tokens` is what
        the provider counted last, otherwise the context is counted. InvalidValue for settings
        that make no sense.
        """
        checked_count(count)
        if used_tokens is not None:
            checks.whole(used_tokens, "used_tokens")
        target = checks.session_id(session)
        data = await self._ask(GetDocument(tenant=self._tenant, session=target, name="document"))
        limit = None if data is None else context_limit(_config(data, target))
        if limit is None:
            return False
        if used_tokens is None:
            found = await self.context(target, branch=branch, count=count)
            used_tokens = found.tokens
        return used_tokens >= limit

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


def _config(data: bytes, session: str) -> object:
    try:
        return read_document(data)["config"]
    except ValueError as error:
        raise Corrupt("documents", session, "document", str(error)) from None
