"""Planned commands, without a server: what a plan assumes, writes and answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ledgerstone.commands import Guard
from ledgerstone.commands.leases import ReleaseLease, TakeLease
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.commands.work import EnqueueWork, NewBatch
from ledgerstone.engines.postgres.planned.apply import Asked, Parcel, read_answer, stamp
from ledgerstone.engines.postgres.planned.known_rows import MAKES_RUN, USES, Unplanned
from ledgerstone.engines.postgres.planned.plan import plan
from ledgerstone.engines.postgres.planned.queue import PendingCommand, takes
from ledgerstone.engines.postgres.planned.sections import (
    CHANGED_RUNS,
    MOVED_HEADS,
    MOVED_SESSIONS,
    NEW_NODES,
    NEW_TURNS,
    NEW_WORK,
    RAISED_LINES,
)
from ledgerstone.engines.postgres.planned.session_cache import CachedSession, SessionCache, with_run
from ledgerstone.errors import Fenced, IncarnationMoved, LeaseHeld, RevisionMoved
from ledgerstone.records.leases import Lease
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.usage import Usage, UsageEntry
from ledgerstone.rules.chain import turn_hash
from ledgerstone.tables.runs import RunRow
from ledgerstone.tables.sessions import Head

NOW_US = 1_700_000_000_000_000


KEY = ("default", "s")


def known(**columns: Any) -> CachedSession:
    return CachedSession(Head(5, updated_us=10, **columns), 99, None, {}, None)


def commit(**fields: Any) -> CommitTurn:
    node = NewNode("n1", "message", 2, b"{}", b"0" * 16)
    given: dict[str, Any] = {"session": "s", "turn": "t1", "kind": "turn", "nodes": (node,)}
    command = CommitTurn(tenant="default", **(given | fields))
    return msgspec.structs.replace(command, hash=turn_hash(command))


class TestPlan:
    def test_a_commit_is_nodes_a_turn_and_a_head(self) -> None:
        made = plan(commit(), KEY, known(), NOW_US)
        assert set(made.writes) == {MOVED_HEADS, NEW_NODES, NEW_TURNS, MOVED_SESSIONS}
        assert made.answer.revision == made.after.head.revision == 1
        assert made.after.tip_id == "n1"
        assert made.before.head.revision == 0

    def test_a_new_run_and_usage_are_for_the_server_to_look_at(self) -> None:
        used = UsageEntry("m", Usage(1, 2))
        run = Run(id="r", session="s", status="running")
        made = plan(commit(run=run, usage=(used,)), KEY, known(), NOW_US)
        assert made.run == "r"
        assert made.flags == MAKES_RUN | USES
        # The next turn of the run needs no look: the head vouches for its row.
        after = msgspec.structs.replace(made.after, version=100)
        again = plan(commit(turn="t2", nodes=(), run=run), KEY, after, NOW_US + 9)
        assert again.run is None
        assert CHANGED_RUNS in again.writes

    def test_a_refusal_waits_for_the_server_and_writes_nothing(self) -> None:
        held = known(owner="x", token="k", expires_us=NOW_US + 5, fence=3)
        for guard, error in (
            (Guard(), LeaseHeld),
            (Guard(fence=2, token="k"), Fenced),
            (Guard(fence=3, token="k", revision=4), RevisionMoved),
            (Guard(fence=3, token="k", incarnation=2), IncarnationMoved),
        ):
            made = plan(commit(guard=guard), KEY, held, NOW_US)
            assert isinstance(made.error, error)
            assert made.live == 1
            assert made.writes == {}
            assert made.after is made.before

    def test_what_is_not_known_is_not_planned(self) -> None:
        other = NewBatch(session="other", id="w", payloads=b"[]")
        with pytest.raises(Unplanned):
            plan(commit(enqueue=(other,)), KEY, known(), NOW_US)
        twins = (NewBatch(session="s", id="w", payloads=b"[]"),) * 2
        with pytest.raises(Unplanned):
            plan(commit(enqueue=twins), KEY, known(), NOW_US)
        mentioned = commit(nodes=(NewNode("n1", "message", 2, b"{}", b"0" * 16, run_id="r9"),))
        with pytest.raises(Unplanned):
            plan(mentioned, KEY, known(runs=3), NOW_US)

    def test_leases_and_batches(self) -> None:
        taking = TakeLease(tenant="default", session="s", owner="x", token="k", ttl_us=50)
        made = plan(taking, KEY, known(), NOW_US)
        assert made.after.head.lease("s") == Lease("s", "x", "k", 1, NOW_US, NOW_US + 50)
        assert made.answer.fence == 1
        letting = ReleaseLease(tenant="default", session="s", owner="x", token="k", fence=1)
        freed = plan(letting, KEY, made.after, NOW_US)
        assert freed.answer is True
        assert (freed.after.head.fence, freed.after.head.owner) == (1, None)
        batch = NewBatch(session="s", id="w", payloads=b"[]")
        queued = plan(EnqueueWork(tenant="default", batch=batch), KEY, freed.after, NOW_US)
        assert queued.answer.enqueue_seq == queued.after.head.enqueued == 1
        assert set(queued.writes) == {MOVED_HEADS, NEW_WORK, RAISED_LINES}


class TestParcel:
    def test_sections_follow_each_other(self) -> None:
        first = plan(commit(), KEY, known(), NOW_US)
        second = plan(commit(turn="t2"), KEY, known(), NOW_US)
        group = [Asked(KEY, "t1", None, first), Asked(KEY, None, None, None, 8)]
        parcel = Parcel([*group, Asked(KEY, "t2", None, second)])
        assert parcel.at[::4][:4] == [3, 2, 2, 2]
        assert parcel.at[4:9] == [2, 15, 12, 0, 2]
        assert parcel.ints[5:10] == [None, None, 0, 8, 0]
        assert parcel.texts[:8] == ["default", "s", "t1", None, "default", "s", None, None]
        assert (parcel.ints[15], parcel.ints[35]) == (1, 3), "whose head it is"

    def test_texts_that_no_column_holds_are_noticed(self) -> None:
        made = plan(commit(), KEY, known(), NOW_US)
        for text in ("n\0", "n\x01", "\ud800", "a\x1fb", "\x1e", "né"):
            parcel = Parcel([Asked(("default", text), "t1", None, made)])
            assert (parcel.arguments(None, None, 0) is not None) is (text == "né")

    def test_numbers_are_one_text(self) -> None:
        made = plan(commit(), KEY, known(), NOW_US)
        arguments = Parcel([Asked(KEY, "t1", None, made)]).arguments("default", 7, 1)
        assert arguments is not None
        assert arguments[:3] == ("default", 7, 1 | 16)
        assert arguments[4].startswith(f"{{5,{stamp(known())},0,0,{NOW_US},1,5,1,1,")
        assert "null" in arguments[4]
        assert arguments[5].startswith("default\x1fs\x1ft1\x1f\x1e\x1f\x1e")

    def test_a_stamp_tells_two_transactions_of_one_number_apart(self) -> None:
        one = known()
        other = msgspec.structs.replace(one, head=Head(5, updated_us=11))
        assert stamp(one) != stamp(other)
        large = msgspec.structs.replace(one, version=2**32 - 1)
        assert -(2**63) <= stamp(large) < 0

    def test_the_answer_names_those_that_were_not_carried_out(self) -> None:
        head = msgspec.structs.astuple(known().head)[:-1]
        moved = (1, "moved", 123, 50, *head, "n9", *[None] * 8)
        gone = (2, "moved", None, 50, *[None] * (len(head) + 9))
        judged = read_answer(
            [(0, None, 77, 50, *[None] * (len(head) + 9)), moved, gone],
            [Asked(KEY, None, None, None), Asked(KEY, None, None, None)],
        )
        assert (judged.version, judged.clock_us) == (77, 50)
        fresh = judged.verdicts[1].fresh
        assert fresh is not None
        assert (fresh.version, fresh.tip_id) == (123, "n9")
        assert judged.verdicts[2].fresh is None


class TestHeads:
    def test_the_oldest_is_forgotten(self) -> None:
        heads = SessionCache(sessions_max=2)
        for name in ("a", "b"):
            heads.put(("t", name), known())
        assert heads.get(("t", "a")) is not None
        heads.put(("t", "c"), known())
        assert heads.get(("t", "b")) is None
        assert len(heads) == 2
        heads.clear()
        assert len(heads) == 0

    def test_few_and_small_runs_are_kept(self) -> None:
        runs: dict[str, RunRow] = {}
        for n in range(9):
            runs = with_run(runs, RunRow(5, n, f"r{n}", body=b"{}"))
        assert list(runs) == ["r5", "r6", "r7", "r8"]
        assert "r8" not in with_run(runs, RunRow(5, 8, "r8", body=b"x" * 100_000))


def test_only_commands_of_one_session_are_taken() -> None:
    assert takes(commit())
    assert not takes(commit(tombstones=("n",)))
    making = CreateSession(tenant="default", session=Session(id="s"))
    assert not takes(making)
    assert PendingCommand(commit(), 0.0).key == KEY
