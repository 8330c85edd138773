"""The three engines give the same answers, through changes, from threads and in blocks."""

from __future__ import annotations

import asyncio
import math
import threading
from fractions import Fraction
from pathlib import Path
from random import Random
from typing import Any

import numpy
import pytest

from ledgerstone import AsyncStore, Store
from ledgerstone.api_sync import nearest
from ledgerstone.errors import InvalidValue, NotSupported
from ledgerstone.intake.embeddings import packed, rounded
from ledgerstone.ports.vectors import VectorIndex
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.rules.vectors import cosine, pack, unpack
from ledgerstone.vectors import opening
from ledgerstone.vectors.opening import open_engine
from ledgerstone.vectors.space_index import SpaceIndex

ENGINES = ("numpy", "sqlite-vec", "python")


def row(id: str, values: list[float], kind: str = "embedding", change: int = 0) -> VectorRow:
    return VectorRow(kind=kind, id=id, model="m", change=change, vector=pack(values))


def everything(row: VectorRow) -> bool:
    return True


def vector(random: Random, dimension: int) -> list[float]:
    """Ordinary ones, many alike, and extremes."""
    choice = random.randrange(12)
    if choice == 0:
        return [0.0] * dimension
    if choice == 1:
        return [float(random.randrange(-1, 2)) for _ in range(dimension)]
    size = {2: 1e38, 3: 1e-40, 4: 1e20, 5: 1e-20}.get(choice, 1.0)
    return [random.gauss(0, 1) / 10 * size for _ in range(dimension)]


def naive(rows: dict[str, VectorRow], query: tuple[float, ...]) -> list[tuple[float, str]]:
    scored = [(cosine(query, unpack(one.vector)), id) for id, one in rows.items()]
    return sorted(scored, key=lambda one: (-one[0], one[1]))


@pytest.mark.parametrize("turn", range(6))
def test_engines_agree_through_puts_and_drops(seed: int, turn: int) -> None:
    print(f"seed {seed}, turn {turn}")
    random = Random(seed * 100 + turn)
    dimension = random.choice((1, 2, 3, 17, 64))
    indexes = {name: open_engine(name).index(dimension) for name in ENGINES}
    rows: dict[str, VectorRow] = {}
    for _ in range(6):
        new = [
            row(f"e{random.randrange(200)}", vector(random, dimension))
            for _ in range(random.randrange(60))
        ]
        rows |= {one.id: one for one in new}
        for id in random.sample(sorted(rows), len(rows) // 4):
            del rows[id]
        query = rounded(vector(random, dimension))
        wanted = naive(rows, query)
        first = random.choice((1, 3, 10, 500))
        for name, index in indexes.items():
            index.put(new)
            index.keep({("embedding", id) for id in rows})
            assert len(index) == len(rows)
            found = [(score, one.id) for score, one in index.ranked(query, first, everything)]
            assert found == wanted, name
            assert_whole(index, query, rows)
            some = index.ranked(query, first, lambda one: one.id.endswith("3"))
            assert [(score, one.id) for score, one in some] == [
                one for one in wanted if one[1].endswith("3")
            ]


def assert_whole(index: VectorIndex, query: tuple[float, ...], rows: dict[str, VectorRow]) -> None:
    """What is handed out is what was put, to the last bit."""
    assert {one.id: one for _, one in index.ranked(query, 5, everything)} == rows


@pytest.mark.parametrize("name", ENGINES)
def test_thousands_of_equal_vectors_are_in_order_of_their_ids(name: str) -> None:
    index = open_engine(name).index(8)
    index.put([row(f"e{n:04}", [1.0] * 8) for n in reversed(range(3000))])
    ranked = index.ranked((1.0,) * 8, 10, everything)
    assert [next(ranked)[1].id for _ in range(30)] == [f"e{n:04}" for n in range(30)]


@pytest.mark.parametrize("name", ENGINES)
def test_only_what_is_read_is_ranked_exactly(name: str, seed: int) -> None:
    """A near miss in 32 bits is told apart in 64."""
    random = Random(seed)
    base = [random.gauss(0, 1) for _ in range(50)]
    rows = {}
    for n in range(300):
        near = list(base)
        near[n % 50] += n * 1e-6
        rows[f"e{n:03}"] = row(f"e{n:03}", near)
    index = open_engine(name).index(50)
    index.put(list(rows.values()))
    query = rounded(base)
    ranked = index.ranked(query, 5, everything)
    assert [(one[0], one[1].id) for one in ranked] == naive(rows, query)


def test_a_cosine_is_exact_to_the_last_rounding(seed: int) -> None:
    random = Random(seed)
    for _ in range(200):
        one, other = (rounded([random.gauss(0, 1) for _ in range(9)]) for _ in range(2))
        dot = sum(Fraction(a) * Fraction(b) for a, b in zip(one, other, strict=True))
        lengths = [float(sum(Fraction(a) ** 2 for a in each)) for each in (one, other)]
        assert cosine(one, other) == float(dot) / math.sqrt(lengths[0] * lengths[1])
        assert cosine(one, one) == 1.0
        assert cosine(one, [-value for value in one]) == -1.0
        assert cosine(one, other) == cosine(other, one)
    assert cosine([1, 2], [1, 2, 3]) == cosine([0, 0], [1, 1]) == 0.0


@pytest.mark.parametrize(
    "given",
    [
        [1, 2.5],
        (1, 2.5),
        numpy.array([1, 2.5], numpy.float32),
        numpy.array([1, 2.5], numpy.float64),
        [numpy.float32(1), numpy.float64(2.5)],
        numpy.array([2, 5], numpy.int64) / 2,
    ],
)
def test_numbers_come_in_many_forms(given: Any) -> None:
    assert unpack(packed(given)) == (1.0, 2.5)


@pytest.mark.parametrize(
    "given",
    [
        numpy.array([[1.0, 2.0]]),
        numpy.array([]),
        numpy.array(1.0),
        numpy.array([numpy.nan]),
        numpy.array([1e300]),
        numpy.array([True, False]),
        numpy.array(["1"]),
        numpy.array([1j]),
        [numpy.bool_(True)],
    ],
)
def test_arrays_that_are_no_vectors_are_refused(given: Any) -> None:
    with pytest.raises(InvalidValue):
        packed(given)


def test_engines_are_opened_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [open_engine(name).name for name in ENGINES] == list(ENGINES)
    assert open_engine(None).name == "numpy"
    with pytest.raises(InvalidValue, match="none of numpy, sqlite-vec, python"):
        open_engine("faiss")

    def missing() -> None:
        raise NotSupported("vectors='numpy'", hint="pip install ledgerstone[vectors]")

    monkeypatch.setitem(opening._ENGINES, "numpy", missing)
    assert open_engine(None).name == "sqlite-vec"
    with pytest.raises(NotSupported, match=r"ledgerstone\[vectors\]"):
        open_engine("numpy")


class TestFollowing:
    def space(self, **fields: int) -> Space:
        return Space(model="m", **{"dimension": 1, "count": 1, "changes": 1, **fields})

    def found(self, followed: SpaceIndex) -> list[str]:
        near = followed.nearest("embedding", (1.0,), 10, everything)
        return [one.id for _, one in near]

    def test_an_old_snapshot_is_left_aside(self) -> None:
        followed = SpaceIndex(open_engine("python"))
        old, new = self.space(), self.space(changes=3, drops=1)
        followed.take(new, 0, [row("b", [1.0], change=3)], True)
        followed.take(old, 0, [row("a", [1.0], change=1)], True)
        followed.keep(old, [("embedding", "a")])
        assert self.found(followed) == ["b"]
        assert followed.missing(new) is None
        assert followed.missing(old) is None

    def test_what_was_dropped_is_asked_for_only_when_the_count_differs(self) -> None:
        followed = SpaceIndex(open_engine("python"))
        rows = [row("a", [1.0], change=1), row("b", [1.0], change=2)]
        followed.take(self.space(count=2, changes=2), 0, rows, True)
        later = self.space(count=1, changes=2, drops=1)
        assert followed.missing(later) == 2
        followed.take(later, 2, [], True)
        assert followed.missing(later) == 2
        followed.keep(later, [("embedding", "b")])
        assert followed.missing(later) is None
        assert self.found(followed) == ["b"]

    def test_another_dimension_begins_anew(self) -> None:
        followed = SpaceIndex(open_engine("python"))
        followed.take(self.space(), 0, [row("a", [1.0], change=1)], True)
        other = self.space(dimension=2, changes=2, drops=1)
        assert followed.missing(other) == 0
        followed.take(other, 0, [row("b", [1.0, 0.0], change=2)], True)
        assert self.found(followed) == []
        near = followed.nearest("embedding", (1.0, 0.0), 10, everything)
        assert [one.id for _, one in near] == ["b"]


@pytest.mark.parametrize("engine", ENGINES)
def test_stores_with_any_engine_answer_alike(engine: str, seed: int) -> None:
    random = Random(seed)
    with Store.open("memory://", vectors=engine) as store:
        rows: dict[str, VectorRow] = {}
        for n in range(120):
            id, values = f"e{random.randrange(60)}", vector(random, 5)
            store.embeddings.put(values, id=id)
            rows[id] = row(id, values)
            if random.random() < 0.3:
                gone = random.choice(sorted(rows))
                store.embeddings.delete(gone)
                del rows[gone]
            if n % 10 == 0:
                query = vector(random, 5)
                found = [(one.score, one.embedding.id) for one in store.embeddings.search(query)]
                assert found == naive(rows, rounded(query))[:10]


def test_a_space_that_is_too_large_is_searched_in_blocks(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    random = Random(seed)
    with Store.open("memory://") as store:
        store.embeddings.put_many(
            {"vector": vector(random, 4), "id": f"e{n:03}", "metadata": {"n": n}}
            for n in range(300)
        )
        query = vector(random, 4)
        given = {"n": {"$gte": 100}}
        kept = store.embeddings.search(query, limit=20, filter=given)
        store._handle.equipment.indexes.clear()
        monkeypatch.setattr(nearest, "KEPT_BYTES", 100)
        monkeypatch.setattr(nearest, "READ_ROWS", 7)
        assert store.embeddings.search(query, limit=20, filter=given) == kept
        assert store._handle.equipment.indexes == {}


def test_the_least_recently_used_index_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nearest, "KEPT_BYTES", 3 * 8)
    with Store.open("memory://") as store:
        for n in range(4):
            store.embeddings.put([n, 1], model=f"m{n}")
            store.embeddings.search([1, 1], model=f"m{n}")
            store.embeddings.search([1, 1], model="m0")
        kept = [model for _, model in store._handle.equipment.indexes]
        assert kept == ["m2", "m3", "m0"]


@pytest.mark.parametrize("engine", ENGINES)
def test_many_threads_search_while_others_write(engine: str) -> None:
    with Store.open("memory://", vectors=engine) as store:
        wrong: list[str] = []

        def write(who: int) -> None:
            for n in range(40):
                store.embeddings.put([1.0, who, n], id=f"w{who}-{n}")
                if n % 3 == 0:
                    store.embeddings.delete(f"w{who}-{n}")

        def search(who: int) -> None:
            for _ in range(40):
                mine = f"s{who}"
                store.embeddings.put([-1.0, 0.0, 0.0], id=mine)
                if store.embeddings.search([-1, 0, 0], limit=1)[0].score != 1.0:
                    wrong.append(f"{mine} does not see what it wrote")

        threads = [
            threading.Thread(target=one, args=(n,)) for one in (write, search) for n in (1, 2)
        ]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
        assert wrong == []
        ids = {one.id for one in store.embeddings.iter()}
        assert {one.embedding.id for one in store.embeddings.search([1, 1, 1], limit=999)} == ids


def test_tasks_search_while_others_write(tmp_path: Path) -> None:
    asyncio.run(search_in_tasks(tmp_path / "store.db"))


async def search_in_tasks(path: Path) -> None:
    async with AsyncStore.open(path) as store:

        async def work(who: int) -> None:
            for n in range(10):
                id = f"{who}-{n}"
                await store.embeddings.put([float(who), float(n + 1)], id=id)
                await store.memories.put(("m", str(who)), id, n, vector=[1.0, float(n)])
                found = await store.embeddings.search([who, n + 1], limit=50)
                assert id in [one.embedding.id for one in found if one.score == 1.0]
                await store.embeddings.delete(id)
                near = await store.memories.search(("m", str(who)), vector=[1, n], limit=1)
                assert [one.value for one in near] == [n]

        await asyncio.gather(*(work(who) for who in range(6)))
        assert await store.embeddings.search([1, 1]) == []
        assert len([one async for one in store.memories.iter("m")]) == 60
