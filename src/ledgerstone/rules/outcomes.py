"""Writes whose answer was lost: what the caller is told, and how each is repeated safely.

Commands are known by their names here: nothing may have to be imported when an answer is lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ledgerstone.commands import Command
from ledgerstone.errors import OutcomeUnknown

COMMIT = (
    "ask store.turns.outcome(error): the committed turn, or None, and then repeat the same call"
)
BY_KIND = {
    "turn": "; the same turn, or one with id={id!r}, may be committed again at once",
    "append": "; the same Message objects may be appended again at once, since each keeps its id",
}
SAME = "repeat the call: done twice it has the same effect as once"
GONE = "repeat the call: what it removed stays removed, the answer tells of what was left"
LOOK = "look whether it was done before you repeat the call"

_STEPS = {
    SAME: (
        "PutSession GetOrCreateSession UpdateSession RestoreSession AnnotateNodes RenewLease "
        "RaiseFences RecordIntent CommitAttachments UpdateRun ResolveTicket ExpireTickets "
        "RenewClaim SetBudget PutMemory ChangeMemories TouchMemory SaveArtifacts SaveEvidence "
        "TouchBlob FindTurn"
    ),
    GONE: (
        "DeleteSession PurgeSession SweepPurged DropNotes VacuumSession ReleaseLease "
        "ForgetAttachment WithdrawTicket AbandonClaim CancelWork DropDead PruneWork DeleteUsage "
        "DropBudget DeleteMemory SweepMemories DeleteEmbedding DeleteEmbeddings DeleteArtifacts "
        "DeleteEvidence CondemnUpload ForgetUpload DropBlob"
    ),
    "put the same bytes again: they are kept once, by their content": (
        "BeginUpload PutChunk FinishUpload"
    ),
    "repeat the call: ClaimLost says that it was done, or that the claim is over": (
        "FailClaim ParkClaim"
    ),
    "copy again: it goes on where it was": "ImportRows MarkCopy",
}
"""What to do after several commands, by their names."""
NEXT_STEPS: dict[str, str] = {
    **{name: step for step, names in _STEPS.items() for name in names.split()},
    "CommitTurn": COMMIT,
    "CreateSession": "repeat the call with id={id!r}: it answers the session that it made",
    "CopySession": (
        "look for session {id!r}, and repeat the call with new_id={id!r} if it is missing"
    ),
    "TakeLease": (
        "repeat the call with owner={id!r}: it gets a new fence, and a grant that was lost is over"
    ),
    "BreakLease": (
        "look with leases.get, and break the lease again with its fence= if it still lives"
    ),
    "PutRun": "look with runs.get({id!r}), and repeat the call with id={id!r} if it is missing",
    "StartExecution": (
        "call executions.start with the same arguments and id={id!r}: it is one execution; call "
        "its tool, then executions.finish({id!r}, ...)"
    ),
    "FinishExecution": (
        "call executions.finish({id!r}, ...) with the same outcome: done twice it has the same "
        "effect as once"
    ),
    "RetryExecution": (
        "look with executions.get({id!r}): the status pending, or one attempt more, says that it "
        "was done"
    ),
    "EnqueueWork": (
        "repeat the call with id={id!r}: it is queued once, unless it was completed meanwhile"
    ),
    "ClaimWork": "repeat the call with id={id!r}: it is one claim",
    "TakeWork": "repeat the call: what was taken is free again when its lease ends",
    "InterruptWork": (
        "look with work.counts(session) whether the epoch rose, and repeat the call if it did not"
    ),
    "ReplayWork": "repeat the call: BatchNotFound says that it was done",
    "PutEmbeddings": "repeat the call with id={id!r}: it is one embedding",
    "PutArtifact": "repeat the call with id={id!r}: it is one version",
    "AppendEvidence": (
        "load the list, and append again what is missing; an append with a key= may be repeated "
        "at once while it is the last one"
    ),
}
"""What to do when the answer of a command was lost, by its name."""
ONCE = (
    "repeat the call: ExecutionUnresolved says that it was begun, by you or by another; then "
    "decide with executions.finish or executions.retry"
)
"""Of an execution under an id that another caller may have started as well."""
EMBEDDINGS = (
    "repeat the call if every record has an id: each is one embedding; if not, look with "
    "embeddings.iter which of them are there"
)

IDS: dict[str, str] = {
    "CommitTurn": "turn",
    "CreateSession": "session.id",
    "PutSession": "session.id",
    "GetOrCreateSession": "session.id",
    "CopySession": "target.id",
    "TakeLease": "owner",
    "PutRun": "run.id",
    "FinishExecution": "finish.id",
    "EnqueueWork": "batch.id",
    **dict.fromkeys(("CancelWork", "ReplayWork", "DropDead"), "batch"),
    **dict.fromkeys(
        ("ClaimWork", "TakeWork", "RenewClaim", "AbandonClaim", "FailClaim", "ParkClaim"), "claim"
    ),
    "PutArtifact": "artifact.id",
    "PutEmbeddings": "embeddings.id",
    "AppendEvidence": "key",
    "SetBudget": "budget.id",
}
"""Where a command has the id by which the same call is known again, if not in `id`."""
SESSIONS: dict[str, str] = {
    **dict.fromkeys(("CreateSession", "PutSession"), "session.id"),
    **dict.fromkeys(("UpdateSession", "DeleteSession", "RestoreSession", "PurgeSession"), "id"),
    "CopySession": "source",
    "PutRun": "run.session",
    "EnqueueWork": "batch.session",
    **dict.fromkeys(("PutArtifact", "DeleteArtifacts"), "owner.session"),
}
"""Where a command names its session, if not in `session`."""


def told(error: OutcomeUnknown, command: Command[Any]) -> OutcomeUnknown:
    """The error as the caller of a write gets it; a backend may give one error to many callers."""
    id, turn = _found(command, IDS, "id"), None
    given: Any = command
    name = type(command).__name__
    step = NEXT_STEPS.get(name, LOOK)
    if name == "CommitTurn":
        turn = given.turn
        step += BY_KIND.get(given.kind, "")
    elif name == "StartExecution" and given.once:
        step = ONCE
    elif name == "PutEmbeddings" and id is None:
        step = EMBEDDINGS
    session = _found(command, SESSIONS, "session")
    made = OutcomeUnknown(
        error.reason, session=session, turn=turn, id=id, next_step=step.format(id=id)
    )
    made.spent = error.spent
    return made


@contextmanager
def lost_answers(command: Command[Any]) -> Iterator[None]:
    """Tell the caller of the block what a lost answer to this write means."""
    try:
        yield
    except OutcomeUnknown as unknown:
        raise told(unknown, command) from unknown


def _found(command: Command[Any], paths: dict[str, str], usual: str) -> str | None:
    """The text at the path of the command's kind; None where there is none."""
    found: Any = command
    for name in paths.get(type(command).__name__, usual).split("."):
        if isinstance(found, tuple):
            found = found[0] if len(found) == 1 else None
        found = getattr(found, name, None)
    return found if isinstance(found, str) else None
