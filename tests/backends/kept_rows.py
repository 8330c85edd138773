"""Something of every noun beside the conversation, put by commands: what tests of journals fill."""

from __future__ import annotations

from hashlib import sha256
from struct import pack
from typing import Any

from msgspec.structs import replace

from ledgerstone.commands.artifacts import NewArtifact, Owner, PutArtifact, SaveArtifacts
from ledgerstone.commands.blobs import BeginUpload, CondemnUpload, FinishUpload, RecordIntent
from ledgerstone.commands.embeddings import DeleteEmbedding, NewEmbedding, PutEmbeddings
from ledgerstone.commands.evidence import AppendEvidence, SaveEvidence
from ledgerstone.commands.executions import Finish, FinishExecution, StartExecution
from ledgerstone.commands.memories import NAMESPACE_END, NewMemory, PutMemory
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.usage import SetBudget
from ledgerstone.engines.file.backend import FileBackend
from ledgerstone.records.sessions import Session
from ledgerstone.records.stats import Budget
from ledgerstone.records.usage import Cost, Usage, UsageEntry
from ledgerstone.rules.chain import turn_hash

T = "default"
NOTES = f"notes{NAMESPACE_END}"


def vector(*numbers: float) -> bytes:
    return pack(f"<{len(numbers)}f", *numbers)


def blob(backend: FileBackend, name: str) -> str:
    """A blob whose bytes nobody needs here; its ref."""
    ref = sha256(name.encode()).hexdigest()
    backend.write(BeginUpload(tenant=T, key=f"key of {name}", place="directory"))
    backend.write(
        FinishUpload(
            tenant=T,
            key=f"key of {name}",
            ref=ref,
            size_bytes=len(name),
            sums=sha256(name.encode()).digest(),
            media_type="text/plain",
        )
    )
    return ref


def artifact(id: str, ref: str, **fields: Any) -> NewArtifact:
    fields = {"name": "a/b.txt", "metadata": b'{"k":[1,2.5,null,"\xc3\xa9"]}', **fields}
    return NewArtifact(id=id, ref=ref, media_type="text/plain", tool="t", **fields)


def commit(session: str, turn: str, **parts: Any) -> CommitTurn:
    command = CommitTurn(tenant=T, session=session, turn=turn, kind="turn", **parts)
    return replace(command, hash=turn_hash(command))


def beside(backend: FileBackend, session: str, word: str = "") -> None:
    """Everything that may lie beside a session, whether there is one or not."""
    ref = blob(backend, "shared bytes")
    owner = Owner(session)
    for n in (1, 2):
        new = artifact(f"{session}-{n}-{word}", ref, uri=f"made:{session}/{n}{word}")
        backend.write(PutArtifact(tenant=T, owner=owner, artifact=new))
    place: dict[str, Any] = {"tenant": T, "session": session}
    said = f'{{"said":"{word}"}}'.encode()
    backend.write(AppendEvidence(kind="trace", bodies=(said, b"not json"), key="k", **place))
    backend.write(SaveEvidence(kind="report", bodies=(said,), **place))
    backend.write(RecordIntent(id=f"{ref[:-1]}0", uri=f"file:{word}", **place))
    own = NewEmbedding(
        id=f"{session} {word}",
        model="m",
        vector=vector(1, 2, 3),
        session=session,
        namespace=NOTES,
        metadata=said,
    )
    other = NewEmbedding(id=f"free of {session}", model="m", vector=vector(3, 2, 1))
    backend.write(PutEmbeddings(tenant=T, embeddings=(own, other)))
    budget = Budget(id=f"budget {session} {word}", scope="session", subject=session, tokens=10_000)
    backend.write(SetBudget(tenant=T, budget=budget))


def in_turn(backend: FileBackend, session: str, turn: str, word: str = "") -> None:
    """A commit with all it may bring."""
    ref = blob(backend, "bytes of a turn")
    entry = UsageEntry("m", Usage(input=5, output=1, total=6), "chat", "p", Cost(7, "USD"), "r")
    memory = NewMemory(
        namespace=NOTES, key=f"from {turn}", value=b'{"v":1}', vector=vector(1, 0, 0), model="m"
    )
    backend.write(
        commit(
            session,
            turn,
            blobs=(ref,),
            artifacts=(artifact(f"{turn} {word}", ref, name=f"made {word}"),),
            traces=(f'{{"t":"{word}"}}'.encode(),),
            reports=(f'{{"r":"{word}"}}'.encode(),),
            usage=(entry,),
            memories=(memory,),
        )
    )


def call(backend: FileBackend, session: str, id: str, word: str = "") -> None:
    """A tool call with its outcome."""
    said = f'{{"said":"{word}"}}'.encode()
    start = StartExecution(
        tenant=T, session=session, id=id, call_id=id, tool="t", arguments=said, key=""
    )
    backend.write(start)
    backend.write(FinishExecution(tenant=T, finish=Finish(id=id, result=said, duration_ms=3)))


def fill_kept(backend: FileBackend, word: str = "") -> None:
    """Sessions with everything, an id without a session, and what belongs to nobody."""
    beside(backend, "loose", word)
    beside(backend, "later", word)
    for session in ("later", "s"):
        made = Session(id=session, tenant=T, user="ada")
        backend.write(CreateSession(tenant=T, session=made))
    in_turn(backend, "later", "t1", word)
    beside(backend, "s", word)
    in_turn(backend, "s", "t2", word)
    call(backend, "s", "c1", word)
    ref = blob(backend, "of everybody")
    for owner in (Owner(user="ada"), Owner()):
        new = artifact(f"of {owner.user}", ref)
        backend.write(PutArtifact(tenant=T, owner=owner, artifact=new))
    save = SaveArtifacts(tenant=T, session="s", artifacts=(artifact("saved", ref),))
    backend.write(save)
    for key, ttl_us in (("forever", None), ("a while", 3_600_000_000)):
        new_memory = NewMemory(namespace=NOTES, key=key, value=b"[1]", ttl_us=ttl_us)
        backend.write(PutMemory(tenant=T, memory=new_memory))
    backend.write(DeleteEmbedding(tenant=T, id="free of loose"))
    monthly: dict[str, Any] = {"period": "month", "cost_nano": 10**9}
    for budget in (
        Budget(id="tenant", scope="tenant", **monthly),
        Budget(id="user", scope="user", subject="ada", **monthly),
    ):
        backend.write(SetBudget(tenant=T, budget=budget))
    backend.write(BeginUpload(tenant=T, key="never finished", place="directory"))
    backend.write(BeginUpload(tenant=T, key="on its way out", place="directory"))
    backend.write(CondemnUpload(tenant=T, key="on its way out", before_us=1 << 60))
