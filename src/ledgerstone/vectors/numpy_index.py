"""The engine on numpy: one matrix per space, one product per search."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

import numpy
from msgspec.structs import replace

from ledgerstone.ports.vectors import Accept
from ledgerstone.records.embeddings import VectorRow
from ledgerstone.rules.vectors import norm
from ledgerstone.vectors.ranking import Ranked, Rough, margin, ranked

_UNIT = 2.0**-24
_FIRST_ROWS = 64
_GROWTH = 1.5
# Rows of about this size may be multiplied as they are, without overflow or loss.
_PLAIN = (1e-12, 1e12)

_STORED = numpy.dtype("<f4")


class NumpyIndex:
    """Rows lie in the matrix as they are stored, so that their exact numbers need no second copy.

    A score is the product with the query times `scales`, one over the row's length. Rows of an
    extreme size lie there as unit vectors, and their own bytes are in `odd`.
    """

    def __init__(self, dimension: int) -> None:
        self._dimension = dimension
        self._margin = margin(dimension, _UNIT)
        self._matrix = numpy.empty((_FIRST_ROWS, dimension), numpy.float32)
        self._scales = numpy.empty(_FIRST_ROWS, numpy.float32)
        self._rows: list[VectorRow] = []
        self._places: dict[tuple[str, str], int] = {}
        self._odd: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add rows, or replace those of the same kind and id."""
        latest = {(row.kind, row.id): row for row in rows}
        self._reserve(len(self._rows) + len(latest))
        places = []
        for name, row in latest.items():
            place = self._places.setdefault(name, len(self._rows))
            kept = replace(row, vector=b"")
            if place == len(self._rows):
                self._rows.append(kept)
            else:
                self._rows[place] = kept
            places.append(place)
        self._fill(places, [row.vector for row in latest.values()])

    def keep(self, names: Set[tuple[str, str]]) -> None:
        """Drop every row whose kind and id is not among these."""
        for name in [name for name in self._places if name not in names]:
            self._drop(name)

    def ranked(self, query: Sequence[float], first: int, accept: Accept) -> Ranked:
        """Accepted rows with their cosine, best first, ties by id."""
        length = norm(query) or 1.0
        unit = (numpy.array(query, numpy.float64) / length).astype(numpy.float32)
        count = len(self._rows)
        scores = self._matrix[:count] @ unit
        scores *= self._scales[:count]
        return ranked(query, first, lambda wanted: self._best(scores, wanted, accept))

    def _best(self, scores: numpy.ndarray, wanted: int, accept: Accept) -> Rough:
        count = len(scores)
        if wanted >= count:
            return Rough(self._full(range(count), accept), None)
        last = numpy.partition(scores, count - wanted)[count - wanted]
        least = float(last) - 2 * self._margin
        near = numpy.flatnonzero(scores >= least).tolist()
        return Rough(self._full(near, accept), least + self._margin)

    def _full(self, places: Sequence[int], accept: Accept) -> Iterator[VectorRow]:
        for place in places:
            if not accept(self._rows[place]):
                continue
            vector = self._odd.get(place)
            if vector is None:
                vector = self._matrix[place].astype(_STORED, copy=False).tobytes()
            yield replace(self._rows[place], vector=vector)

    def _fill(self, places: list[int], vectors: list[bytes]) -> None:
        """Put vectors into their places, and their scales."""
        given = numpy.frombuffer(b"".join(vectors), _STORED).reshape(-1, self._dimension)
        block = given.astype(numpy.float32)
        lengths = numpy.sqrt(numpy.einsum("ij,ij->i", block, block, dtype=numpy.float64))
        zero = lengths == 0
        plain = zero | ((lengths > _PLAIN[0]) & (lengths < _PLAIN[1]))
        scales = numpy.where(zero, 0.0, 1.0 / numpy.where(zero, 1.0, lengths))
        for n in numpy.flatnonzero(~plain).tolist():
            block[n] = given[n].astype(numpy.float64) / lengths[n]
            scales[n] = 1.0
        for place, vector, is_plain in zip(places, vectors, plain.tolist(), strict=True):
            if is_plain:
                self._odd.pop(place, None)
            else:
                self._odd[place] = vector
        self._matrix[places] = block
        self._scales[places] = scales

    def _drop(self, name: tuple[str, str]) -> None:
        """The last row moves into the gap."""
        place, last = self._places.pop(name), len(self._rows) - 1
        moved = self._rows.pop()
        vector = self._odd.pop(last, None)
        if place == last:
            return
        self._rows[place] = moved
        self._places[moved.kind, moved.id] = place
        self._matrix[place] = self._matrix[last]
        self._scales[place] = self._scales[last]
        self._odd.pop(place, None)
        if vector is not None:
            self._odd[place] = vector

    def _reserve(self, rows: int) -> None:
        if rows <= len(self._matrix):
            return
        count = len(self._rows)
        room = max(rows, int(len(self._matrix) * _GROWTH))
        matrix = numpy.empty((room, self._dimension), numpy.float32)
        scales = numpy.empty(room, numpy.float32)
        matrix[:count] = self._matrix[:count]
        scales[:count] = self._scales[:count]
        self._matrix, self._scales = matrix, scales
