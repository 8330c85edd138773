"""store.executions: tool calls, written down before they are made."""

from __future__ import annotations

import contextlib
from typing import Any, TypeAlias

from msgspec import UNSET
from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle, AsyncResource, Missing
from ledgerstone.codec import encode_json
from ledgerstone.commands.executions import (
    FinishExecution,
    GetExecution,
    ListExecutions,
    RetryExecution,
    StartExecution,
)
from ledgerstone.errors import InvalidValue, LedgerstoneError
from ledgerstone.intake import checks
from ledgerstone.intake.checks import IdRef, SessionRef
from ledgerstone.intake.executions import error_text, finish_of
from ledgerstone.records.decisions import Decision, ResumeMode
from ledgerstone.records.executions import Execution
from ledgerstone.records.leases import AnyLease

ExecutionList: TypeAlias = list[Execution]


class AsyncExecutions(AsyncResource):
    """What tools were called, and what came of it."""

    async def start(
        self,
        session: SessionRef | AnyLease,
        *,
        call_id: str | None = None,
        tool: str | None = None,
        arguments: Any = UNSET,
        run_id: IdRef | None = None,
        message: IdRef | None = None,
        key: str | None = None,
        ticket: IdRef | None = None,
        id: str | None = None,
        lease: AnyLease | None = None,
        once: bool = False,
        pending: bool = False,
    ) -> Execution:
        """The durable intent: call the tool only after this, with `key` as its idempotency key.

        With a ticket, call, tool and arguments are those that were approved. A call that has an
        outcome already is answered with it. With an `id` of your own a second start is a repeat
        of the first and answers `started` again: two workers that derive the same id and hold no
        lease would both call the tool. With `once` only the first is told to; `run` does so.
        `pending=True`: only write down that the call is to be made; the next start of the call,
        or of this id, begins it. A call that is known already is answered as it stands.
        Errors: ExecutionUnresolved when it was started and nobody knows the outcome,
        TicketNotFound, TicketClosed, TicketStale, AlreadyExists, SessionBindingMismatch,
        SessionNotFound, SessionDeleted, LeaseHeld, LeaseExpired, Fenced.
        """
        command = self._start(
            session, lease, call_id, tool, arguments, run_id, message, key, ticket, id
        )
        once, pending = checks.flag(once, "once"), checks.flag(pending, "pending")
        return await self._write(replace(command, once=once, pending=pending))

    def run(
        self,
        session: SessionRef | AnyLease,
        *,
        call_id: str | None = None,
        tool: str | None = None,
        arguments: Any = UNSET,
        run_id: IdRef | None = None,
        message: IdRef | None = None,
        key: str | None = None,
        ticket: IdRef | None = None,
        id: str | None = None,
        lease: AnyLease | None = None,
    ) -> AsyncRunning:
        """A context manager around the call of a tool: started at its begin, finished at its end.

        Set `.result` in it, unless `.needs_run` says that there is a result already. An exception
        is kept as the error and goes on; a cancelled or killed block leaves the execution
        unresolved. Errors as of `start` and `finish`.
        """
        command = self._start(
            session, lease, call_id, tool, arguments, run_id, message, key, ticket, id
        )
        owned = checks.bound(session, lease)[1]
        # An id of the caller's own: a second block with it must not call the tool again.
        return AsyncRunning(self._handle, replace(command, once=id is not None), owned)

    async def finish(
        self,
        id: IdRef,
        *,
        result: Any = UNSET,
        error: Any = UNSET,
        duration_ms: int | None = None,
        lease: AnyLease | None = None,
    ) -> Execution:
        """The outcome: a result, None too, or an error as text or an object.

        The same outcome again is the first answer. Errors: ExecutionNotFound, ExecutionResolved
        for another outcome, SessionDeleted; with a lease LeaseExpired and Fenced.
        """
        return await self._write(
            FinishExecution(
                tenant=self._tenant,
                finish=finish_of(id, result, error, duration_ms),
                guard=checks.guard(lease, None),
            )
        )

    async def retry(
        self, id: IdRef, *, lease: AnyLease | None = None, later: bool = False
    ) -> Execution:
        """Decide that a tool is called once more, with the same key; then call and finish it.

        `later`: only decide. It is `pending` then, and whoever starts the call next begins it: so
        an operator lets a worker try again. Work that was parked for it can be claimed again.
        Errors: ExecutionNotFound, ExecutionResolved when it succeeded, ExecutionUnresolved while
        its owner lives, LeaseHeld, LeaseExpired, Fenced, TicketStale.
        """
        return await self._write(
            RetryExecution(
                tenant=self._tenant,
                id=checks.record_id(id, "id"),
                guard=checks.guard(lease, None),
                later=checks.flag(later, "later"),
            )
        )

    async def get(self, id: IdRef) -> Execution | None:
        """By id, in any session of the tenant; or None."""
        return await self._ask(GetExecution(tenant=self._tenant, id=checks.record_id(id, "id")))

    async def list(
        self,
        *,
        session: SessionRef | None = None,
        message: IdRef | None = None,
        run_id: IdRef | None = None,
        missing: Missing = "empty",
    ) -> ExecutionList:
        """Of a session, a message, a run, or what they have in common; in the order made."""
        if session is None and message is None and run_id is None:
            raise InvalidValue("session", "name a session, a message or a run")
        return await self._list(session, message, run_id, missing, unresolved=False)

    async def unresolved(
        self,
        *,
        session: SessionRef | None = None,
        run_id: IdRef | None = None,
        missing: Missing = "empty",
    ) -> ExecutionList:
        """Those that began and have no outcome; `unknown` ones need `retry` or `finish`."""
        return await self._list(session, None, run_id, missing, unresolved=True)

    async def _list(
        self,
        session: SessionRef | None,
        message: IdRef | None,
        run_id: IdRef | None,
        missing: Missing,
        *,
        unresolved: bool,
    ) -> ExecutionList:
        query = ListExecutions(
            tenant=self._tenant,
            session=checks.maybe_session(session),
            message=checks.maybe_id(message, "message"),
            run_id=checks.maybe_id(run_id, "run_id"),
            unresolved=unresolved,
        )
        return await self._ask(query, missing)

    def _start(
        self,
        session: SessionRef | AnyLease,
        lease: AnyLease | None,
        call_id: str | None,
        tool: str | None,
        arguments: Any,
        run_id: IdRef | None,
        message: IdRef | None,
        key: str | None,
        ticket: IdRef | None,
        id: str | None,
    ) -> StartExecution:
        bound, owned = checks.bound(session, lease)
        for name, value in (("call_id", call_id), ("tool", tool)):
            if value is None and ticket is None:
                raise InvalidValue(name, "needed, unless a ticket is given")
        return StartExecution(
            tenant=self._tenant,
            session=bound,
            id=ids.new_id() if id is None else ids.check_id(id, "id"),
            call_id=None if call_id is None else ids.check_id(call_id, "call_id"),
            tool=None if tool is None else ids.check_name(tool, "tool"),
            arguments=None if arguments is UNSET else encode_json(arguments, "arguments"),
            key="" if key is None else ids.check_name(key, "key"),
            message_id=checks.maybe_id(message, "message"),
            run_id=checks.maybe_id(run_id, "run_id"),
            ticket=checks.maybe_id(ticket, "ticket"),
            guard=checks.guard(owned, None),
        )


class AsyncRunning:
    """Made by `executions.run`; what it tells is known inside the block."""

    def __init__(
        self, handle: AsyncHandle, command: StartExecution, lease: AnyLease | None
    ) -> None:
        self._handle = handle
        self._command = command
        self._lease = lease
        self._execution: Execution | None = None
        self._result: Any = None

    @property
    def execution(self) -> Execution:
        """The record, as it was when the block began."""
        if self._execution is None:
            raise RuntimeError("the execution begins with the block")
        return self._execution

    @property
    def id(self) -> str:
        return self.execution.id

    @property
    def key(self) -> str:
        """The idempotency key to give to the tool."""
        return self.execution.key

    @property
    def tool(self) -> str:
        return self.execution.tool

    @property
    def arguments(self) -> Any:
        """What was asked for, or what was approved."""
        return self.execution.arguments

    @property
    def mode(self) -> ResumeMode | None:
        """How an approved call goes on; None without a ticket."""
        return self.execution.mode

    @property
    def decision(self) -> Decision | None:
        return self.execution.decision

    @property
    def error(self) -> Any:
        """How it failed before, when it did."""
        return self.execution.error

    @property
    def needs_run(self) -> bool:
        """False when the outcome is known: do not call the tool."""
        return not self.execution.resolved

    @property
    def result(self) -> Any:
        """What was set, or what is known already."""
        return self._result

    @result.setter
    def result(self, value: Any) -> None:
        self._result = value

    async def __aenter__(self) -> AsyncRunning:
        self._execution = await self._handle.write(self._command)
        self._result = self._execution.result
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if not self.needs_run:
            return
        if error is None:
            await self._finish(self._result, UNSET)
        elif isinstance(error, Exception):
            # The caller's own error is the one that helps; without an outcome it is unresolved.
            with contextlib.suppress(LedgerstoneError):
                await self._finish(UNSET, error_text(error))

    async def _finish(self, result: Any, error: Any) -> None:
        # The guard of now: a heartbeat may have renewed the lease since the block began.
        await self._handle.write(
            FinishExecution(
                tenant=self._command.tenant,
                finish=finish_of(self.id, result, error, None),
                guard=checks.guard(self._lease, None),
            )
        )
