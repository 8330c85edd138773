"""What may still be asked of a store of which some journals are damaged.

A damaged session answers nothing and takes nothing. What is asked of a whole tenant is refused
while one of its sessions is damaged, except the list of sessions, which shows those as well. When
nobody can tell whose a damaged journal is, every id that is not known might be it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ledgerstone.commands import Command, Query
from ledgerstone.commands import blobs as blob_commands
from ledgerstone.commands import memories as memory_commands
from ledgerstone.commands.artifacts import (
    DeleteArtifacts,
    GetArtifact,
    ListArtifacts,
    Owner,
    PutArtifact,
)
from ledgerstone.commands.embeddings import (
    DeleteEmbedding,
    GetEmbedding,
    ListEmbeddings,
    ListSpaces,
    ListVectorNames,
    PutEmbeddings,
    ReadVectors,
)
from ledgerstone.commands.runs import GetRun, ListRuns, PutRun, UpdateRun
from ledgerstone.commands.sessions import (
    CopySession,
    CountSessions,
    CreateSession,
    DeleteSession,
    GetHead,
    GetPicker,
    GetSession,
    ListSessions,
    PurgeSession,
    PutSession,
    RestoreSession,
    SweepPurged,
    UpdateSession,
)
from ledgerstone.commands.turns import CommitTurn, VerifyStore
from ledgerstone.commands.work import EnqueueWork
from ledgerstone.engines.file.homes import number_of
from ledgerstone.engines.file.recovery import Loaded
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.tables.runs import RUNS_BY_ID
from ledgerstone.tables.sessions import SESSIONS

_BY_ID = (
    GetSession,
    GetHead,
    GetPicker,
    UpdateSession,
    DeleteSession,
    RestoreSession,
    PurgeSession,
)
_NAMED: dict[type, Callable[[Any], list[str]]] = {
    **{kind: lambda asked: [asked.id] for kind in _BY_ID},
    CreateSession: lambda asked: [asked.session.id],
    PutSession: lambda asked: [asked.session.id],
    CopySession: lambda asked: [asked.source, asked.target.id],
    PutRun: lambda asked: [asked.run.session],
    EnqueueWork: lambda asked: [asked.batch.session],
    PutEmbeddings: lambda asked: [new.session for new in asked.embeddings if new.session],
    CommitTurn: lambda asked: [asked.session, *(batch.session for batch in asked.enqueue)],
}
"""The sessions that are meant, where it is not simply `session`."""
_OWNED = (PutArtifact, ListArtifacts, DeleteArtifacts)
_IN_STORE = (
    blob_commands.BeginUpload,
    blob_commands.FinishUpload,
    blob_commands.CondemnUpload,
    blob_commands.ForgetUpload,
    blob_commands.TouchBlob,
    blob_commands.GetBlob,
    blob_commands.ListBlobs,
    blob_commands.ListUploads,
    memory_commands.PutMemory,
    memory_commands.ChangeMemories,
    memory_commands.DeleteMemory,
    memory_commands.TouchMemory,
    memory_commands.SweepMemories,
    memory_commands.GetMemories,
    memory_commands.SearchMemories,
    memory_commands.ListNamespaces,
    DeleteEmbedding,
    GetEmbedding,
    ListEmbeddings,
    ListSpaces,
    ListVectorNames,
    ReadVectors,
)
"""What no session's journal can tell anything about."""
_LISTS = (ListSessions, CountSessions)

Asked = Command[Any] | Query[Any]


class Damage:
    """The damaged journals of a store; usually there are none."""

    def __init__(self, books: Loaded) -> None:
        self._rows = books.rows
        self._faults = {
            books.names[number]: fault
            for number, fault in books.faults.items()
            if number in books.names
        }
        self._nameless = [
            fault for number, fault in books.faults.items() if number not in books.names
        ]
        self.warnings = [f"damaged: {fault.error()}" for fault in books.faults.values()]

    def __bool__(self) -> bool:
        return bool(self.warnings)

    def check(self, asked: Asked) -> None:
        """Corrupt, naming file and line, when the answer could be wrong."""
        if not self.warnings or isinstance(asked, SweepPurged | VerifyStore):
            return
        for session in self._sessions(asked):
            fault = self._faults.get((asked.tenant, session))
            if fault is not None:
                raise fault.error()
            if self._nameless and not number_of(self._rows, asked.tenant, session):
                raise self._nameless[0].error()

    def verified(self, tenant: str, session: str) -> Verified | None:
        """What verify says of a damaged session; None for any other."""
        fault = self._faults.get((tenant, session))
        if fault is None:
            return None
        return Verified(sessions=1, defects=[Defect(session, "journal", fault.where, fault.reason)])

    def _sessions(self, asked: Asked) -> list[str]:
        """The sessions that the answer is about."""
        named = _NAMED.get(type(asked))
        if named is not None:
            return named(asked)
        if isinstance(asked, _IN_STORE):
            return []
        if isinstance(asked, _OWNED) and asked.owner is not None:
            return _owner(asked.owner)
        if isinstance(asked, GetArtifact) and asked.name is not None:
            return _owner(asked.owner)
        if isinstance(asked, _LISTS):
            self._check_names()
            return []
        if isinstance(asked, ListRuns) and asked.where.session is not None:
            return [asked.where.session]
        if isinstance(asked, GetRun | UpdateRun):
            sessions = self._sessions_of_run(asked.tenant, asked.id)
            if sessions:
                return sessions
        session = getattr(asked, "session", None)
        return [session] if isinstance(session, str) else self._all(asked.tenant)

    def _sessions_of_run(self, tenant: str, id: str) -> list[str]:
        found = (
            self._rows.tables[SESSIONS].get((run.number,))
            for run in self._rows.between(RUNS_BY_ID, (id,))
            if run.tenant == tenant
        )
        return [row.id for row in found if row is not None]

    def _all(self, tenant: str) -> list[str]:
        """For what looks at a whole tenant: every damaged session of it."""
        self._check_names()
        return [session for owner, session in self._faults if owner == tenant]

    def _check_names(self) -> None:
        """Corrupt when nobody can tell whose a damaged journal is."""
        if self._nameless:
            raise self._nameless[0].error()


def _owner(owner: Owner) -> list[str]:
    return [] if owner.session is None else [owner.session]
