"""What models cost: by the store's price list, unless the caller knows better."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Cost, Price, Prices, Store, TurnConflict, Usage
from ledgerstone.connect import Equipment
from ledgerstone.errors import InvalidValue
from ledgerstone.testing.bed import Bed

OWN = {"big": {"input": "3", "output": "15", "cached_input": "0.3", "cache_write": "3.75"}}
WRONG: dict[str, tuple[Any, str]] = {
    "no output": ({"m": {"input": "1"}}, "prices.m.output"),
    "no input": ({"m": {"output": "1"}}, "prices.m.input"),
    "nothing": ({"m": {}}, "prices.m.input"),
    "a float": ({"m": {"input": 0.1, "output": 1}}, "prices.m.input"),
    "negative": ({"m": {"input": -1, "output": 1}}, "prices.m.input"),
    "true": ({"m": {"input": True, "output": 1}}, "prices.m.input"),
    "exponent": ({"m": {"input": "1e3", "output": "1"}}, "prices.m.input"),
    "a misspelt kind": ({"m": {"input": 1, "output": 1, "cached": 1}}, "prices.m.cached"),
    "a currency": ({"m": {"input": 1, "output": 1, "currency": "GOLD"}}, "prices.m.currency"),
    "beside": ({"m": {"input": 1, "output": 1, "cached_beside": 1}}, "prices.m.cached_beside"),
    "a price": ({"m": 5}, "prices.m"),
    "a name": ({5: {"input": 1, "output": 1}}, "prices"),
    "a list": ([], "prices"),
    "a number": (5, "prices"),
    "no file": ("/nowhere/prices.json", "prices"),
}
# Names of sizes and kinds, versions without a year, dates that there are not, and more behind one.
OTHER_ENDINGS = (
    *("-pro", "-mini", "-4.10", "-4", ":free", "/x", "_20250101", "-0613", "-2411", "-08-2024"),
    *("-2024-13-01", "-2024-08-32", "-20241301", "-1999-01-01", "latest", "-Latest"),
    *("-20241022-v2", "-latest-pro", "-latest\n", "-2024-08-06-2024-08-06", "-x-2024-08-06"),
)


def priced(backend: Bed, prices: object) -> Store:
    """A store on the same place with a price list of its own."""
    equipment = Equipment(backend.port, prices=prices)
    return Store(backend.port, clock=backend.clock, equipment=equipment)


class TestPrices:
    @pytest.mark.promise(158)
    def test_a_use_without_a_cost_is_priced_when_it_is_recorded(self, backend: Bed) -> None:
        store = priced(backend, OWN)
        store.sessions.create(id="s")
        usage = Usage(input=1000, output=200, cached_input=400, cache_write=100, reasoning=50)
        found = store.usage.record("s", "big", usage)
        # 500 plain, 400 cached, 100 written, 200 out.
        cost = Cost(4_995_000, "USD", 1_500_000 + 120_000 + 375_000, 3_000_000)
        assert found.entry.cost == cost
        assert found.entry.estimated
        with store.turns.begin("s") as turn:
            assert turn.use("big", Usage(1), cost=Cost(9)).cost == Cost(9)
            assert turn.use("small", Usage(1)).cost is None
        backend.reopen()
        stored = backend.store.usage.list("s")
        assert [one.entry.cost for one in stored] == [cost, Cost(9), None]
        assert [one.entry.estimated for one in stored] == [True, False, False]
        assert backend.store.sessions.stats("s").unpriced == 1

    @pytest.mark.promise(158, 111)
    def test_a_turn_that_is_repeated_under_other_prices_is_the_same(self, backend: Bed) -> None:
        old, new = priced(backend, OWN), priced(backend, {"big": {"input": "9", "output": "9"}})
        old.sessions.create(id="s")
        first = old.usage.record("s", "big", Usage(1000), id="r")
        assert new.usage.record("s", "big", Usage(1000), id="r") == first
        assert new.sessions.stats("s").costs == [Cost(3_000_000)]
        with pytest.raises(TurnConflict):
            new.usage.record("s", "big", Usage(1000), id="r", cost=Cost(3_000_000))

    @pytest.mark.promise(158)
    def test_several_currencies_are_summed_apart(self, backend: Bed) -> None:
        euro = {"le-grand": {"input": "2", "output": "6", "currency": "EUR"}}
        store = priced(backend, Prices(OWN).extended(euro))
        store.sessions.create(id="s")
        for model in ("big", "le-grand", "le-grand"):
            store.usage.record("s", model, Usage(1000))
        (total,) = store.usage.summary(by=())
        assert total.costs == [Cost(4_000_000, "EUR"), Cost(3_000_000)]

    @pytest.mark.promise(158)
    @pytest.mark.parametrize("name", WRONG)
    def test_a_list_with_gaps_is_refused(self, backend: Bed, name: str) -> None:
        given, field = WRONG[name]
        with pytest.raises(InvalidValue) as refused:
            priced(backend, given)
        assert refused.value.field == field

    @pytest.mark.promise(158)
    def test_a_list_from_a_file(self, backend: Bed, tmp_path: Path) -> None:
        path = tmp_path / "prices.json"
        path.write_text(json.dumps({"as_of": "2026-01-01", "currency": "EUR", "models": OWN}))
        for given in (path, str(path)):
            store = priced(backend, given)
            assert store._handle.equipment.prices.as_of == "2026-01-01"
            turn = store.turns.begin("s")
            assert turn.use("big", Usage(1000)).cost == Cost(3_000_000, "EUR", 3_000_000, 0)
            turn.discard()
        path.write_text('{"big": {"input": 1, "input": 2, "output": 1}}')
        with pytest.raises(InvalidValue):
            priced(backend, path)

    @pytest.mark.promise(158)
    def test_no_prices_at_all(self, backend: Bed) -> None:
        turn = priced(backend, {}).turns.begin("s")
        assert turn.use("gpt-4o", Usage(1)).cost is None
        turn.discard()

    @pytest.mark.promise(158)
    def test_how_a_model_is_found(self, backend: Bed) -> None:
        one, two, three = (Price(input=n, output=n) for n in (1, 2, 3))
        prices = Prices({"m": one, "m-4.1": two, "lab/m": three, "x:y": two})
        assert prices.find("m") == one
        assert prices.find("m", "lab") == one
        assert prices.find("lab/m") == three
        assert Prices({"lab/m": three}).find("m", "lab") == three
        assert Prices({"lab/m": three}).find("m") is None
        assert prices.find("m-4.1-2025-04-14") == two
        for version in ("-2024-08-06", "-20241022", "@20250514", ":20250514", "-latest", ":latest"):
            assert prices.find("m" + version) == one
            assert prices.find("m-4.1" + version) == prices.find("x:y" + version) == two
            assert prices.find("lab/m" + version) == three
            assert Prices({"lab/m": three}).find("m" + version, "lab") == three
        for unknown in ("mm", "n", "M", "x", "4.1", "", "n-1", "-latest"):
            assert prices.find(unknown) is prices.find(unknown, "lab") is None

    @pytest.mark.promise(158)
    @pytest.mark.parametrize("ending", OTHER_ENDINGS)
    def test_another_ending_is_another_model(self, backend: Bed, ending: str) -> None:
        price = Price(input=1, output=1)
        prices = Prices({"gpt-5": price, "lab/m": price})
        assert prices.find("gpt-5" + ending) is None
        assert prices.find("m" + ending, "lab") is None
        assert prices.cost("gpt-5" + ending, Usage(1)) is None

    @pytest.mark.promise(158)
    def test_the_list_that_is_built_in(self, backend: Bed) -> None:
        prices = Prices.built_in()
        assert prices.as_of
        assert len(prices) >= 48
        turn = backend.store.turns.begin("s")
        entry = turn.use("gpt-4o-2024-08-06", Usage(1000, 100))
        turn.discard()
        assert entry.cost == Cost(3_500_000, "USD", 2_500_000, 1_000_000)
        assert prices.find("gpt-4o-2024-05-13") != prices.find("gpt-4o")
        assert prices.find("gpt-5-pro") != prices.find("gpt-5")
        assert prices.find("gpt-5-max") is None
        assert prices.find("openai/gpt-4o") == prices.find("gpt-4o", "azure")
        cheaper = prices.extended({"gpt-4o": {"input": 1, "output": 1}})
        assert cheaper.find("gpt-4o") != prices.find("gpt-4o")
        assert cheaper.find("o3") == prices.find("o3")

    @pytest.mark.promise(158)
    def test_a_cost_is_rounded_once_and_a_correction_cancels_it(self, backend: Bed) -> None:
        price = Price(input=500_000, output=499_999)
        assert [price.cost(Usage(n)).nano for n in (0, 1, 2, 3)] == [0, 1, 1, 2]
        assert price.cost(Usage(0, 1)).nano == 0
        assert price.cost(Usage(1, 1)).nano == 1
        for n in range(5):
            assert price.cost(Usage(-n, -n)).nano == -price.cost(Usage(n, n)).nano
        beside = Price(input=10**6, output=0, cached_input=10**5, cached_beside=True)
        inside = Price(input=10**6, output=0, cached_input=10**5)
        assert beside.cost(Usage(100, cached_input=50)).nano == 105
        assert inside.cost(Usage(100, cached_input=50)).nano == 55
        assert inside.cost(Usage(10, cached_input=50)).nano == 5
