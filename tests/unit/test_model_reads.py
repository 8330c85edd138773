"""What is read of the graph in the model: messages, nodes, notes, drafts, branches."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.codec import encode_json
from ledgerstone.commands.nodes import (
    AnnotateNodes,
    CountMessages,
    DiffBranches,
    DropNotes,
    FindNodes,
    GetMessage,
    GetNode,
    GetNotes,
    GetValues,
    GetVersions,
    ListBranches,
    ListDrafts,
    ListMessages,
    ListNodes,
    NewNote,
    ReadMessages,
    ReadPath,
    ReadRange,
)
from ledgerstone.commands.sessions import DeleteSession
from ledgerstone.commands.turns import BranchMove, Rewind
from ledgerstone.errors import BranchNotFound, InvalidValue, SessionDeleted, SessionNotFound
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.records.nodes import Branch, Node, Note, Opaque
from ledgerstone.records.sessions import Page
from tests.unit.test_model_builders import START_US, Bench, S, T, event, said, value


def forked() -> Bench:
    """main: a e b c; side: a e d; c's neighbour b is tombstoned."""
    bench = Bench(S)
    bench.commit("t1", said("a"), event("e"), said("b", run_id="r1"), said("c", run_id="r1"))
    bench.commit("t2", branches=(BranchMove("side", to="e", create=True),))
    bench.commit("t3", said("d", run_id="r1"), branch="side")
    bench.commit("t4", tombstones=("b",))
    return bench


def test_messages_of_a_path() -> None:
    bench = forked()
    assert bench.texts() == ["a", "c"]
    assert bench.texts(deleted=True) == ["a", "b", "c"]
    assert bench.texts(branch="side") == ["a", "d"]
    assert bench.texts(at="d") == ["a", "d"]
    assert bench.texts(at="e") == ["a"]
    assert bench.texts(last=1) == ["c"]
    assert bench.texts(last=9) == ["a", "c"]
    assert bench.texts(first=1) == ["a"]
    assert bench.texts(after_seq=1) == ["c"]
    assert bench.texts(after_seq=1, last=1, deleted=True) == ["c"]
    assert bench.texts(after_seq=1, first=1, deleted=True) == ["b"]
    for nowhere in ({"branch": "x"}, {"at": "x"}, {"session": "x"}):
        assert bench.texts(**nowhere) == []
    message = bench.read(ReadMessages(tenant=T, session=S, last=1))[0]
    assert (message.session, message.ord, message.seq, message.parent) == (S, 4, 4, "b")


def test_counting_messages() -> None:
    bench = forked()
    assert bench.read(CountMessages(tenant=T, session=S)) == 2
    assert bench.read(CountMessages(tenant=T, session=S, branch="side")) == 2
    assert bench.read(CountMessages(tenant=T, session="x")) == 0
    assert bench.read(CountMessages(tenant=T, session=S, branch="x")) == 0


def test_pages_of_messages() -> None:
    bench = Bench(S)
    for n in range(5):
        bench.commit(f"t{n}", said(f"n{n}"))

    def page(**fields: Any) -> tuple[list[str], bool]:
        found = bench.read(ListMessages(tenant=T, session=S, **fields))
        return [message.id for message in found], found.has_more

    assert page(limit=2) == (["n0", "n1"], True)
    assert page(limit=2, offset=3) == (["n3", "n4"], False)
    assert page(offset=9) == ([], False)
    assert page(limit=2, after=(2, 2)) == (["n2", "n3"], True)
    assert page(limit=2, newest_first=True) == (["n4", "n3"], True)
    assert page(newest_first=True, after=(2, 2)) == (["n0"], False)
    bench.commit("t9", said("new"), rewind=Rewind(to="n1"))
    assert page(after=(3, 3)) == ([], False), "a path goes on at the next position"
    assert page(after=(2, 2)) == (["new"], False)
    bench.commit("t10", rewind=Rewind(to="n4"))
    counted = bench.read(ListMessages(tenant=T, session=S, limit=1, after=(2, 2), total=True))
    assert counted.total == 5
    assert bench.read(ListMessages(tenant=T, session="x", total=True)) == Page([], total=0)


def test_what_one_run_wrote_is_in_commit_order() -> None:
    bench = forked()

    def ids(**fields: Any) -> list[str]:
        query = ListMessages(tenant=T, session=S, run_id="r1", **fields)
        return [message.id for message in bench.read(query)]

    assert ids() == ["c", "d"]
    assert ids(deleted=True) == ["b", "c", "d"]
    assert ids(deleted=True, newest_first=True, after=(4, 4)) == ["b"]


def test_a_range_of_positions_is_inclusive() -> None:
    bench = forked()

    def ids(first: int, last: int) -> list[str]:
        query = ReadRange(tenant=T, session=S, first=first, last=last)
        return [message.id for message in bench.read(query)]

    assert ids(1, 4) == ["a", "c"]
    assert ids(2, 3) == []
    assert ids(4, 99) == ["c"]
    assert bench.read(ReadRange(tenant=T, session="x", first=1, last=2)) == []


def test_a_message_by_id_with_and_without_its_session() -> None:
    bench = Bench(S, "s0")
    bench.commit("t1", said("a", "newer", created_us=9), event("e"))
    bench.commit("t1", said("a", "older", created_us=8), session="s0")
    assert bench.read(GetMessage(tenant=T, id="a")).text == "older"
    assert bench.read(GetMessage(tenant=T, id="a", session=S)).text == "newer"
    for unknown in (
        {"id": "e"},
        {"id": "x"},
        {"id": "e", "session": S},
        {"id": "a", "session": "x"},
    ):
        assert bench.read(GetMessage(tenant=T, **unknown)) is None
    assert bench.read(GetMessage(tenant="other", id="a")) is None
    done = bench.commit("t2", tombstones=("a",))
    assert bench.read(GetMessage(tenant=T, id="a", session=S)).deleted_us == done.created_us
    assert bench.read(GetVersions(tenant=T, session=S, id="x")) == []


def test_a_node_with_its_notes_and_values() -> None:
    bench = Bench(S)
    kept = value(b"v")
    node = event("e", {"k": 1}, meta=b'{"m":1}', label="l", run_id="r", refs=(kept.digest,))
    foreign = event("f", format="pickle", parent=None)
    bench.commit("t1", node, foreign, values=(kept,), notes=(NewNote("e", "n", b"1"),))
    at = START_US + 1
    assert bench.read(GetNode(tenant=T, session=S, id="e", notes=True, resolve=True)) == Node(
        id="e",
        kind="event",
        body={"k": 1},
        session=S,
        ord=1,
        seq=1,
        parent=None,
        label="l",
        run_id="r",
        meta={"m": 1},
        values=(kept.digest,),
        created_us=at,
        notes={"n": Note("e", "n", 1, at)},
        resolved={kept.digest: b"v"},
    )
    plain = bench.read(GetNode(tenant=T, session=S, id="f"))
    assert (plain.body, plain.notes, plain.resolved) == (Opaque("pickle", b"null"), None, None)
    bench.commit("t2", tombstones=("e",))
    for session, unknown in ((S, "e"), (S, "x"), ("x", "e")):
        assert bench.read(GetNode(tenant=T, session=session, id=unknown)) is None
    assert bench.read(GetValues(tenant=T, session="x", digests=(kept.digest,))) == {}


def test_nodes_across_sessions_by_id_or_commit_order() -> None:
    bench = Bench("s1", "s2")
    bench.commit("t1", event("b"), event("a"), session="s2")
    bench.commit("t1", event("a"), event("c", meta=b'{"x":{"y":1}}', label="l"), said("m"))

    def ids(**fields: Any) -> list[tuple[str, str]]:
        return [(n.id, n.session) for n in bench.read(ListNodes(tenant=T, **fields))]

    by_id = [("a", "s1"), ("a", "s2"), ("b", "s2"), ("c", "s1"), ("m", "s1")]
    assert ids(order="id") == by_id
    assert ids(order="-id") == by_id[::-1]
    by_ord = [("a", "s1"), ("c", "s1"), ("m", "s1"), ("b", "s2"), ("a", "s2")]
    assert ids() == by_ord
    assert ids(order="-ord") == by_ord[::-1]
    assert ids(order="id", after=("a", "s1", 1), limit=2) == by_id[1:3]
    assert ids(order="-id", after=("b", "s2", 1)) == [("a", "s2"), ("a", "s1")]
    assert ids(after=("m", "s1", 3)) == by_ord[3:]
    assert ids(session="s2") == [("b", "s2"), ("a", "s2")]
    assert ids(session="s2", order="-id", after=("b", "s9", 9)) == [("a", "s2")]
    assert ids(session="s2", order="-id", before_id="b") == [("a", "s2")]
    assert ids(kind="message") == [("m", "s1")]
    assert ids(label="l") == [("c", "s1")] == ids(meta_contains={"x": {"y": 1}})
    assert ids(run_id="r") == [] == ids(session="x")
    with pytest.raises(InvalidValue):
        ids(order="time")
    assert [n.session for n in bench.read(FindNodes(tenant=T, id="a"))] == ["s1", "s2"]
    bench.commit("t2", tombstones=("a",))
    assert [n.session for n in bench.read(FindNodes(tenant=T, id="a"))] == ["s2"]
    assert ids(order="id")[0] == ("a", "s2")


def test_a_path_of_nodes() -> None:
    bench = forked()

    def ids(**fields: Any) -> list[str]:
        return [node.id for node in bench.read(ReadPath(tenant=T, session=S, **fields))]

    assert ids() == ["a", "e", "c"]
    assert ids(branch="side") == ["a", "e", "d"]
    assert ids(at="e") == ["a", "e"]
    assert ids(kind="message") == ["a", "c"]
    assert ids(kind="message", last=1) == ["c"]
    assert ids(kind="event", last=1) == ["e"]
    assert ids(last=2) == ["e", "c"]
    assert ids(branch="x") == [] == ids(at="x")
    assert bench.read(ReadPath(tenant=T, session="x")) == []


def test_branches_stand_at_their_effective_leaf() -> None:
    bench = forked()
    side = Branch("side", "d", 3)
    assert bench.read(ListBranches(tenant=T, session=S)) == [Branch("main", "c", 4), side]
    assert bench.head().branches == [side]
    bench.commit("t5", tombstones=("c", "d"), branches=(BranchMove("new", create=True),))
    assert bench.read(ListBranches(tenant=T, session=S)) == [
        Branch("main", "e", 2),
        Branch("new", None, 0),
        Branch("side", "e", 2),
    ]
    assert bench.read(ListBranches(tenant=T, session="x")) == []


def test_two_branches_compared() -> None:
    bench = forked()

    def diff(a: str, b: str) -> tuple[str | None, list[str], list[str]]:
        found = bench.read(DiffBranches(tenant=T, session=S, a=a, b=b))
        return found.common, [n.id for n in found.only_a], [n.id for n in found.only_b]

    assert diff("main", "side") == ("e", ["c"], ["d"])
    assert diff("side", "main") == ("e", ["d"], ["c"])
    assert diff("side", "side") == ("d", [], [])
    bench.commit("t5", said("r", parent=None))
    assert diff("main", "side") == (None, ["r"], ["a", "e", "d"])
    with pytest.raises(BranchNotFound):
        diff("main", "x")
    with pytest.raises(SessionNotFound):
        bench.read(DiffBranches(tenant=T, session="x", a="main", b="main"))


def test_notes_are_kept_or_replaced_and_need_no_node() -> None:
    bench = Bench(S)
    kept = value(b"v")

    def annotate(body: bytes, mode: str) -> int:
        notes = (NewNote("n", "k", body, refs=(kept.digest,)), NewNote("n", "j" + mode, b"0"))
        command = AnnotateNodes(tenant=T, session=S, notes=notes, values=(kept,), mode=mode)
        count: int = bench.write(command)
        return count

    assert annotate(b"1", "keep") == 2
    assert annotate(b"2", "keep") == 0
    notes = bench.read(GetNotes(tenant=T, session=S, nodes=("n",)))
    assert notes == {
        "n": {
            "jkeep": Note("n", "jkeep", 0, START_US),
            "k": Note("n", "k", 1, START_US, (kept.digest,)),
        }
    }
    assert list(notes["n"]) == ["jkeep", "k"]
    bench.clock.advance(1)
    assert annotate(b"3", "replace") == 2
    note = bench.read(GetNotes(tenant=T, session=S, nodes=("n",), prefix="k"))["n"]["k"]
    assert (note.body, note.created_us) == (3, START_US + 1_000_000)
    with pytest.raises(InvalidValue):
        annotate(b"4", "other")
    assert bench.write(DropNotes(tenant=T, session=S, node="n", prefix="j")) == 2
    assert bench.write(DropNotes(tenant=T, session="x", node="n", prefix="")) == 0
    assert bench.read(GetNotes(tenant=T, session="x", nodes=("n",))) == {}
    with pytest.raises(SessionNotFound):
        bench.write(AnnotateNodes(tenant=T, session="x", notes=()))
    bench.write(DeleteSession(tenant=T, id=S))
    with pytest.raises(SessionDeleted):
        annotate(b"5", "keep")


def test_drafts_are_read_from_their_notes() -> None:
    bench = Bench(S)

    def chunk(node: str, key: str, body: Any) -> None:
        note = NewNote(node, f"ledger.draft/{key}", encode_json(body, "body"))
        bench.write(AnnotateNodes(tenant=T, session=S, notes=(note,)))
        bench.clock.advance(1)

    chunk("d2", "start", {"role": "assistant", "owner": "w", "fields": {"model": "m"}})
    chunk("d2", "00000001", "Hel")
    chunk("d1", "00000001", "no start")
    chunk("d2", "00000002", "lo")
    bench.write(AnnotateNodes(tenant=T, session=S, notes=(NewNote("d3", "other", b"1"),)))
    second = 1_000_000
    assert bench.read(ListDrafts(tenant=T, session=S)) == [
        DraftRecord(
            session=S,
            id="d2",
            text="Hello",
            owner="w",
            fields={"model": "m"},
            chunks=2,
            created_us=START_US,
            updated_us=START_US + 3 * second,
        ),
        DraftRecord(
            session=S,
            id="d1",
            text="no start",
            chunks=1,
            created_us=START_US + 2 * second,
            updated_us=START_US + 2 * second,
        ),
    ]
    assert bench.read(ListDrafts(tenant=T, session="x")) == []


def test_a_rewound_path_is_read_through_its_new_leaf() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"))
    bench.commit("t2", said("c"), rewind=Rewind(to="a"))
    assert bench.texts() == ["a", "c"]
    assert bench.texts(at="b") == ["a", "b"]
