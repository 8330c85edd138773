"""One recorded use: what of its cost was input and what output."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import Cost, Usage, assistant, user
from ledgerstone.errors import InvalidValue, TurnConflict
from ledgerstone.rules.prices import Price
from ledgerstone.testing.bed import Bed

__all__ = ["TestSplitCosts"]

SPLIT = Cost(100, "EUR", input_nano=30, output_nano=60)


@pytest.mark.promise(215)
class TestSplitCosts:
    """A cost has an input, an output and a total, in one currency."""

    def test_of_a_message_and_of_a_use_it_is_kept(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("hello"), assistant("hi", cost=SPLIT), create=True)
        store.usage.record("s", "m", Usage(1, 2), cost=SPLIT)
        with store.turns.begin("s") as turn:
            turn.use("m", Usage(1, 2), cost=SPLIT)
        store = backend.reopen()
        assert store.messages.last("s", 1)[0].body.cost == SPLIT
        assert [one.entry.cost for one in store.usage.list("s")] == [SPLIT, SPLIT]

    def test_sums_are_of_totals(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        for cost in (SPLIT, Cost(5, "EUR"), SPLIT):
            store.usage.record("s", "m", Usage(1), cost=cost)
        assert store.sessions.stats("s").costs == [Cost(205, "EUR")]
        assert store.usage.summary(by=())[0].costs == [Cost(205, "EUR")]
        assert store.admin.verify().ok

    def test_what_is_not_known_is_neither_nothing_nor_kept(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        made = [Cost(5), Cost(5, output_nano=5), Cost(5, input_nano=0, output_nano=0)]
        for cost in made:
            store.usage.record("s", "m", Usage(1), cost=cost)
        found = [one.entry.cost for one in backend.reopen().usage.list("s")]
        assert found == made
        assert repr(found[0]) == "Cost(nano=5, currency='USD')"

    def test_another_split_is_another_content(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        first = store.usage.record("s", "m", Usage(1), cost=SPLIT, id="u")
        assert store.usage.record("s", "m", Usage(1), cost=SPLIT, id="u") == first
        with pytest.raises(TurnConflict):
            store.usage.record("s", "m", Usage(1), cost=Cost(100, "EUR"), id="u")

    def test_a_price_list_says_both_and_they_add_up(self, backend: Bed) -> None:
        price = Price(input=1_499_999, output=2_500_001, cached_input=333_333)
        for n in range(-40, 40):
            cost = price.cost(Usage(3 * n, 7 * n, cached_input=n))
            assert cost.input_nano is not None
            assert cost.output_nano is not None
            assert cost.input_nano + cost.output_nano == cost.nano
            assert cost.input_nano * n >= 0
            assert cost.output_nano * n >= 0

    def test_anything_else_is_refused(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        parts: list[Any] = [1.5, "1", True, 1 << 53, -1]
        for part in parts:
            for name in ("input_nano", "output_nano"):
                with pytest.raises(InvalidValue) as refused:
                    store.usage.record("s", "m", Usage(1), cost=Cost(5, **{name: part}))
                assert refused.value.field == "cost"
        back = Cost(-5, input_nano=-2, output_nano=-3)
        assert (
            store.usage.record("s", "m", Usage(-1), cost=back, correction=True).entry.cost == back
        )
