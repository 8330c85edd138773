"""What a successor finds in a session whose owner is gone."""

from __future__ import annotations

from typing import Literal

import msgspec

from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.executions import Execution
from ledgerstone.records.leases import Lease
from ledgerstone.records.runs import Run
from ledgerstone.records.tickets import Ticket
from ledgerstone.records.work import Batch

Need = Literal["decide_executions", "adopt_drafts", "resume_work", "wait_for_tickets", "finish_run"]


class Recovery(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that was under way; `needs` says what to do about it, most urgent first."""

    session: str
    revision: int = 0
    run: Run | None = None
    lease: Lease | None = None
    drafts: list[DraftRecord] = []
    executions: list[Execution] = []
    claims: list[Batch] = []
    tickets: list[Ticket] = []

    @property
    def needs(self) -> list[Need]:
        found: list[Need] = []
        if self.executions:
            found.append("decide_executions")
        if self.drafts:
            found.append("adopt_drafts")
        if self.claims:
            found.append("resume_work")
        if self.tickets:
            found.append("wait_for_tickets")
        if self.run is not None and self.run.status == "running" and not found:
            found.append("finish_run")
        return found
