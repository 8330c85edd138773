"""store.usage: what was used and what it cost, summed; and budgets that bound it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.commits import commit
from ledgerstone.api.handle import AsyncHandle, AsyncResource, Missing
from ledgerstone.api.pages import AsyncPages
from ledgerstone.commands import usage as commands
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake import usage as intake
from ledgerstone.intake.checks import LIMIT_MAX, IdRef, SessionRef
from ledgerstone.intake.usage import Moment
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.sessions import Session
from ledgerstone.records.stats import BudgetsFound, BudgetState, UsageDeleted, UsageRecord, UsageSum
from ledgerstone.records.usage import Cost, Usage
from ledgerstone.rules.usage import check_begin, check_estimate

UsageList: TypeAlias = list[UsageRecord]
SumList: TypeAlias = list[UsageSum]
BudgetList: TypeAlias = list[BudgetState]
UNBUDGETED_MAX = 10_000
"""How many tenants without a budget a process remembers."""


class AsyncUsageBook(AsyncResource):
    """Tokens and money of the tenant's sessions."""

    async def record(
        self,
        session: SessionRef | AnyLease,
        model: str,
        usage: Usage | Mapping[str, int],
        *,
        cost: Cost | None = None,
        source: str = "",
        provider: str | None = None,
        run_id: IdRef | None = None,
        message: IdRef | None = None,
        correction: bool = False,
        over_budget: bool = False,
        id: str | None = None,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> UsageRecord:
        """Record a use outside of a turn: a commit of its own, repeatable by its id.

        Without a cost the store's price list says it. A correction is another record and may be
        negative. `message` is what it was used for. The answer's `over_budget` names the budgets
        it went beyond; one of mode refuse_commit refuses it instead, unless `over_budget`: it was
        used already.
        Errors: BudgetExceeded, TurnConflict when the id recorded something else, SessionNotFound,
        SessionDeleted, LeaseHeld, LeaseExpired, Fenced, RevisionMoved, InvalidValue.
        """
        target, owned = checks.bound(session, lease)
        entry = intake.usage_entry(
            self._handle.equipment,
            model,
            usage,
            cost=cost,
            source=source,
            provider=provider,
            run_id=None if run_id is None else checks.record_id(run_id, "run_id"),
            correction=correction,
            id=id,
            message=message,
        )
        command = CommitTurn(
            tenant=self._tenant,
            session=target,
            turn=ids.new_id() if id is None else ids.check_id(id, "id"),
            kind="usage",
            guard=checks.guard(owned, expected_revision),
            usage=(entry,),
            over_budget=checks.flag(over_budget, "over_budget"),
        )
        answer = await commit(self._handle, command, owned)
        if answer.over_budget:
            budgets_changed(self._handle)
        if answer.replayed:
            # The first one may have been priced by another list, or deleted since.
            kept = await self._fetch(target, (answer.revision, 0), 1)
            if kept and kept[0].turn == answer.turn:
                return replace(kept[0], over_budget=answer.over_budget)
        return UsageRecord(
            session=target,
            revision=answer.revision,
            n=1,
            turn=answer.turn,
            entry=entry,
            created_us=answer.created_us,
            over_budget=answer.over_budget,
        )

    async def list(
        self,
        session: SessionRef,
        *,
        message: IdRef | None = None,
        limit: int | None = None,
        missing: Missing = "empty",
    ) -> UsageList:
        """What was recorded in a session, oldest first; [] for an unknown one.

        `message`: only what was used for it.
        """
        most = None if limit is None else checks.positive(limit, "limit")
        used_for = checks.maybe_id(message, "message")
        return await self._fetch(
            checks.session_id(session), (0, 0), most, missing, message=used_for
        )

    async def get(self, session: SessionRef, id: str) -> UsageRecord | None:
        """One record by its own id."""
        name = ids.check_id(id, "id")
        found = await self._fetch(checks.session_id(session), (0, 0), 1, id=name)
        return found[0] if found else None

    def iter(self, session: SessionRef, *, missing: Missing = "empty") -> AsyncPages[UsageRecord]:
        """The same, in pieces."""
        target = checks.session_id(session)

        async def fetch(last: UsageRecord | None) -> Any:
            after = (0, 0) if last is None else (last.revision, last.n)
            return await self._fetch(target, after, LIMIT_MAX, missing)

        return AsyncPages(fetch, chunk=LIMIT_MAX)

    async def summary(
        self,
        *,
        by: str | Iterable[str] = "model",
        session: SessionRef | None = None,
        user: str | None = None,
        since: Moment | None = None,
        until: Moment | None = None,
        include_children: bool = False,
        missing: Missing = "empty",
    ) -> SumList:
        """Sums per group, ordered by the groups' values; exact to the microsecond.

        `by`: model, provider, source, day, user, session, run, or several of them; () gives one
        sum. From `since` on and before `until`: aware datetimes, dates (UTC), or microseconds.
        `include_children`: also of sessions that `session` is the parent of, and of theirs.
        """
        if checks.flag(include_children, "include_children") and session is None:
            raise InvalidValue("include_children", "give the session too: whose children?")
        return await self._ask(
            commands.SummariseUsage(
                tenant=self._tenant,
                by=intake.groups(by),
                session=checks.maybe_session(session),
                user=None if user is None else ids.check_id(user, "user"),
                since_us=intake.moment(since, "since"),
                until_us=intake.moment(until, "until"),
                include_children=include_children,
            ),
            missing,
        )

    async def delete(
        self,
        session: SessionRef | AnyLease,
        *,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
    ) -> UsageDeleted:
        """Remove what a session used and called, and say how much; its history still verifies.

        Nothing to remove, or an unknown session: zeros. Errors: SessionDeleted, LeaseHeld,
        LeaseExpired, Fenced, RevisionMoved.
        """
        target, owned = checks.bound(session, lease)
        return await self._write(
            commands.DeleteUsage(
                tenant=self._tenant, session=target, guard=checks.guard(owned, expected_revision)
            )
        )

    async def budget(
        self,
        *,
        session: SessionRef | None = None,
        user: str | None = None,
        cost: Cost | None = None,
        tokens: int | None = None,
        period: str = "total",
        mode: str = "refuse_next",
        id: str | None = None,
    ) -> BudgetState:
        """Bound what a session, a user, or with neither the tenant may use, per period.

        Periods: total, day, month (UTC). What was used already counts. Setting it again replaces
        it. Mode refuse_next: a commit that goes beyond it is kept, its answer names the budget in
        `over_budget`, and as long as nothing is left the next turn that begins, and `usage.check`,
        raise BudgetExceeded. Mode refuse_commit: the commit itself raises it and does nothing.
        """
        budget = intake.budget_of(
            session=session, user=user, cost=cost, tokens=tokens, period=period, mode=mode, id=id
        )
        made = await self._write(commands.SetBudget(tenant=self._tenant, budget=budget))
        budgets_changed(self._handle)
        return made

    async def budgets(self, session: SessionRef | None = None) -> BudgetList:
        """Every budget of the tenant by id, or those that bound one session."""
        return await self._ask(
            commands.ListBudgets(tenant=self._tenant, session=checks.maybe_session(session))
        )

    async def remaining(self, session: SessionRef) -> BudgetList:
        """The budgets that bound a session, with what is left of each: ask before a call."""
        return await self.budgets(checks.session_id(session))

    async def check(
        self,
        estimate: Usage | Mapping[str, int] | None = None,
        *,
        session: SessionRef | None = None,
        user: str | None = None,
        model: str | None = None,
        provider: str | None = None,
        cost: Cost | None = None,
    ) -> BudgetList:
        """The budgets that bound a session, a user or the tenant, with what is left: before a call.

        BudgetExceeded when nothing is left of one of them, or the estimate does not fit in it.
        Its cost is given, or that of the model by the price list; without either only tokens are
        compared. `user` is ignored when the session is there: it has its own.
        """
        entry = intake.estimate(self._handle.equipment, estimate, model, provider, cost)
        found = await find_budgets(
            self._handle,
            checks.maybe_session(session),
            None if user is None else ids.check_id(user, "user"),
        )
        for state in found.states:
            check_estimate(state, entry)
        return found.states

    async def drop_budget(self, id: str | BudgetState) -> bool:
        """Remove a budget; False when there was none."""
        name = id.budget.id if isinstance(id, BudgetState) else ids.check_id(id, "id")
        return await self._write(commands.DropBudget(tenant=self._tenant, id=name))

    async def _fetch(
        self,
        session: str,
        after: tuple[int, int],
        limit: int | None,
        missing: Missing = "empty",
        **where: str | None,
    ) -> UsageList:
        query = commands.ListUsage(
            tenant=self._tenant, session=session, after=after, limit=limit, **where
        )
        return await self._ask(query, missing)


async def may_begin(handle: AsyncHandle, session: str, create: Session | None = None) -> None:
    """BudgetExceeded when a budget that bounds the session refuses its next turn."""
    if handle.tenant not in handle.equipment.unbudgeted:
        user = None if create is None else create.user
        check_begin((await find_budgets(handle, session, user)).states)


async def find_budgets(handle: AsyncHandle, session: str | None, user: str | None) -> BudgetsFound:
    """The budgets that a turn meets; a tenant that has none is remembered."""
    found = await handle.ask(commands.FindBudgets(tenant=handle.tenant, session=session, user=user))
    known = handle.equipment.unbudgeted
    if not found.any:
        if len(known) >= UNBUDGETED_MAX:
            known.clear()
        known.add(handle.tenant)
    return found


def budgets_changed(handle: AsyncHandle) -> None:
    """Look again when the next turn begins: a budget was set here, or a commit went beyond one."""
    handle.equipment.unbudgeted.discard(handle.tenant)
