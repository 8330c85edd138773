"""Which function carries out which command and answers which query.

The table says in which module a handler is; a module is imported when one of its commands is first
asked for, so that a program pays for what it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ledgerstone.lazy_imports import lazy_import
from ledgerstone.tables.transaction import Tx

C = TypeVar("C")
A = TypeVar("A")
Handler = Callable[[Tx, C], Coroutine[Any, Any, A]]

MODULES = {
    "artifacts": (
        "PutArtifact SaveArtifacts DeleteArtifacts LoadArtifacts GetArtifact ListArtifacts"
    ),
    "blobs": (
        "BeginUpload PutChunk FinishUpload CondemnUpload ForgetUpload TouchBlob DropBlob GetBlob "
        "ReadChunk ListBlobs ListUnreferenced ListUploads CountBlobs RecordIntent "
        "CommitAttachments ForgetAttachment GetAttachment ListUncommitted ListAttachments"
    ),
    "claims": "ClaimWork RenewClaim AbandonClaim FailClaim ParkClaim TakeWork",
    "context": "ReadContext FindCompaction",
    "copies": "CopySession",
    "embeddings": (
        "PutEmbeddings DeleteEmbedding DeleteEmbeddings GetEmbedding ListEmbeddings ListSpaces "
        "ReadVectors ListVectorNames"
    ),
    "evidence": "AppendEvidence SaveEvidence DeleteEvidence LoadEvidence",
    "executions": (
        "StartExecution FinishExecution RetryExecution GetExecution ListExecutions GetRecovery "
        "ListLost"
    ),
    "leases": "TakeLease RenewLease ReleaseLease BreakLease GetLease RaiseFences",
    "memories": (
        "PutMemory ChangeMemories DeleteMemory TouchMemory SweepMemories GetMemories "
        "SearchMemories ListNamespaces"
    ),
    "messages": "ReadMessages ReadRange GetMessage GetVersions ListMessages CountMessages",
    "node_lists": "ListNodes",
    "node_reads": "GetNode FindNodes ReadPath GetValues ListBranches DiffBranches",
    "notes": "AnnotateNodes DropNotes GetNotes ListDrafts",
    "purges": "PurgeSession SweepPurged VacuumSession CheckRoots",
    "ready": "PeekWork ExplainWork",
    "runs": "PutRun UpdateRun GetRun LatestRun ListRuns GetRunTree",
    "session_reads": (
        "GetSession GetHead GetPicker GetDocument GetDocuments ListSessions CountSessions"
    ),
    "sessions": (
        "CreateSession PutSession GetOrCreateSession UpdateSession DeleteSession RestoreSession"
    ),
    "tenants": "MarkCopy IsCopyUnfinished",
    "tickets": "GetTicket ResolveTicket WithdrawTicket ExpireTickets ListTickets",
    "transfer_in": "ImportRows",
    "transfer_out": "ExportTable ExportSessions",
    "turn_reads": "ReadFeed FeedEnd ReadSessionAt GetTurn FindTurn ListTurns",
    "turns": "CommitTurn",
    "usage": "ListUsage GetStats DeleteUsage SetBudget DropBudget ListBudgets FindBudgets",
    "usage_sums": "SummariseUsage",
    "verify": "VerifySession",
    "verify_store": "VerifyStore",
    "work": (
        "ListEnded ListDead CountWork ListPrunable PruneWork EnqueueWork CancelWork ListWork "
        "ReplayWork DropDead InterruptWork"
    ),
}
"""The commands and queries that each module of this package handles."""
_MODULE_OF = {name: module for module, names in MODULES.items() for name in names.split()}


_entered: dict[type, Handler[Any, Any]] = {}
"""What `handles` decorated so far; not to be called before its module is imported to the end."""


class Handlers(dict[type, Handler[Any, Any]]):
    """The handlers by type of command; `[]` imports the one that is not there yet."""

    def __missing__(self, type_: type) -> Handler[Any, Any]:
        module = _MODULE_OF.get(type_.__name__)
        if module is not None:
            lazy_import(f"ledgerstone.handlers.{module}")
        handler = self[type_] = _entered[type_]
        return handler


HANDLERS = Handlers()


def handler_of(type_: type) -> Handler[Any, Any] | None:
    """The handler of a type of command or query; None for a type that has none."""
    try:
        return HANDLERS[type_]
    except KeyError:
        return None


def import_all() -> None:
    """Make HANDLERS complete, for whoever goes through all of them."""
    for module in MODULES:
        lazy_import(f"ledgerstone.handlers.{module}")
    HANDLERS.update(_entered)


def handles(type_: type[C]) -> Callable[[Handler[C, A]], Handler[C, A]]:
    """Enter the decorated function as the handler of a type of command or query."""

    def enter(handler: Handler[C, A]) -> Handler[C, A]:
        known = _entered.get(type_)
        # The same function comes again when an import was interrupted and is repeated.
        if known is not None and _name_of(known) != _name_of(handler):
            raise ValueError(f"{type_.__name__} has two handlers")
        _entered[type_] = handler
        return handler

    return enter


def _name_of(handler: Any) -> tuple[str, str]:
    return handler.__module__, handler.__qualname__
