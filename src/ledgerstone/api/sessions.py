"""store.sessions: make, find, change, delete, copy; and what a session looks like."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, get_args

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.api.loading import load_state
from ledgerstone.api.pages import AsyncPages
from ledgerstone.codec import decode_json
from ledgerstone.commands import sessions as commands
from ledgerstone.commands.executions import GetRecovery
from ledgerstone.commands.sessions import Children, ListSessions, ParentRule
from ledgerstone.commands.usage import GetStats
from ledgerstone.errors import Corrupt, InvalidValue, SessionNotFound
from ledgerstone.intake import checks
from ledgerstone.intake.checks import LIMIT_DEFAULT, LIMIT_MAX, IdRef, SessionRef
from ledgerstone.intake.content import id_list
from ledgerstone.intake.sessions import (
    checked_session,
    cursor_scope,
    session_filter,
)
from ledgerstone.records.document import read_document, write_document
from ledgerstone.records.recovery import Recovery
from ledgerstone.records.sessions import (
    SESSION_FIELDS,
    STATUSES,
    Head,
    Page,
    Picker,
    Receipt,
    Session,
    SessionView,
)
from ledgerstone.records.state import SessionState
from ledgerstone.records.stats import Stats

ORDERS = ("-updated", "updated", "-created", "created", "id", "-id")
CHILDREN = get_args(Children)
SWEEP_ROWS = 5000


class AsyncSessions(AsyncResource):
    """Conversations."""

    async def create(
        self,
        *,
        id: IdRef | None = None,
        document: Mapping[str, Any] | None = None,
        parent_missing: str = "error",
        **fields: Any,
    ) -> Session:
        """A new session; the same call again answers the one it made.

        Fields: user, app, title, model, cwd, status, metadata, parent, cause, created_us.
        A parent must be there (`parent_missing="keep"`, for imports: or come later) and never
        below the session: InvalidValue.
        AlreadyExists for an id taken by another session, SessionRetired for a retired one.
        """
        return await self._write(
            commands.CreateSession(
                tenant=self._tenant,
                session=self._new(id, fields),
                document=None if document is None else write_document(document),
                parent_rule=_parent_rule(parent_missing),
            )
        )

    async def ensure(
        self,
        id: IdRef,
        *,
        document: Mapping[str, Any] | None = None,
        parent_missing: str = "error",
        **fields: Any,
    ) -> Session:
        """The session with this id, made when it is missing; fields are for a new one only."""
        return await self._write(
            commands.CreateSession(
                tenant=self._tenant,
                session=self._new(checks.record_id(id, "id"), fields),
                document=None if document is None else write_document(document),
                ensure=True,
                parent_rule=_parent_rule(parent_missing),
            )
        )

    async def get_or_create(
        self, user: str, *, app: str = "", parent_missing: str = "error", **fields: Any
    ) -> Session:
        """The newest live session of a user and app, or a new one."""
        if user is None:
            raise InvalidValue("user", "a user is needed to find a session by")
        made = self._new(None, {**fields, "user": user, "app": app})
        return await self._write(
            commands.GetOrCreateSession(
                tenant=self._tenant, session=made, parent_rule=_parent_rule(parent_missing)
            )
        )

    async def put(
        self,
        session: Session,
        *,
        document: Mapping[str, Any] | UnsetType | None = UNSET,
        parent_missing: str = "error",
    ) -> Session:
        """Create or overwrite the whole record; times are stored as given. SessionDeleted.

        A parent that is new to it as of `create`.
        """
        if not isinstance(session, Session):
            raise InvalidValue("session", f"a Session expected, got {type(session).__name__}")
        fields = {name: getattr(session, name) for name in SESSION_FIELDS}
        made = self._new(session.id, fields)
        updated_us = checks.whole(session.updated_us, "updated_us")
        return await self._write(
            commands.PutSession(
                tenant=self._tenant,
                session=replace(made, updated_us=updated_us),
                document=_document(document),
                parent_rule=_parent_rule(parent_missing),
            )
        )

    async def get(self, id: SessionRef) -> Session | None:
        """By id, soft-deleted ones too, with `deleted_us`."""
        return await self._ask(commands.GetSession(tenant=self._tenant, id=checks.session_id(id)))

    async def exists(self, id: SessionRef) -> bool:
        """Whether the session is there and not deleted."""
        found = await self.get(id)
        return found is not None and found.deleted_us is None

    async def head(self, id: SessionRef, *, missing: Missing = "empty") -> Head | None:
        """Where it stands: revision, leaf, branches, lease, counts; None before a commit."""
        query = commands.GetHead(tenant=self._tenant, id=checks.session_id(id))
        return await self._ask(query, missing)

    async def picker(self, id: SessionRef) -> Picker | None:
        """First user message and count, without reading the history."""
        return await self._ask(commands.GetPicker(tenant=self._tenant, id=checks.session_id(id)))

    async def document(
        self, id: SessionRef, *, missing: Missing = "empty"
    ) -> dict[str, Any] | None:
        """The session document with its defaults, or None; Corrupt when it does not decode."""
        data = await self._document(id, "document", missing)
        if data is None:
            return None
        try:
            return read_document(data)
        except ValueError as error:
            raise Corrupt("documents", checks.session_id(id), "document", str(error)) from None

    async def state(self, id: SessionRef, *, missing: Missing = "empty") -> dict[str, Any]:
        """What turns patched together with `turn.state`; empty when nothing was."""
        data = await self._document(id, "state", missing)
        return {} if data is None else decode_json(data)

    async def states(self, ids: Iterable[IdRef]) -> dict[str, dict[str, Any]]:
        """The same of several sessions in one read; those without a state are absent."""
        query = commands.GetDocuments(
            tenant=self._tenant, sessions=tuple(id_list(ids, "session")), name="state"
        )
        found = await self._ask(query)
        return {id: decode_json(data) for id, data in found.items()}

    async def update(
        self,
        id: SessionRef,
        *,
        title: str | UnsetType | None = UNSET,
        model: str | UnsetType | None = UNSET,
        status: str | UnsetType = UNSET,
        cwd: str | UnsetType | None = UNSET,
        metadata: Any = UNSET,
        document: Mapping[str, Any] | UnsetType | None = UNSET,
    ) -> Session:
        """Change some fields, metadata and document as a whole; moves no revision.

        SessionNotFound, SessionDeleted.
        """
        return await self._write(
            commands.UpdateSession(
                tenant=self._tenant,
                id=checks.session_id(id),
                title=_text(title, "title"),
                model=_text(model, "model"),
                status=status if status is UNSET else checks.one_of(status, STATUSES, "status"),
                cwd=_text(cwd, "cwd"),
                metadata=metadata if metadata is UNSET else checks.json_value(metadata, "metadata"),
                document=_document(document),
            )
        )

    async def list(
        self,
        *,
        order: str = "-updated",
        limit: int = LIMIT_DEFAULT,
        offset: int = 0,
        cursor: str | None = None,
        total: bool = False,
        **where: Any,
    ) -> Page[Session]:
        """A page of sessions.

        Filters: user, app, status, parent, root (True: only those without a parent), under
        (all below a session, at any depth), id_prefix, deleted, created_after (inclusive),
        created_before (exclusive), metadata_equals, metadata_contains. InvalidValue for a foreign
        cursor.
        A page has at most 200 items: `Page.limit` is the limit that was applied. `iter` reads all.
        """
        found = session_filter(where)
        scope = cursor_scope(self._tenant, found, checks.one_of(order, ORDERS, "order"))
        query = ListSessions(
            tenant=self._tenant,
            where=found,
            order=order,
            limit=checks.page_limit(limit),
            offset=checks.whole(offset, "offset"),
            total=checks.flag(total, "total"),
        )
        return await self._page(query, scope, cursor, partial(_place, order))

    def iter(self, *, order: str = "-created", **where: Any) -> AsyncPages[Session]:
        """Every session that fits; by default in an order that updates do not disturb."""
        found = session_filter(where)
        checks.one_of(order, ORDERS, "order")

        async def fetch(after: Session | None) -> Any:
            page = await self._ask(
                ListSessions(
                    tenant=self._tenant,
                    where=found,
                    order=order,
                    limit=LIMIT_MAX,
                    after=None if after is None else _place(order, after),
                )
            )
            return page.items

        return AsyncPages(fetch, chunk=LIMIT_MAX)

    async def count(self, **where: Any) -> int:
        """How many sessions fit the filters of `list`."""
        return await self._ask(
            commands.CountSessions(tenant=self._tenant, where=session_filter(where))
        )

    async def load(
        self,
        id: SessionRef,
        *,
        scope: str = "path",
        leaf: IdRef | None = None,
        missing: Missing = "empty",
    ) -> SessionState | None:
        """Head, frames, checkpoint with its values, ledger, and the path or the whole graph.

        None before the first commit; NotSupported for another scope, InvalidValue for a leaf
        that is no live node.
        """
        target = checks.session_id(id)
        found = await load_state(self._handle, target, scope, checks.maybe_id(leaf, "leaf"))
        if found is None:
            await self.head(target, missing=missing)
        return found

    async def at(
        self, id: SessionRef, revision: int, *, missing: Missing = "empty"
    ) -> SessionView | None:
        """The session as it was after an earlier commit; None for a revision it never had."""
        return await self._ask(
            commands.ReadSessionAt(
                tenant=self._tenant,
                session=checks.session_id(id),
                revision=checks.whole(revision, "revision"),
            ),
            missing,
        )

    async def recovery(self, id: SessionRef, *, missing: Missing = "empty") -> Recovery | None:
        """What a successor finds: live lease, open run, drafts, unresolved executions, claimed
        work and open tickets; `needs` says what to do. None for an unknown session.
        """
        return await self._ask(
            GetRecovery(tenant=self._tenant, session=checks.session_id(id)), missing
        )

    async def fork(
        self,
        id: SessionRef,
        *,
        at: IdRef | None = None,
        branch: str = "main",
        new_id: IdRef | None = None,
        user: str | None = None,
    ) -> Session:
        """A new session with the path of one node: rows copied, ids kept, a fate of its own.

        SessionNotFound, SessionDeleted, AlreadyExists, BranchNotFound, InvalidValue for `at`.
        """
        where = {"at": checks.maybe_id(at, "at"), "branch": checks.branch_name(branch)}
        return await self._copy(id, new_id, user, whole=False, **where)

    async def copy(self, id: SessionRef, new_id: IdRef) -> Session:
        """A new session with everything of this one but leases, runs, usage and drafts."""
        return await self._copy(id, new_id, None, whole=True)

    async def delete(self, id: SessionRef, *, children: Children = "reject") -> bool:
        """Hide it from lists and close it for writing; False when it was not there or was so.

        SessionHasChildren, with their number, while live sessions have it as their parent.
        `children="detach"`: they stay and lose their parent; "cascade": all below it are deleted
        in the same transaction. `restore` brings back one session, not what went with it.
        """
        return await self._write(
            commands.DeleteSession(
                tenant=self._tenant,
                id=checks.session_id(id),
                children=checks.one_of(children, CHILDREN, "children"),
            )
        )

    async def restore(self, id: SessionRef) -> bool:
        """Undo a soft delete; False when there was none."""
        return await self._write(
            commands.RestoreSession(tenant=self._tenant, id=checks.session_id(id))
        )

    async def purge(
        self,
        id: SessionRef,
        *,
        keep_runs: bool = False,
        retire: bool = False,
        children: Children = "reject",
        expected_revision: int | None = None,
        expected_incarnation: int | None = None,
    ) -> Receipt:
        """Remove it for good: invisible at once, then swept in bounded pieces.

        A crash in between leaves rows that the next purge sweeps. `retire` forbids the id for
        ever. SessionHasChildren, with their number, while sessions have it as their parent,
        deleted ones too. `children="detach"`: they stay and lose their parent; "cascade": all
        below it are deleted in the same transaction, then purged one by one; a crash in between
        leaves deleted ones, which the same purge goes on with.
        What is expected counts if the session is there: RevisionMoved, IncarnationMoved.
        """
        checks.guard(None, expected_revision, expected_incarnation)
        command = commands.PurgeSession(
            tenant=self._tenant,
            id=checks.session_id(id),
            keep_runs=checks.flag(keep_runs, "keep_runs"),
            retire=checks.flag(retire, "retire"),
            children=checks.one_of(children, CHILDREN, "children"),
            expected_revision=expected_revision,
            expected_incarnation=expected_incarnation,
        )
        receipt = await self._write(command)
        removed = Counter(receipt.removed)
        free = replace(command, children=None, expected_revision=None, expected_incarnation=None)
        for child in receipt.children:
            removed.update((await self._write(replace(free, id=child))).removed)
        while swept := await self._write(
            commands.SweepPurged(tenant=self._tenant, limit=SWEEP_ROWS)
        ):
            removed.update(swept)
        return replace(receipt, removed=dict(removed))

    async def stats(self, id: SessionRef, *, missing: Missing = "empty") -> Stats:
        """A session in numbers: messages, tool calls, tokens, money; zeros for an unknown one."""
        return await self._ask(
            GetStats(tenant=self._tenant, session=checks.session_id(id)), missing
        )

    def _new(self, id: IdRef | None, fields: dict[str, Any]) -> Session:
        name = ids.new_id() if id is None else checks.record_id(id, "id")
        return checked_session(self._tenant, name, fields)

    async def _document(
        self, id: SessionRef, name: str, missing: Missing = "empty"
    ) -> bytes | None:
        query = commands.GetDocument(tenant=self._tenant, session=checks.session_id(id), name=name)
        return await self._ask(query, missing)

    async def _copy(
        self, id: SessionRef, new_id: IdRef | None, user: str | None, *, whole: bool, **where: Any
    ) -> Session:
        source = await self.get(id)
        if source is None:
            raise SessionNotFound(checks.session_id(id))
        own = ("parent", "cause", "created_us")
        fields = {name: getattr(source, name) for name in SESSION_FIELDS if name not in own}
        if user is not None:
            fields["user"] = user
        return await self._write(
            commands.CopySession(
                tenant=self._tenant,
                source=source.id,
                target=self._new(new_id, fields),
                whole=whole,
                turn=ids.new_id(),
                **where,
            )
        )


def _parent_rule(missing: str) -> ParentRule:
    checks.one_of(missing, ("error", "keep"), "parent_missing")
    return "exists" if missing == "error" else "no_circle"


def _text(value: Any, field: str) -> str | UnsetType | None:
    return UNSET if value is UNSET else checks.maybe_text(value, field)


def _document(value: Any) -> bytes | UnsetType | None:
    if value is UNSET or value is None:
        return value
    return write_document(value)


def _place(order: str, session: Session) -> tuple[int, str]:
    name = order.removeprefix("-")
    at = {"updated": session.updated_us, "created": session.created_us, "id": 0}[name]
    return at, session.id
