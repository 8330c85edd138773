"""The engine on the sqlite-vec extension: a database in memory that compares vectors in C."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from functools import cache
from typing import Any

import apsw
import sqlite_vec  # type: ignore[import-untyped]

from ledgerstone.ports.vectors import Accept
from ledgerstone.records.embeddings import VectorRow
from ledgerstone.rules.vectors import norm, pack, unpack
from ledgerstone.sql.catalogue import parse
from ledgerstone.sql.texts import sql_files
from ledgerstone.vectors.ranking import Ranked, Rough, margin, ranked

_UNIT = 2.0**-24
# One look more is saved, when so many more than wanted are read at once.
_SPARE = 32


@cache
def _texts() -> dict[str, str]:
    return {one.name: one.text for _, text in sql_files("vectors") for one in parse(text)}


class SqliteVecIndex:
    """Unit vectors by place in the database, the rows themselves here."""

    def __init__(self, dimension: int) -> None:
        # The extension adds up in 32 bits, one product after the other, three sums per distance.
        self._margin = 4 * margin(dimension, _UNIT)
        self._rows: dict[int, VectorRow] = {}
        self._places: dict[tuple[str, str], int] = {}
        self._zero: set[int] = set()
        self._last = 0
        self._database = apsw.Connection(":memory:")
        self._database.enable_load_extension(True)
        self._database.load_extension(sqlite_vec.loadable_path())
        self._database.enable_load_extension(False)
        self._database.execute(_texts()["make_places"])

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: Sequence[VectorRow]) -> None:
        """Add rows, or replace those of the same kind and id."""
        with self._database:
            for row in rows:
                name = (row.kind, row.id)
                if name not in self._places:
                    self._last += 1
                    self._places[name] = self._last
                self._write(self._places[name], row)

    def _write(self, place: int, row: VectorRow) -> None:
        self._rows[place] = row
        values = unpack(row.vector)
        length = norm(values)
        if length:
            self._zero.discard(place)
            unit = pack([value / length for value in values])
            self._database.execute(_texts()["put_place"], (place, unit))
        else:
            self._zero.add(place)
            self._database.execute(_texts()["drop_place"], (place,))

    def keep(self, names: Set[tuple[str, str]]) -> None:
        """Drop every row whose kind and id is not among these."""
        gone = [name for name in self._places if name not in names]
        with self._database:
            for name in gone:
                place = self._places.pop(name)
                del self._rows[place]
                self._zero.discard(place)
                self._database.execute(_texts()["drop_place"], (place,))

    def ranked(self, query: Sequence[float], first: int, accept: Accept) -> Ranked:
        """Accepted rows with their cosine, best first, ties by id."""
        length = norm(query)

        def look(wanted: int) -> Rough:
            if not length or wanted >= len(self._rows) - len(self._zero):
                rough = Rough(self._rows.values(), None)
            else:
                rough = self._best(pack([value / length for value in query]), wanted)
            return Rough(filter(accept, rough.rows), rough.below)

        return ranked(query, first, look)

    def _best(self, unit: bytes, wanted: int) -> Rough:
        found = self._ask("nearest_places", unit, wanted + _SPARE)
        farthest = found[wanted - 1][1] + 2 * self._margin
        places = [place for place, distance in found if distance <= farthest]
        if len(places) == len(found):
            # More may be as near as these: look for all of them.
            places = [place for (place,) in self._ask("near_places", unit, farthest)]
        least = 1.0 - farthest
        return Rough(self._candidates(places, least), least + self._margin)

    def _ask(self, query: str, unit: bytes, bound: float) -> list[tuple[Any, ...]]:
        return self._database.execute(_texts()[query], (unit, bound)).fetchall()

    def _candidates(self, places: list[int], least: float) -> Iterator[VectorRow]:
        yield from (self._rows[place] for place in places)
        if least <= 0.0:
            yield from (self._rows[place] for place in self._zero)
