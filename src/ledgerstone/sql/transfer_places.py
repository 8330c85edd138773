"""Where imported rows go: numbers of sessions, and their numbers of the runs."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from ledgerstone.commands.transfer import Row
from ledgerstone.errors import SessionNotFound
from ledgerstone.rules.rows import RECENCY_SHIFT
from ledgerstone.rules.transfer import GIVEN, HEAD, SESSIONS
from ledgerstone.sql.heads import ORD_BITS
from ledgerstone.sql.run_rows import read_run
from ledgerstone.sql.tx import Tx


class Place(msgspec.Struct):
    """A session's number and how many runs it knows; `told` is what it was when it was met."""

    number: int
    runs: int = 0
    told: Row = ()

    @property
    def base(self) -> int:
        """The first key of its nodes and runs, less one."""
        return self.number << ORD_BITS


class RunPlace(msgspec.Struct):
    """A session's row of a run while its nodes and its record come in."""

    base: int
    number: int
    first_ord: int = 0
    last_ord: int = 0
    stored: bool = False
    record: bytes | None = None

    def wrote(self, ord: int) -> int:
        """Note a node of the run; answers the run's number."""
        self.first_ord = self.first_ord or ord
        self.last_ord = ord
        return self.number


class Into:
    """The transaction of one command and what it has met: `fresh` are the sessions it makes."""

    def __init__(self, tx: Tx, tenant: str) -> None:
        self.tx = tx
        self.tenant = tenant
        self.places: dict[str, Place] = {}
        self.fresh: set[str] = set()
        self._heads: dict[str, Row] = {}
        self._runs: dict[tuple[str, str], RunPlace] = {}
        self._grown: set[str] = set()

    def meet(self, rows: Iterable[Row]) -> None:
        """Sessions that are there already."""
        for id, number, runs, *told in rows:
            self.places[id] = Place(number, runs, tuple(told))

    def place(self, session: str) -> Place:
        """Of a session that was met or made; SessionNotFound."""
        found = self.places.get(session)
        if found is None:
            raise SessionNotFound(session)
        return found

    def key(self, row: Row) -> int:
        """The key of a row that begins with session and ord."""
        return self.place(row[0]).base + int(row[1])

    async def make(self, rows: list[Row]) -> None:
        """Session rows, oldest first; their heads wait until the runs were counted."""
        last = await self.tx.one("last_number")
        made = []
        for row in rows:
            field = dict(zip(SESSIONS.columns, row, strict=True))
            given = (field[name] for name in GIVEN)
            recency = field["updated_us"] >> RECENCY_SHIFT
            what = (self.tenant, field["id"], field["incarnation"])
            made.append((*what, *given, field["deleted_us"], recency))
            standing = tuple(field[name] for name in HEAD)
            self._heads[field["id"]] = (*standing, field["updated_us"])
        await self.tx.many("import_session", made)
        for tenant, id, number in await self.tx.all(
            "import_numbers", 0 if last is None else last[0]
        ):
            if tenant == self.tenant and id in self._heads:
                self.places[id] = Place(number)

    async def run(self, session: str, id: str) -> RunPlace:
        """The session's row of a run; a new one gets the next number."""
        found = self._runs.get((session, id))
        if found is None:
            place = self.place(session)
            found = await self._stored(place, id) if session not in self.fresh else None
            if found is None:
                place.runs += 1
                self._grown.add(session)
                found = RunPlace(place.base, place.runs)
            self._runs[session, id] = found
        return found

    async def _stored(self, place: Place, id: str) -> RunPlace | None:
        row = await self.tx.one("place_run", place.number, id)
        if row is None:
            return None
        return RunPlace(place.base, row[0] - place.base, row[1], row[2], stored=True)

    async def settle(self) -> None:
        """What could only be written when all rows had come: heads, and rows of runs."""
        made = []
        for (_, id), run in self._runs.items():
            row = self._run_row(id, run)
            if not run.stored:
                made.append(row)
            elif run.record is not None:
                await self.tx.run("save_run", *row)
            else:
                await self.tx.run("extend_run", row[0], run.first_ord, run.last_ord)
        if made:
            await self.tx.many("import_run", made)
        heads = [
            (self.places[id].number, *row, self.places[id].runs) for id, row in self._heads.items()
        ]
        if heads:
            await self.tx.many("import_head", heads)
        for id in sorted(self._grown - self.fresh):
            await self.tx.run("import_run_count", self.places[id].number, self.places[id].runs)

    def _run_row(self, id: str, run: RunPlace) -> Row:
        key, stretch = run.base + run.number, (run.first_ord, run.last_ord)
        if run.record is None:
            return (key, id, *stretch, None, None, None, None, None, None)
        told = read_run(id, run.record)
        what = (self.tenant, told.status, told.parent_run, told.created_us, run.record)
        return (key, id, *stretch, *what, None)
