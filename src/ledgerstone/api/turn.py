"""A turn: collects without I/O, then commits everything at once."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

from msgspec.structs import replace

from ledgerstone.api.commits import commit, join
from ledgerstone.api.draft_async import Draft
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.usage import budgets_changed, may_begin
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import bodies, checks
from ledgerstone.intake.turn import TurnContent
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import TurnCommitted


class AsyncTurn(TurnContent):
    """One atomic commit in the making, bound to one session.

    What was added stays until a commit succeeded, so `commit()` may be repeated after any error
    or cancellation: the turn id and the content are the same, so it happens once. After a
    success the same object collects the next turn. As a context manager it commits on a clean
    exit, if there is anything to commit, and does nothing after an exception; entering it raises
    BudgetExceeded when a budget of its session is used up. What was added and never committed is a
    ResourceWarning when the turn goes, unless it was discarded.
    """

    warns = True
    """False: whoever began it tells by itself when it is not committed, as a worker does."""
    _reported = False
    """Whether the caller was told of a commit that failed, or left the block by an error."""
    _last_answer: TurnCommitted | None = None
    """What the last commit answered, while nothing was added since."""
    _last_release = False

    def __init__(
        self,
        handle: AsyncHandle,
        session: str,
        lease: AnyLease | None,
        *,
        id: str | None,
        run_id: str | None,
        branch: str,
        expected_revision: int | None,
        expected_incarnation: int | None,
        create: Session | None,
    ) -> None:
        super().__init__(session, run_id, id, handle.equipment)
        self._handle = handle
        self._create = create
        self.lease = lease
        self.branch = branch
        self.expected_revision = expected_revision
        self.expected_incarnation = expected_incarnation

    def draft(self, **fields: Any) -> Draft:
        """An assistant message that is being streamed: a context manager with `write(token)`.

        A clean exit adds the message to this turn; an exception leaves it to be found by
        `drafts.list`.
        """
        return Draft(self._handle, self._content, self.lease, self._create, fields)

    async def commit(
        self, *, lease: AnyLease | None = None, release: bool = False, connection: object = None
    ) -> TurnCommitted:
        """Make everything that was added durable, or nothing of it.

        A repeated turn answers as the first time, with `replayed`; a second call, with nothing
        added since, answers what the first one did. `connection`: write it inside
        the transaction of this connection to the same PostgreSQL database; whoever ends that one
        decides about the turn. Errors: SessionNotFound, SessionDeleted, TurnConflict, LeaseHeld,
        LeaseExpired, Fenced, RevisionMoved, IncarnationMoved, LeafMoved, ClaimLost,
        BranchNotFound, AlreadyExists, MessageNotFound, IllegalTransition, BudgetExceeded,
        InvalidValue, NotSupported, and what the backend meets.
        """
        self._reported = not self._content.is_empty()
        if lease is not None:
            self.lease = checks.bound(self.session, lease)[1]
        if release and self.lease is None:
            raise InvalidValue("release", "there is no lease to release")
        if (
            self._last_answer is not None
            and self._content.is_empty()
            and release <= self._last_release
        ):
            return self._last_answer
        command = self._command(release)
        if connection is None:
            answer = await commit(self._handle, command, self.lease)
            self._last_answer = self._committed(command, answer)
            self._last_release = release
            return self._last_answer
        # Whether this one lasts is not known here, so it is not answered a second time.
        self._last_answer = None
        return self._committed(command, await join(self._handle, command, self.lease, connection))

    def discard(self) -> None:
        """Forget what was added since the last commit; what is added next has a new turn id."""
        self._content.empty()
        self._id = None

    async def __aenter__(self) -> AsyncTurn:
        await may_begin(self._handle, self.session, self._create)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self._reported = True
        elif not self._content.is_empty():
            await self.commit()

    def __del__(self, warn: Any = warnings.warn) -> None:
        if self.warns and not self._reported and not self._content.is_empty():
            text = f"a turn of session {self.session!r} was filled and never committed"
            warn(f"{text}; call commit(), or discard()", ResourceWarning, 2, source=self)

    def _command(self, release: bool) -> CommitTurn:
        content = self._content
        return CommitTurn(
            tenant=self._handle.tenant,
            session=self.session,
            turn=self.id,
            kind="turn",
            guard=checks.guard(self.lease, self.expected_revision, self.expected_incarnation),
            create=self._create,
            parent_rule="exists",
            branch=self.branch,
            nodes=tuple(content.nodes),
            release=release,
            **content.more,
        )

    def _committed(self, command: CommitTurn, answer: TurnCommitted) -> TurnCommitted:
        """The answer with its messages; from here on the next turn is collected."""
        content = self._content
        if answer.over_budget:
            budgets_changed(self._handle)
        # By position, not by id: a replayed turn answers with the ids of the first time.
        places: Iterable[Any] = zip(command.nodes, answer.placed, strict=True)
        if len(content.messages) < len(command.nodes):
            places = [(node, place) for node, place in places if node.role is not None]
        messages = bodies.placed_messages(self.session, content.messages, places)
        content.empty()
        self._reported = False
        self._id = self._create = None
        if self.expected_revision is not None:
            self.expected_revision = answer.revision
        # The one that was not there was made, and which it is was not told.
        self.expected_incarnation = self.expected_incarnation or None
        return replace(answer, messages=messages)
