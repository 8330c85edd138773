"""Ledgerstone: the durable state layer of AI agents. The public names, nothing else."""

from __future__ import annotations

from pkgutil import extend_path
from typing import TYPE_CHECKING, Any

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
from ledgerstone.lazy_imports import lazy_import

if TYPE_CHECKING:
    from ledgerstone.api.store import AsyncStore
    from ledgerstone.api_sync.store import Store
    from ledgerstone.clock import ManualClock
    from ledgerstone.ids import derive
    from ledgerstone.intake.evidence import trace_of
    from ledgerstone.records.artifacts import Artifact, Quota
    from ledgerstone.records.context import Prune
    from ledgerstone.records.decisions import Decision
    from ledgerstone.records.evidence import Check, Report, TraceEvent
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
    from ledgerstone.records.usage import Cost, Usage
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


_MODULES = {
    "api.store": "AsyncStore",
    "api_sync.store": "Store",
    "clock": "ManualClock",
    "ids": "derive",
    "intake.evidence": "trace_of",
    "records.artifacts": "Artifact Quota",
    "records.context": "Prune",
    "records.decisions": "Decision",
    "records.evidence": "Check Report TraceEvent",
    "records.executions": "Execution",
    "records.memories": "Forget Memory Remember",
    "records.messages": "Message assistant message system tool_call tool_result user",
    "records.nodes": "Node Opaque",
    "records.runs": "Run RunInput RunOutput",
    "records.sessions": "Session",
    "records.tickets": "Ticket",
    "records.usage": "Cost Usage",
    "rules.prices": "Price Prices",
}
"""The names that are imported on first use, by module: those of the TYPE_CHECKING block."""
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}

if not TYPE_CHECKING:  # A type checker would take it for "every name exists".

    def __getattr__(name: str) -> Any:
        """Import a public name when it is first asked for: a program pays for what it uses."""
        if name not in _MODULE_OF:
            raise AttributeError(f"module 'ledgerstone' has no attribute {name!r}")
        module = lazy_import(f"ledgerstone.{_MODULE_OF[name]}")
        found = globals()[name] = getattr(module, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
