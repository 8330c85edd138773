"""From lines back to rows: of every row the last line wins, whichever journal it stands in."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from ledgerstone.engines.file.codec import keys_in, rows_in
from ledgerstone.engines.file.homes import LOOSE, Home
from ledgerstone.engines.file.lines import Line
from ledgerstone.engines.memory.rows import Change, LastNumbers, MemoryRows
from ledgerstone.tables.graph import TURNS
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.sessions import HEADS, SESSIONS, Head, SessionRow
from ledgerstone.tables.table import Key, Table


def mentions_of(line: Line) -> Iterator[tuple[str, Home]]:
    """The sessions that a line of the store's journal tells of."""
    for part in line.parts:
        yield line.tenant, part.home


class Outdated(NamedTuple):
    """Which rows of the store's journal count no more: the session is gone, or was written anew.

    bases   the position of the line that has all rows of a session, by its number; and by its name
    """

    dropped: dict[int, int]
    bases: dict[int, int]
    named: dict[tuple[str, str], int]

    def all_of(self, line: Line, home: Home) -> bool:
        """Whether that is so for everything that a line says of a session."""
        number = home.number
        return number in self.dropped or line.pos < self.bases.get(number, 0)

    def loose_of(self, line: Line, home: Home) -> bool:
        """Whether it is so for its loose rows."""
        return line.pos < self.named.get((line.tenant, home.session), 0)


class Replay:
    """The rows that lines make."""

    def __init__(self) -> None:
        self.tables: dict[Table[Any], dict[Key, Any]] = {table: {} for table in TABLES}
        self._last_number = 0
        self._last_serials: dict[Table[Any], int] = {}

    def put(self, line: Line, outdated: Outdated) -> bool:
        """Carry out a line that follows all before it; whether it says what counts no more."""
        self.raise_serial(TURNS, line.feed)
        skipped = False
        for part in line.all_parts():
            if outdated.all_of(line, part.home):
                skipped = True
                continue
            without = LOOSE if outdated.loose_of(line, part.home) else ()
            for table, key in keys_in(part.gone):
                if table not in without:
                    self.tables[table].pop(key, None)
            for table, key, row in rows_in(part.put):
                if table in without:
                    skipped = True
                else:
                    self.put_row(table, key, row)
        return skipped

    def put_row(self, table: Table[Any], key: Key, row: Any) -> None:
        """Put a row behind all others of its table."""
        rows = self.tables[table]
        rows.pop(key, None)
        rows[key] = row
        if table is SESSIONS:
            self.raise_number(row.number)
        elif table.serial:
            self.raise_serial(table, key[0])

    def raise_number(self, number: int) -> None:
        """The numbers of sessions go on from the highest ever seen."""
        self._last_number = max(self._last_number, number)

    def raise_serial(self, table: Table[Any], key: int) -> None:
        """No serial key is ever given out again, not even that of a purged row."""
        if key:
            self._last_serials[table] = max(self._last_serials.get(table, 0), key)

    def show(self, number: int, tenant: str, id: str) -> None:
        """A session of which nothing could be read."""
        if (number,) not in self.tables[SESSIONS]:
            self.put_row(SESSIONS, (number,), _bare(number, tenant, id))
        self.tables[HEADS].setdefault((number,), Head(number))

    def fill(self, rows: MemoryRows, *, damaged: bool) -> None:
        """Place all rows. `damaged`: some lines are missing, so two may claim one place."""
        for table, found in self.tables.items():
            if damaged:
                _give_way(table, found)
            rows.place([Change(table, key, row) for key, row in found.items()])
            found.clear()
        rows.given = LastNumbers(self._last_number, self._last_serials)


def _give_way(table: Table[Any], rows: dict[Key, Any]) -> None:
    """Of two rows with one key of a unique index, the one that was put first goes."""
    for index in table.indexes.values():
        if not index.unique:
            continue
        holders: dict[Key, Key] = {}
        for key, row in list(rows.items()):
            if index.holds is None or index.holds(row):
                place = index.key_of(row)
                rows.pop(holders.get(place, ()), None)
                holders[place] = key


def _bare(number: int, tenant: str, id: str) -> SessionRow:
    values: dict[str, Any] = {
        name: None if name in SESSIONS.optional else "" if SESSIONS.types[name] == "text" else 0
        for name in SESSIONS.columns
    }
    values |= {"number": number, "tenant": tenant, "id": id, "status": "unknown"}
    return SessionRow(**values)
