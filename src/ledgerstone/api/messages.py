"""store.messages: the conversation as a list, on the graph below it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api import bodies, checks, cursors
from ledgerstone.api.checks import LIMIT_DEFAULT, IdRef, SessionRef
from ledgerstone.api.commits import commit, stamped
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.pages import CHUNK, AsyncPages
from ledgerstone.api.replacing import Plan, replace_list
from ledgerstone.api.turns import new_session
from ledgerstone.commands import nodes as queries
from ledgerstone.commands.sessions import CreateSession, GetSession
from ledgerstone.commands.turns import Amendment, CommitTurn, Rewind
from ledgerstone.errors import InvalidValue, MessageNotFound, SessionNotFound
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.messages import Compaction, Message, assistant, user
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.replaced import Base, Replaced
from ledgerstone.records.sessions import Page, SeqRange, Session
from ledgerstone.records.turns import TurnCommitted

Messages: TypeAlias = list[Message]
ORDERS = ("seq", "-seq")


class AsyncMessages:
    """What was said."""

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle = handle

    async def append(
        self,
        session: SessionRef,
        *messages: object,
        create: bool | Session = False,
        branch: str = "main",
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> Messages:
        """Add messages at the end in one commit; messages with ids may be appended again.

        Errors: SessionNotFound (unless `create`), SessionDeleted, BranchNotFound, AlreadyExists,
        LeaseHeld, LeaseExpired, Fenced, RevisionMoved, InvalidValue.
        """
        target, owned = checks.bound(session, lease)
        tenant = self._handle.tenant
        made = new_session(tenant, target, create)
        if not messages:
            if made is not None:
                await self._handle.write(CreateSession(tenant=tenant, session=made, ensure=True))
            return []
        given = bodies.to_messages(messages)
        turn, nodes = bodies.message_nodes(given, checks.maybe_id(run_id, "run_id"))
        command = CommitTurn(
            tenant=tenant,
            session=target,
            turn=turn,
            kind="append",
            guard=checks.guard(owned, expected_revision),
            create=made,
            branch=checks.branch_name(branch),
            nodes=tuple(nodes),
        )
        answer = await commit(self._handle, stamped(command), owned)
        pairs = zip(nodes, answer.placed, strict=True)
        return bodies.placed_messages(target, given, pairs)

    async def last(
        self, session: SessionRef, n: int = 50, *, branch: str = "main", at: IdRef | None = None
    ) -> Messages:
        """The newest n messages, oldest first; never clamped."""
        checks.positive(n, "n")
        return await self._path(session, branch, at, last=n)

    async def history(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        at: IdRef | None = None,
        after_seq: int = 0,
        deleted: bool = False,
    ) -> Messages:
        """The complete path, oldest first; `at` reads the path of another node."""
        checks.whole(after_seq, "after_seq")
        return await self._path(session, branch, at, after_seq=after_seq, deleted=deleted)

    async def list(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        order: str = "seq",
        deleted: bool = False,
        run_id: IdRef | None = None,
        limit: int = LIMIT_DEFAULT,
        offset: int = 0,
        cursor: str | None = None,
        total: bool = False,
    ) -> Page[Message]:
        """A page of the path, or of what one run wrote; from either end.

        InvalidValue for a foreign cursor, a limit below 1 or a negative offset.
        """
        target, tenant = checks.session_id(session), self._handle.tenant
        query = queries.ListMessages(
            tenant=tenant,
            session=target,
            branch=checks.branch_name(branch),
            run_id=checks.maybe_id(run_id, "run_id"),
            deleted=checks.flag(deleted, "deleted"),
            newest_first=checks.one_of(order, ORDERS, "order") == "-seq",
            limit=checks.page_limit(limit),
            offset=checks.whole(offset, "offset"),
            total=checks.flag(total, "total"),
        )
        filters = (query.branch, query.run_id, query.deleted, query.newest_first)
        if cursor is not None:
            key, incarnation = await self._cursor_key(target, filters, cursor, offset)
            query = replace(query, after=key)
            page: Page[Message] = await self._handle.ask(query)
        else:
            found, page = await self._handle.backend.aread(
                (GetSession(tenant=tenant, id=target), query)
            )
            incarnation = 0 if found is None else found.incarnation
        if not page.has_more:
            return page
        scope = self._scope(target, filters, incarnation)
        last = page.items[-1]
        return replace(page, cursor=cursors.encode(scope, (incarnation, last.seq, last.ord)))

    def iter(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        at: IdRef | None = None,
        deleted: bool = False,
    ) -> AsyncPages[Message]:
        """Every message of the path as it stands at the first step, oldest first, in chunks."""
        target = checks.session_id(session)
        name = checks.branch_name(branch)
        end = checks.maybe_id(at, "at")

        async def fetch(after: Message | None) -> Messages:
            nonlocal end
            if end is None:
                newest = await self._path(target, name, None, last=1, deleted=deleted)
                if not newest:
                    return []
                end = newest[-1].id
            seq = 0 if after is None else after.seq
            return await self._path(
                target, name, end, first=CHUNK, after_seq=seq, deleted=deleted
            )

        return AsyncPages(fetch)

    async def range(self, session: SessionRef, first: int, last: int) -> Messages:
        """Messages of the main path by inclusive position, from 1."""
        wanted = SeqRange(first, last)
        return await self._handle.ask(
            queries.ReadRange(
                tenant=self._handle.tenant,
                session=checks.session_id(session),
                first=wanted.first,
                last=wanted.last,
            )
        )

    async def get(self, id: IdRef, *, session: SessionRef | None = None) -> Message | None:
        """By id, soft-deleted ones too; without a session, the oldest one of the tenant."""
        if session is None and isinstance(id, Message) and id.session:
            session = id.session
        return await self._handle.ask(
            queries.GetMessage(
                tenant=self._handle.tenant,
                id=checks.record_id(id, "id"),
                session=None if session is None else checks.session_id(session),
            )
        )

    async def count(self, session: SessionRef, *, branch: str = "main") -> int:
        """How many live messages the path has."""
        return await self._handle.ask(
            queries.CountMessages(
                tenant=self._handle.tenant,
                session=checks.session_id(session),
                branch=checks.branch_name(branch),
            )
        )

    async def versions(self, id: IdRef, *, session: SessionRef | None = None) -> Messages:
        """Every version of a message, the original first; empty when there is none."""
        name = checks.record_id(id, "id")
        if session is None:
            found = await self.get(id)
            if found is None:
                return []
            session = found.session
        return await self._handle.ask(
            queries.GetVersions(
                tenant=self._handle.tenant, session=checks.session_id(session), id=name
            )
        )

    async def replace(
        self,
        session: SessionRef,
        messages: Iterable[object],
        *,
        after: IdRef | None = None,
        base: Base | None = None,
        branch: str = "main",
        expected_leaf: IdRef | None | UnsetType = UNSET,
        create: bool | Session = False,
        run_id: IdRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> Replaced:
        """Make the list (or what follows `after`) exactly these messages, in one commit.

        What stands there already is kept, the rest superseded. With `base`, from the replace
        before, the cost follows the new messages. A kept id stays; a message that has to be
        written again although its id is taken by the superseded one gets a new id.
        Errors: as append, and LeafMoved when `expected_leaf` does not hold.
        """
        target, owned = checks.bound(session, lease)
        plan = Plan(
            kind="replace",
            session=target,
            branch=checks.branch_name(branch),
            lease=owned,
            expected_revision=expected_revision,
            expected_leaf=checks.leaf_or_unset(expected_leaf, "expected_leaf"),
            create=new_session(self._handle.tenant, target, create),
            run_id=checks.maybe_id(run_id, "run_id"),
        )
        start = checks.maybe_id(after, "after")
        return await replace_list(self._handle, plan, messages, base=base, after=start)

    async def pop(
        self,
        session: SessionRef,
        n: int = 1,
        *,
        branch: str = "main",
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> Messages:
        """Take the newest n messages off the path; they stay readable by id. Oldest first."""
        rewind = Rewind(pop=checks.positive(n, "n"))
        answer = await self._rewind("pop", session, branch, rewind, lease, expected_revision)
        if not answer.affected:
            return []
        newest = answer.affected[-1]
        return await self._path(
            answer.session, branch, newest, last=len(answer.affected)
        )

    async def clear(
        self,
        session: SessionRef,
        *,
        branch: str = "main",
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> int:
        """Supersede the whole path; answers how many messages left it. SessionNotFound."""
        rewind = Rewind(to=None, supersede=True)
        answer = await self._rewind("clear", session, branch, rewind, lease, expected_revision)
        return answer.superseded

    async def amend(
        self,
        id: IdRef,
        *,
        session: SessionRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
        **fields: Any,
    ) -> Message:
        """Change visible fields (usage, metadata, is_summary, parts, ...) as a new version.

        The original stays in `versions`. Errors: MessageNotFound, and the guard's.
        """
        name = checks.record_id(id, "id")
        target, owned = self._bound(id, session, lease)
        patch = bodies.amendment_patch(fields)
        command = self._command("amend", target, owned, expected_revision)
        command = replace(command, amendments=(Amendment(name, patch, bodies.salt()),))
        await commit(self._handle, stamped(command), owned)
        found = await self.get(name, session=target)
        if found is None:
            raise MessageNotFound(name)
        return found

    async def delete(
        self,
        id: IdRef,
        *,
        session: SessionRef | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> bool:
        """Hide a message; False when it is unknown or hidden already."""
        name = checks.record_id(id, "id")
        target, owned = self._bound(id, session, lease)
        found = await self.get(name, session=target)
        if found is None or found.deleted_us is not None:
            return False
        command = self._command("tombstone", target, owned, expected_revision)
        command = replace(command, tombstones=(name,))
        answer = await commit(self._handle, stamped(command), owned)
        return bool(answer.affected)

    async def compact(
        self,
        session: SessionRef,
        summary: str,
        *,
        tail_start: IdRef | None,
        instruction: str = "Summarise the conversation so far.",
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
        **fields: Any,
    ) -> tuple[Message, Message]:
        """Add a compaction request and its summary in one commit.

        The request remembers where the uncompacted tail starts and the compaction before it.
        `fields` are the summary's (model, usage, ...). Errors: as append.
        """
        target, owned = checks.bound(session, lease)
        start = checks.maybe_id(tail_start, "tail_start")
        before = await self.latest_compaction(target)
        previous = None if before is None else before.id
        checks.text(summary, "summary")
        request = user(
            instruction, is_compaction=True, compaction=Compaction(start, previous, None)
        )
        meta = Compaction(start, previous, summary)
        answer = assistant(summary, is_summary=True, compaction=meta, **fields)
        made = await self.append(
            target, request, answer, lease=owned, expected_revision=expected_revision
        )
        return made[0], made[1]

    async def latest_compaction(self, session: SessionRef) -> Message | None:
        """The newest compaction request of the session, or None."""
        target, tenant = checks.session_id(session), self._handle.tenant
        found = await self._handle.ask(
            queries.ListNodes(
                tenant=tenant,
                session=target,
                kind=MESSAGE,
                label=bodies.COMPACTION_LABEL,
                order="-ord",
                limit=1,
            )
        )
        return await self.get(found[0].id, session=target) if found else None

    async def _path(
        self, session: SessionRef, branch: str, at: IdRef | None, **options: Any
    ) -> Messages:
        return await self._handle.ask(
            queries.ReadMessages(
                tenant=self._handle.tenant,
                session=checks.session_id(session),
                branch=checks.branch_name(branch),
                at=checks.maybe_id(at, "at"),
                **options,
            )
        )

    def _bound(
        self, id: IdRef, session: SessionRef | None, lease: AnyLease | None
    ) -> tuple[str, AnyLease | None]:
        if session is None and lease is not None:
            session = lease
        return checks.bound(
            checks.session_of(id, None) if session is None else session, lease
        )

    def _command(
        self, kind: str, session: str, lease: AnyLease | None, expected_revision: int | None
    ) -> CommitTurn:
        return CommitTurn(
            tenant=self._handle.tenant,
            session=session,
            turn=ids.new_id(),
            kind=kind,
            guard=checks.guard(lease, expected_revision),
        )

    async def _rewind(
        self,
        kind: str,
        session: SessionRef,
        branch: str,
        rewind: Rewind,
        lease: AnyLease | None,
        expected_revision: int | None,
    ) -> TurnCommitted:
        target, owned = checks.bound(session, lease)
        command = self._command(kind, target, owned, expected_revision)
        command = replace(command, branch=checks.branch_name(branch), rewind=rewind)
        return await commit(self._handle, stamped(command), owned)

    async def _cursor_key(
        self, session: str, filters: tuple[Any, ...], cursor: str, offset: int
    ) -> tuple[tuple[int, int], int]:
        """The key in a cursor of this list, and the incarnation it was made under."""
        if offset:
            raise InvalidValue("offset", "give an offset or a cursor, not both")
        found = await self._handle.ask(GetSession(tenant=self._handle.tenant, id=session))
        if found is None:
            raise SessionNotFound(session)
        scope = self._scope(session, filters, found.incarnation)
        _, seq, ord = cursors.decode(cursor, scope)
        return (seq, ord), found.incarnation

    def _scope(self, session: str, filters: tuple[Any, ...], incarnation: int) -> bytes:
        return cursors.scope(self._handle.tenant, "messages", session, *filters, incarnation)
