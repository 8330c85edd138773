"""store.runs: activations of an agent, as far as turns and checkpoints need them."""

from __future__ import annotations

import sys
from typing import Any

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.commands.runs import GetRun, LatestRun, PutRun
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.content import RUN_FIELDS, check_run
from ledgerstone.records.runs import RUN_STATUSES, Run


class AsyncRuns:
    """Runs of this tenant."""

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle = handle

    async def create(
        self,
        session: SessionRef,
        *,
        id: IdRef | None = None,
        agent: str = "",
        parent_run: IdRef | None = None,
        input: Any = None,
        status: str = "running",
    ) -> Run:
        """A new run; AlreadyExists, SessionNotFound."""
        known: Any = checks.one_of(status, RUN_STATUSES, "status")
        run = Run(
            id=ids.new_id() if id is None else checks.record_id(id, "id"),
            session=checks.session_id(session),
            agent=ids.check_label(agent, "agent"),
            parent_run=checks.maybe_id(parent_run, "parent_run"),
            status=known,
            input=checks.json_value(input, "input"),
        )
        return await self._handle.write(PutRun(tenant=self._handle.tenant, run=run))

    async def put(self, run: Run) -> Run:
        """Create or overwrite a run; IllegalTransition, SessionNotFound."""
        return await self._handle.write(
            PutRun(tenant=self._handle.tenant, run=checked_run(run), upsert=True)
        )

    async def get(self, id: IdRef) -> Run | None:
        """By id, in any session of the tenant; or None."""
        return await self._handle.ask(
            GetRun(tenant=self._handle.tenant, id=checks.record_id(id, "id"))
        )

    async def latest(self, session: SessionRef) -> Run | None:
        """The run of a session that was updated last, or None."""
        return await self._handle.ask(
            LatestRun(tenant=self._handle.tenant, session=checks.session_id(session))
        )


def checked_run(run: Run) -> Run:
    """The run, once every field is known to be storable."""
    if not isinstance(run, Run):
        raise InvalidValue("run", f"a Run expected, got {type(run).__name__}")
    ids.check_id(run.id, "id")
    status = sys.intern(checks.one_of(run.status, RUN_STATUSES, "status"))
    check_run({name: getattr(run, name) for name in RUN_FIELDS})
    return replace(run, status=status)
