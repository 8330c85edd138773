"""What a command locks before its handler looks at anything.

Every writer of a session's rows holds the session's head. What belongs to a tenant, or does not
exist yet, has a name; whoever could make, change or drop it holds that name, shared or alone.
Taken in this order: names, sorted, then heads by number (`ledger_begin`). The name USAGE, when it
is shared, is held alone by who finds that the tenant has budgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ledgerstone.commands import Command
from ledgerstone.commands import artifacts as artifact_commands
from ledgerstone.commands import blobs as attachment_commands
from ledgerstone.commands import blobs as blob_commands
from ledgerstone.commands import embeddings as embedding_commands
from ledgerstone.commands import evidence as evidence_commands
from ledgerstone.commands import executions as execution_commands
from ledgerstone.commands import leases as restored_commands
from ledgerstone.commands import memories as memory_commands
from ledgerstone.commands import runs as run_commands
from ledgerstone.commands import sessions as session_commands
from ledgerstone.commands import tickets as ticket_commands
from ledgerstone.commands import transfer as transfer_commands
from ledgerstone.commands import usage as usage_commands
from ledgerstone.commands import work as work_commands
from ledgerstone.commands.turns import CommitTurn, FindTurn
from ledgerstone.records.sessions import Session

BYTES, MEMORIES, ARTIFACTS, USAGE, TICKETS = "b", "m", "a", "u", "t"
MAKING = "s:"
# Where the fences of new sessions begin: shared by all who make or purge one.
FLOOR = "f"


class Locks(msgspec.Struct):
    """Heads by what they are named by; names shared with others of the same kind, or held alone."""

    sessions: list[str] = []
    runs: list[str] = []
    tickets: list[str] = []
    executions: list[str] = []
    dead: list[str] = []
    shared: list[str] = []
    alone: list[str] = []


def locks_of(command: Command[Any]) -> Locks:
    """What the command locks."""
    make = SPECIAL.get(type(command))
    if make is not None:
        return make(command)
    session = getattr(command, "session", None)
    return Locks(sessions=[session] if isinstance(session, str) else [])


def _commit(command: CommitTurn) -> Locks:
    locks = Locks(sessions=[command.session])
    locks.sessions += [batch.session for batch in command.enqueue]
    locks.executions += [finish.id for finish in command.executions]
    if command.create is not None:
        locks.alone.append(_making(command.session))
        locks.shared.append(FLOOR)
        _add_parent(locks, command.create)
    if command.run is not None:
        locks.alone.append(f"r:{command.run.id}")
        if command.run.parent_run is not None:
            locks.runs.append(command.run.parent_run)
    if command.tickets:
        locks.alone += [f"t:{ticket.id}" for ticket in command.tickets]
    if command.usage:
        locks.shared.append(USAGE)
    if command.attach or command.blobs or command.artifacts or command.checkpoint:
        locks.shared.append(BYTES)
    if command.artifacts:
        locks.alone.append(ARTIFACTS)
    if command.traces or command.reports:
        locks.alone.append(f"e:{command.session}")
    if command.memories:
        locks.alone.append(MEMORIES)
    return locks


def _making(session: str) -> str:
    """The name of a session that may be made or purged."""
    return MAKING + session


def _made(command: Any) -> Locks:
    """A session that may not be there yet."""
    session = command.session
    locks = Locks(sessions=[session.id], shared=[USAGE, FLOOR], alone=[_making(session.id)])
    _add_parent(locks, session)
    return locks


def _add_parent(locks: Locks, session: Session) -> None:
    """The parent stays what it is, there or not; whoever deletes it sees the new child."""
    if session.parent is not None:
        locks.sessions.append(session.parent)
        locks.shared.append(_making(session.parent))


def _found_or_made(command: Any) -> Locks:
    """A session that is looked for by its user: two who find none must not both make one."""
    session, locks = command.session, _made(command)
    whose = "nobody" if session.user is None else f"of {session.user}"
    locks.alone.append(f"g:{whose}\x1f{session.app}")
    return locks


def _changed(command: Any) -> Locks:
    return Locks(sessions=[command.id], shared=[USAGE])


def _purged(command: Any) -> Locks:
    alone = [_making(command.id), MEMORIES, ARTIFACTS, USAGE, f"e:{command.id}", BYTES]
    return Locks(sessions=[command.id], shared=[FLOOR], alone=alone)


def _copied(command: session_commands.CopySession) -> Locks:
    target = command.target.id
    alone = [_making(target), f"e:{target}"]
    shared = [BYTES, USAGE, FLOOR]
    locks = Locks(sessions=[command.source, target], shared=shared, alone=alone)
    _add_parent(locks, command.target)
    return locks


def _raised(command: restored_commands.RaiseFences) -> Locks:
    """All heads of the tenant are locked by the statement itself, in the order of their numbers."""
    if command.session:
        return Locks(sessions=[command.session])
    return Locks(alone=[FLOOR])


def _alone(*names: str) -> Callable[[Any], Locks]:
    return lambda command: Locks(alone=list(names))


def _with_session(*names: str) -> Callable[[Any], Locks]:
    return lambda command: Locks(sessions=[command.session], alone=list(names))


def _evidence(command: Any) -> Locks:
    return Locks(sessions=[command.session], alone=[f"e:{command.session}"])


def _run(command: run_commands.PutRun) -> Locks:
    run = command.run
    parents = [run.parent_run] if run.parent_run is not None else []
    return Locks(sessions=[run.session], runs=[run.id, *parents], alone=[f"r:{run.id}"])


def _artifacts(command: Any) -> Locks:
    owner = getattr(command, "owner", None)
    session = getattr(command, "session", None) or getattr(owner, "session", None)
    return Locks(sessions=[session] if session else [], shared=[BYTES], alone=[ARTIFACTS])


def _attachment(command: Any) -> Locks:
    """Of a session that need not be there."""
    session = command.session
    return Locks(sessions=[session], shared=[BYTES], alone=[_making(session)])


def _upload(command: Any) -> Locks:
    return Locks(shared=[BYTES], alone=[f"k:{command.key}"])


SPECIAL: dict[type, Callable[[Any], Locks]] = {
    CommitTurn: _commit,
    # The commit that it waits for may be the one that makes the session.
    FindTurn: lambda c: Locks(sessions=[c.session], shared=[_making(c.session)]),
    session_commands.CreateSession: _made,
    session_commands.PutSession: _made,
    session_commands.GetOrCreateSession: _found_or_made,
    session_commands.UpdateSession: _changed,
    session_commands.DeleteSession: _changed,
    session_commands.RestoreSession: _changed,
    session_commands.PurgeSession: _purged,
    session_commands.SweepPurged: _alone("sweep", MEMORIES, ARTIFACTS, USAGE, BYTES),
    session_commands.CopySession: _copied,
    transfer_commands.ImportRows: _alone("import", MEMORIES, ARTIFACTS, USAGE, BYTES, FLOOR),
    transfer_commands.MarkCopy: _alone("import"),
    restored_commands.RaiseFences: _raised,
    run_commands.PutRun: _run,
    run_commands.UpdateRun: lambda c: Locks(runs=[c.id], alone=[f"r:{c.id}"]),
    ticket_commands.ResolveTicket: lambda c: Locks(tickets=[c.id], alone=[f"t:{c.id}"]),
    ticket_commands.WithdrawTicket: lambda c: Locks(tickets=[c.id], alone=[f"t:{c.id}"]),
    ticket_commands.ExpireTickets: _alone(TICKETS),
    execution_commands.StartExecution: lambda c: Locks(
        sessions=[c.session], executions=[c.id], alone=[f"x:{c.id}"]
    ),
    execution_commands.FinishExecution: lambda c: Locks(executions=[c.finish.id]),
    execution_commands.RetryExecution: lambda c: Locks(executions=[c.id]),
    work_commands.EnqueueWork: lambda c: Locks(sessions=[c.batch.session]),
    work_commands.TakeWork: _alone(),
    work_commands.ReplayWork: lambda c: Locks(dead=[c.batch]),
    work_commands.DropDead: lambda c: Locks(dead=[c.batch]),
    usage_commands.DeleteUsage: _with_session(USAGE),
    usage_commands.SetBudget: _alone(USAGE),
    usage_commands.DropBudget: _alone(USAGE),
    memory_commands.PutMemory: _alone(MEMORIES),
    memory_commands.ChangeMemories: _alone(MEMORIES),
    memory_commands.DeleteMemory: _alone(MEMORIES),
    memory_commands.TouchMemory: _alone(MEMORIES),
    memory_commands.SweepMemories: _alone(MEMORIES),
    embedding_commands.PutEmbeddings: _alone(MEMORIES),
    embedding_commands.DeleteEmbedding: _alone(MEMORIES),
    embedding_commands.DeleteEmbeddings: _alone(MEMORIES),
    artifact_commands.PutArtifact: _artifacts,
    artifact_commands.SaveArtifacts: _artifacts,
    artifact_commands.DeleteArtifacts: _artifacts,
    evidence_commands.AppendEvidence: _evidence,
    evidence_commands.SaveEvidence: _evidence,
    evidence_commands.DeleteEvidence: _evidence,
    attachment_commands.RecordIntent: _attachment,
    attachment_commands.CommitAttachments: _attachment,
    attachment_commands.ForgetAttachment: _attachment,
    blob_commands.BeginUpload: _upload,
    blob_commands.PutChunk: _upload,
    blob_commands.FinishUpload: lambda c: Locks(alone=[BYTES]),
    blob_commands.TouchBlob: lambda c: Locks(alone=[BYTES]),
    blob_commands.ForgetUpload: lambda c: Locks(alone=[BYTES]),
    blob_commands.CondemnUpload: lambda c: Locks(alone=[BYTES]),
    blob_commands.DropBlob: lambda c: Locks(alone=[BYTES]),
}
