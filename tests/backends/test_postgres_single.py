"""A turn that is sent alone: the plain statement, held against the other two ways to commit.

The same commands must leave the same rows and get the same answers; whatever stands against a turn
is seen, also when it comes while the statement waits for the head.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.codec import sha256
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.nodes import NewValue
from ledgerstone.commands.runs import GetRun
from ledgerstone.commands.sessions import DeleteSession, PurgeSession, RestoreSession
from ledgerstone.commands.turns import NewNode
from ledgerstone.commands.usage import DeleteUsage, SetBudget
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.planned.queue import CommandQueue
from ledgerstone.errors import (
    AlreadyExists,
    BudgetExceeded,
    LedgerstoneError,
    RevisionMoved,
    SessionBindingMismatch,
    SessionDeleted,
    SessionNotFound,
)
from ledgerstone.records.stats import Budget
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.records.usage import Usage, UsageEntry
from ledgerstone.testing.servers.places import Places
from tests.backends.planned import TENANT, commit, make, plain_url, take, verified
from tests.backends.single import USED, Ways, outcome, rows_in, run

DAY_S = 86_400
TABLES = {
    "sessions": "number",
    "heads": "number",
    "nodes": "key",
    "turns": "number, revision",
    "runs": "key",
    "usage_days": "number, day, model",
    "documents": "number, name",
}


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(monkeypatch)


def node(id: str, **fields: Any) -> NewNode:
    body = b'{"role":"user","parts":[{"type":"text","text":"x"}]}'
    return NewNode(
        id, fields.pop("kind", "message"), fields.pop("role", 2), body, b"0" * 16, **fields
    )


class TestTheSameAsTheOtherWays:
    """One story, told by each way into a store of its own."""

    def test_rows_and_answers(self, postgres_places: Places, ways: Ways) -> None:
        told = [self._tell(postgres_places, way) for way in ("alone", "group", "interactive")]
        assert ways.take()[: len(USUAL) + 1] == ["alone"] * (len(USUAL) + 1)
        for answers, rows in told[1:]:
            assert answers == told[0][0]
            for table in TABLES:
                assert rows[table] == told[0][1][table], table

    def _tell(self, places: Places, way: str) -> tuple[list[Any], dict[str, list[Any]]]:
        url = places.fresh()
        clock = ManualClock()
        backend = open_postgres(url, clock=clock)
        try:
            face = backend._blocking
            if way == "group":
                face.hot._line._single = False
            if way == "interactive":
                face.fast = lambda command: None  # type: ignore[method-assign]
            make(backend, "s", "other")
            answers = []
            for step in STORY:
                clock.advance(step if isinstance(step, int) else 1)
                if not isinstance(step, int):
                    answers.append(outcome(backend, step))
            assert verified(backend, "s") == len([a for a in answers if is_new(a)])
            return answers, rows_of(url)
        finally:
            backend.close()
            places.drop(url)


def is_new(answer: Any) -> bool:
    return isinstance(answer, TurnCommitted) and not answer.replayed


def rows_of(url: str) -> dict[str, list[Any]]:
    """Every row of a turn, but for its place in the feed, and seals, which nobody looks at here."""
    found = {}
    with psycopg.connect(plain_url(url)) as connection:
        connection.execute("set search_path = ledgerstone")
        for name, order in TABLES.items():
            rows = connection.execute(
                f"select to_jsonb(t) - 'pos' - 'seal' from {name} t order by {order}"
            )
            found[name] = rows.fetchall()
    return found


VALUE = NewValue(sha256(b"bytes"), b"bytes")
USUAL = [
    commit("s", "plain"),
    commit("s", "run", run=run("running"), usage=USED),
    commit("s", "again", run=run("waiting"), usage=USED),
    commit("s", "mentioned", nodes=(node("m", run_id="r"),)),
    commit("s", "model", usage=(UsageEntry("n", Usage(1)),)),
    commit("s", "guarded", guard=Guard(revision=6)),
    commit("s", "many", nodes=tuple(node(f"n{n}", created_us=n * 10) for n in range(30))),
    commit(
        "s",
        "rich",
        nodes=(
            node("e", kind="event", role=None, label="some", meta=b"{}", format="json"),
            node("f", refs=(VALUE.digest,), meta=b'{"n":1}'),
        ),
    ),
    commit("s", "t\0", run=run("done", "r\0"), nodes=(node("zero"),)),
    commit("s", "späť", usage=(UsageEntry("m\x01", Usage(3)),)),
    commit("s", "state", state={"a": 1}),
    commit("s", "state again", state={"b": 2}, run=run("waiting", "q"), usage=USED),
]
HELD = take("s", ttl_us=10 * 1_000_000)
STORY: list[Command[Any] | int] = [
    commit("s", "value", values=(VALUE,)),
    *USUAL[:5],
    DAY_S,
    *USUAL[5:],
    # What follows is refused, or is not usual.
    commit("s", "plain"),
    commit("s", "plain", text="else"),
    commit("s", "taken", nodes=(node("m"),)),
    commit("s", "moved", guard=Guard(revision=1)),
    commit("s", "fenced", guard=Guard(9, "k")),
    commit("s", "foreign", run=run("running", "q", "other")),
    commit("s", "two", usage=(UsageEntry("m", Usage(1)), UsageEntry("n", Usage(1)))),
    commit("s", "config", state={"b": None}, config=b"{}"),
    commit("s", "border", nodes=(node("a\x1fb"),)),
    commit("s", "nul", nodes=(node("a\0b"),)),
    commit("s", "aside", nodes=(node("g"), node("h", on_path=False))),
    commit("s", "beside"),
    HELD,
    commit("s", "not mine"),
    60,
    commit("s", "over", guard=Guard(1, "k")),
    commit("s", "after"),
]


class TestWays:
    def test_a_usual_turn_is_one_statement(self, here: PostgresBackend, ways: Ways) -> None:
        make(here, "s")
        for n in range(4):
            made = run("done", f"r{n}")
            assert here.write(commit("s", f"t{n}", run=made, usage=USED)).revision == n + 1
        lease = here.write(take("s"))
        assert lease is not None
        ways.take()
        here.write(commit("s", "t4", guard=Guard(lease.fence, "k")))
        assert ways.take() == ["alone"]
        assert verified(here, "s") == 5

    def test_places_in_the_feed_grow(self, here: PostgresBackend, there: PostgresBackend) -> None:
        make(here, "s", "other")
        for n in range(6):
            (here, there)[n % 2].write(commit("s", f"t{n}"))
            here.write(commit("other", f"t{n}"))
        rows = rows_in(here, "select pos from turns where number = %s order by revision", "s")
        assert rows == sorted(rows)
        assert len(set(rows)) == 6

    @pytest.mark.parametrize("field", ["rls", "prepare"])
    def test_where_it_does_not_fit_nobody_tries(self, postgres_url: str, field: str) -> None:
        backend = open_postgres(postgres_url)
        try:
            line = backend._blocking.hot._line
            off = CommandQueue(
                line._pool, 1.0, line._clock, rls=field == "rls", single=field != "prepare"
            )
            assert line._single
            assert not off._single
        finally:
            backend.close()


Change = Callable[[PostgresBackend], object]
REFUSING = Budget(id="b", scope="tenant", tokens=70, mode="refuse_commit")
AGAINST: dict[str, tuple[Change, type[LedgerstoneError]]] = {
    "moved": (lambda there: there.write(commit("s", "x")), RevisionMoved),
    "held": (lambda there: there.write(take("s", "bob")), RevisionMoved),
    "deleted": (lambda there: there.write(DeleteSession(tenant=TENANT, id="s")), SessionDeleted),
    "purged": (lambda there: there.write(PurgeSession(tenant=TENANT, id="s")), SessionNotFound),
    "run": (
        lambda there: there.write(commit("other", "x", run=run("done", session="other"))),
        SessionBindingMismatch,
    ),
    "node": (lambda there: there.write(commit("s", "x", nodes=(node("n"),))), AlreadyExists),
    "budget": (
        lambda there: there.write(SetBudget(tenant=TENANT, budget=REFUSING)),
        BudgetExceeded,
    ),
}


class TestWhatStandsAgainstIt:
    @pytest.mark.parametrize("name", sorted(AGAINST))
    def test_is_seen(
        self, here: PostgresBackend, there: PostgresBackend, ways: Ways, name: str
    ) -> None:
        change, error = AGAINST[name]
        make(here, "s", "other")
        here.write(commit("s", "t1", usage=USED))
        change(there)
        guard = Guard(revision=1) if error is RevisionMoved else Guard()
        ways.take()
        wanted = LedgerstoneError if name == "held" else error
        with pytest.raises(wanted):
            here.write(
                commit("s", "t2", run=run("done"), usage=USED, nodes=(node("n"),), guard=guard)
            )
        assert ways.take()[:2] == ["alone", "group"]

    def test_a_session_that_was_restored_is_the_same(
        self, here: PostgresBackend, there: PostgresBackend
    ) -> None:
        make(here, "s")
        here.write(commit("s", "t1"))
        there.write(DeleteSession(tenant=TENANT, id="s"))
        there.write(RestoreSession(tenant=TENANT, id="s"))
        assert here.write(commit("s", "t2")).revision == 2

    def test_a_run_that_outlived_its_session(
        self, here: PostgresBackend, there: PostgresBackend
    ) -> None:
        make(here, "s", "other")
        here.write(commit("s", "t1"))
        there.write(commit("other", "x", run=run("done", session="other")))
        there.write(PurgeSession(tenant=TENANT, id="other", keep_runs=True))
        with pytest.raises(LedgerstoneError):
            here.write(commit("s", "t2", run=run("done")))
        found = here.read([GetRun(tenant=TENANT, id="r")])[0]
        assert found is not None
        assert found.session == "other"

    def test_sums_that_would_be_too_large(self, here: PostgresBackend) -> None:
        make(here, "s")
        much = (UsageEntry("m", Usage(1 << 61)),)
        here.write(commit("s", "t1", usage=much))
        with pytest.raises(LedgerstoneError):
            here.write(commit("s", "t2", usage=much))
        assert here.write(commit("s", "t3", usage=USED)).revision == 2
        assert verified(here, "s") == 2

    def test_usage_that_was_deleted_elsewhere(
        self, here: PostgresBackend, there: PostgresBackend
    ) -> None:
        make(here, "s")
        here.write(commit("s", "t1", usage=USED))
        there.write(DeleteUsage(tenant=TENANT, session="s"))
        here.write(commit("s", "t2", usage=USED))
        text = "select calls, input from usage_days where number = %s"
        assert rows_in(here, text, "s") == [(1, 60)]
        assert verified(here, "s") == 2
