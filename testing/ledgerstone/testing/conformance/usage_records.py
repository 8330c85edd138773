"""One recorded use: its id, its message, and what of its cost was input and what output."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import Cost, Usage, assistant, user
from ledgerstone.errors import InvalidValue, TurnConflict
from ledgerstone.rules.prices import Price
from ledgerstone.testing.bed import Bed

__all__ = ["TestSplitCosts", "TestUsageRecords"]

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


@pytest.mark.promise(216)
class TestUsageRecords:
    """A record has an id of its own, and may name its message."""

    def test_every_record_has_an_id_of_its_own_that_stays(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        with store.turns.begin("s") as turn:
            for _ in range(3):
                turn.use("m", Usage(1))
        made = store.usage.record("s", "m", Usage(2))
        found = store.usage.list("s")
        assert len({one.id for one in found}) == 4
        assert found[-1].id == made.id
        store = backend.reopen()
        assert [one.id for one in store.usage.list("s")] == [one.id for one in found]
        assert [store.usage.get("s", one.id) for one in found] == found
        assert [one.id for one in store.usage.iter("s")] == [one.id for one in found]

    def test_records_of_other_sessions_have_other_ids(self, backend: Bed) -> None:
        found = set()
        for session in ("a", "b"):
            backend.store.sessions.create(id=session)
            with backend.store.turns.begin(session, id="t") as turn:
                turn.use("m", Usage(1))
            found |= {one.id for one in backend.store.usage.list(session)}
        assert len(found) == 2

    def test_an_id_may_be_given(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        assert store.usage.record("s", "m", Usage(1), id="call-1").id == "call-1"
        with store.turns.begin("s") as turn:
            turn.use("m", Usage(2), id="call-2")
        found = backend.reopen().usage.get("s", "call-2")
        assert found is not None
        assert (found.id, found.entry.usage.input) == ("call-2", 2)
        assert backend.store.usage.get("s", "call-3") is None
        assert backend.store.usage.get("nobody", "call-2") is None

    def test_by_message_they_are_found_again(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        with store.turns.begin("s") as turn:
            turn.user("hello")
            said = turn.assistant("hi")
            turn.use("m", Usage(1), message=said)
            turn.use("m", Usage(2), source="tool")
        store.usage.record("s", "judge", Usage(3), message=said.id)
        store.usage.record("s", "judge", Usage(4), message="another")
        store = backend.reopen()
        (hi,) = store.messages.last("s", 1)
        found = store.usage.list("s", message=hi)
        assert [one.entry.usage.input for one in found] == [1, 3]
        assert {one.message_id for one in found} == {hi.id}
        assert store.usage.list("s", message=hi, limit=1) == found[:1]
        assert store.usage.list("s", message="nothing") == []
        assert len(store.usage.list("s")) == 4
        assert store.admin.verify().ok

    def test_found_behind_many_others(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        for n in range(60):
            with store.turns.begin("s") as turn:
                for m in range(20):
                    turn.use("m", Usage(m), message="wanted" if (n, m) == (59, 19) else "other")
        (found,) = store.usage.list("s", message="wanted", limit=3)
        assert (found.revision, found.n) == (60, 20)

    def test_ids_and_messages_are_no_content_of_a_turn(self, backend: Bed) -> None:
        """As all ids: a turn that is built again draws others."""
        store = backend.store
        store.sessions.create(id="s")
        for message in ("first", "second"):
            with store.turns.begin("s", id="t") as turn:
                turn.use("m", Usage(1), message=message)
        (kept,) = store.usage.list("s")
        assert kept.message_id == "first"

    def test_they_are_no_part_of_sums_and_ledgers(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        for n in range(3):
            store.usage.record("s", "m", Usage(1), id=f"u{n}", message=f"m{n}")
        head = store.sessions.head("s")
        assert head is not None
        (line,) = head.ledger
        assert (line.usage.input, line.id, line.message) == (3, "", None)
        assert store.usage.summary(by=())[0].calls == 3
