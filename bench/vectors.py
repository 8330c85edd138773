"""The contenders of W11: numpy's own product over a matrix, and stores with each engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

if TYPE_CHECKING:
    from ledgerstone import Store

DIMENSION = 384
NEAREST = 10
QUERIES = 64
PUT_ROWS = 5000


def drawn(seed: int, count: int) -> Any:
    """The vectors, and the queries behind them: the same for everybody."""
    import numpy

    chance = numpy.random.default_rng(seed)
    return chance.standard_normal((count + QUERIES, DIMENSION)).astype(numpy.float32)


def name(place: int) -> str:
    return f"v{place:08}"


class Matrix:
    """Unit rows in memory, one product, and the largest by argpartition: less is not possible."""

    def __init__(self, _path: Path) -> None:
        self.next = 0

    def build(self, seed: int, count: int) -> range:
        import numpy

        found = drawn(seed, count)
        self.queries = found[count:]
        self.unit = found[:count] / numpy.linalg.norm(found[:count], axis=1, keepdims=True)
        return range(count)

    def search(self) -> Sequence[object]:
        self.next += 1
        return self.nearest(self.next % QUERIES)

    def nearest(self, place: int) -> Sequence[int]:
        import numpy

        query = self.queries[place]
        scores = self.unit @ (query / numpy.linalg.norm(query))
        best = numpy.argpartition(scores, -NEAREST)[-NEAREST:]
        return [int(one) for one in best[numpy.argsort(-scores[best])]]

    def answers(self) -> range:
        """All queries answered, as one number that travels as a length."""
        return fingerprint([[name(one) for one in self.nearest(n)] for n in range(QUERIES)])

    def close(self) -> None:
        pass


class Stored:
    """A store with one engine; the index follows what is stored."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.queries: Any = None
        self.next = 0

    def build(self, seed: int, count: int) -> range:
        """Put what is not there yet; a process that opens the file again only draws."""
        found = drawn(seed, count)
        self.queries = found[count:]
        if self.store.embeddings.get(name(0)) is None:
            for start in range(0, count, PUT_ROWS):
                places = range(start, min(count, start + PUT_ROWS))
                rows = [{"vector": found[n], "id": name(n), "metadata": {"n": n}} for n in places]
                self.store.embeddings.put_many(rows)
        return range(count)

    def search(self) -> Sequence[object]:
        self.next += 1
        return self.store.embeddings.search(self.queries[self.next % QUERIES], limit=NEAREST)

    def answers(self) -> range:
        found = [self.store.embeddings.search(query, limit=NEAREST) for query in self.queries]
        return fingerprint([[one.embedding.id for one in each] for each in found])

    def close(self) -> None:
        self.store.close()


def fingerprint(found: list[list[str]]) -> range:
    return range(crc32(repr(found).encode()))


def open_numpy(path: Path) -> Stored:
    return _open(path, "numpy")


def open_sqlite_vec(path: Path) -> Stored:
    return _open(path, "sqlite-vec")


def open_python(path: Path) -> Stored:
    return _open(path, "python")


def _open(path: Path, engine: str) -> Stored:
    from ledgerstone import Store

    return Stored(Store.open(path, vectors=engine))
