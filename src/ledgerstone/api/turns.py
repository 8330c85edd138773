"""store.turns: begin a turn, look one up, checkpoint a whole list with its run."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.api.replacements import ListReplacement, replace_list
from ledgerstone.api.turn import AsyncTurn
from ledgerstone.commands.turns import FindTurn, GetTurn, ListTurns
from ledgerstone.errors import InvalidValue, OutcomeUnknown, SessionBindingMismatch
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.runs import checked_run
from ledgerstone.intake.sessions import new_session
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Base, Replaced, TurnCommitted, TurnInfo

TurnList: TypeAlias = list[TurnInfo]


class AsyncTurns(AsyncResource):
    """Atomic commits."""

    def begin(
        self,
        session: SessionRef,
        *,
        id: str | None = None,
        run_id: str | Run | None = None,
        branch: str = "main",
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
        expected_incarnation: int | None = None,
        create: bool | Session = False,
    ) -> AsyncTurn:
        """A turn that collects without I/O; give a lease instead of the session to be fenced.

        `expected_incarnation`: as `sessions.get` and `sessions.head` tell it; a session that was
        purged and made anew since refuses the commit, though its revision may be the same again.
        0, with `create`: the commit must be the one that makes the session.
        Entering its block asks the budgets, if there are any: BudgetExceeded when one is used up.
        InvalidValue for ids that break the rules, SessionBindingMismatch for a foreign lease.
        """
        target, owned = checks.bound(session, lease)
        if expected_revision is not None:
            checks.whole(expected_revision, "expected_revision")
        if expected_incarnation is not None:
            checks.whole(expected_incarnation, "expected_incarnation")
        return AsyncTurn(
            self._handle,
            target,
            owned,
            id=None if id is None else ids.check_id(id, "id"),
            run_id=None if run_id is None else checks.record_id(run_id, "run_id"),
            branch=checks.branch_name(branch),
            expected_revision=expected_revision,
            expected_incarnation=expected_incarnation,
            create=new_session(self._tenant, target, create),
        )

    async def commit(
        self,
        session: SessionRef,
        messages: Iterable[object],
        *,
        id: str | None = None,
        run_id: str | Run | None = None,
        branch: str = "main",
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
        expected_incarnation: int | None = None,
        create: bool | Session = False,
        release: bool = False,
        connection: object = None,
    ) -> TurnCommitted:
        """A turn of these messages in one call; what and what not as of `begin` and `commit`.

        `connection`: inside the caller's own transaction, see docs/joining.md.
        """
        turn = self.begin(
            session,
            id=id,
            run_id=run_id,
            branch=branch,
            lease=lease,
            expected_revision=expected_revision,
            expected_incarnation=expected_incarnation,
            create=create,
        )
        try:
            turn.add(*messages)
        except BaseException:
            turn.discard()
            raise
        return await turn.commit(release=release, connection=connection)

    async def get(self, session: SessionRef, id: str) -> TurnCommitted | None:
        """The answer of an earlier commit, without its messages; None when there is none."""
        return await self._ask(
            GetTurn(
                tenant=self._tenant, session=checks.session_id(session), turn=ids.check_id(id, "id")
            )
        )

    async def outcome(self, error: OutcomeUnknown) -> TurnCommitted | None:
        """What became of a commit whose answer was lost, without its messages; None: nothing.

        It waits for what is still under way, so after None the same call may be repeated. Of an
        append, a pop, ... too: each is a commit. A store that was opened again may be asked as
        well. InvalidValue when the lost write was no commit: its `next_step` says what to do.
        """
        if not isinstance(error, OutcomeUnknown):
            raise InvalidValue("error", f"an OutcomeUnknown expected, got {type(error).__name__}")
        if error.turn is None or error.session is None:
            raise InvalidValue("error", f"this write was no commit; {error.next_step}")
        return await self._write(
            FindTurn(tenant=self._tenant, session=error.session, turn=error.turn)
        )

    async def list(
        self,
        session: SessionRef,
        *,
        after_revision: int = 0,
        limit: int = 500,
        missing: Missing = "empty",
    ) -> TurnList:
        """The commit history from a revision on, oldest first."""
        return await self._ask(
            ListTurns(
                tenant=self._tenant,
                session=checks.session_id(session),
                after_revision=checks.whole(after_revision, "after_revision"),
                limit=checks.positive(limit, "limit"),
            ),
            missing,
        )

    async def checkpoint(
        self,
        session: SessionRef,
        messages: Iterable[object],
        run: Run,
        *,
        base: Base | None = None,
        branch: str = "main",
        expected_leaf: IdRef | UnsetType | None = UNSET,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> Replaced:
        """Replace the whole list and upsert the run in one commit; makes the session if needed.

        Errors: IllegalTransition, LeaseHeld, LeaseExpired, Fenced, RevisionMoved, LeafMoved,
        SessionDeleted, SessionBindingMismatch.
        """
        target, owned = checks.bound(session, lease)
        run = checked_run(run)
        if run.session and run.session != target:
            raise SessionBindingMismatch(run.session, target)
        plan = ListReplacement(
            kind="checkpoint",
            session=target,
            branch=checks.branch_name(branch),
            lease=owned,
            expected_revision=expected_revision,
            expected_leaf=checks.leaf_or_unset(expected_leaf, "expected_leaf"),
            create=Session(id=target, tenant=self._tenant),
            run=replace(run, session=target),
            run_id=run.id,
        )
        return await replace_list(self._handle, plan, messages, base=base, after=None)
