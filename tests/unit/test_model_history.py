"""Copies, vacuum, time travel and verify in the model."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest

from ledgerstone.codec import decode_json
from ledgerstone.commands.nodes import (
    AnnotateNodes,
    GetMessage,
    GetNotes,
    GetValues,
    GetVersions,
    NewNote,
    VacuumSession,
)
from ledgerstone.commands.runs import LatestRun
from ledgerstone.commands.sessions import (
    CopySession,
    CreateSession,
    DeleteSession,
    GetDocument,
    PurgeSession,
    ReadSessionAt,
)
from ledgerstone.commands.turns import (
    Amendment,
    BranchMove,
    GetTurn,
    ListTurns,
    NewCheckpoint,
    Rewind,
)
from ledgerstone.errors import (
    AlreadyExists,
    BranchNotFound,
    Corrupt,
    InvalidValue,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.records.reports import Vacuumed, Verified
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session, SessionView
from ledgerstone.records.turns import Checkpoint
from ledgerstone.records.usage import Usage, UsageEntry
from ledgerstone.rules.chain import frame
from tests.unit.test_model_builders import START_US, Bench, S, T, event, said, value

TOOLS = value(b"tools")
MANIFEST = Checkpoint(tool_state=TOOLS.digest)
DATA = msgspec.json.encode(MANIFEST)
GIVEN = NewCheckpoint(sha256(DATA).hexdigest(), MANIFEST, DATA)


def rich() -> Bench:
    """A session with branches, tombstones, amendments, notes, drafts and documents."""
    bench = Bench(S)
    bench.commit("t1", said("a"), event("e"), said("b"), said("c"), values=(TOOLS,))
    bench.commit("t2", branches=(BranchMove("side", to="b", create=True),), config=b"{}")
    bench.commit("t3", tombstones=("e",), state={"k": 1}, frames=b'{"frames":[]}')
    for n, patch in enumerate((b'{"metadata":{"v":1}}', b'{"is_summary":true}')):
        bench.commit(f"amend{n}", amendments=(Amendment("b", patch, b"salt"),))
    bench.commit("t4", said("d"), branch="side", checkpoint=GIVEN, run=Run(id="r", session=S))
    bench.commit("t5", usage=(UsageEntry("m", Usage(1, 1)),))
    notes = (NewNote("a", "k", b"1"), NewNote("z", "ledger.draft/00000001", b'"x"'))
    bench.write(AnnotateNodes(tenant=T, session=S, notes=notes))
    return bench


def copy(whole: bool, target: str = "s2", **fields: Any) -> CopySession:
    fields = {"source": S, "turn": "made", **fields}
    return CopySession(tenant=T, target=Session(id=target, title="t"), whole=whole, **fields)


def effects(bench: Bench, session_number: int) -> Any:
    data = bench.model.state.turns[(session_number, 1)].effects
    return None if data is None else decode_json(data)


def test_a_fork_is_one_live_path_renumbered() -> None:
    bench = rich()
    source = bench.head()
    bench.clock.advance(1)
    made = bench.write(copy(whole=False, branch="side"))
    assert (made.id, made.title, made.incarnation) == ("s2", "t", 1)
    assert bench.texts("s2") == ["a", "b", "d"]
    head = bench.head("s2")
    assert (head.revision, head.leaf, head.seq, head.nodes, head.messages) == (1, "d", 3, 3, 3)
    assert (head.ledger, head.branches, head.checkpoint, head.fence) == ([], [], None, 0)
    row = bench.model.state.heads[(2,)]
    assert (row.branched, row.ord, row.amended, row.first_user) == (0, 3, 1, 1)
    message = bench.read(GetMessage(tenant=T, session="s2", id="b"))
    assert (message.version, message.metadata, message.body.is_summary) == (1, {"v": 1}, True)
    assert (message.ord, message.seq, message.parent) == (2, 2, "a")
    assert bench.read(GetDocument(tenant=T, session="s2", name="state")) == b'{"k":1}'
    assert bench.read(GetDocument(tenant=T, session="s2", name="config")) == b"{}"
    assert bench.read(GetDocument(tenant=T, session="s2", name="frames")) is None
    assert bench.read(GetNotes(tenant=T, session="s2", nodes=("a",))) == {}
    digests = (TOOLS.digest, GIVEN.ref)
    assert len(bench.read(GetValues(tenant=T, session="s2", digests=digests))) == 2
    assert bench.read(LatestRun(tenant=T, session="s2")) is None
    [info] = bench.read(ListTurns(tenant=T, session="s2"))
    assert (info.turn, info.kind, info.nodes) == ("made", "fork", 3)
    assert info.hash == sha256(frame(S, bytes.fromhex(source.link))).hexdigest()
    assert effects(bench, 2)["source"] == [S, 1, source.revision, source.link]
    assert [entry[:2] for entry in effects(bench, 2)["amend"]] == [[2, 1]]
    assert bench.verify("s2").ok


def test_a_fork_at_a_node_and_what_it_refuses() -> None:
    bench = rich()
    bench.write(copy(whole=False, at="b"))
    assert bench.texts("s2") == ["a", "b"]
    for at in ("x", "e"):
        with pytest.raises(InvalidValue) as refused:
            bench.write(copy(whole=False, target="s3", at=at))
        assert refused.value.field == "at"
    with pytest.raises(BranchNotFound):
        bench.write(copy(whole=False, target="s3", branch="x"))
    with pytest.raises(AlreadyExists):
        bench.write(copy(whole=False))
    with pytest.raises(SessionNotFound):
        bench.write(copy(whole=True, target="s3", source="x"))
    bench.write(DeleteSession(tenant=T, id=S))
    with pytest.raises(SessionDeleted):
        bench.write(copy(whole=True, target="s3"))
    assert len(bench.model.state.sessions) == 2


def test_a_copy_is_everything_as_it_is() -> None:
    bench = rich()
    bench.write(copy(whole=True))
    assert bench.texts("s2") == bench.texts() == ["a", "b", "c"]
    assert bench.texts("s2", branch="side") == ["a", "b", "d"]
    old, new = bench.head(), bench.head("s2")
    for name in ("leaf", "effective_leaf", "seq", "messages", "nodes", "branches", "checkpoint"):
        assert getattr(new, name) == getattr(old, name)
    assert (new.revision, new.ledger, new.config) == (1, [], {})
    assert list(bench.read(GetNotes(tenant=T, session="s2", nodes=("a", "z")))) == ["a"]
    assert len(bench.read(GetVersions(tenant=T, session="s2", id="b"))) == 3
    assert bench.model.state.nodes[(2, 2)].deleted_rev == 0
    assert [entry[:2] for entry in effects(bench, 2)["amend"]] == [[3, 1], [3, 2]]
    view = bench.read(ReadSessionAt(tenant=T, session="s2", revision=1))
    assert ([m.id for m in view.messages], view.state) == (["a", "b", "c"], {})
    answer = bench.read(GetTurn(tenant=T, session="s2", turn="made"))
    assert (answer.leaf, len(answer.placed)) == ("c", 5)
    bench.commit("t9", said("f"), session="s2")
    assert bench.texts("s2") == ["a", "b", "c", "f"]
    assert bench.texts() == ["a", "b", "c"]
    assert bench.verify("s2").ok


def test_a_copy_goes_on_from_a_stub() -> None:
    bench = rich()
    bench.write(CreateSession(tenant=T, session=Session(id="s2")))
    bench.write(PurgeSession(tenant=T, id="s2"))
    assert bench.write(copy(whole=True)).incarnation == 2


def vacuum(bench: Bench, **fields: Any) -> Vacuumed:
    done: Vacuumed = bench.write(VacuumSession(tenant=T, session=S, **fields))
    return done


def test_vacuum_erases_tombstoned_bodies_once() -> None:
    bench = rich()
    bench.commit("t6", tombstones=("b",))
    before = bench.model.state.nodes[(1, 3)]
    size = len(before.body or b"") + len(bench.model.state.nodes[(1, 2)].body or b"")
    snapshot = bench.snapshot()
    assert vacuum(bench, dry_run=True) == Vacuumed(nodes=2, freed_bytes=size, dry_run=True)
    assert bench.snapshot() == snapshot
    assert vacuum(bench, before_us=START_US) == Vacuumed()
    assert vacuum(bench, before_us=before.deleted_us) == Vacuumed(nodes=2, freed_bytes=size)
    stub = bench.model.state.nodes[(1, 3)]
    assert stub.committed() == before.committed() == stub.commitment
    assert (stub.id, stub.parent, stub.seq) == ("b", 2, 3)
    assert (stub.body, stub.salt, stub.role, stub.kind, stub.refs) == (None, None, None, "", "")
    assert bench.model.state.amendments[(1, 3, 2)].patch is None
    assert bench.read(GetMessage(tenant=T, session=S, id="b")) is None
    assert bench.texts(deleted=True) == ["a", "c"]
    assert vacuum(bench) == Vacuumed()
    assert bench.write(VacuumSession(tenant=T, session="x")) == Vacuumed()
    with pytest.raises(AlreadyExists):
        bench.commit("t7", said("b"), kind="append")
    assert bench.verify().ok


def test_vacuum_of_unreachable_nodes() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"), said("x", parent="a", on_path=False, created_us=5))
    bench.commit("t2", branches=(BranchMove("side", to="b", create=True),))
    bench.commit("t3", said("c"), rewind=Rewind(to="a"))
    assert vacuum(bench) == Vacuumed()
    assert vacuum(bench, unreachable=True, before_us=4).nodes == 0
    assert vacuum(bench, unreachable=True, before_us=5).nodes == 1
    bench.commit("t4", branches=(BranchMove("side", delete=True),))
    assert vacuum(bench, unreachable=True, dry_run=True).nodes == 1
    assert vacuum(bench, unreachable=True).nodes == 1
    assert (bench.head().nodes, bench.texts()) == (2, ["a", "c"])
    row = bench.model.state.nodes[(1, 2)]
    assert (row.deleted_us, row.deleted_rev) == (START_US, 4)
    assert bench.verify().ok


def test_vacuum_of_notes_and_values() -> None:
    bench = Bench(S)
    kept, noted, lost = value(b"kept"), value(b"noted"), value(b"lost")
    bench.commit(
        "t1",
        said("a", refs=(kept.digest,)),
        said("b", refs=(lost.digest,)),
        values=(kept, noted, lost, TOOLS),
        notes=(NewNote("a", "k", b"1", refs=(noted.digest,)), NewNote("z", "k", b"1")),
        checkpoint=GIVEN,
    )
    bench.commit("t2", tombstones=("b",))
    assert vacuum(bench, dry_run=True, notes_before_us=START_US).notes == 0
    done = vacuum(bench, notes_before_us=START_US + 1)
    assert (done.nodes, done.notes, done.values) == (1, 1, 1)
    digests = (kept.digest, noted.digest, lost.digest, TOOLS.digest, GIVEN.ref)
    assert set(bench.read(GetValues(tenant=T, session=S, digests=digests))) == set(digests) - {
        lost.digest
    }
    assert bench.verify().ok


def test_vacuum_stops_at_an_unreadable_manifest() -> None:
    bench = Bench(S)
    bench.commit("t1", checkpoint=NewCheckpoint("f" * 64, MANIFEST, b"{"))
    before = bench.snapshot()
    with pytest.raises(Corrupt):
        vacuum(bench)
    assert bench.snapshot() == before


def at(bench: Bench, revision: int) -> SessionView:
    view: SessionView | None = bench.read(ReadSessionAt(tenant=T, session=S, revision=revision))
    assert view is not None
    return view


def test_time_travel_shows_path_amendments_and_state_of_then() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"), state={"x": 1})
    bench.commit("t2", amendments=(Amendment("b", b'{"is_summary":true}', b"s"),))
    bench.commit("t3", said("c"), rewind=Rewind(to="a", supersede=True), state={"x": None, "y": 2})
    last = bench.commit("t4", tombstones=("c",))
    views = [at(bench, revision) for revision in (1, 2, 3, 4)]
    assert [[m.id for m in view.messages] for view in views] == [
        ["a", "b"],
        ["a", "b"],
        ["a", "c"],
        ["a"],
    ]
    assert [view.leaf for view in views] == ["b", "b", "c", "a"]
    assert [view.messages[-1].body.is_summary for view in views[:2]] == [False, True]
    assert [view.messages[-1].version for view in views[:2]] == [0, 1]
    assert [view.state for view in views] == [{"x": 1}, {"x": 1}, {"y": 2}, {"y": 2}]
    assert views[3].created_us == last.created_us
    assert all(view.complete and m.deleted_us is None for view in views for m in view.messages)
    for revision in (0, 5, -1):
        assert bench.read(ReadSessionAt(tenant=T, session=S, revision=revision)) is None
    assert bench.read(ReadSessionAt(tenant=T, session="x", revision=1)) is None
    vacuum(bench)
    assert [at(bench, revision).complete for revision in (1, 2, 3, 4)] == [
        False,
        False,
        False,
        True,
    ]
    assert [m.id for m in at(bench, 1).messages] == ["a"]
    assert at(bench, 1).leaf == "b"


def test_verify_counts_what_it_checked() -> None:
    bench = rich()
    assert bench.verify() == Verified(sessions=1, turns=7, nodes=5, values=2)
    assert bench.verify("x") == Verified()


def damage(bench: Bench, table: str, key: tuple[Any, ...], **changes: Any) -> set[str]:
    """Change a row behind the model's back; answers the kinds of defects that verify names."""
    rows = bench.model.state.tables()[table]
    bench.model.state.begin()
    if changes:
        rows.update(key, msgspec.structs.replace(rows[key], **changes))
    else:
        rows.delete(key)
    kinds = {defect.kind for defect in bench.verify().defects}
    bench.model.state.rollback()
    assert bench.verify().ok
    return kinds


def test_verify_names_every_kind_of_damage() -> None:
    bench = rich()
    kept = value(b"kept")
    bench.commit("t6", said("f", refs=(kept.digest,)), values=(kept,))
    assert damage(bench, "nodes", (1, 1), body=b'{"role":"user"}') == {"link"}
    assert damage(bench, "nodes", (1, 1), body=b"{") == {"link", "body"}
    assert damage(bench, "nodes", (1, 3), parent=9) == {"link", "parent", "count"}
    assert damage(bench, "nodes", (1, 3), seq=9) == {"seq"}
    assert damage(bench, "turns", (1, 2), effects=None) == {"link"}
    assert damage(bench, "turns", (1, 7)) >= {"link"}
    assert damage(bench, "turns", (1, 8)) == {"head"}
    assert damage(bench, "heads", (1,), link=bytes(32)) == {"head"}
    assert damage(bench, "heads", (1,), leaf=99) >= {"leaf"}
    assert damage(bench, "heads", (1,), tip=1) == {"leaf"}
    assert damage(bench, "heads", (1,), messages=7, live=0, named=4) == {"count"}
    assert damage(bench, "amendments", (1, 3, 2), patch=b"{}") == {"hash"}
    assert damage(bench, "amendments", (1, 3, 2)) == {"hash", "count"}
    assert damage(bench, "values", (1, kept.digest)) == {"reference"}
    assert damage(bench, "values", (1, GIVEN.ref)) == {"reference"}
    bench.model.state.begin()
    bench.model.state.values.update((1, kept.digest), b"changed")
    assert {defect.kind for defect in bench.verify().defects} == {"value"}
