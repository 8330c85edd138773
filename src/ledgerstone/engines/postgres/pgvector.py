"""pgvector: a table beside the embeddings that an index can be on, and searches in it.

It follows a space as an index in memory does: whoever searches first brings over what changed. A
search only finds candidates; they are scored elsewhere, by the one score of rules/vectors.py.
"""

from __future__ import annotations

from functools import cache

from ledgerstone.clock import monotonic_s
from ledgerstone.engines.postgres.drivers.errors import FOREIGN, translate
from ledgerstone.engines.postgres.drivers.pool import Pool
from ledgerstone.engines.postgres.drivers.port import PgConnection, Row, ServerSaid
from ledgerstone.engines.postgres.transaction import PgTx, in_transaction
from ledgerstone.errors import LedgerstoneError, NotSupported
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.rules.vectors import norm, unpack
from ledgerstone.sql.catalogue import Statement, parse
from ledgerstone.sql.texts import sql_files

DIMENSION_MAX = 4000
CHUNK_ROWS = 500
INDEX_TIMEOUT_S = 3600.0
KNOWN_MAX = 10_000
"""Maximum spaces whose position is kept; beyond that, all are asked for again."""
_HINT = "let a role that may CREATE EXTENSION vector open the store once with vectors='pgvector'"
_NO_RIGHT = "42501"
_DROPPED = ("42P01", "42883", "42704")
Position = tuple[int, int, int]
_NAMES = (
    "kind", "id", "model", "change", "vector", "session", "namespace", "metadata", "created_us",
)  # fmt: skip


@cache
def _texts() -> dict[str, Statement]:
    return {one.name: one for one in parse(dict(sql_files("pgvector"))["queries.sql"], "$")}


def spot_of(values: tuple[float, ...]) -> str | None:
    """A unit vector as pgvector reads it; None for one of length zero."""
    length = norm(values)
    if not length:
        return None
    # Nine digits are all that 32 bits hold; one long format is the fastest way to write them.
    return _form(len(values)) % tuple([value / length for value in values])


@cache
def _form(dimension: int) -> str:
    return f"[{','.join(['%.9g'] * dimension)}]"


class VectorTable:
    """The spaces of one store."""

    def __init__(self, where: str, limit_s: float) -> None:
        self._where = where
        self._limit_s = limit_s
        self._known: dict[tuple[str, str], Position] = {}
        self._indexed: set[int] = set()

    async def is_there(self, pool: Pool) -> bool:
        """Whether it was made."""
        connection = await pool.borrow()
        try:
            return bool((await self._fetch(connection, "near_is_there"))[0][0])
        except ServerSaid:
            return False
        finally:
            pool.give_back(connection)

    async def make(self, pool: Pool) -> None:
        """Make it; NotSupported when the server has no pgvector, or the role may not."""
        if await self.is_there(pool):
            return
        connection = await pool.borrow()
        try:
            async with in_transaction(connection, self._limit_s):
                text = dict(sql_files("pgvector"))["postgres.sql"]
                await connection.script(text, self._limit_s)
        except ServerSaid as error:
            raise NotSupported("vectors='pgvector'", error.message, _HINT) from error
        finally:
            pool.give_back(connection)

    async def nearest(
        self, pool: Pool, tenant: str, space: Space, kind: str, query: tuple[float, ...], most: int
    ) -> list[VectorRow] | None:
        """Candidates in no order; None when an exact search has to do it."""
        spot = spot_of(query)
        if spot is None or space.dimension > DIMENSION_MAX:
            return None
        try:
            connection = await pool.borrow()
            try:
                await self._follow(connection, tenant, space)
                given = (tenant, space.model, kind, space.dimension, spot, most)
                rows = await self._fetch(connection, "nearest", *given)
            finally:
                pool.give_back(connection)
        except LedgerstoneError:
            raise
        except FOREIGN as error:
            if isinstance(error, ServerSaid) and error.sqlstate in _DROPPED:
                self._known.clear()
                return None
            raise translate(error, self._where) from error
        return [VectorRow(**dict(zip(_NAMES, row, strict=True))) for row in rows]

    async def _follow(self, connection: PgConnection, tenant: str, space: Space) -> None:
        """Bring a space up to date; in steps that are kept, so that nothing is done twice."""
        key, wanted = (tenant, space.model), (space.dimension, space.changes, space.drops)
        if self._known.get(key) == wanted:
            return
        while not await self._step(connection, tenant, space.model):
            pass
        if space.dimension not in self._indexed:
            try:
                await self._index(connection, space.dimension)
            except ServerSaid as error:
                # Only the owner of the tables can; until then the database looks at every row.
                if error.sqlstate != _NO_RIGHT:
                    raise
            self._indexed.add(space.dimension)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[key] = wanted

    async def _step(self, connection: PgConnection, tenant: str, model: str) -> bool:
        """One transaction; whether it was the last one."""
        tx = PgTx(connection, monotonic_s() + self._limit_s)
        async with in_transaction(connection, self._limit_s):
            await self._fetch(connection, "lock_near", tenant, model)
            state = await self._fetch(connection, "near_state", tenant, model)
            return not state or await self._bring(connection, tx, tenant, model, state[0])

    async def _bring(
        self, connection: PgConnection, tx: PgTx, tenant: str, model: str, state: Row
    ) -> bool:
        dimension, changes, drops, old, seen, old_drops = state
        if old != dimension:
            await self._fetch(connection, "clear_near", tenant, model)
            seen, old_drops = 0, -1
        if (seen, old_drops) == (changes, drops):
            return True
        rows = await tx.all("changed_vectors", tenant, model, seen, CHUNK_ROWS)
        await self._put(connection, tenant, model, dimension, rows)
        done = len(rows) < CHUNK_ROWS
        if done and old_drops != drops:
            await self._fetch(connection, "keep_near", tenant, model)
        # What was committed after the state was read is brought again the next time.
        upto = (changes, drops) if done else (rows[-1][3], -1 if old_drops < 0 else old_drops)
        await self._fetch(connection, "set_near_space", tenant, model, dimension, *upto)
        return done

    async def _put(
        self, connection: PgConnection, tenant: str, model: str, dimension: int, rows: list[Row]
    ) -> None:
        spots = [(row[0], row[1], spot_of(unpack(row[4]))) for row in rows]
        there = [one for one in spots if one[2] is not None]
        zero = [one for one in spots if one[2] is None]
        if there:
            columns = [list(column) for column in zip(*there, strict=True)]
            await self._fetch(connection, "put_near", tenant, model, dimension, *columns)
        if zero:
            kinds, ids, _ = (list(column) for column in zip(*zero, strict=True))
            await self._fetch(connection, "forget_near", tenant, model, kinds, ids)

    async def _index(self, connection: PgConnection, dimension: int) -> None:
        async with in_transaction(connection, self._limit_s):
            await self._fetch(connection, "no_time_limit")
            text = _texts()["index_near"].text
            await connection.fetch(text, (dimension,), INDEX_TIMEOUT_S)

    async def _fetch(self, connection: PgConnection, name: str, *given: object) -> list[Row]:
        return await connection.fetch(_texts()[name].text, given, self._limit_s)
