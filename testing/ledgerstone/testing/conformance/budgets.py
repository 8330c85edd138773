"""Budgets that refuse commits: one beyond it does nothing; what is used is what was recorded."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledgerstone import BudgetExceeded, Cost, Session, Usage
from ledgerstone.errors import InvalidValue
from ledgerstone.testing.bed import Bed

DAY_S = 86_400
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no limit": ({}, "cost"),
    "two subjects": ({"session": "s", "user": "u", "tokens": 1}, "user"),
    "negative tokens": ({"tokens": -1}, "tokens"),
    "true": ({"tokens": True}, "tokens"),
    "half": ({"tokens": 1.5}, "tokens"),
    "negative cost": ({"cost": Cost(-1)}, "cost"),
    "a number": ({"cost": 5}, "cost"),
    "unknown currency": ({"cost": Cost(1, "GOLD")}, "cost.currency"),
    "a period": ({"tokens": 1, "period": "week"}, "period"),
    "a mode": ({"tokens": 1, "mode": "refuse"}, "mode"),
    "an id": ({"tokens": 1, "id": ""}, "id"),
    "a user": ({"tokens": 1, "user": "a\nb"}, "user"),
    "a session": ({"tokens": 1, "session": ""}, "session"),
}


def spent(backend: Bed) -> dict[str, tuple[int, int]]:
    """Money and tokens of every budget; and they are what verify counts."""
    assert backend.store.admin.verify().defects == []
    found = backend.store.usage.budgets()
    return {one.budget.id: (one.spent_nano, one.spent_tokens) for one in found}


class TestBudgets:
    @pytest.fixture(autouse=True)
    def sessions(self, backend: Bed) -> None:
        for id, owner in (("a", "ann"), ("b", "ann"), ("c", None)):
            backend.store.sessions.create(id=id, user=owner)

    def test_a_commit_beyond_a_budget_does_nothing(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", tokens=100, id="cap", mode="refuse_commit")
        store.usage.record("a", "m", Usage(60))
        with backend.unchanged("a"):
            turn = store.turns.begin("a")
            turn.user("hello")
            turn.use("m", Usage(30, 11))
            with pytest.raises(BudgetExceeded) as refused:
                turn.commit()
        error = refused.value
        assert (error.id, error.limit, error.used, error.asked) == ("cap", 100, 60, 41)
        assert error.unit == "tokens"
        assert spent(backend) == {"cap": (0, 60)}
        store.usage.record("a", "m", Usage(40))
        with pytest.raises(BudgetExceeded):
            store.usage.record("a", "m", Usage(1))
        assert spent(backend) == {"cap": (0, 100)}
        store.usage.record("b", "m", Usage(1000))

    def test_money_is_counted_in_the_currency_of_the_budget(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", cost=Cost(1000, "EUR"), id="cap", mode="refuse_commit")
        store.usage.record("a", "m", Usage(1), cost=Cost(900, "EUR"))
        for cost in (None, Cost(1)):
            with pytest.raises(BudgetExceeded) as refused:
                store.usage.record("a", "m", Usage(1), cost=cost)
            assert (refused.value.asked, refused.value.unit) == (None, "EUR")
        with pytest.raises(BudgetExceeded) as refused:
            store.usage.record("a", "m", Usage(1), cost=Cost(101, "EUR"))
        assert (refused.value.used, refused.value.asked) == (900, 101)
        store.usage.record("a", "m", Usage(1), cost=Cost(100, "EUR"))
        (state,) = store.usage.remaining("a")
        assert (state.cost_left, state.tokens_left) == (Cost(0, "EUR"), None)

    def test_a_refusal_says_whose_budget_how_much_and_what_to_do(self, backend: Bed) -> None:
        usage = backend.store.usage
        usage.budget(session="a", cost=Cost(1_300_000), period="day", mode="refuse_commit")
        usage.budget(user="ann", tokens=50, mode="refuse_commit")
        usage.record("a", "m", Usage(10), cost=Cost(1_250_000))
        with pytest.raises(BudgetExceeded) as refused:
            usage.record("a", "m", Usage(1), cost=Cost(2_000_000_000))
        said = str(refused.value)
        assert "session a (day) exceeded: 0.00125 of 0.0013 USD used, 2.00 more" in said
        assert "usage.budget" in said
        assert "over_budget=True" in said
        error = refused.value
        assert (error.limit, error.used, error.asked) == (1_300_000, 1_250_000, 2_000_000_000)
        assert (error.scope, error.subject, error.period) == ("session", "a", "day")
        with pytest.raises(BudgetExceeded, match="unknown cost; give its cost in USD, or"):
            usage.record("a", "m", Usage(1))
        with pytest.raises(BudgetExceeded, match=r"user ann \(total\) exceeded: 10 of 50 tokens"):
            usage.record("b", "m", Usage(41))
        usage.budget(tokens=20, mode="refuse_commit")
        with pytest.raises(BudgetExceeded, match=r"^budget of tenant \(total\) exceeded"):
            usage.record("c", "m", Usage(11))

    def test_a_negative_limit_is_no_correction(self, backend: Bed) -> None:
        with pytest.raises(InvalidValue, match="-5 is negative; a budget is 0 or more"):
            backend.store.usage.budget(cost=Cost(-5))

    def test_what_is_over_and_what_is_taken_back_is_recorded(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", cost=Cost(100), tokens=50, id="cap", mode="refuse_commit")
        store.usage.record("a", "m", Usage(80), cost=Cost(150), over_budget=True)
        with store.turns.begin("a") as turn:
            turn.use("m", Usage(5), over_budget=True)
        assert spent(backend) == {"cap": (150, 85)}
        store.usage.record("a", "m", Usage(-10), correction=True)
        store.usage.record("a", "m", Usage(-10), cost=Cost(-20), correction=True)
        assert spent(backend) == {"cap": (130, 65)}
        with pytest.raises(BudgetExceeded):
            store.usage.record("a", "m", Usage(1), cost=Cost(1))
        store.usage.record("a", "m", Usage(-60), cost=Cost(-120), correction=True)
        store.usage.record("a", "m", Usage(1), cost=Cost(1))
        assert spent(backend) == {"cap": (11, 6)}

    def test_tenant_user_and_session_are_bound_at_once(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(tokens=100, id="tenant", mode="refuse_commit")
        store.usage.budget(user="ann", tokens=50, id="user", mode="refuse_commit")
        store.usage.budget(session="a", tokens=20, id="session", mode="refuse_commit")
        for session, count, broken in (
            ("a", 21, "session"),
            ("a", 20, None),
            ("b", 31, "user"),
            ("b", 30, None),
            ("c", 51, "tenant"),
            ("c", 50, None),
        ):
            if broken is None:
                store.usage.record(session, "m", Usage(count))
                continue
            with pytest.raises(BudgetExceeded) as refused:
                store.usage.record(session, "m", Usage(count))
            assert refused.value.id == broken
        assert spent(backend) == {"session": (0, 20), "tenant": (0, 100), "user": (0, 50)}
        names = {
            name: [one.budget.id for one in store.usage.remaining(name)]
            for name in ("a", "b", "c", "nobody")
        }
        assert names == {
            "a": ["session", "tenant", "user"],
            "b": ["tenant", "user"],
            "c": ["tenant"],
            "nobody": ["tenant"],
        }

    def test_what_was_used_before_counts(self, backend: Bed) -> None:
        store = backend.store
        store.usage.record("a", "m", Usage(70), cost=Cost(9))
        store.usage.record("b", "m", Usage(20))
        state = store.usage.budget(user="ann", tokens=100, id="cap", mode="refuse_commit")
        assert (state.spent_tokens, state.spent_nano, state.tokens_left) == (90, 9, 10)
        with pytest.raises(BudgetExceeded):
            store.usage.record("b", "m", Usage(11))
        store.usage.budget(user="ann", tokens=200, id="cap", mode="refuse_commit")
        store.usage.record("b", "m", Usage(11))
        assert len(store.usage.budgets()) == 1

    @pytest.mark.parametrize(("period", "days"), [("day", 1), ("month", 17)])
    def test_a_period_begins_anew(self, backend: Bed, period: str, days: int) -> None:
        """The clock of a bed starts on 2023-11-14, 22:13."""
        store, clock = backend.store, backend.clock
        store.usage.budget(session="a", tokens=100, period=period, id="cap", mode="refuse_commit")
        store.usage.record("a", "m", Usage(100))
        with pytest.raises(BudgetExceeded):
            store.usage.record("a", "m", Usage(1))
        clock.advance(days * DAY_S)
        (state,) = store.usage.budgets()
        assert (state.spent_tokens, state.tokens_left) == (0, 100)
        backend.reopen()
        backend.store.usage.record("a", "m", Usage(99))
        with pytest.raises(BudgetExceeded) as refused:
            backend.store.usage.record("a", "m", Usage(2))
        assert refused.value.used == 99
        (state,) = backend.store.usage.budgets()
        wanted = {"day": 1_700_006_400_000_000, "month": 1_701_388_800_000_000}
        assert state.since_us == wanted[period]
        assert spent(backend) == {"cap": (0, 99)}

    def test_a_commit_in_an_older_period_counts_there(self, backend: Bed) -> None:
        """A session whose record was imported from the future is ahead of all others."""
        store, clock = backend.store, backend.clock
        store.usage.budget(tokens=100, period="day", id="cap", mode="refuse_commit")
        store.sessions.put(Session(id="c", updated_us=clock.now_us() + 2 * DAY_S * 1_000_000))
        store.usage.record("c", "m", Usage(90))
        store.usage.record("a", "m", Usage(60))
        with pytest.raises(BudgetExceeded) as refused:
            store.usage.record("a", "m", Usage(41))
        assert refused.value.used == 60
        with pytest.raises(BudgetExceeded) as refused:
            store.usage.record("c", "m", Usage(11))
        assert refused.value.used == 90
        assert spent(backend) == {"cap": (0, 60)}
        clock.advance(2 * DAY_S)
        assert spent(backend) == {"cap": (0, 90)}

    def test_a_repeated_commit_asks_for_nothing(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", tokens=100, id="cap")
        first = store.usage.record("a", "m", Usage(100), id="r")
        for _ in range(3):
            assert store.usage.record("a", "m", Usage(100), id="r") == first
        assert spent(backend) == {"cap": (0, 100)}

    def test_what_goes_away_is_not_spent_any_more(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(tokens=1000, id="tenant")
        store.usage.budget(user="ann", tokens=1000, id="ann")
        store.usage.budget(user="bob", tokens=1000, period="month", id="bob")
        for session, count in (("a", 100), ("b", 10), ("c", 1)):
            store.usage.record(session, "m", Usage(count))
        assert spent(backend) == {"ann": (0, 110), "bob": (0, 0), "tenant": (0, 111)}
        store.sessions.put(Session(id="b", user="bob"))
        assert spent(backend) == {"ann": (0, 100), "bob": (0, 10), "tenant": (0, 111)}
        store.usage.delete("c")
        assert spent(backend) == {"ann": (0, 100), "bob": (0, 10), "tenant": (0, 110)}
        store.sessions.delete("a")
        assert spent(backend)["ann"] == (0, 100)
        store.sessions.purge("a")
        for _ in range(2):
            assert spent(backend) == {"ann": (0, 0), "bob": (0, 10), "tenant": (0, 10)}
            backend.reopen()

    def test_budgets_are_kept_listed_and_dropped(self, backend: Bed) -> None:
        store = backend.store
        made = store.usage.budget(session="a", cost=Cost(5), period="month")
        again = store.usage.budget(session="a", cost=Cost(7), period="month")
        assert again.budget.id == made.budget.id
        other = store.usage.budget(session="a", tokens=7, period="month")
        assert other.budget.id != made.budget.id
        store = backend.reopen()
        assert [one.budget for one in store.usage.budgets()] == sorted(
            (again.budget, other.budget), key=lambda one: one.id
        )
        assert store.usage.drop_budget(again)
        assert not store.usage.drop_budget(again.budget.id)
        assert [one.budget for one in store.usage.budgets("a")] == [other.budget]
        assert store.usage.drop_budget(other.budget.id)
        store.usage.record("a", "m", Usage(100))

    @pytest.mark.promise(14)
    def test_another_tenant_is_bound_by_its_own(self, backend: Bed) -> None:
        backend.store.usage.budget(tokens=10, id="cap", mode="refuse_commit")
        red = backend.open("red")
        assert red.usage.budgets() == []
        assert not red.usage.drop_budget("cap")
        red.sessions.create(id="a")
        red.usage.budget(tokens=500, id="cap")
        red.usage.record("a", "m", Usage(400))
        with pytest.raises(BudgetExceeded):
            backend.store.usage.record("a", "m", Usage(11))
        assert spent(backend) == {"cap": (0, 0)}

    @pytest.mark.parametrize("name", WRONG)
    def test_budgets_that_bound_nothing_are_refused(self, backend: Bed, name: str) -> None:
        given, field = WRONG[name]
        with pytest.raises(InvalidValue) as refused:
            backend.store.usage.budget(**given)
        assert refused.value.field == field
        assert backend.store.usage.budgets() == []

    def test_many_writers_never_go_beyond_it_together(self, backend: Bed) -> None:
        backend.store.usage.budget(tokens=100, id="cap", mode="refuse_commit")

        def work(writer: int) -> int:
            store, done = backend.open(), 0
            for n in range(10):
                try:
                    store.usage.record("abc"[writer % 3], "m", Usage(3), id=f"{writer}-{n}")
                except BudgetExceeded:
                    continue
                done += 1
            return done

        with ThreadPoolExecutor(6) as pool:
            assert sum(pool.map(work, range(6))) == 33
        assert spent(backend) == {"cap": (0, 99)}
