"""Budgets that refuse the next turn: what went beyond one is kept, marked, and the last of it."""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from ledgerstone import BudgetExceeded, Cost, Session, Store, Usage
from ledgerstone.errors import InvalidValue
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.budgets import DAY_S, spent

HOLDERS = 5


def use(store: Store, session: str, tokens: int, cost: int | None = None) -> tuple[str, ...]:
    """A turn in its block; answers with the budgets that it went beyond."""
    with store.turns.begin(session, create=True) as turn:
        turn.assistant(f"paid for with {tokens}")
        turn.use("m", Usage(tokens), cost=None if cost is None else Cost(cost))
        return turn.commit().over_budget


class TestBudgetOverruns:
    @pytest.fixture(autouse=True)
    def sessions(self, backend: Bed) -> None:
        for id, owner in (("a", "ann"), ("b", "ann"), ("c", None)):
            backend.store.sessions.create(id=id, user=owner)

    @pytest.mark.promise(14)
    def test_the_paid_answer_is_kept_and_the_next_turn_refused(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", tokens=100, id="cap")
        assert use(store, "a", 60) == ()
        assert use(store, "a", 41) == ("cap",)
        assert backend.texts("a") == ["paid for with 60", "paid for with 41"]
        for _ in range(2):
            with backend.unchanged("a"), pytest.raises(BudgetExceeded) as refused:
                use(backend.store, "a", 1)
            error = refused.value
            assert (error.id, error.limit, error.used, error.asked) == ("cap", 100, 101, 0)
            assert spent(backend) == {"cap": (0, 101)}
            backend.reopen()
        assert use(backend.store, "b", 1000) == ()

    def test_exactly_used_up_is_not_over_and_nothing_begins(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", cost=Cost(100), id="cap")
        assert use(store, "a", 1, 100) == ()
        with pytest.raises(BudgetExceeded, match=r"0\.0000001 of 0\.0000001 USD used, no turn may"):
            use(store, "a", 1, 1)
        assert spent(backend) == {"cap": (100, 1)}

    def test_a_raised_or_dropped_budget_lets_it_go_on(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", tokens=10, id="cap")
        assert use(store, "a", 15) == ("cap",)
        with pytest.raises(BudgetExceeded):
            use(store, "a", 1)
        store.usage.budget(session="a", tokens=20, id="cap")
        assert use(store, "a", 5) == ()
        with pytest.raises(BudgetExceeded):
            use(store, "a", 1)
        store.usage.record("a", "m", Usage(-7), correction=True)
        assert use(store, "a", 1) == ()
        assert spent(backend) == {"cap": (0, 14)}
        assert use(store, "a", 7) == ("cap",)
        assert store.usage.drop_budget("cap")
        assert use(store, "a", 1) == ()

    @pytest.mark.parametrize(("period", "days"), [("day", 1), ("month", 17)])
    def test_the_next_period_lets_it_go_on(self, backend: Bed, period: str, days: int) -> None:
        store = backend.store
        store.usage.budget(session="a", tokens=10, period=period, id="cap")
        assert use(store, "a", 11) == ("cap",)
        with pytest.raises(BudgetExceeded, match=rf"wait for the next {period} \(UTC\)"):
            use(store, "a", 1)
        backend.clock.advance(days * DAY_S)
        assert use(store, "a", 9) == ()
        assert spent(backend) == {"cap": (0, 9)}

    def test_every_scope_refuses_its_own(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", tokens=10, id="session")
        store.usage.budget(user="ann", tokens=20, id="user")
        assert use(store, "a", 12) == ("session",)
        with pytest.raises(BudgetExceeded, match="budget of session a "):
            use(store, "a", 1)
        assert use(store, "b", 12) == ("user",)
        with pytest.raises(BudgetExceeded, match="budget of user ann "):
            use(store, "b", 1)
        with (
            pytest.raises(BudgetExceeded, match="budget of user ann "),
            store.turns.begin("new", create=Session(id="new", user="ann")),
        ):
            raise AssertionError("the session that begins is hers")
        store.usage.budget(tokens=30, id="tenant")
        assert use(store, "c", 12) == ("tenant",)
        for session in ("c", "new"):
            with pytest.raises(BudgetExceeded, match="budget of tenant "):
                use(store, session, 1)
        assert store.sessions.get("new") is None
        assert spent(backend) == {"session": (0, 12), "tenant": (0, 36), "user": (0, 24)}
        red = backend.open("red")
        assert use(red, "c", 100) == ()

    def test_a_commit_names_every_budget_and_a_repeated_one_the_same(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(user="ann", tokens=10, id="z")
        store.usage.budget(session="a", tokens=11, id="y")
        store.usage.budget(tokens=13, id="wide")
        for _ in range(3):
            turn = backend.store.turns.begin("a", id="t")
            turn.assistant("hello")
            turn.use("m", Usage(12))
            assert turn.commit().over_budget == ("y", "z")
            found = backend.store.usage.record("b", "m", Usage(1), id="r")
            assert found.over_budget == ("z",)
            assert spent(backend) == {"wide": (0, 13), "y": (0, 12), "z": (0, 13)}
            backend.reopen()

    def test_a_cost_nobody_knows_is_kept_and_marked(self, backend: Bed) -> None:
        store = backend.store
        store.usage.budget(session="a", cost=Cost(100, "EUR"), id="cap")
        assert use(store, "a", 5) == ("cap",)
        assert use(store, "a", 5, 7) == ("cap",)
        assert spent(backend) == {"cap": (0, 10)}

    def test_the_modes_side_by_side(self, backend: Bed) -> None:
        """The refusing one decides first; a turn begins while only that one is used up."""
        store = backend.store
        store.usage.budget(session="a", tokens=10, id="soft")
        store.usage.budget(session="a", tokens=20, id="strict", mode="refuse_commit")
        with backend.unchanged("a"), pytest.raises(BudgetExceeded) as refused:
            use(store, "a", 21)
        assert (refused.value.id, refused.value.asked) == ("strict", 21)
        assert spent(backend) == {"soft": (0, 0), "strict": (0, 0)}
        assert use(store, "a", 20) == ("soft",)
        store.usage.drop_budget("soft")
        with store.turns.begin("a") as turn:
            turn.assistant("costs nothing")
        with pytest.raises(BudgetExceeded):
            use(store, "a", 1)
        store.usage.budget(session="a", tokens=20, id="strict")
        with pytest.raises(BudgetExceeded, match="no turn may begin"):
            use(store, "a", 0)

    def test_an_estimate_is_checked_before_anything_is_spent(self, backend: Bed) -> None:
        usage = backend.store.usage
        assert usage.check() == usage.check(Usage(10**6), session="a") == []
        usage.budget(session="a", tokens=100, id="s")
        usage.budget(user="ann", cost=Cost(50), id="u", mode="refuse_commit")
        use(backend.store, "a", 60, 40)
        with backend.unchanged("a"):
            assert [one.budget.id for one in usage.check(session="a")] == ["s", "u"]
            assert [one.tokens_left for one in usage.check({"input": 40}, session="a")] == [
                40,
                None,
            ]
            usage.check(Usage(40), session="a", cost=Cost(10))
            for estimate, cost, broken in (
                (Usage(41), None, ("s", 41)),
                (Usage(1), Cost(11), ("u", 11)),
                (None, Cost(11), ("u", 11)),
                (Usage(1), Cost(1, "EUR"), ("u", None)),
            ):
                with pytest.raises(BudgetExceeded) as refused:
                    usage.check(estimate, session="a", cost=cost)
                assert (refused.value.id, refused.value.asked) == broken
            with pytest.raises(BudgetExceeded, match="unknown cost"):
                usage.check(Usage(1), session="a", model="nobody knows it")
            for session in (None, "not there yet"):
                with pytest.raises(BudgetExceeded):
                    usage.check(cost=Cost(11), session=session, user="ann")
        use(backend.store, "a", 1, 10)
        with pytest.raises(BudgetExceeded, match="user ann"):
            usage.check(session="b")
        assert usage.check(Usage(10**6), session="c") == []
        with pytest.raises(InvalidValue):
            usage.check(model="m")

    @pytest.mark.promise(14)
    def test_holders_overrun_it_by_one_turn_each(self, backend: Bed) -> None:
        """All of them are in their blocks when one token is left: that is the worst there is."""
        backend.store.usage.budget(tokens=100, id="cap")
        assert use(backend.store, "a", 99) == ()
        stores, inside = [backend.open() for _ in range(HOLDERS)], Barrier(HOLDERS)

        def work(holder: int) -> int:
            done = 0
            while True:
                try:
                    with stores[holder].turns.begin(f"h{holder}", create=True) as turn:
                        inside.wait(60)
                        turn.assistant("paid for")
                        turn.use("m", Usage(10))
                        turn.commit()
                except BudgetExceeded:
                    return done
                done += 1

        with ThreadPoolExecutor(HOLDERS) as pool:
            assert list(pool.map(work, range(HOLDERS))) == [1] * HOLDERS
        assert spent(backend) == {"cap": (0, 99 + HOLDERS * 10)}

    @pytest.mark.promise(14)
    def test_who_knew_of_no_budget_overruns_it_by_one_turn(self, backend: Bed) -> None:
        other = backend.open()
        assert use(other, "b", 1) == ()
        backend.store.usage.budget(tokens=10, id="cap")
        assert use(backend.store, "a", 10) == ("cap",)
        kept: list[tuple[str, ...]] = []
        with contextlib.suppress(BudgetExceeded):
            kept.append(use(other, "b", 5))
        assert kept in ([], [("cap",)])
        with pytest.raises(BudgetExceeded):
            use(other, "b", 5)
        assert spent(backend) == {"cap": (0, 11 + 5 * len(kept))}
