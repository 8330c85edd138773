"""Bytes, evidence, usage and memory in journals: every row comes back, in every way of opening."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ledgerstone import Store
from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.engines.file.lines import Line, decode_line, encode_line
from ledgerstone.engines.file.homes import IN_STORE, LOOSE, SHARED
from ledgerstone.clock import ManualClock
from ledgerstone.commands.artifacts import (
    DeleteArtifacts,
    GetArtifact,
    ListArtifacts,
    LoadArtifacts,
    Owner,
    PutArtifact,
)
from ledgerstone.commands.blobs import BeginUpload, GetBlob, ListUnreferenced, PutChunk
from ledgerstone.commands.embeddings import GetEmbedding, NewEmbedding, PutEmbeddings
from ledgerstone.commands.evidence import AppendEvidence, DeleteEvidence, EvidenceRow, LoadEvidence
from ledgerstone.commands.memories import GetMemories, MemoryName, NewMemory, PutMemory
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.errors import Corrupt, NotSupported
from tests.oracle.model.rows import MemoryRow, RunRow, StubRow
from ledgerstone.records.artifacts import Artifact
from ledgerstone.records.attachments import Attachment
from ledgerstone.records.blobs import Blob, Upload
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.records.sessions import Session
from ledgerstone.records.stats import Budget
from tests.backends.journals import NEVER, journal_of, lines
from tests.backends.kept_rows import NOTES, T, artifact, blob, commit, fill_kept, vector
from tests.backends.places import quick_disk

CLOCK = ManualClock()
SURROGATE = "\ud800 alone"
ROWS: dict[str, tuple[tuple[Any, ...], Any]] = {
    "runs": ((T, "r"), RunRow(3, "s", b'{"id":"r"}')),
    "attachments": ((T, "s", "a"), Attachment("s", "a", "file:x", 5, 6)),
    "stubs": ((T, "s"), StubRow(1, 2, "ab", True)),
    "blobs": (
        (T, "r"),
        Blob(
            ref="r",
            size_bytes=3,
            media_type="a/b",
            created_us=4,
            place="directory",
            key="k",
            sums=b"\x00\xff",
            touched_us=9,
        ),
    ),
    "uploads": ((T, "k"), Upload(key="k", place="p", created_us=7, leaving=True)),
    "artifacts": (
        (T, "s:x", 4),
        Artifact(
            id="i",
            name="../n",
            version=2,
            ref="r",
            size_bytes=1,
            uri="u",
            session="x",
            user="y",
            media_type="a/b",
            metadata={"k": [1, 2.5, None, SURROGATE]},
            tool="t",
            original_bytes=8,
            shown_bytes=9,
            created_us=3,
        ),
    ),
    "evidence": ((T, "s", "trace", 3), EvidenceRow(3, 4, b"\x00 not json")),
    "budgets": (
        (T, "b"),
        Budget(
            id="b",
            scope="user",
            subject="ada",
            period="month",
            cost_nano=5,
            currency="EUR",
            tokens=6,
            mode="refuse_commit",
        ),
    ),
    "memories": (
        (T, NOTES, "k"),
        MemoryRow(value=b'{"v":1}', ttl_us=1, created_us=2, updated_us=3, expires_us=4),
    ),
    "embeddings": (
        (T, "memory", "e"),
        VectorRow(
            kind="memory",
            id="e",
            model="m",
            change=7,
            vector=vector(1, -2),
            session="s",
            namespace=NOTES,
            metadata=b"{}",
            created_us=8,
        ),
    ),
    "spaces": ((T, "m"), Space(model="m", dimension=2, count=1, changes=7, drops=3)),
}


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder / "store"


def opened(path: Path, snapshot_lines: int = NEVER) -> FileBackend:
    return open_file(str(path), clock=CLOCK, snapshot_lines=snapshot_lines)


def tables(backend: FileBackend) -> dict[str, dict[Any, Any]]:
    """Every row there is, of every table, those that follow from others too."""
    found = {name: dict(table.scan()) for name, table in backend._books.state.tables().items()}
    assert not found.pop("chunks")
    return found


def left_alone(path: Path) -> Path:
    """The directory as a crash would leave it now."""
    copy = path.with_name(path.name + ".copy")
    shutil.copytree(path, copy)
    return copy


@pytest.mark.parametrize("table", list(SHARED))
def test_every_field_comes_back(table: str) -> None:
    """None of them is at its default, so one that nobody writes down would be missed."""
    key, row = ROWS[table]
    for field in msgspec.structs.fields(type(row)):
        assert getattr(row, field.name) != field.default, field.name
    wire = SHARED[table](key, row)
    line = Line(pos=1, n=1, at="", do="", prev="", **{table: (wire,)})  # type: ignore[arg-type]
    data, _ = encode_line(line)
    assert data.count(b"\n") == 1
    (again,) = getattr(decode_line(data.rstrip(b"\n")), table)
    assert (again.key(), again.row()) == (key, row)


def test_every_row_is_there_after_a_closing_and_after_a_crash(path: Path) -> None:
    backend = opened(path)
    fill_kept(backend)
    before = tables(backend)
    filled = (*LOOSE, *IN_STORE, "usage_days", "call_sums", "budget_spent", "blob_uses")
    assert [table for table in filled if not before[table]] == ["stubs"]
    copy = left_alone(path)
    backend.close()
    for place, snapshot_lines in ((path, NEVER), (copy, NEVER), (path, 1), (path, 1), (copy, 1)):
        backend = opened(place, snapshot_lines)
        assert tables(backend) == before
        assert backend.read([VerifyStore(tenant=T)])[0].ok
        assert Store(backend, clock=CLOCK).admin.verify().ok
        assert backend.health().ok
        backend.close()
    assert (path / "snapshot.jsonl").exists()


def test_a_torn_last_line_takes_only_itself(path: Path) -> None:
    backend = opened(path)
    fill_kept(backend)
    before = tables(backend)
    memory = NewMemory(namespace=NOTES, key="torn", value=b"{}")
    backend.write(PutMemory(tenant=T, memory=memory))
    copy = left_alone(path)
    backend.close()
    file = copy / "store.jsonl"
    file.write_bytes(file.read_bytes()[:-9])
    backend = opened(copy)
    assert tables(backend) == before
    assert any("unfinished" in text for text in backend.health().warnings)
    backend.close()


def test_loose_rows_follow_their_session_and_the_later_line_wins(path: Path) -> None:
    backend = opened(path)
    place: dict[str, Any] = {"tenant": T, "session": "x", "kind": "trace"}
    ref = blob(backend, "b")
    backend.write(AppendEvidence(bodies=(b"1", b"2"), **place))
    put = PutArtifact(tenant=T, owner=Owner("x"), artifact=artifact("early", ref))
    backend.write(put)
    backend.write(CreateSession(tenant=T, session=Session(id="x", tenant=T)))
    backend.write(DeleteEvidence(**place))
    backend.write(AppendEvidence(bodies=(b"3",), **place))
    backend.write(DeleteArtifacts(tenant=T, owner=Owner("x")))
    assert len(lines(journal_of(path, "x"))) == 4, "all but what came before it"
    backend.write(commit("x", "t", state={"v": 1}, traces=(b"4",)))
    for _ in range(2):
        found = backend.read([LoadEvidence(**place), LoadArtifacts(tenant=T, session="x")])
        assert [row.body for row in found[0]] == [b"3", b"4"]
        assert found[1] == []
        backend.write(VacuumSession(tenant=T, session="x"))
        before = tables(backend)
        backend.close()
        backend = opened(path)
        assert tables(backend) == before
    backend.close()


def test_vectors_of_many_sessions_are_one_line(path: Path) -> None:
    backend = opened(path)
    for session in ("a", "b"):
        backend.write(CreateSession(tenant=T, session=Session(id=session, tenant=T)))
    several = tuple(
        NewEmbedding(id=f"e{n}", model="m", vector=vector(n), session=session)
        for n, session in enumerate(("a", "b", None, "nobody"))
    )
    backend.write(PutEmbeddings(tenant=T, embeddings=several))
    assert len(lines(path / "store.jsonl")) == 1
    moved = NewEmbedding(id="e0", model="m", vector=vector(9), session="b")
    backend.write(PutEmbeddings(tenant=T, embeddings=(moved,)))
    before = tables(backend)
    backend.close()
    backend = opened(path)
    assert tables(backend) == before
    assert backend.read([GetEmbedding(tenant=T, id="e0")])[0].session == "b"
    backend.close()


# --- memories of a commit


def remember(turn: str, key: str) -> Any:
    memory = NewMemory(
        namespace=NOTES, key=key, value=b"[1]", ttl_us=10, vector=vector(1), model=""
    )
    return commit("s", turn, state={"t": turn}, memories=(memory,))


def test_a_memory_has_arrived_when_the_commit_is_answered(path: Path) -> None:
    backend = opened(path)
    backend.write(CreateSession(tenant=T, session=Session(id="s", tenant=T)))
    backend.write(remember("t1", "k"))
    asked = GetMemories(tenant=T, names=(MemoryName(NOTES, "k"),))
    assert backend.read([asked])[0][0].value == [1]
    assert backend.stats().counts["outbox"] == 0
    backend.close()


def test_a_memory_that_a_crash_left_on_its_way_arrives_once(path: Path) -> None:
    backend = opened(path)
    backend.write(CreateSession(tenant=T, session=Session(id="s", tenant=T)))
    moment = CLOCK.now_us()
    # The writer alone: as if the process ended right after the line of the commit.
    backend._writer.carry_out(remember("t1", "k"))
    backend._writer.carry_out(remember("t2", "there already"))
    again = remember("t2", "there already").memories[0]
    backend._writer.carry_out(PutMemory(tenant=T, memory=again))
    assert backend.stats().counts["outbox"] == 2
    backend.close()
    CLOCK.advance(60)
    backend = opened(path)
    rows = backend._books.state.memories
    for key in ("k", "there already"):
        row = rows[(T, NOTES, key)]
        assert (row.created_us, row.updated_us, row.expires_us) == (moment, moment, moment + 10)
    assert backend.stats().counts["outbox"] == 0
    assert backend.stats().counts["memories"] == 2
    assert backend.stats().counts["embeddings"] == 2
    backend.close()


# --- damage


def flip(file: Path, part: bytes) -> None:
    data = bytearray(file.read_bytes())
    data[data.index(part) + len(part) // 2] ^= 1
    file.write_bytes(data)


def test_a_flipped_bit_in_the_stores_journal(path: Path) -> None:
    backend = opened(path)
    fill_kept(backend, "marked")
    flip(path / "store.jsonl", b"never finished")
    (defect,) = backend.read([VerifyStore(tenant=T)])[0].defects
    assert (defect.session, defect.kind) == ("", "journal")
    assert "store.jsonl line" in defect.where
    backend.close()
    with pytest.raises(Corrupt, match=r"store\.jsonl"):
        opened(path)


def test_a_row_in_memory_that_the_stores_journal_does_not_make(path: Path) -> None:
    backend = opened(path)
    fill_kept(backend)
    backend._books.state.memories.place(*ROWS["memories"])
    (defect,) = backend.read([VerifyStore(tenant=T)])[0].defects
    assert defect.where == "store.jsonl memories"
    evidence = (T, "s", "trace", 1)
    backend._books.state.evidence.place(evidence, EvidenceRow(1, 0, b"other"))
    defects = Store(backend, clock=CLOCK).admin.verify("s").defects
    assert [one.where.split()[-1] for one in defects if one.kind == "journal"] == ["evidence"]
    backend.close()


def test_a_flipped_bit_in_a_sessions_journal_concerns_only_what_it_holds(path: Path) -> None:
    backend = opened(path)
    fill_kept(backend, "marked")
    backend.write(commit("s", "t9", state={"v": 1}))
    copy = left_alone(path)
    backend.close()
    flip(journal_of(copy, "s"), b'"t":"marked"')
    backend = opened(copy)
    refused: list[Any] = [
        LoadEvidence(tenant=T, session="s", kind="trace"),
        ListArtifacts(tenant=T, owner=Owner("s")),
        GetArtifact(tenant=T, id="of None"),
        ListUnreferenced(tenant=T, before_us=1 << 60),
    ]
    for query in refused:
        with pytest.raises(Corrupt, match="sessions/"):
            backend.read([query])
    ref = blob(backend, "more")
    put = PutArtifact(tenant=T, owner=Owner("loose"), artifact=artifact("new", ref))
    backend.write(put)
    backend.write(PutMemory(tenant=T, memory=NewMemory(namespace=NOTES, key="k", value=b"1")))
    assert backend.read([GetBlob(tenant=T, ref=ref)])[0] is not None
    assert backend.read([LoadEvidence(tenant=T, session="later", kind="trace")])[0]
    embeddings = (NewEmbedding(id="n", model="m", vector=vector(1, 1, 1), session="s"),)
    with pytest.raises(Corrupt):
        backend.write(PutEmbeddings(tenant=T, embeddings=embeddings))
    backend.close()


# --- bytes


def test_bytes_lie_in_a_folder_beside_the_journals(path: Path) -> None:
    backend = opened(path)
    folder = backend.capabilities.bytes_folder
    assert folder == str(path.resolve() / "blobs")
    assert not Path(folder).exists(), "whoever puts the first bytes makes it"
    backend.write(BeginUpload(tenant=T, key="k", place="database"))
    with pytest.raises(NotSupported, match="blobs="):
        backend.write(PutChunk(tenant=T, key="k", n=0, data=b"x"))
    Path(folder).mkdir()
    (Path(folder) / "some.tmp").write_bytes(b"x")
    backend.close()
    backend = opened(path)
    assert backend.health().ok
    backend.close()
    assert (Path(folder) / "some.tmp").read_bytes() == b"x"
