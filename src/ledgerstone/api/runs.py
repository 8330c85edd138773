"""store.runs: activations of an agent, what became of them, and who started whom."""

from __future__ import annotations

from typing import Any, TypeAlias

from msgspec.structs import astuple

from ledgerstone import ids
from ledgerstone.api.handle import AsyncResource, Missing
from ledgerstone.api.pages import AsyncPages
from ledgerstone.commands.executions import ListLost
from ledgerstone.commands.runs import GetRun, GetRunTree, LatestRun, ListRuns, PutRun, UpdateRun
from ledgerstone.intake import checks, cursors
from ledgerstone.intake.checks import LIMIT_DEFAULT, LIMIT_MAX, IdRef, SessionRef
from ledgerstone.intake.runs import (
    checked_run,
    run_changes,
    run_fields,
    run_filter,
    run_guard,
)
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.recovery import Recovery
from ledgerstone.records.runs import RUN_STATUSES, Run, RunTree
from ledgerstone.records.sessions import Page

Recoveries: TypeAlias = list[Recovery]


class AsyncRuns(AsyncResource):
    """Runs of this tenant."""

    async def create(
        self,
        session: SessionRef,
        *,
        id: IdRef | None = None,
        agent: str = "",
        parent_run: IdRef | None = None,
        input: Any = None,
        status: str = "running",
        **fields: Any,
    ) -> Run:
        """A new run; AlreadyExists, SessionNotFound.

        Other fields: request, output, termination, final_output, error, dispatch_id, external_id,
        transport_id, waiting, outcome, steps, input_tokens, output_tokens, state, details, and
        the times. Records may be given as dictionaries; an input or output that is none of
        theirs becomes its `data`.
        """
        given = {"agent": agent, "parent_run": parent_run, "input": input, **fields}
        run = Run(
            id=ids.new_id() if id is None else checks.record_id(id, "id"),
            session=checks.session_id(session),
            status=checks.one_of(status, RUN_STATUSES, "status"),
            **run_fields(given),
        )
        return await self._write(PutRun(tenant=self._tenant, run=run))

    async def put(self, run: Run) -> Run:
        """Create or overwrite a run; IllegalTransition, SessionNotFound."""
        return await self._write(PutRun(tenant=self._tenant, run=checked_run(run), upsert=True))

    async def update(
        self,
        id: IdRef,
        *,
        lease: AnyLease | None = None,
        expected_revision: int | None = None,
        **changes: Any,
    ) -> Run:
        """Change some fields, as `create` takes them, and the status.

        Errors: RunNotFound, IllegalTransition, LeaseHeld, LeaseExpired, Fenced, RevisionMoved,
        SessionDeleted, SessionNotFound for a run that outlived its session.
        """
        return await self._write(
            UpdateRun(
                tenant=self._tenant,
                id=checks.record_id(id, "id"),
                changes=run_changes(changes),
                guard=run_guard(id, lease, expected_revision),
            )
        )

    async def get(self, id: IdRef) -> Run | None:
        """By id, in any session of the tenant; or None."""
        return await self._ask(GetRun(tenant=self._tenant, id=checks.record_id(id, "id")))

    async def latest(self, session: SessionRef, *, missing: Missing = "empty") -> Run | None:
        """The run of a session that was updated last, or None."""
        query = LatestRun(tenant=self._tenant, session=checks.session_id(session))
        return await self._ask(query, missing)

    async def list(
        self,
        *,
        session: SessionRef | None = None,
        status: str | None = None,
        parent_run: IdRef | None = None,
        limit: int = LIMIT_DEFAULT,
        offset: int = 0,
        cursor: str | None = None,
        total: bool = False,
        missing: Missing = "empty",
    ) -> Page[Run]:
        """A page of runs in the order they were created; InvalidValue for a foreign cursor.

        A page has at most 200 items: `Page.limit` is the limit that was applied. `iter` reads all.
        """
        where = run_filter(session, status, parent_run)
        scope = cursors.scope(self._tenant, "runs", *astuple(where))
        query = ListRuns(
            tenant=self._tenant,
            where=where,
            limit=checks.page_limit(limit),
            offset=checks.whole(offset, "offset"),
            total=checks.flag(total, "total"),
        )
        return await self._page(query, scope, cursor, _place, missing)

    def iter(
        self,
        *,
        session: SessionRef | None = None,
        status: str | None = None,
        parent_run: IdRef | None = None,
        missing: Missing = "empty",
    ) -> AsyncPages[Run]:
        """Every run that fits, in the order they were created."""
        where = run_filter(session, status, parent_run)

        async def fetch(last: Run | None) -> Any:
            page = await self._ask(
                ListRuns(
                    tenant=self._tenant,
                    where=where,
                    limit=LIMIT_MAX,
                    after=None if last is None else _place(last),
                ),
                missing,
            )
            return page.items

        return AsyncPages(fetch, chunk=LIMIT_MAX)

    async def recover(self, limit: int = 100) -> Recoveries:
        """Sessions with a running run while nobody holds them, oldest run first, and what is
        left to do in each.
        """
        return await self._ask(ListLost(tenant=self._tenant, limit=checks.positive(limit, "limit")))

    async def tree(self, id: IdRef) -> RunTree | None:
        """A run and the runs it started, over sessions; None when there is no such run."""
        return await self._ask(GetRunTree(tenant=self._tenant, id=checks.record_id(id, "id")))


def _place(run: Run) -> tuple[int, str]:
    return run.created_us, run.id
