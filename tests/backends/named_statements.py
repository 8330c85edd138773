"""The handlers and statements of PostgreSQL over SQLite, to try them without a server."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import apsw
import msgspec

from ledgerstone.backends.changes import Changes
from ledgerstone.clock import Clock
from ledgerstone.commands import Command, Query
from ledgerstone.errors import NotSupported
from ledgerstone.ports.backend import Progress
from ledgerstone.records.reports import Capabilities, Health, StoreStats
from ledgerstone.sql.catalogue import Statement, parse
from ledgerstone.sql.handlers import READS, WRITES
from ledgerstone.sql.texts import sql_files
from ledgerstone.sql.tx import Row
from ledgerstone.trampoline import run_now

SCHEMA = Path(__file__).with_suffix(".sql").read_text(encoding="utf-8")


def shared_statements() -> dict[str, Statement]:
    """Those that are not in a dialect of their own, with question marks."""
    return {one.name: one for _, text in sql_files("queries", "") for one in parse(text)}


STATEMENTS = shared_statements()


class NamedTx:
    """A transaction whose statements are called by name."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection
        self.execute = connection.execute
        self.now_us = 0

    async def one(self, query: str, *arguments: Any) -> Row | None:
        return self.execute(STATEMENTS[query].text, arguments).fetchone()

    async def all(self, query: str, *arguments: Any) -> list[Row]:
        return self.execute(STATEMENTS[query].text, arguments).fetchall()

    async def run(self, query: str, *arguments: Any) -> int:
        self.execute(STATEMENTS[query].text, arguments)
        return self.connection.changes()

    async def many(self, query: str, rows: Iterable[Row]) -> int:
        before = self.connection.total_changes()
        self.connection.executemany(STATEMENTS[query].text, rows)
        return self.connection.total_changes() - before

    async def among(self, query: str, values: list[str], *arguments: Any) -> list[Row]:
        listed = msgspec.json.encode(values).decode()
        return self.execute(STATEMENTS[query].text, (*arguments, listed)).fetchall()

    async def pick(self, query: str, **given: Any) -> list[Row]:
        known = frozenset(name for name, value in given.items() if value is not None)
        text, bound = STATEMENTS[query].variant(known)
        return self.execute(text, tuple(given[name] for name in bound)).fetchall()


class NamedStatements:
    """A store in memory for one thread at a time; each command is a transaction."""

    def __init__(self, clock: Clock) -> None:
        self.connection = apsw.Connection(":memory:")
        self.connection.execute(SCHEMA)
        self._clock = clock
        self._changes = Changes()
        self._lock = threading.Lock()
        self.cursor_key = b"k" * 16

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(name="memory", durability="none", multi_process=False, persistent=False)

    def write(self, command: Command[Any]) -> Any:
        answer = self._within(lambda tx: run_now(WRITES[type(command)](tx, command)))
        self._changes.tell()
        return answer

    async def awrite(self, command: Command[Any]) -> Any:
        return self.write(command)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        asked = [(READS[type(query)], query) for query in queries]
        found: list[Any] = self._within(lambda tx: [run_now(one(tx, q)) for one, q in asked])
        return found

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.read(queries)

    def _within(self, work: Callable[[NamedTx], Any]) -> Any:
        with self._lock, self.connection:
            tx = NamedTx(self.connection)
            tx.now_us = self._clock.now_us()
            return work(tx)

    def changed(self, seen: int, timeout_s: float) -> int:
        return self._changes.wait(seen, timeout_s)

    async def achanged(self, seen: int, timeout_s: float) -> int:
        return await self._changes.await_(seen, timeout_s)

    def tenants(self) -> list[str]:
        return [row[0] for row in self._within(lambda tx: run_now(tx.all("list_tenants")))]

    def health(self) -> Health:
        return Health(backend="memory", ok=True, durability="none", schema=1)

    def stats(self) -> StoreStats:
        return StoreStats()

    def backup(self, target: str, progress: Progress) -> None:
        raise NotSupported("backup", "memory")

    def close(self) -> None:
        self._changes.close()
        self.connection.close()
