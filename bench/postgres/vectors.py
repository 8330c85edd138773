"""The contenders of P11: exact search by pgvector in the database, and stores with each engine.

The vectors lie as embeddings of texts do: in clusters, with few directions that matter. In pure
noise every point is about as far away as every other, and no index of neighbours finds its way.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from bench.postgres.place import url
from bench.vectors import DIMENSION, NEAREST, QUERIES, Matrix, Stored, name

DIRECTIONS: Final = 24
CLUSTERS: Final = 200
NOISE: Final = 0.1
PUT_ROWS: Final = 1000
PER_MILLE: Final = 1000

EXACT: Final = "select id from exact order by v <=> $1 limit $2"


def drawn(seed: int, count: int) -> Any:
    """The vectors, and the queries behind them: the same for everybody."""
    import numpy

    chance = numpy.random.default_rng(seed)
    centres = chance.standard_normal((CLUSTERS, DIRECTIONS)) * 2
    place = centres[chance.integers(0, CLUSTERS, count + QUERIES)]
    place = place + chance.standard_normal(place.shape)
    spread = chance.standard_normal((DIRECTIONS, DIMENSION)) / DIRECTIONS**0.5
    noise = chance.standard_normal((count + QUERIES, DIMENSION)) * NOISE
    return (place @ spread + noise).astype(numpy.float32)


class StoredHere(Stored):
    """A store on PostgreSQL with one engine."""

    def build(self, seed: int, count: int) -> range:
        """Put what is not there yet; a process that opens the store again only draws."""
        found = drawn(seed, count)
        self.queries = found[count:]
        if self.store.embeddings.get(name(0)) is None:
            for start in range(0, count, PUT_ROWS):
                places = range(start, min(count, start + PUT_ROWS))
                self.store.embeddings.put_many(
                    [{"vector": found[n], "id": name(n)} for n in places]
                )
        return range(count)

    def recall(self, seed: int, count: int) -> range:
        """How many of the true ten nearest it finds, in a thousand, as a length."""
        wanted = true_answers(seed, count)
        found = [self.store.embeddings.search(query, limit=NEAREST) for query in self.queries]
        hits = sum(
            len({one.embedding.id for one in mine} & theirs)
            for mine, theirs in zip(found, wanted, strict=True)
        )
        return range(round(hits * PER_MILLE / (NEAREST * QUERIES)))


class Exact:
    """The extension without an index: every vector is looked at, in the database."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection
        self.queries: Any = ()
        self.next = 0

    async def build(self, seed: int, count: int) -> range:
        found = drawn(seed, count)
        self.queries = found[count:]
        await self.connection.execute("create extension if not exists vector")
        await self.connection.execute(
            f"create table if not exists exact(id text, v vector({DIMENSION}))"
        )
        await self.connection.set_type_codec(
            "vector", encoder=packed, decoder=bytes, format="binary"
        )
        if await self.connection.fetchval("select count(*) from exact") == 0:
            rows = ((name(n), found[n]) for n in range(count))
            await self.connection.copy_records_to_table("exact", records=rows)
            await self.connection.execute("vacuum analyze exact")
        return range(count)

    async def search(self) -> Sequence[object]:
        self.next += 1
        found: Sequence[object] = await self.connection.fetch(
            EXACT, self.queries[self.next % QUERIES], NEAREST
        )
        return found

    async def recall(self, seed: int, count: int) -> range:
        wanted = true_answers(seed, count)
        hits = 0
        for query, theirs in zip(self.queries, wanted, strict=True):
            rows = await self.connection.fetch(EXACT, query, NEAREST)
            hits += len({row[0] for row in rows} & theirs)
        return range(round(hits * PER_MILLE / (NEAREST * QUERIES)))

    async def close(self) -> None:
        await self.connection.close()


def true_answers(seed: int, count: int) -> list[set[str]]:
    import numpy

    found = drawn(seed, count)
    matrix = Matrix(Path())
    matrix.queries = found[count:]
    matrix.unit = found[:count] / numpy.linalg.norm(found[:count], axis=1, keepdims=True)
    return [{name(n) for n in matrix.nearest(place)} for place in range(QUERIES)]


def packed(vector: Any) -> bytes:
    """As the extension reads it: the dimension, nothing, and the numbers."""
    return struct.pack(">HH", DIMENSION, 0) + bytes(vector.astype(">f4").tobytes())


async def open_exact(path: Path) -> Exact:
    import asyncpg

    return Exact(await asyncpg.connect(url(path)))


def open_pgvector(path: Path) -> StoredHere:
    return _open(path, "pgvector")


def open_numpy(path: Path) -> StoredHere:
    return _open(path, "numpy")


def _open(path: Path, engine: str) -> StoredHere:
    from ledgerstone import Store

    return StoredHere(Store.open(url(path), vectors=engine))
