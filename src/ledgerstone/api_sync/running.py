# Generated from api/running.py by tools/make_sync.py: edit that, then run `make sync`.
"""A tool call under way: the intent is durable before the block, the outcome after it."""

from __future__ import annotations

import contextlib
from typing import Any

from msgspec import UNSET

from ledgerstone.api_sync.handle import Handle
from ledgerstone.commands.executions import FinishExecution, StartExecution
from ledgerstone.errors import LedgerstoneError
from ledgerstone.intake import checks
from ledgerstone.intake.executions import error_text, finish_of
from ledgerstone.records.decisions import Decision, ResumeMode
from ledgerstone.records.executions import Execution
from ledgerstone.records.leases import AnyLease


class Running:
    """Made by `executions.run`; what it tells is known inside the block."""

    def __init__(self, handle: Handle, command: StartExecution, lease: AnyLease | None) -> None:
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

    def __enter__(self) -> Running:
        self._execution = self._handle.write(self._command)
        self._result = self._execution.result
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> None:
        if not self.needs_run:
            return
        if error is None:
            self._finish(self._result, UNSET)
        elif isinstance(error, Exception):
            # The caller's own error is the one that helps; without an outcome it is unresolved.
            with contextlib.suppress(LedgerstoneError):
                self._finish(UNSET, error_text(error))

    def _finish(self, result: Any, error: Any) -> None:
        # The guard of now: a heartbeat may have renewed the lease since the block began.
        self._handle.write(
            FinishExecution(
                tenant=self._command.tenant,
                finish=finish_of(self.id, result, error, None),
                guard=checks.guard(self._lease, None),
            )
        )
