"""Bytes, evidence, usage and memory in journals: every row comes back, in every way of opening."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
import pytest
from msgspec.structs import replace

from ledgerstone import Store
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
from ledgerstone.commands.evidence import AppendEvidence, DeleteEvidence, LoadEvidence
from ledgerstone.commands.memories import GetMemories, MemoryName, NewMemory, PutMemory
from ledgerstone.commands.nodes import VacuumSession
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.engines.file.codec import put_of, rows_in
from ledgerstone.engines.file.homes import LOOSE, SHARED
from ledgerstone.engines.file.lines import Line, decode_line, encode_line
from ledgerstone.engines.memory.rows import Change
from ledgerstone.errors import Corrupt, NotSupported
from ledgerstone.records.sessions import Session
from ledgerstone.tables.blobs import CHUNKS
from ledgerstone.tables.evidence import EVIDENCE, EvidenceRow
from ledgerstone.tables.memories import MEMORIES, MemoryRow
from ledgerstone.tables.runs import KEPT_RUNS
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.sessions import STUBS
from ledgerstone.tables.table import Table
from ledgerstone.tables.usage import CALL_SUMS, USAGE_DAYS
from tests.backends.journals import NEVER, journal_of, lines
from tests.backends.kept_rows import NOTES, T, artifact, blob, commit, fill_kept, vector
from tests.backends.places import quick_disk

CLOCK = ManualClock()


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with quick_disk(tmp_path) as folder:
        yield folder / "store"


def opened(path: Path, snapshot_lines: int = NEVER) -> FileBackend:
    return open_file(str(path), clock=CLOCK, snapshot_lines=snapshot_lines)


def tables(backend: FileBackend) -> dict[Table[Any], dict[Any, Any]]:
    """Every row there is, of every table."""
    found = {table: dict(rows) for table, rows in backend._books.rows.tables.items()}
    assert not found[CHUNKS]
    return found


def left_alone(path: Path) -> Path:
    """The directory as a crash would leave it now."""
    copy = path.with_name(path.name + ".copy")
    shutil.copytree(path, copy)
    return copy


BYTES = (b"", b"\x00\xff", b'{"a":[1,"\xc3\xa9"]}', b" 1", b"1\n", b"null", b'"\xed\xa0\x80"')


def example(table: Table[Any], n: int) -> Any:
    """A row none of whose columns is at its default, so one that nobody writes would be missed."""
    fields: dict[str, Any] = {}
    for at, (name, kind) in enumerate(table.types.items()):
        hint = get_type_hints(table.row)[name]
        words = [word for one in (hint, *get_args(hint)) for word in get_args(one)]
        word = next((word for word in words if isinstance(word, str)), f"{name} \u2028 {n}")
        fields[name] = {"integer": (1 << 62) + at + n, "blob": BYTES[n], "text": word}[kind]
    return table.row(**fields)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_column_comes_back(table: Table[Any]) -> None:
    """As it was, and none where there was none."""
    rows = [example(table, n) for n in range(len(BYTES))]
    for field in msgspec.structs.fields(table.row):
        assert all(getattr(row, field.name) != field.default for row in rows), field.name
    hints = get_type_hints(table.row)
    nothing = {name: None for name, hint in hints.items() if type(None) in get_args(hint)}
    rows.append(replace(rows[-1], **nothing))
    line = Line(pos=1, n=1, at="", do="", prev="", put=put_of((table, row) for row in rows))
    data, _ = encode_line(line)
    assert data.count(b"\n") == 1
    json.loads(data, parse_int=str)
    again = list(rows_in(decode_line(data.rstrip(b"\n")).put))
    assert again == [(table, table.key_of(row), row) for row in rows]


def test_every_row_is_there_after_a_closing_and_after_a_crash(path: Path) -> None:
    backend = opened(path)
    fill_kept(backend)
    before = tables(backend)
    filled = (*LOOSE, *SHARED, USAGE_DAYS, CALL_SUMS)
    assert [table for table in filled if not before[table]] == [KEPT_RUNS, CHUNKS, STUBS]
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


def test_a_memory_of_a_commit_is_in_its_line(path: Path) -> None:
    backend = opened(path)
    backend.write(CreateSession(tenant=T, session=Session(id="s", tenant=T)))
    memory = NewMemory(
        namespace=NOTES, key="k", value=b"[1]", ttl_us=10, vector=vector(1), model=""
    )
    backend.write(commit("s", "t1", state={"t": 1}, memories=(memory,)))
    assert len(lines(path / "store.jsonl")) == 1
    asked = GetMemories(tenant=T, names=(MemoryName(NOTES, "k"),))
    before = tables(backend)
    copy = left_alone(path)
    backend.close()
    for place in (path, copy):
        backend = opened(place)
        assert backend.read([asked])[0][0].value == [1]
        assert tables(backend) == before
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
    rows = backend._books.rows
    rows.place(
        [Change(MEMORIES, (T, NOTES, "new"), MemoryRow(T, NOTES, "new", b"1", None, 1, 1, None))]
    )
    (defect,) = backend.read([VerifyStore(tenant=T)])[0].defects
    assert defect.where == "store.jsonl memories"
    evidence = (T, "s", "trace", 1)
    rows.place([Change(EVIDENCE, evidence, EvidenceRow(*evidence, 0, b"other"))])
    defects = Store(backend, clock=CLOCK).admin.verify("s").defects
    assert [one.where.split()[-1] for one in defects if one.kind == "journal"] == ["evidence"]
    backend.close()


def test_a_flipped_bit_in_a_sessions_journal_concerns_only_what_it_holds(path: Path) -> None:
    backend = opened(path)
    fill_kept(backend, "marked")
    backend.write(commit("s", "t9", state={"v": 1}))
    copy = left_alone(path)
    backend.close()
    flip(journal_of(copy, "s"), b'"said":"marked"')
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
