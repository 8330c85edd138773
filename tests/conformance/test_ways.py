"""Which test goes which way."""

from __future__ import annotations

from random import Random

from tests.conformance.ways import WAYS, ways_of


def test_of_each_promise_some_test_goes_each_way(seed: int) -> None:
    random = Random(seed)
    promises = {f"test_{n}": random.sample(range(40), random.randrange(4)) for n in range(200)}
    chosen = ways_of(promises)
    assert all(chosen[name] for name in promises)
    proved = {
        (number, way) for name in promises for way in chosen[name] for number in promises[name]
    }
    wanted = {number for numbers in promises.values() for number in numbers}
    assert proved == {(number, way) for number in wanted for way in WAYS}


def test_a_test_alone_with_its_promise_goes_every_way_and_one_without_any_goes_one() -> None:
    chosen = ways_of({"alone": [7], "none": []})
    assert chosen["alone"] == {*WAYS}
    assert len(chosen["none"]) == 1


def test_what_others_prove_already_is_not_repeated() -> None:
    chosen = ways_of({f"test_{n}": [7] for n in range(500)})
    assert all(len(ways) == 1 for ways in chosen.values())
