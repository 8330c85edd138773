"""Ledgerstone: the durable state layer of AI agents. The public names, nothing else."""

from __future__ import annotations

from importlib import import_module
from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

from ledgerstone.clock import ManualClock
from ledgerstone.errors import (
    AccessDenied,
    AlreadyExists,
    BackendError,
    BlobNotFound,
    BranchNotFound,
    BudgetExceeded,
    Busy,
    ClaimLost,
    Conflict,
    CopyConflict,
    CopyDisturbed,
    Corrupt,
    Damaged,
    ExecutionNotFound,
    ExecutionResolved,
    ExecutionUnresolved,
    Fenced,
    IllegalTransition,
    IncarnationMoved,
    InvalidValue,
    LeafMoved,
    LeaseExpired,
    LeaseHeld,
    LeaseMoved,
    LedgerstoneError,
    MessageNotFound,
    Misuse,
    NodeNotFound,
    NotADatabase,
    NotFound,
    NotSupported,
    OutcomeUnknown,
    QuotaExceeded,
    ReadOnly,
    RevisionMoved,
    RunNotFound,
    SchemaTooNew,
    SchemaTooOld,
    SessionBindingMismatch,
    SessionDeleted,
    SessionHasChildren,
    SessionNotFound,
    SessionRetired,
    StorageFull,
    StoreClosed,
    TicketClosed,
    TicketNotFound,
    TicketStale,
    Timeout,
    TurnConflict,
    Unavailable,
    WorkInterrupted,
)
from ledgerstone.ids import derive
from ledgerstone.records.artifacts import Artifact, Quota
from ledgerstone.records.context import Prune
from ledgerstone.records.decisions import Decision
from ledgerstone.records.executions import Execution
from ledgerstone.records.memories import Forget, Memory, Remember
from ledgerstone.records.messages import (
    Message,
    assistant,
    message,
    system,
    tool_call,
    tool_result,
    user,
)
from ledgerstone.records.nodes import Node, Opaque
from ledgerstone.records.runs import Run, RunInput, RunOutput
from ledgerstone.records.sessions import Session
from ledgerstone.records.tickets import Ticket
from ledgerstone.records.traces import TraceEvent
from ledgerstone.records.usage import Cost, Usage
from ledgerstone.records.verification import Check, Report

if TYPE_CHECKING:
    from ledgerstone.api.store import AsyncStore
    from ledgerstone.api_sync.store import Store
    from ledgerstone.intake.evidence import trace_of
    from ledgerstone.rules.prices import Price, Prices

# `ledgerstone.testing` is a distribution of its own: in an editable install it lies elsewhere.
__path__ = extend_path(__path__, __name__)

__all__ = [
    # stores
    "AsyncStore",
    "Store",
    # what is stored
    "Session",
    "Message",
    "Prune",
    "Node",
    "Opaque",
    "Run",
    "RunInput",
    "RunOutput",
    "Ticket",
    "Decision",
    "Execution",
    "Artifact",
    "Quota",
    "TraceEvent",
    "Report",
    "Check",
    "Memory",
    "Remember",
    "Forget",
    "Usage",
    "Cost",
    "Price",
    "Prices",
    # making messages and ids
    "user",
    "assistant",
    "system",
    "tool_result",
    "tool_call",
    "message",
    "derive",
    "trace_of",
    # time, for tests
    "ManualClock",
    # what can go wrong
    "LedgerstoneError",
    "Misuse",
    "InvalidValue",
    "SessionBindingMismatch",
    "StoreClosed",
    "NotSupported",
    "NotFound",
    "SessionNotFound",
    "MessageNotFound",
    "NodeNotFound",
    "BranchNotFound",
    "RunNotFound",
    "TicketNotFound",
    "ExecutionNotFound",
    "BlobNotFound",
    "Conflict",
    "AlreadyExists",
    "RevisionMoved",
    "LeafMoved",
    "LeaseMoved",
    "TurnConflict",
    "SessionDeleted",
    "SessionHasChildren",
    "SessionRetired",
    "IllegalTransition",
    "IncarnationMoved",
    "TicketClosed",
    "TicketStale",
    "ExecutionUnresolved",
    "ExecutionResolved",
    "BudgetExceeded",
    "QuotaExceeded",
    "CopyConflict",
    "CopyDisturbed",
    "LeaseHeld",
    "LeaseExpired",
    "Fenced",
    "ClaimLost",
    "WorkInterrupted",
    "Unavailable",
    "Busy",
    "Timeout",
    "StorageFull",
    "ReadOnly",
    "AccessDenied",
    "OutcomeUnknown",
    "Damaged",
    "Corrupt",
    "NotADatabase",
    "SchemaTooNew",
    "SchemaTooOld",
    "BackendError",
]


_FACES = {
    "Store": "ledgerstone.api_sync.store",
    "AsyncStore": "ledgerstone.api.store",
    "Price": "ledgerstone.rules.prices",
    "Prices": "ledgerstone.rules.prices",
    "trace_of": "ledgerstone.intake.evidence",
}

if not TYPE_CHECKING:  # A type checker would take it for "every name exists".

    def __getattr__(name: str) -> Any:
        """Imported when it is first asked for: the blocking face needs no asyncio."""
        if name not in _FACES:
            raise AttributeError(f"module 'ledgerstone' has no attribute {name!r}")
        face = globals()[name] = getattr(import_module(_FACES[name]), name)
        return face
