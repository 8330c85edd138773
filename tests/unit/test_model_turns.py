"""CommitTurn in the model: the order of checks, every step, replays, and no trace of a failure."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest

from ledgerstone.codec import decode_json
from ledgerstone.commands import Guard
from ledgerstone.commands.leases import GetLease
from ledgerstone.commands.nodes import (
    GetMessage,
    GetVersions,
)
from ledgerstone.commands.sessions import (
    DeleteSession,
    GetHead,
    GetSession,
    PurgeSession,
)
from ledgerstone.commands.turns import (
    Amendment,
    BranchMove,
    GetTurn,
    ListTurns,
    NewCheckpoint,
    Rewind,
)
from ledgerstone.commands.work import ListWork
from ledgerstone.errors import (
    AlreadyExists,
    BranchNotFound,
    ClaimLost,
    Fenced,
    IllegalTransition,
    InvalidValue,
    LeafMoved,
    LeaseExpired,
    LeaseHeld,
    MessageNotFound,
    RevisionMoved,
    SessionDeleted,
    SessionNotFound,
    SessionRetired,
    TurnConflict,
)
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import Checkpoint, Placed, TurnCommitted
from ledgerstone.rules import chain
from tests.unit.test_model_builders import (
    START_US,
    Bench,
    S,
    T,
    claim_work,
    completed,
    enqueue,
    event,
    guard,
    said,
    turn,
    value,
)

NEW = Session(id=S, tenant=T, title="made by a commit")


def effects(bench: Bench, revision: int) -> dict[str, Any]:
    data = bench.model.state.turns[(1, revision)].effects
    found: dict[str, Any] = {} if data is None else decode_json(data)
    return found


def test_the_first_commit_answers_places_and_revision() -> None:
    bench = Bench(S)
    answer = bench.commit("t1", said("a"), said("b", role="assistant", created_us=5))
    at = START_US + 1
    assert answer == TurnCommitted(
        session=S,
        turn="t1",
        revision=1,
        leaf="b",
        placed=(Placed("a", 1, 1, None, at), Placed("b", 2, 2, "a", 5)),
        created_us=at,
    )
    assert bench.texts() == ["a", "b"]
    assert bench.head().messages == 2
    assert bench.verify().ok


def test_a_missing_session_is_made_or_refused() -> None:
    bench = Bench()
    with pytest.raises(SessionNotFound):
        bench.commit("t1", said("a"))
    with pytest.raises(InvalidValue):
        bench.commit("t1", said("a", parent="nowhere"), create=NEW)
    assert bench.read(GetSession(tenant=T, id=S)) is None
    assert bench.commit("t1", said("a"), create=NEW).revision == 1
    assert bench.read(GetSession(tenant=T, id=S)).title == "made by a commit"
    bench.write(PurgeSession(tenant=T, id=S, retire=True))
    with pytest.raises(SessionRetired):
        bench.commit("t2", said("a"), create=NEW)


def test_a_repeated_turn_gets_its_first_answer_whatever_happened_since() -> None:
    bench = Bench(S)
    manifest = Checkpoint(turn_state={"i": 1})
    given = NewCheckpoint(sha256(b"{}").hexdigest(), manifest, msgspec.json.encode(manifest))
    commands = [
        turn("t1", said("a"), said("b"), said("c")),
        turn("t2", checkpoint=given),
        turn("t3", rewind=Rewind(pop=2)),
        turn("t4", said("d"), rewind=Rewind(to="a", supersede=True)),
        turn("t5", tombstones=("d", "a", "d", "zzz")),
        turn("t6", branches=(BranchMove("side", to="b", create=True),)),
        turn("t7", said("e"), branch="side"),
        turn("t8", branches=(BranchMove("side", delete=True),)),
    ]
    answers = [bench.write(command) for command in commands]
    assert [answer.revision for answer in answers] == list(range(1, 9))
    assert answers[2].affected == ("b", "c")
    assert answers[4].affected == ("d", "a")
    assert [answer.leaf for answer in answers] == ["c", "c", "a", "d", None, "b", "e", None]
    bench.clock.advance(9)
    bench.write(DeleteSession(tenant=T, id=S))
    before = bench.snapshot()
    for command, answer in zip(commands, answers, strict=True):
        again = msgspec.structs.replace(answer, replayed=True)
        assert bench.write(command) == again
        assert bench.read(GetTurn(tenant=T, session=S, turn=command.turn)) == again
    assert bench.snapshot() == before


def test_a_turn_with_other_content_is_a_conflict_even_without_a_lease() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"))
    bench.lease()
    with pytest.raises(TurnConflict):
        bench.commit("t1", said("a", "other"))
    assert bench.commit("t1", said("a")).replayed


def test_a_replay_releases_only_the_lease_it_names() -> None:
    bench = Bench(S)
    lease = bench.lease()
    command = turn("t1", said("a"), guard=guard(lease), release=True)
    bench.write(command)
    assert bench.read(GetLease(tenant=T, session=S)) is None
    newer = bench.lease("w2")
    assert bench.write(command).replayed
    assert bench.read(GetLease(tenant=T, session=S)) == newer
    mine = turn("t1", said("a"), guard=guard(newer), release=True)
    assert bench.write(mine).replayed
    assert bench.read(GetLease(tenant=T, session=S)) is None
    assert bench.head().fence == 2


def test_deleted_then_fence_then_revision() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"))
    with pytest.raises(RevisionMoved):
        bench.commit("t2", said("b"), guard=free_guard(revision=0))
    lease = bench.lease(ttl_us=1_000_000)
    with pytest.raises(LeaseHeld):
        bench.commit("t2", said("b"), guard=free_guard(revision=0))
    with pytest.raises(Fenced):
        bench.commit("t2", said("b"), guard=free_guard(fence=9, token="x", revision=0))
    with pytest.raises(RevisionMoved):
        bench.commit("t2", said("b"), guard=guard(lease, revision=0))
    bench.clock.advance(2)
    with pytest.raises(LeaseExpired):
        bench.commit("t2", said("b"), guard=guard(lease, revision=0))
    bench.write(DeleteSession(tenant=T, id=S))
    with pytest.raises(SessionDeleted):
        bench.commit("t2", said("b"), guard=guard(lease, revision=0))
    assert bench.read(GetHead(tenant=T, id=S)).revision == 1


def free_guard(**fields: Any) -> Guard:
    return Guard(**fields)


def test_a_commit_completes_its_claims_or_nothing_happens() -> None:
    bench = Bench(S)
    bench.write(enqueue("b1"))
    bench.write(enqueue("b2"))
    lease = bench.lease()
    for claim in ("c1", "c2"):
        bench.write(claim_work(claim, guard(lease)))
    before = bench.snapshot()
    with pytest.raises(ClaimLost):
        bench.commit("t1", said("a"), complete=completed("c1", "c3"), guard=guard(lease))
    assert bench.snapshot() == before
    bench.commit("t1", said("a"), complete=completed("c1"), guard=guard(lease))
    assert [batch.id for batch in bench.read(ListWork(tenant=T, session=S))] == ["b2"]
    assert effects(bench, 1) == {"completed": ["c1"]}
    bench.clock.advance(61)
    newer = bench.lease("w2")
    with pytest.raises(ClaimLost):
        bench.commit("t2", complete=completed("c2"), guard=guard(newer))


def test_a_branch_must_exist_before_nodes_follow_on_it() -> None:
    bench = Bench(S)
    with pytest.raises(BranchNotFound):
        bench.commit("t1", said("a"), branch="side")
    bench.commit("t1", said("a"), said("b"))
    bench.commit("t2", branches=(BranchMove("side", to="a", create=True),))
    answer = bench.commit("t3", said("c"), branch="side")
    assert (answer.leaf, answer.placed[0].parent, answer.placed[0].seq) == ("c", "a", 2)
    assert bench.texts() == ["a", "b"]
    assert bench.texts(branch="side") == ["a", "c"]
    assert effects(bench, 3) == {"branch": ["side", 3]}
    assert bench.verify().ok


def test_rewind_checks_the_expected_leaf_stored_or_effective() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"))
    bench.commit("t2", tombstones=("b",))
    for expected in ("x", None):
        with pytest.raises(LeafMoved) as moved:
            bench.commit("t3", rewind=Rewind(to="a", expected=expected))
        assert (moved.value.expected, moved.value.actual) == (expected, "a")
    assert bench.commit("t3", rewind=Rewind(to="a", expected="b")).leaf == "a"
    assert bench.commit("t4", rewind=Rewind(expected="a")).leaf is None
    assert bench.commit("t5", rewind=Rewind(expected=None)).leaf is None


def test_pop_takes_messages_off_the_end_and_tombstones_nothing() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), event("e1"), said("b"), said("c"), event("e2"))
    answer = bench.commit("t2", rewind=Rewind(pop=2))
    assert (answer.affected, answer.leaf, answer.superseded) == (("b", "c"), "e1", 0)
    assert effects(bench, 2) == {"rewind": [5, 2], "popped": [3, 4]}
    assert (bench.texts(), bench.head().nodes) == (["a"], 5)
    answer = bench.commit("t3", rewind=Rewind(pop=9))
    assert (answer.affected, answer.leaf) == (("a",), None)
    assert bench.head().user_messages == 0
    assert bench.commit("t4", rewind=Rewind(pop=1)).affected == ()
    assert bench.verify().ok


def test_pop_may_stop_above_a_tombstoned_parent() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"), said("c"))
    bench.commit("t2", tombstones=("b",))
    assert bench.commit("t3", rewind=Rewind(pop=1)).leaf == "a"
    head = bench.head()
    assert (head.leaf, head.effective_leaf, head.messages) == ("b", "a", 1)
    answer = bench.commit("t4", said("d"))
    assert (answer.placed[0].parent, answer.placed[0].seq) == ("a", 2)
    assert bench.verify().ok


def test_supersede_spares_what_another_branch_shows() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"), event("e"), said("c"))
    bench.commit("t2", branches=(BranchMove("side", to="b", create=True),))
    answer = bench.commit("t3", said("d"), rewind=Rewind(to="a", supersede=True))
    assert (answer.superseded, answer.leaf) == (2, "d")
    assert bench.texts() == ["a", "d"]
    assert bench.texts(branch="side") == ["a", "b"]
    assert effects(bench, 3) == {"rewind": [4, 1], "superseded": 2, "gone": [[3, 4]]}
    assert bench.head().nodes == 3
    answer = bench.commit("t4", said("f"), branch="side", rewind=Rewind(supersede=True))
    assert answer.superseded == 2
    assert bench.texts() == ["a", "d"], "main counts as another branch"
    assert bench.texts(branch="side") == ["f"]
    assert bench.verify().ok


def test_supersede_needs_a_target_on_the_path() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"))
    bench.commit("t2", said("c"), rewind=Rewind(to="a"))
    for target, field in (("b", "after"), ("x", "leaf")):
        with pytest.raises(InvalidValue) as refused:
            bench.commit("t3", rewind=Rewind(to=target, supersede=True))
        assert refused.value.field == field
    assert bench.commit("t3", rewind=Rewind(to="b")).leaf == "b"
    assert bench.texts() == ["a", "b"]
    assert bench.commit("t4", rewind=Rewind(to="b", supersede=True)).superseded == 0
    assert bench.commit("t5", rewind=Rewind(supersede=True)).superseded == 2
    with pytest.raises(InvalidValue):
        bench.commit("t6", rewind=Rewind(to="a"))
    assert bench.head().nodes == 1
    assert bench.verify().ok


def test_node_ids_are_unique_and_only_an_equal_append_is_a_repeat() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b", meta=b"{}", label="l", run_id="r"))
    with pytest.raises(InvalidValue):
        bench.commit("t2", said("c"), said("c"), kind="append")
    repeat = [said("b", meta=b"{}", label="l", run_id="r"), said("a")]
    before = bench.snapshot()
    with pytest.raises(AlreadyExists):
        bench.commit("t2", *repeat, kind="append", rewind=Rewind(to="a"))
    answer = bench.commit("t2", *repeat, kind="append")
    at = START_US + 1
    assert answer == TurnCommitted(
        session=S,
        turn="t2",
        revision=1,
        leaf="b",
        placed=(Placed("b", 2, 2, "a", at), Placed("a", 1, 1, None, at)),
        created_us=at,
        replayed=True,
    )
    for nodes, kind in (
        (repeat, "turn"),
        ([said("a"), said("c")], "append"),
        ([said("b")], "append"),
        ([said("a", "other text")], "append"),
        ([said("a", role="assistant")], "append"),
        ([said("a", refs=("f" * 64,))], "append"),
    ):
        with pytest.raises(AlreadyExists) as taken:
            bench.commit("t2", *nodes, kind=kind)
        assert taken.value.id == nodes[0].id
    assert bench.snapshot() == before
    bench.commit("t3", tombstones=("b",))
    with pytest.raises(AlreadyExists):
        bench.commit("t4", *repeat, kind="append")


def test_parents_are_the_path_a_given_node_or_the_root() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"))
    assert bench.model.state.heads[(1,)].branched == 0
    answer = bench.commit(
        "t2",
        event("off", on_path=False),
        said("c", parent="a"),
        event("off2", on_path=False),
        said("d"),
        said("r", parent=None, on_path=False),
    )
    assert [(p.parent, p.seq) for p in answer.placed] == [
        ("b", 3),
        ("a", 2),
        ("c", 3),
        ("c", 3),
        (None, 1),
    ]
    assert answer.leaf == "d"
    assert bench.texts() == ["a", "c", "d"]
    assert bench.model.state.heads[(1,)].branched == 1
    bench.commit("t3", tombstones=("r",))
    for parent in ("nowhere", "r"):
        with pytest.raises(InvalidValue) as refused:
            bench.commit("t4", said("x", parent=parent))
        assert refused.value.field == "parent"
    answer = bench.commit("t4", said("x", parent="nowhere"), missing_parent="root")
    assert (answer.placed[0].parent, answer.leaf) == (None, "x")
    assert bench.verify().ok


def test_tombstones_hide_at_once_and_the_effective_leaf_moves_up() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"), said("c"), said("d"))
    answer = bench.commit("t2", said("e"), tombstones=("d", "x", "a", "d", "c", "e"))
    assert answer.affected == ("d", "a", "c", "e")
    assert effects(bench, 2) == {"tombstoned": [4, 1, 3, 5], "gone": [[1, 1], [3, 5]]}
    head = bench.head()
    assert (head.leaf, head.effective_leaf, head.seq, head.nodes) == ("e", "b", 2, 1)
    assert (head.messages, bench.texts()) == (1, ["b"])
    assert bench.model.state.heads[(1,)].first_user == 2
    assert bench.commit("t3", tombstones=("a",)).affected == ()
    assert bench.commit("t4", said("f")).placed[0].parent == "b"
    assert bench.verify().ok


def test_amendments_are_cumulative_versions() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), event("e"))
    for missing in ("e", "x"):
        with pytest.raises(MessageNotFound):
            bench.commit("t2", amendments=(Amendment(missing, b"{}", b"s"),))
    bench.commit("t2", amendments=(Amendment("a", b'{"metadata":{"k":1}}', b"s"),))
    bench.clock.advance(1)
    last = bench.commit("t3", amendments=(Amendment("a", b'{"is_summary":true}', b"z"),))
    shown = bench.read(GetMessage(tenant=T, session=S, id="a"))
    assert (shown.version, shown.metadata, shown.body.is_summary) == (2, {"k": 1}, True)
    assert shown.updated_us == last.created_us
    patch = b'{"is_summary":true,"metadata":{"k":1}}'
    commitment = sha256(chain.frame(b"z", patch)).hexdigest()
    assert effects(bench, 3) == {"amend": [[1, 2, commitment]]}
    versions = bench.read(GetVersions(tenant=T, session=S, id="a"))
    assert [(v.version, v.body.is_summary, v.metadata) for v in versions] == [
        (0, False, {}),
        (1, False, {"k": 1}),
        (2, True, {"k": 1}),
    ]
    bench.commit("t4", tombstones=("a",))
    with pytest.raises(MessageNotFound):
        bench.commit("t5", amendments=(Amendment("a", b"{}", b"s"),))
    assert bench.verify().ok


def test_branch_moves() -> None:
    bench = Bench(S)
    bench.commit("t1", said("a"), said("b"))

    def move(name: str, *moves: BranchMove) -> TurnCommitted:
        return bench.commit(name, kind="branch", branches=moves)

    for refused in (BranchMove("main", create=True), BranchMove("main", delete=True)):
        with pytest.raises(InvalidValue):
            move("t2", refused)
    for unknown in (BranchMove("x", to="a"), BranchMove("x", to_branch="y", create=True)):
        with pytest.raises(BranchNotFound):
            move("t2", unknown)
    with pytest.raises(InvalidValue):
        move("t2", BranchMove("x", to="zzz", create=True))
    answer = move("t2", BranchMove("x", to="a", create=True), BranchMove("main", to_branch="x"))
    assert answer.leaf == "a"
    assert effects(bench, 2) == {"branches": [["x", 1], ["main", 1]]}
    assert bench.texts() == ["a"]
    with pytest.raises(AlreadyExists):
        move("t3", BranchMove("x", create=True))
    with pytest.raises(LeafMoved):
        move("t3", BranchMove("x", to="b", expected="b"))
    assert move("t3", BranchMove("x", expected="a")).leaf is None
    assert move("t4", BranchMove("x", delete=True)).leaf is None
    assert effects(bench, 4) == {"branches": [["x", -1]]}
    assert bench.model.state.heads[(1,)].named == 0
    assert move("t5", BranchMove("main", to="b")).leaf == "b"
    assert bench.head().messages == 2
    assert bench.verify().ok


def test_links_follow_from_the_rows() -> None:
    bench = Bench(S)
    node = said("a", created_us=3)
    command = turn("t1", node)
    bench.write(command)
    expected = chain.link(
        chain.GENESIS,
        revision=1,
        turn="t1",
        kind="turn",
        hash=command.hash,
        created_us=START_US + 1,
        leaf=1,
        tip=None,
        usage=None,
        effects=None,
        nodes=[(1, 0, "a", chain.commitment(node, 3))],
    )
    assert bench.head().link == expected.hex()
    [info] = bench.read(ListTurns(tenant=T, session=S))
    assert (info.link, info.hash) == (expected.hex(), command.hash.hex())


def test_turns_are_listed_in_pieces() -> None:
    bench = Bench(S)
    for n in range(5):
        bench.commit(f"t{n}", said(f"n{n}"))
    infos = bench.read(ListTurns(tenant=T, session=S, after_revision=1, limit=2))
    assert [info.revision for info in infos] == [2, 3]
    assert bench.read(ListTurns(tenant=T, session="x")) == []
    assert bench.read(GetTurn(tenant=T, session=S, turn="x")) is None


LATE_FAILURES: list[tuple[dict[str, Any], type[Exception]]] = [
    ({"amendments": (Amendment("x", b"{}", b"s"),)}, MessageNotFound),
    ({"branches": (BranchMove("y", create=True), BranchMove("x"))}, BranchNotFound),
    ({"state": {"bad": float("nan")}}, InvalidValue),
    ({"run": Run(id="r1", session=S, status="created")}, IllegalTransition),
]


@pytest.mark.parametrize(("late", "error"), LATE_FAILURES)
def test_a_failure_in_the_middle_leaves_no_trace(
    late: dict[str, Any], error: type[Exception]
) -> None:
    bench = Bench(S)
    bench.write(enqueue("b1"))
    lease = bench.lease()
    bench.write(claim_work("c1", guard(lease)))
    bench.commit("t1", said("a"), said("b"), guard=guard(lease), run=Run(id="r1", session=S))
    before = bench.snapshot()
    with pytest.raises(error):
        bench.write(
            # The hash is not what this test is about, and a bad state cannot be hashed.
            msgspec.structs.replace(
                turn("t2", said("c"), guard=guard(lease), rewind=Rewind(to="a", supersede=True)),
                complete=completed("c1"),
                tombstones=("a",),
                values=(value(b"v"),),
                release=True,
                **late,
            )
        )
    assert bench.snapshot() == before
    assert bench.commit("t2", said("c"), guard=guard(lease), release=True).revision == 2


def test_an_append_looks_only_at_what_it_adds() -> None:
    """Cost must not grow with the history: the rows read per commit stay the same."""
    bench = Bench(S)
    reads = []
    rows = bench.model.state.nodes
    original = type(rows).__getitem__

    def counting(self: Any, key: Any) -> Any:
        reads.append(key)
        return original(self, key)

    sizes = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(rows), "__getitem__", counting)
        for n in range(200):
            reads.clear()
            bench.commit(f"t{n}", said(f"a{n}"), said(f"b{n}", role="assistant"))
            sizes.append(len(reads))
    assert max(sizes[2:]) == min(sizes[2:]) < 20
