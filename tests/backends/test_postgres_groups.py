"""Planned commands on a server: groups, what others did meanwhile, and nobody told a lie.

Two backends on one database stand for two processes: each knows only what it was told itself.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from ledgerstone.codec import sha256
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import BreakLease, ReleaseLease, RenewLease
from ledgerstone.commands.nodes import GetNotes, NewNote, NewValue
from ledgerstone.commands.runs import GetRun
from ledgerstone.commands.sessions import (
    DeleteSession,
    PurgeSession,
    RestoreSession,
)
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.usage import SetBudget
from ledgerstone.commands.work import EnqueueWork, ListWork, NewBatch
from ledgerstone.engines.postgres.backend import PostgresBackend
from ledgerstone.engines.postgres.planned.queue import CommandQueue
from ledgerstone.errors import (
    AlreadyExists,
    BudgetExceeded,
    Fenced,
    LeaseExpired,
    LeaseHeld,
    LedgerstoneError,
    RevisionMoved,
    SessionBindingMismatch,
    SessionDeleted,
    SessionNotFound,
    TurnConflict,
)
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.runs import Run
from ledgerstone.records.stats import Budget
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.records.usage import Usage, UsageEntry
from tests.backends.planned import (
    TENANT,
    TTL_US,
    at_once,
    commit,
    make,
    take,
    verified,
)


class Calls:
    """The size of every call, and what went the slow way instead."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.sizes: list[int] = []
        self.slow: list[Command[Any]] = []
        call, finish = CommandQueue.call, CommandQueue._finish

        async def counted(line: CommandQueue, group: Any) -> Any:
            self.sizes.append(len(group))
            return await call(line, group)

        def noted(line: CommandQueue, job: Any, *, slow: bool = False) -> None:
            if slow:
                self.slow.append(job.command)
            finish(line, job, slow=slow)

        monkeypatch.setattr(CommandQueue, "call", counted)
        monkeypatch.setattr(CommandQueue, "_finish", noted)


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    return Calls(monkeypatch)


class TestOneTrip:
    def test_a_commit_is_one_call(self, here: PostgresBackend, calls: Calls) -> None:
        make(here, "s")
        for n in range(1, 6):
            run = Run(id=f"r{n}", session="s", status="done")
            used = UsageEntry("m", Usage(1, 2))
            answer = here.write(commit("s", f"t{n}", run=run, usage=(used,), state={"n": n}))
            assert answer.revision == n
        # The first one too: this process made the session.
        assert calls.sizes == [1] * 5
        assert calls.slow == []
        assert verified(here, "s") == 5

    def test_notes_values_and_drafts_travel_along(
        self, here: PostgresBackend, calls: Calls
    ) -> None:
        make(here, "s")
        notes = tuple(
            NewNote("n", key, body) for key, body in (("a", b"1"), ("b", b"2"), ("a", b"3"))
        )
        value = NewValue(sha256(b"bytes"), b"bytes")
        here.write(commit("s", "t1", notes=notes, values=(value, value), config=b"{}"))
        draft = NewNote("d", f"{DRAFT_PREFIX}start", b"{}")
        kept = (NewNote("n", "a", b"4"), NewNote("n", "c", b"5"), NewNote("n", "c", b"6"))
        here.write(commit("s", "t2", notes=(draft,), kept_notes=kept))
        asked = GetNotes(tenant=TENANT, session="s", nodes=("n", "d"))
        found = here.read([asked])[0]
        assert {key: note.body for key, note in found["n"].items()} == {"a": 3, "b": 2, "c": 5}
        assert list(found["d"]) == [draft.key]
        here.write(commit("s", "t3", drop_drafts=("d",)))
        assert list(here.read([asked])[0]) == ["n"]
        assert calls.sizes == [1] * 3
        assert calls.slow == []
        assert verified(here, "s") == 3

    def test_a_session_of_others_takes_one_more(
        self, here: PostgresBackend, there: PostgresBackend, calls: Calls
    ) -> None:
        make(here, "s")
        here.write(commit("s", "t1", state={"n": 1}))
        there.write(commit("s", "t2"))
        # And one more for the state, which nobody there has asked for yet.
        there.write(commit("s", "t3", state={"m": 1}))
        there.write(commit("s", "t4", state={"m": 2}))
        assert len(calls.sizes) == 1 + 2 + 2 + 1
        assert calls.slow == []
        assert verified(here, "s") == 4

    def test_leases_and_batches_are_one_call(self, here: PostgresBackend, calls: Calls) -> None:
        make(here, "s")
        here.write(commit("s", "t0"))
        first = len(calls.sizes)
        lease = here.write(take("s"))
        assert lease is not None
        held: dict[str, Any] = {"session": "s", "owner": "ann", "token": "k", "fence": lease.fence}
        here.write(RenewLease(tenant=TENANT, ttl_us=TTL_US, **held))
        here.write(commit("s", "t1", guard=Guard(lease.fence, "k")))
        here.write(EnqueueWork(tenant=TENANT, batch=NewBatch(session="s", id="w1", payloads=b"[]")))
        assert here.write(ReleaseLease(tenant=TENANT, **held)) is True
        assert here.write(ReleaseLease(tenant=TENANT, **held)) is False
        assert len(calls.sizes) - first == 6
        assert calls.slow == []

    def test_everything_that_waits_is_one_call(
        self, here: PostgresBackend, postgres_url: str, calls: Calls
    ) -> None:
        names = [f"s{n:02}" for n in range(64)]
        make(here, *names)
        answers = at_once(postgres_url, [commit(name, "t1") for name in names])
        assert all(isinstance(answer, TurnCommitted) for answer in answers)
        # The first call finds out where the sessions stand, the second one commits.
        assert calls.sizes == [64, 64]
        assert all(verified(here, name) == 1 for name in names[:5])


class TestOthers:
    """What another process did since is seen before anything is said or written."""

    def test_a_commit_elsewhere(self, here: PostgresBackend, there: PostgresBackend) -> None:
        make(here, "s")
        here.write(commit("s", "t1"))
        there.write(commit("s", "t2"))
        assert here.write(commit("s", "t3", guard=Guard(revision=2))).revision == 3
        there.write(commit("s", "t4"))
        with pytest.raises(RevisionMoved) as caught:
            here.write(commit("s", "t5", guard=Guard(revision=3)))
        assert caught.value.actual == 4
        assert verified(here, "s") == 4

    def test_a_lease_that_came_and_went(
        self, here: PostgresBackend, there: PostgresBackend
    ) -> None:
        make(here, "s")
        lease = there.write(take("s", "bob"))
        assert lease is not None
        with pytest.raises(LeaseHeld):
            here.write(commit("s", "t1"))
        assert here.write(take("s", "ann", "k2")) is None
        there.write(
            ReleaseLease(tenant=TENANT, session="s", owner="bob", token="k", fence=lease.fence)
        )
        # Here it is known as held: that is not told before it was looked at again.
        assert here.write(commit("s", "t1")).revision == 1
        mine = here.write(take("s", "ann", "k2"))
        assert mine is not None
        assert mine.fence == lease.fence + 1
        there.write(BreakLease(tenant=TENANT, session="s", by="op", reason="test"))
        with pytest.raises(Fenced):
            here.write(commit("s", "t2", guard=Guard(mine.fence, "k2")))

    def test_a_lease_ends_by_the_clock_of_the_server(self, here: PostgresBackend) -> None:
        make(here, "s")
        lease = here.write(take("s", ttl_us=30_000))
        assert lease is not None
        threading.Event().wait(0.05)
        with pytest.raises(LeaseExpired):
            here.write(commit("s", "t1", guard=Guard(lease.fence, "k")))
        assert here.write(commit("s", "t1")).revision == 1

    def test_deleted_restored_purged(self, here: PostgresBackend, there: PostgresBackend) -> None:
        make(here, "s")
        here.write(commit("s", "t1"))
        there.write(DeleteSession(tenant=TENANT, id="s"))
        with pytest.raises(SessionDeleted):
            here.write(commit("s", "t2"))
        there.write(RestoreSession(tenant=TENANT, id="s"))
        assert here.write(commit("s", "t2")).revision == 2
        there.write(PurgeSession(tenant=TENANT, id="s"))
        with pytest.raises(SessionNotFound):
            here.write(commit("s", "t3"))
        make(there, "s")
        assert here.write(commit("s", "t1")).revision == 1

    def test_a_budget_that_appears(self, here: PostgresBackend, there: PostgresBackend) -> None:
        make(here, "s")
        used = (UsageEntry("m", Usage(60, 0)),)
        here.write(commit("s", "t1", usage=used))
        budget = Budget(id="b", scope="tenant", tokens=100, mode="refuse_commit")
        there.write(SetBudget(tenant=TENANT, budget=budget))
        with pytest.raises(BudgetExceeded):
            here.write(commit("s", "t2", usage=used))
        assert verified(here, "s") == 1

    def test_a_run_of_another_session(self, here: PostgresBackend, there: PostgresBackend) -> None:
        make(here, "s", "other")
        here.write(commit("s", "t1"))
        there.write(commit("other", "t1", run=Run(id="r", session="other", status="running")))
        with pytest.raises(SessionBindingMismatch):
            here.write(commit("s", "t2", run=Run(id="r", session="s", status="running")))
        # A run of this session that another process moved on.
        here.write(commit("s", "t2", run=Run(id="q", session="s", status="running")))
        there.write(commit("s", "t3", run=Run(id="q", session="s", status="waiting")))
        here.write(commit("s", "t4", run=Run(id="q", session="s", status="done")))
        found = here.read([GetRun(tenant=TENANT, id="q")])[0]
        assert found is not None
        assert found.status == "done"
        assert verified(here, "s") == 4


class TestGroups:
    def test_one_run_made_by_many_sessions_is_one_sessions(
        self, here: PostgresBackend, postgres_url: str
    ) -> None:
        names = [f"s{n}" for n in range(12)]
        make(here, *names)
        commands = [
            commit(name, "t1", run=Run(id="r", session=name, status="running")) for name in names
        ]
        answers = at_once(postgres_url, commands)
        won = [answer for answer in answers if isinstance(answer, TurnCommitted)]
        assert len(won) == 1
        others = [answer for answer in answers if not isinstance(answer, TurnCommitted)]
        assert {type(answer) for answer in others} == {SessionBindingMismatch}

    def test_who_is_refused_is_refused_alone(
        self, here: PostgresBackend, postgres_url: str, calls: Calls
    ) -> None:
        names = [f"s{n:02}" for n in range(60)]
        make(here, *names)
        bad: dict[str, tuple[Command[Any], type[Exception]]] = {
            "s03": (commit("s03", "t2", guard=Guard(revision=9)), RevisionMoved),
            "s13": (commit("s13", "t2", guard=Guard(fence=9, token="k")), Fenced),
            "s23": (commit("s23", "t1", text="else"), TurnConflict),
            "s33": (commit("s33", "t2", nodes=commit("s33", "t1").nodes), AlreadyExists),
            "s43": (commit("absent", "t2"), SessionNotFound),
            "s53": (
                commit("s53", "t2", run=Run(id="r", session="other", status="running")),
                LedgerstoneError,
            ),
        }
        commands = [bad[name][0] if name in bad else commit(name, "t2") for name in names]
        answers = at_once(postgres_url, [commit(name, "t1") for name in names], commands)
        for name, answer in zip(names, answers, strict=True):
            if name in bad:
                assert isinstance(answer, bad[name][1]) or name == "s53", (name, answer)
            else:
                assert answer.revision == 2
        slow = {command.session for command in calls.slow if isinstance(command, CommitTurn)}
        assert slow <= {"s23", "s33", "absent", "s53"}
        assert all(verified(here, name) >= 1 for name in names[:8])

    def test_one_turn_from_many_writers_is_one_commit(
        self, here: PostgresBackend, there: PostgresBackend
    ) -> None:
        make(here, "s")
        command = commit("s", "t1")
        with ThreadPoolExecutor(32) as pool:
            backends = [here, there] * 16
            answers = list(pool.map(lambda backend: backend.write(command), backends))
        assert sum(not answer.replayed for answer in answers) == 1
        told = {
            (answer.revision, answer.leaf, answer.placed, answer.created_us) for answer in answers
        }
        assert len(told) == 1
        assert verified(here, "s") == 1

    def test_many_commands_of_one_session(
        self, here: PostgresBackend, postgres_url: str, calls: Calls
    ) -> None:
        make(here, "s")
        answers = at_once(postgres_url, [commit("s", f"t{n}") for n in range(40)])
        assert sorted(answer.revision for answer in answers) == list(range(1, 41))
        assert calls.slow == []
        assert verified(here, "s") == 40

    def test_threads(self, here: PostgresBackend) -> None:
        names = [f"s{n}" for n in range(8)]
        make(here, *names)

        def write(name: str) -> None:
            for n in range(20):
                here.write(commit(name, f"t{n}"))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(write, names))
        assert [verified(here, name) for name in names] == [20] * 8

    def test_a_batch_is_queued_once(self, here: PostgresBackend, there: PostgresBackend) -> None:
        make(here, "s")
        batch = NewBatch(session="s", id="w", payloads=b"[1]", source_key="key")
        first = here.write(EnqueueWork(tenant=TENANT, batch=batch))
        assert there.write(EnqueueWork(tenant=TENANT, batch=batch)) == first
        twin = msgspec.structs.replace(batch, id="w2")
        assert here.write(EnqueueWork(tenant=TENANT, batch=twin)).id == "w"
        assert len(here.read([ListWork(tenant=TENANT, session="s")])[0]) == 1
