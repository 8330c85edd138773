"""Vectors in PostgreSQL: pgvector where it is there, the exact search everywhere else."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import numpy
import psycopg
import pytest

from ledgerstone import AsyncStore, Store, api, api_sync
from ledgerstone.engines.postgres import pgvector as postgres_near
from ledgerstone.engines.postgres.backend import PostgresBackend
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.errors import InvalidValue, NotSupported
from ledgerstone.records.embeddings import Match
from ledgerstone.testing.servers.places import Places
from tests.backends.secured_role import secured_role

DIMENSION = 48
COUNT = 3000
CLUSTERS = 60
QUERIES = 30
BATCH = 500
Array = numpy.ndarray


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small spaces are searched in the database as well."""
    for package in (api, api_sync):
        monkeypatch.setattr(f"{package.__name__}.nearest.STORE_ROWS", 1)


@pytest.fixture
def url(postgres_places: Places) -> str:
    """A database of its own: what is made beside the tables stays there."""
    return postgres_places.fresh()


@pytest.fixture
def store(url: str, few: None) -> Iterator[Store]:
    with Store.open(url, vectors="pgvector") as opened:
        yield opened


def cloud(count: int, dimension: int, seed: int = 1) -> Array:
    """Points around some centres, as embeddings of texts are."""
    chance = numpy.random.default_rng(seed)
    centres = chance.normal(size=(CLUSTERS, dimension))
    points = centres[chance.integers(0, CLUSTERS, count)]
    return (points + 0.5 * chance.normal(size=(count, dimension))).astype("f4")


def fill(store: Store, points: Array, **fields: object) -> None:
    for first in range(0, len(points), BATCH):
        store.embeddings.put_many(
            {"vector": point.tolist(), "id": f"e{first + n}", "model": "m", **fields}
            for n, point in enumerate(points[first : first + BATCH])
        )


def ids(found: list[Match]) -> list[str]:
    return [match.embedding.id for match in found]


def asked(store: Store) -> int:
    """How many models the database was asked about."""
    backend = store._handle.backend
    assert isinstance(backend, PostgresBackend)
    return len(backend._near._known)


def indexes(url: str) -> list[str]:
    with psycopg.connect(parse_target(url).dsn) as connection:
        rows = connection.execute(
            "select indexdef from pg_indexes where schemaname = 'ledgerstone' "
            "and tablename = 'near' order by indexname"
        ).fetchall()
    return [row[0] for row in rows]


def test_it_finds_what_the_exact_search_finds(store: Store, url: str) -> None:
    points = cloud(COUNT, DIMENSION)
    fill(store, points)
    hits = 0
    with Store.open(url, vectors="numpy") as exact:
        for query in cloud(QUERIES, DIMENSION, seed=2):
            found = store.embeddings.search(query.tolist(), limit=10)
            wanted = exact.embeddings.search(query.tolist(), limit=10)
            hits += len(set(ids(found)) & set(ids(wanted)))
            shared = {match.embedding.id: match.score for match in wanted}
            assert all(shared.get(one.embedding.id, one.score) == one.score for one in found)
            assert [one.score for one in found] == sorted((o.score for o in found), reverse=True)
    assert hits / (10 * QUERIES) >= 0.95
    assert asked(store) == 1
    assert any("hnsw" in one for one in indexes(url))


def test_it_follows_what_changes(store: Store) -> None:
    points = cloud(200, DIMENSION)
    fill(store, points)
    target = points[7].tolist()
    assert ids(store.embeddings.search(target, limit=1)) == ["e7"]
    store.embeddings.delete("e7")
    assert ids(store.embeddings.search(target, limit=1)) != ["e7"]
    store.embeddings.put(target, id="e8", model="m")
    store.embeddings.put([0.0] * DIMENSION, id="e9", model="m")
    assert ids(store.embeddings.search(target, limit=1)) == ["e8"]
    assert "e9" not in ids(store.embeddings.search(points[9].tolist(), limit=20))
    store.embeddings.put(target, id="e8", model="another")
    assert ids(store.embeddings.search(target, limit=1, model="m")) != ["e8"]
    assert ids(store.embeddings.search(target, limit=1)) == ["e8"]


def test_a_model_gets_another_dimension(store: Store) -> None:
    fill(store, cloud(20, DIMENSION))
    store.embeddings.search([1.0] * DIMENSION)
    for n in range(20):
        store.embeddings.delete(f"e{n}")
    points = cloud(20, 8)
    fill(store, points)
    assert ids(store.embeddings.search(points[3].tolist(), limit=1)) == ["e3"]


def test_filters_namespaces_and_tenants_keep_working(store: Store) -> None:
    points = cloud(600, DIMENSION)
    fill(store, points[:300], namespace=("a",), metadata={"colour": "red"})
    target = points[0].tolist()
    store.embeddings.put_many(
        {"vector": point.tolist(), "id": f"b{n}", "model": "m", "namespace": ("b",)}
        for n, point in enumerate(points[300:])
    )
    store.for_tenant("other").embeddings.put(target, id="theirs", model="m")
    found = store.embeddings.search(target, limit=5, namespace=("b",))
    assert len(found) == 5
    assert all(name.startswith("b") for name in ids(found))
    red = store.embeddings.search(target, limit=300, filter={"colour": "red"})
    assert len(red) == 300
    assert ids(store.embeddings.search(target, limit=1)) == ["e0"]
    assert "theirs" not in ids(store.embeddings.search(target, limit=600))
    assert store.embeddings.search(target, limit=5, namespace=("nobody",)) == []


def test_positions_of_many_spaces_have_a_bound(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_near, "KNOWN_MAX", 2)
    for n in range(5):
        model = f"m{n}"
        store.embeddings.put([n + 1.0, 1.0], id=f"e{n}", model=model)
        found = store.embeddings.search([1.0, 1.0], model=model, limit=1)
        assert ids(found) == [f"e{n}"]
        assert 1 <= asked(store) <= 2


def test_zero_and_opposite_vectors_are_answered_exactly(store: Store) -> None:
    fill(store, cloud(30, DIMENSION))
    assert len(store.embeddings.search([0.0] * DIMENSION, limit=10)) == 10
    assert len(store.embeddings.search([1.0] * DIMENSION, limit=30)) == 30


@pytest.mark.parametrize(("dimension", "word"), [(2100, "halfvec"), (4001, "")])
def test_many_dimensions(store: Store, url: str, dimension: int, word: str) -> None:
    points = cloud(12, dimension)
    fill(store, points)
    assert ids(store.embeddings.search(points[5].tolist(), limit=1)) == ["e5"]
    made = [one for one in indexes(url) if "hnsw" in one]
    assert bool(made) == bool(word)
    assert all(word in one for one in made)


def test_memories_are_found_by_it(store: Store) -> None:
    points = cloud(50, DIMENSION)
    for n, point in enumerate(points):
        store.memories.put(("notes",), f"k{n}", {"n": n}, vector=point.tolist())
    found = store.memories.search(("notes",), vector=points[4].tolist(), limit=1)
    assert [one.key for one in found] == ["k4"]
    assert asked(store) == 1


def test_the_loop_asks_as_well_and_the_default_uses_what_was_made(url: str, store: Store) -> None:
    points = cloud(40, DIMENSION)
    fill(store, points)

    async def search() -> list[str]:
        async with AsyncStore.open(url) as opened:
            found = await opened.embeddings.search(points[6].tolist(), limit=1)
            assert opened._handle.equipment.engine.name == "pgvector"
            return ids(found)

    assert asyncio.run(search()) == ["e6"]


def test_without_it_the_search_is_exact(url: str, few: None) -> None:
    with Store.open(url) as store:
        points = cloud(20, DIMENSION)
        fill(store, points)
        assert ids(store.embeddings.search(points[2].tolist(), limit=1)) == ["e2"]
        assert store._handle.equipment.engine.name == "numpy"
        assert store.admin.verify().ok


def test_it_does_not_disturb_verify_and_can_be_dropped(store: Store, url: str) -> None:
    points = cloud(20, DIMENSION)
    fill(store, points)
    store.embeddings.search(points[2].tolist())
    assert store.admin.verify().ok
    with psycopg.connect(parse_target(url).dsn) as connection:
        connection.execute("drop table ledgerstone.near, ledgerstone.near_spaces")
    assert ids(store.embeddings.search(points[2].tolist(), limit=1)) == ["e2"]
    with Store.open(url) as again:
        assert ids(again.embeddings.search(points[2].tolist(), limit=1)) == ["e2"]
        assert again._handle.equipment.engine.name == "numpy"


def test_what_can_not_be_had_is_told(url: str) -> None:
    with pytest.raises(InvalidValue, match="pgvector"):
        Store.open(url, vectors="nobody")
    with pytest.raises(NotSupported, match="postgresql://"):
        Store.open("memory://", vectors="pgvector")


def test_a_role_that_owns_nothing_finds_the_same(
    url: str, store: Store, postgres_places: Places
) -> None:
    """Under row-level security, and before there is an index that it could not make."""
    with secured_role(postgres_places, url) as (secured, _):
        with Store.open(f"{secured}?rls=yes") as opened:
            points = cloud(30, DIMENSION)
            fill(opened, points)
            assert ids(opened.embeddings.search(points[3].tolist(), limit=1)) == ["e3"]
            assert asked(opened) == 1
        assert not any("hnsw" in one for one in indexes(url))
    assert ids(store.embeddings.search(points[3].tolist(), limit=1)) == ["e3"]
