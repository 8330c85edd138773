"""Reading a SQLite store: from one snapshot, some queries by statements of their own."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import apsw

from ledgerstone.clock import Clock
from ledgerstone.commands import Query
from ledgerstone.engines.changes import WaitingForChanges
from ledgerstone.engines.reader_threads import ReaderThreads
from ledgerstone.engines.sqlite.changes import SqliteChanges
from ledgerstone.engines.sqlite.connection import FOREIGN, Reader, damage_under
from ledgerstone.errors import LedgerstoneError, NotSupported, StoreClosed
from ledgerstone.handlers.registry import HANDLERS, handler_of
from ledgerstone.handlers.tenants import list_tenants
from ledgerstone.lazy_imports import importing
from ledgerstone.records.reports import Capabilities, StoreStats
from ledgerstone.sql.catalogue import load
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

A = TypeVar("A")

READER_THREADS = 4
IDLE_READERS_MAX = 16
"""Maximum reading connections that stay open unused; each may hold 2 MB of pages."""
WAL_WARNING_BYTES = 64 * 1024 * 1024
SAFE_SQLITE = (3, 51, 3)

BRIEF_MESSAGES_MAX = 100

POINT_QUERIES = frozenset(
    ("GetHead", "GetLease", "GetMessage", "GetRun", "GetSession", "GetTurn", "LatestRun")
)
OWN_QUERIES = frozenset(
    ("ListSessions", "CountSessions", "SummariseUsage", "VerifySession", "VerifyStore")
)
"""What SQLite answers in a way of its own. Both by name: nothing is imported that nobody asks."""


def is_brief(query: Query[Any]) -> bool:
    """Whether a read is too short for a thread of its own: it may run on the event loop itself.

    Waking a thread and being woken by it takes longer than reading a head or the last messages of a
    session (docs/adr/0012). Such a read touches a few pages, however large the store.
    """
    name = type(query).__name__
    if name in POINT_QUERIES:
        return True
    if name != "ReadMessages":
        return False
    asked: Any = query
    wanted = asked.first if asked.last is None else asked.last
    return wanted is not None and bool(wanted <= BRIEF_MESSAGES_MAX)


def answer(tx: Tx, query: Query[Any]) -> Any:
    """Answer one query."""
    kind = type(query)
    if kind.__name__ in OWN_QUERIES:
        with importing():
            from ledgerstone.engines.sqlite.own_queries import OWN

        return run_now(OWN[kind](tx, query))
    return run_now(HANDLERS[kind](tx, query))


class SqliteReads(WaitingForChanges):
    """What a store opened to be written and one opened to be read have in common."""

    cursor_key: bytes
    _changes: SqliteChanges

    def __init__(self, path: str, clock: Clock, durability: str, changes: SqliteChanges) -> None:
        self._path = path
        self._clock = clock
        self._pid = os.getpid()
        self._closed = False
        self._idle: list[Reader] = []
        self._changes = changes
        self._threads = ReaderThreads(READER_THREADS)
        self._capabilities = Capabilities(name="sqlite", durability=durability, multi_process=True)

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def tenants(self) -> list[str]:
        self._check_usable()
        return self._find_out(lambda tx: run_now(list_tenants(Tx(tx.rows, 0))))

    def stats(self) -> StoreStats:
        self._check_usable()
        return StoreStats(counts=self._find_out(count_rows), sizes_bytes=file_sizes(self._path))

    def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            # In a forked child the connections belong to the parent: leave them alone.
            self._closed = True
            return
        self._closed = True
        self._changes.close()
        self._threads.close()
        self._release()

    @abstractmethod
    def _find_out(self, work: Callable[[Reader], A]) -> A:
        """What work answers, over one snapshot."""

    @abstractmethod
    def _release(self) -> None:
        """Close all connections."""

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosed(f"the store {self._path} is closed")
        if os.getpid() != self._pid:
            raise StoreClosed("this store was opened before a fork; open it again in the child")


def read_snapshot(tx: Reader, queries: Sequence[Query[Any]], clock: Clock) -> list[Any]:
    """Answer all queries from one moment of the store."""
    return in_snapshot(tx, lambda _: _answer_all(tx, queries, clock.now_us()))


def in_snapshot(tx: Reader, work: Callable[[Reader], A]) -> A:
    """Do something in a transaction that reads."""
    if tx.in_transaction:
        tx.execute("ROLLBACK")  # Its last user was interrupted while tidying up.
    try:
        tx.execute("BEGIN")
        tx.rows.begin()
        return work(tx)
    finally:
        if tx.in_transaction:
            tx.execute("ROLLBACK")


def _answer_all(tx: Reader, queries: Sequence[Query[Any]], now_us: int) -> list[Any]:
    return [_answer(tx, query, now_us) for query in queries]


def _answer(tx: Reader, query: Query[Any], now_us: int) -> Any:
    if handler_of(type(query)) is None:
        raise NotSupported(type(query).__name__, "sqlite")
    try:
        return answer(Tx(tx.rows, now_us), query)
    except (LedgerstoneError, *FOREIGN):
        raise
    except Exception as error:
        if (damage := damage_under(tx.connection, query, now_us)) is None:
            raise
        raise damage from error


def count_rows(tx: Reader) -> dict[str, int]:
    """How much is stored."""
    counts = tx.execute(load("sqlite")["count_stored"].text).fetchone()
    return dict(zip(("sessions", "nodes", "turns"), counts or (), strict=True))


_FILES = {"database": "", "wal": "-wal", "shm": "-shm"}


def file_sizes(path: str) -> dict[str, int]:
    """The bytes of the file, its log and the index of that."""
    return {name: _size(path + tail) for name, tail in _FILES.items()}


def _size(path: str) -> int:
    try:
        return os.path.getsize(path)
    except OSError:
        return 0


def warnings_of(path: str, durability: str) -> list[str]:
    """What an operator should know of a file."""
    found = []
    if _size(path + "-wal") > WAL_WARNING_BYTES:
        found.append("the log is large: a reader keeps an old snapshot open")
    if durability != "power":
        found.append("durability is 'process': a power cut may lose acknowledged turns")
    version = tuple(int(part) for part in apsw.sqlite_lib_version().split("."))
    if version < SAFE_SQLITE:
        found.append("this SQLite has the WAL-reset bug; install a newer apsw")
    return found
