"""Planned commands, without a server: what a plan records is what the handler would have written.

A store over SQLite (named_statements.py) whose hot commands are planned: the handler runs over what
is known of the session, and the recorded writes are carried out afterwards. It must answer, and
keep, what the model does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import apsw
import msgspec
import pytest

from ledgerstone.backends.postgres_apply import SECTIONS, Asked, Parcel, read_answer, stamp
from ledgerstone.backends.postgres_heads import Heads, Known, keep_run
from ledgerstone.backends.postgres_line import Job, session_of, takes
from ledgerstone.backends.postgres_plan import MAKES_RUN, USES, Plan, Unplanned, plan
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import ReleaseLease, TakeLease
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.commands.work import EnqueueWork, NewBatch
from ledgerstone.errors import Fenced, IncarnationMoved, LeaseHeld, RevisionMoved
from ledgerstone.ports.backend import Backend
from ledgerstone.records.runs import Run
from ledgerstone.records.sessions import Session
from ledgerstone.records.usage import Usage, UsageEntry
from ledgerstone.rules.chain import turn_hash
from ledgerstone.sql.tx import Row
from ledgerstone.testing.wrappers import Wrapper
from ledgerstone.trampoline import run_now
from tests.backends.named_statements import NamedStatements, NamedTx
from tests.machine.ended_rules import without_ended
from tests.machine.test_machine import run

EXAMPLES = 40
NOW_US = 1_700_000_000_000_000


class Planned(Wrapper):
    """A store that carries out the recorded writes of a plan, not the handler's own."""

    def __init__(self, inner: NamedStatements, clock: ManualClock) -> None:
        super().__init__(inner)
        self.clock = clock
        self.planned = 0

    def write(self, command: Command[Any]) -> Any:
        assert isinstance(self.inner, NamedStatements)
        made = None
        if takes(command):
            made = self._plan(self.inner.connection, command)
        if made is None:
            return self.inner.write(command)
        self.planned += 1
        if made.error is not None:
            raise made.error
        carry_out(self.inner.connection, made)
        return made.answer

    def _plan(self, connection: apsw.Connection, command: Command[Any]) -> Plan | None:
        """What the server would look at, asked of SQLite; None when it would say something else."""
        tx = NamedTx(connection)
        key = session_of(command)
        head = run_now(tx.one("find_head", *key))
        if head is None:
            return None
        try:
            made = plan(command, key, known_of(tx, head, command), self.clock.now_us())
        except Exception:
            return None
        if isinstance(command, CommitTurn):
            run_id = None if command.run is None else command.run.id
            found = run_now(tx.one("find_commit", *key, command.turn, run_id))
            assert found is not None
            turn_known, run_known, bounded = found[-4:-1]
            if turn_known or (made.flags & MAKES_RUN and run_known):
                return None
            if made.flags & USES and bounded:
                return None
        return made if is_free(tx, made) else None


def known_of(tx: NamedTx, head: Row, command: Command[Any]) -> Known:
    tip = run_now(tx.one("id_at", (head[0] << 32) + head[6]))
    runs: dict[str, Row] = {}
    if isinstance(command, CommitTurn) and command.run is not None:
        for row in run_now(tx.all("find_runs", command.tenant, command.run.id)):
            if row[0] >> 32 == head[0] and row[3] is not None:
                runs[command.run.id] = row
    state = run_now(tx.one("get_document", head[0], "state"))
    return Known(
        head, 7, None if tip is None else tip[0], runs, None if state is None else state[0]
    )


def is_free(tx: NamedTx, made: Plan) -> bool:
    """Whether the ids of nodes and batches are."""
    number = made.before.head[0]
    for row in made.writes.get("insert_node", ()):
        if run_now(tx.one("find_place", number, row[11])) is not None:
            return False
    for row in made.writes.get("insert_batch", ()):
        if run_now(tx.pick("find_batch", number=number, id=row[5])):
            return False
        if row[6] and run_now(tx.pick("find_batch", number=number, source_key=row[6])):
            return False
    return True


def carry_out(connection: apsw.Connection, made: Plan) -> None:
    tx = NamedTx(connection)
    tx.now_us = made.now_us
    connection.execute("BEGIN IMMEDIATE")
    head = made.after.head
    if head is not made.before.head:
        run_now(tx.run("move_head", head[0], *head[3:15], *head[20:28]))
        run_now(tx.run("set_lease", head[0], *head[15:20]))
        run_now(tx.run("count_enqueued", head[0], head[28]))
    for section in SECTIONS:
        for row in made.writes.get(section.statement, ()):
            _DETOURS.get(section.statement, _plainly)(tx, section.statement, row)
    connection.execute("COMMIT")


def _plainly(tx: NamedTx, statement: str, row: Row) -> None:
    assert run_now(tx.run(statement, *row)) is not None


def _unsealed(tx: NamedTx, statement: str, row: Row) -> None:
    run_now(tx.run(statement, *row, None))


def _added(tx: NamedTx, statement: str, row: Row) -> None:
    tenant = tx.execute("select tenant from sessions where number = ?", (row[0],)).fetchone()
    assert tenant is not None
    if not run_now(tx.run("add_usage_day", *row)):
        assert run_now(tx.run("begin_usage_day", *row, tenant[0]))


def _settled(tx: NamedTx, statement: str, row: Row) -> None:
    run_now(tx.run("drop_empty", *row[:2]))
    run_now(tx.run(statement, *row))


_DETOURS: dict[str, Callable[[NamedTx, str, Row], None]] = {
    "save_run": _unsealed,
    "change_run": _unsealed,
    "add_usage_day": _added,
    "settle_ready": _settled,
}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_recorded_writes_are_those_of_the_handler(seed: int) -> None:
    counted = []

    def make(clock: ManualClock) -> Backend:
        subject = Planned(NamedStatements(clock), clock)
        counted.append(subject)
        return subject

    run(make, seed, EXAMPLES, narrow=without_ended)
    assert sum(subject.planned for subject in counted) > EXAMPLES


# --- single plans

KEY = ("default", "s")


def known(**columns: Any) -> Known:
    names = {"owner": 16, "token": 17, "expires_us": 19, "revision": 3, "fence": 15, "runs": 27}
    head: list[Any] = [5, 1, None, *[0] * 13, None, None, 0, 0, 10, bytes(32)]
    head += [None, None, None, None, None, 0, 0]
    for name, value in columns.items():
        head[names[name]] = value
    return Known(tuple(head), 99, None, {}, None)


def commit(**fields: Any) -> CommitTurn:
    node = NewNode("n1", "message", 2, b"{}", b"0" * 16)
    given: dict[str, Any] = {"session": "s", "turn": "t1", "kind": "turn", "nodes": (node,)}
    command = CommitTurn(tenant="default", **(given | fields))
    return msgspec.structs.replace(command, hash=turn_hash(command))


class TestPlan:
    def test_a_commit_is_nodes_a_turn_and_a_head(self) -> None:
        made = plan(commit(), KEY, known(), NOW_US)
        assert set(made.writes) == {"insert_node", "insert_turn", "move_recency"}
        assert made.answer.revision == made.after.head[3] == 1
        assert made.after.tip_id == "n1"
        assert made.before.head[3] == 0

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
        assert "change_run" in again.writes

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
        assert made.after.head[15:20] == (1, "x", "k", NOW_US, NOW_US + 50)
        assert made.answer.fence == 1
        letting = ReleaseLease(tenant="default", session="s", owner="x", token="k", fence=1)
        freed = plan(letting, KEY, made.after, NOW_US)
        assert freed.answer is True
        assert freed.after.head[15:18] == (1, None, None)
        batch = NewBatch(session="s", id="w", payloads=b"[]")
        queued = plan(EnqueueWork(tenant="default", batch=batch), KEY, freed.after, NOW_US)
        assert queued.answer.enqueue_seq == queued.after.head[28] == 1
        assert set(queued.writes) == {"insert_batch", "raise_ready"}


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
        other = msgspec.structs.replace(one, head=(*one.head[:20], 11, *one.head[21:]))
        assert stamp(one) != stamp(other)
        large = msgspec.structs.replace(one, version=2**32 - 1)
        assert -(2**63) <= stamp(large) < 0

    def test_the_answer_names_those_that_were_not_carried_out(self) -> None:
        head = known().head
        moved = (1, "moved", 123, 50, *head, "n9", None, None, None, None, None)
        gone = (2, "moved", None, 50, *[None] * (len(head) + 6))
        judged = read_answer(
            [(0, None, 77, 50, *[None] * (len(head) + 6)), moved, gone],
            [Asked(KEY, None, None, None), Asked(KEY, None, None, None)],
        )
        assert (judged.version, judged.clock_us) == (77, 50)
        fresh = judged.verdicts[1].fresh
        assert fresh is not None
        assert (fresh.version, fresh.tip_id) == (123, "n9")
        assert judged.verdicts[2].fresh is None


class TestHeads:
    def test_the_oldest_is_forgotten(self) -> None:
        heads = Heads(sessions_max=2)
        for name in ("a", "b"):
            heads.put(("t", name), known())
        assert heads.get(("t", "a")) is not None
        heads.put(("t", "c"), known())
        assert heads.get(("t", "b")) is None
        assert len(heads) == 2
        heads.clear()
        assert len(heads) == 0

    def test_few_and_small_runs_are_kept(self) -> None:
        runs: dict[str, Row] = {}
        for n in range(9):
            runs = keep_run(runs, f"r{n}", (n, 0, 0, b"{}"))
        assert list(runs) == ["r5", "r6", "r7", "r8"]
        assert "r8" not in keep_run(runs, "r8", (8, 0, 0, b"x" * 100_000))


def test_only_commands_of_one_session_are_taken() -> None:
    assert takes(commit())
    assert not takes(commit(tombstones=("n",)))
    making = CreateSession(tenant="default", session=Session(id="s"))
    assert not takes(making)
    assert Job(commit(), 0.0).key == KEY
