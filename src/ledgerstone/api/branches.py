"""store.branches: named leaves of one session's graph."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec import UNSET, UnsetType

from ledgerstone import ids
from ledgerstone.api.commits import commit
from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.commands.nodes import DiffBranches, ListBranches
from ledgerstone.commands.turns import BranchMove, CommitTurn
from ledgerstone.errors import BranchNotFound
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.nodes import Branch, Diff

BranchList: TypeAlias = list[Branch]


class AsyncBranches(AsyncResource):
    """One lease covers all branches of a session; two workers that explore need a fork."""

    async def create(
        self,
        session: SessionRef,
        name: str,
        *,
        at: IdRef | UnsetType | None = UNSET,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> Branch:
        """A branch that stands at a node (None: before the first; left out: where main stands).

        AlreadyExists, InvalidValue for an unknown node, SessionNotFound, and the guard's errors.
        """
        target = None if at is UNSET else checks.maybe_id(at, "at")
        move = BranchMove(
            ids.check_name(name, "branch"),
            to=target,
            to_branch="main" if at is UNSET else None,
            create=True,
        )
        return await self._move(session, move, lease, expected_revision)

    async def move(
        self,
        session: SessionRef,
        name: str | Branch,
        *,
        to: IdRef | Branch | None,
        expected: IdRef | UnsetType | None = UNSET,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> Branch:
        """Let a branch stand at a node, or where another branch stands; None: at no node.

        A text that names a branch means the branch. BranchNotFound, LeafMoved when it does not
        stand at `expected`, InvalidValue for an unknown node.
        """
        node, other = await self._destination(session, to)
        move = BranchMove(
            checks.branch_name(name),
            to=node,
            to_branch=other,
            expected=checks.leaf_or_unset(expected, "expected"),
        )
        return await self._move(session, move, lease, expected_revision)

    async def delete(
        self,
        session: SessionRef,
        name: str | Branch,
        *,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> bool:
        """Forget a name; its nodes stay. False when there was none; main cannot be deleted."""
        move = BranchMove(checks.branch_name(name), delete=True)
        try:
            await self._commit(session, move, lease, expected_revision)
        except BranchNotFound:
            return False
        return True

    async def diff(self, session: SessionRef, a: str | Branch, b: str | Branch) -> Diff:
        """The last common node of two branches and what only each has.

        BranchNotFound, SessionNotFound.
        """
        return await self._ask(
            DiffBranches(
                tenant=self._tenant,
                session=checks.session_id(session),
                a=checks.branch_name(a),
                b=checks.branch_name(b),
            )
        )

    async def list(self, session: SessionRef, *, missing: Missing = "empty") -> BranchList:
        """`main` first, then the others by name; empty for an unknown session."""
        query = ListBranches(tenant=self._tenant, session=checks.session_id(session))
        return await self._ask(query, missing)

    async def _destination(self, session: SessionRef, to: Any) -> tuple[str | None, str | None]:
        if isinstance(to, Branch):
            return None, checks.branch_name(to)
        if isinstance(to, str) and any(one.name == to for one in await self.list(session)):
            return None, to
        return checks.maybe_id(to, "to"), None

    async def _move(
        self,
        session: SessionRef,
        move: BranchMove,
        lease: AnyLease | None,
        expected_revision: int | None,
    ) -> Branch:
        leaf = await self._commit(session, move, lease, expected_revision)
        for branch in await self.list(session):
            if branch.name == move.name:
                return branch
        return Branch(move.name, leaf)

    async def _commit(
        self,
        session: SessionRef,
        move: BranchMove,
        lease: AnyLease | None,
        expected_revision: int | None,
    ) -> str | None:
        target, owned = checks.bound(session, lease)
        command = CommitTurn(
            tenant=self._tenant,
            session=target,
            turn=ids.new_id(),
            kind="branch",
            guard=checks.guard(owned, expected_revision),
            branches=(move,),
        )
        return (await commit(self._handle, command, owned)).leaf
