"""Usage: recorded once, listed in order, checked at the door, deleted without breaking history."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import Cost, Usage, user
from ledgerstone.errors import (
    InvalidValue,
    LeaseHeld,
    SessionDeleted,
    SessionNotFound,
    TurnConflict,
)
from ledgerstone.records.stats import Stats, UsageDeleted
from ledgerstone.records.usage import UsageEntry
from ledgerstone.testing.bed import Bed

WRONG_USAGE: dict[str, tuple[Any, str]] = {
    "negative": (Usage(input=-1), "usage.input"),
    "negative in a mapping": ({"output": -1}, "usage.output"),
    "negative total": (Usage(1, 1, total=-2), "usage.total"),
    "half a token": ({"input": 1.5}, "usage.input"),
    "a whole float": ({"input": 2.0}, "usage.input"),
    "true": ({"reasoning": True}, "usage.reasoning"),
    "text": ({"cached_input": "7"}, "usage.cached_input"),
    "nothing": (Usage(input=None), "usage.input"),  # type: ignore[arg-type]
    "too many": (Usage(input=1 << 53), "usage.input"),
    "another provider's names": ({"prompt_tokens": 5}, "usage.prompt_tokens"),
    "a number": (5, "usage"),
}
WRONG_COST: dict[str, tuple[Any, str]] = {
    "unknown currency": (Cost(1, "GOLD"), "cost.currency"),
    "small letters": (Cost(1, "usd"), "cost.currency"),
    "no currency": (Cost(1, ""), "cost.currency"),
    "not text": (Cost(1, 7), "cost.currency"),  # type: ignore[arg-type]
    "negative": (Cost(-1), "cost"),
    "a float": (Cost(0.5), "cost"),  # type: ignore[arg-type]
    "true": (Cost(True), "cost"),
    "a bare number": (5, "cost"),
    "too much": (Cost(1 << 53), "cost"),
}


class TestRecordedUsage:
    @pytest.fixture(autouse=True)
    def session(self, backend: Bed) -> str:
        backend.store.sessions.create(id="s")
        return "s"

    @pytest.mark.promise(158)
    def test_uses_are_listed_in_the_order_they_were_recorded(self, backend: Bed) -> None:
        store = backend.store
        first = store.usage.record("s", "m", Usage(1, 2), provider="p", cost=Cost(7))
        with store.turns.begin("s") as turn:
            turn.use("n", Usage(3), source="tool")
            turn.use("n", {"input": 4, "output": 1, "total": 9})
        store.usage.record("s", "m", Usage(5))
        backend.reopen()
        found = backend.store.usage.list("s")
        assert found[0] == first
        assert [(one.revision, one.n) for one in found] == [(1, 1), (2, 1), (2, 2), (3, 1)]
        assert found[0].entry == UsageEntry("m", Usage(1, 2), provider="p", cost=Cost(7))
        assert [one.entry.usage.total_tokens for one in found] == [3, 3, 9, 5]
        assert [one.entry.source for one in found] == ["", "tool", "", ""]
        assert [one.created_us for one in found] == sorted(one.created_us for one in found)

    @pytest.mark.promise(158)
    def test_every_field_comes_back(self, backend: Bed) -> None:
        usage = Usage(10, 20, 3, 4, 5, 99)
        recorded = backend.store.usage.record(
            "s", "m", usage, cost=Cost(12, "EUR"), source="x", provider="p", run_id="r"
        )
        backend.reopen()
        assert recorded.entry == UsageEntry("m", usage, "x", "p", Cost(12, "EUR"), "r")
        assert backend.store.usage.list("s") == [recorded]

    @pytest.mark.promise(158)
    def test_a_long_list_is_complete_in_pieces(self, backend: Bed) -> None:
        store = backend.store
        for n in range(70):
            with store.turns.begin("s") as turn:
                for _ in range(3):
                    turn.use("m", Usage(n))
        records = list(store.usage.iter("s"))
        assert records == store.usage.list("s")
        assert [one.entry.usage.input for one in records] == [n for n in range(70) for _ in "abc"]
        assert store.usage.list("s", limit=4) == records[:4]

    @pytest.mark.promise(158, 111)
    def test_a_repeated_record_is_recorded_once(self, backend: Bed) -> None:
        first = backend.store.usage.record("s", "m", Usage(5), id="r1")
        with backend.unchanged("s"):
            assert backend.store.usage.record("s", "m", Usage(5), id="r1") == first
            with pytest.raises(TurnConflict):
                backend.store.usage.record("s", "m", Usage(6), id="r1")
        backend.reopen()
        assert backend.store.usage.record("s", "m", Usage(5), id="r1") == first
        assert backend.store.sessions.stats("s").usage == Usage(5, total=5)

    @pytest.mark.promise(158, 116)
    def test_a_record_is_a_commit_and_in_the_ledger(self, backend: Bed) -> None:
        backend.store.usage.record("s", "m", Usage(5))
        turn = backend.store.turns.list("s")[0]
        assert (turn.kind, turn.revision, turn.nodes) == ("usage", 1, 0)
        head = backend.store.sessions.head("s")
        assert head is not None
        assert [line.usage.input for line in head.ledger] == [5]

    @pytest.mark.promise(158)
    def test_a_turn_names_its_run(self, backend: Bed) -> None:
        with backend.store.turns.begin("s", run_id="r1") as turn:
            assert turn.use("m", Usage(1)).run_id == "r1"
        with backend.store.turns.begin("s") as turn:
            turn.use("m", Usage(1))
            run = turn.run("running")
        assert [one.entry.run_id for one in backend.store.usage.list("s")] == ["r1", run.id]

    @pytest.mark.promise(158)
    @pytest.mark.parametrize("name", WRONG_USAGE)
    def test_counts_that_are_none_are_refused(self, backend: Bed, name: str) -> None:
        usage, field = WRONG_USAGE[name]
        with backend.unchanged("s"):
            with pytest.raises(InvalidValue) as refused:
                backend.store.usage.record("s", "m", usage)
            assert refused.value.field == field
            with pytest.raises(InvalidValue):
                backend.store.turns.begin("s").use("m", usage)

    @pytest.mark.promise(158)
    @pytest.mark.parametrize("name", WRONG_COST)
    def test_costs_that_are_none_are_refused(self, backend: Bed, name: str) -> None:
        cost, field = WRONG_COST[name]
        with backend.unchanged("s"):
            with pytest.raises(InvalidValue) as refused:
                backend.store.usage.record("s", "m", Usage(1), cost=cost)
            assert refused.value.field == field

    @pytest.mark.promise(158)
    def test_a_correction_is_another_record(self, backend: Bed) -> None:
        store = backend.store
        store.usage.record("s", "m", Usage(100, 10), cost=Cost(500))
        store.usage.record("s", "m", Usage(-20, -2), cost=Cost(-100), correction=True)
        with store.turns.begin("s") as turn:
            turn.use("m", Usage(output=-1), cost=Cost(-5), correction=True)
        stats = store.sessions.stats("s")
        assert (stats.usage, stats.costs) == (Usage(80, 7, total=87), [Cost(395)])
        assert (stats.calls, len(store.usage.list("s"))) == (3, 3)
        for wrong in (Usage(True), Usage(-1.0)):  # type: ignore[arg-type]
            with pytest.raises(InvalidValue):
                store.usage.record("s", "m", wrong, correction=True)

    @pytest.mark.promise(158)
    def test_a_sum_that_no_database_holds_is_refused(self, backend: Bed) -> None:
        most = Usage(input=(1 << 53) - 1)
        with backend.store.turns.begin("s") as turn:
            for _ in range(512):
                turn.use("m", most)
        with backend.unchanged("s"), pytest.raises(InvalidValue):
            backend.store.usage.record("s", "m", Usage(input=512))
        backend.store.usage.record("s", "m", Usage(input=511))
        assert backend.store.sessions.stats("s").usage.input == (1 << 62) - 1
        assert backend.store.admin.verify().ok

    @pytest.mark.promise(158)
    def test_who_may_record(self, backend: Bed) -> None:
        store = backend.store
        lease = store.leases.take("s", owner="ann")
        assert lease is not None
        with pytest.raises(LeaseHeld):
            store.usage.record("s", "m", Usage(1))
        assert store.usage.record(lease, "m", Usage(1)).revision == 1
        with pytest.raises(SessionNotFound):
            store.usage.record("nobody", "m", Usage(1))
        assert store.usage.list("nobody") == []
        store.sessions.delete("s")
        with pytest.raises(SessionDeleted):
            store.usage.record(lease, "m", Usage(1))
        assert len(store.usage.list("s")) == 1


class TestDeletedUsage:
    @pytest.fixture(autouse=True)
    def busy(self, backend: Bed) -> str:
        """Session s with five uses and two executions, one of them finished by a turn."""
        store = backend.store
        for session in ("s", "other"):
            store.sessions.create(id=session)
            store.usage.record(session, "m", Usage(1), cost=Cost(5))
            call = store.executions.start(session, call_id="c1", tool="t")
            with store.turns.begin(session) as turn:
                turn.assistant("x")
                for _ in range(4):
                    turn.use("m", Usage(2))
                turn.execution(call, result=1)
            store.executions.start(session, call_id="c2", tool="t")
        return "s"

    @pytest.mark.promise(160)
    def test_executions_and_usage_go_and_are_counted(self, backend: Bed) -> None:
        store = backend.store
        before, other = store.turns.list("s"), backend.snapshot("other")
        assert store.usage.delete("s") == UsageDeleted(2, 5)
        for _ in range(2):
            assert store.usage.list("s") == []
            assert store.executions.list(session="s") == []
            assert store.usage.summary(session="s") == []
            assert store.sessions.stats("s") == Stats(session="s", messages=1, turns=2)
            head = store.sessions.head("s")
            assert head is not None
            assert head.ledger == []
            assert [turn.link for turn in store.turns.list("s")] == [turn.link for turn in before]
            assert store.usage.delete("s") == UsageDeleted(0, 0)
            store = backend.reopen()
        assert backend.snapshot("other") == other
        assert store.usage.summary(by=())[0].calls == 5

    @pytest.mark.promise(160)
    def test_the_history_still_verifies_and_goes_on(self, backend: Bed) -> None:
        store = backend.store
        store.usage.delete("s")
        assert store.admin.verify().defects == []
        store.usage.record("s", "m", Usage(7))
        call = store.executions.start("s", call_id="c1", tool="t")
        with store.turns.begin("s") as turn:
            turn.execution(call, error="no")
        store = backend.reopen()
        assert store.admin.verify().defects == []
        stats = store.sessions.stats("s")
        assert (stats.usage.input, stats.tool_calls, stats.tool_calls_failed) == (7, 1, 1)
        copy = store.sessions.copy("s", "c")
        assert store.usage.list(copy.id) == []
        assert store.admin.verify().defects == []

    @pytest.mark.promise(160)
    def test_who_may_delete(self, backend: Bed) -> None:
        store = backend.store
        assert store.usage.delete("nobody") == UsageDeleted(0, 0)
        lease = store.leases.take("s", owner="ann")
        assert lease is not None
        with backend.unchanged("s"), pytest.raises(LeaseHeld):
            store.usage.delete("s")
        assert store.usage.delete(lease).records == 5
        store.sessions.delete("other")
        with backend.unchanged("other"), pytest.raises(SessionDeleted):
            store.usage.delete("other")

    @pytest.mark.promise(160, 24)
    def test_a_repeated_record_stays_deleted(self, backend: Bed) -> None:
        first = backend.store.usage.record("s", "m", Usage(5), id="r1")
        backend.store.usage.delete("s")
        again = backend.store.usage.record("s", "m", Usage(5), id="r1")
        assert (again.revision, again.created_us) == (first.revision, first.created_us)
        assert backend.store.usage.list("s") == []

    @pytest.mark.promise(14, 160)
    def test_another_tenant_sees_and_deletes_nothing(self, backend: Bed) -> None:
        stranger = backend.open("red")
        with backend.unchanged("s"):
            assert stranger.usage.list("s") == []
            assert stranger.usage.summary() == []
            assert stranger.usage.summary(by="run") == []
            assert stranger.sessions.stats("s") == Stats(session="s")
            assert stranger.usage.delete("s") == UsageDeleted(0, 0)
        stranger.messages.append("s", user("mine"), create=True)
        assert stranger.usage.summary(by=("session", "day")) == []
