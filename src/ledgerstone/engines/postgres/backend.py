"""PostgreSQL: many processes on many machines, one database."""

from __future__ import annotations

import os
import threading
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from ledgerstone.clock import Clock, SystemClock, monotonic_s
from ledgerstone.commands import Command, Query
from ledgerstone.engines.changes import WaitingForChanges
from ledgerstone.engines.postgres.changes import PostgresChanges
from ledgerstone.engines.postgres.connections import (
    Connections,
    async_driver,
    blocking_driver,
)
from ledgerstone.engines.postgres.drivers.errors import FOREIGN, translate
from ledgerstone.engines.postgres.drivers.joined import Joiner
from ledgerstone.engines.postgres.drivers.urls import Target, parse_target
from ledgerstone.engines.postgres.opening import (
    DIALECT,
    check_durability,
    check_feed,
    check_rights,
    check_security,
    check_server,
    prepare_schema,
    read_facts,
    warnings_of,
)
from ledgerstone.engines.postgres.pgvector import VectorTable
from ledgerstone.engines.postgres.planned.flusher import (
    AsyncFlusher,
    BlockingFlusher,
)
from ledgerstone.errors import (
    InvalidValue,
    LedgerstoneError,
    NotSupported,
    OutcomeUnknown,
    StoreClosed,
)
from ledgerstone.ports.backend import Progress
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.records.reports import Capabilities, Health, StoreStats
from ledgerstone.sql.catalogue import load
from ledgerstone.sql.cursors import cursor_key
from ledgerstone.trampoline import run_now

if TYPE_CHECKING:
    import asyncio

A = TypeVar("A")
DURABILITIES = ("power", "process")


def open_postgres(
    url: str,
    *,
    durability: str | None = None,
    clock: Clock | None = None,
    pool_size: int | None = None,
    read_only: bool = False,
) -> PostgresBackend:
    """Connect, look at the server, make or migrate the schema; refuses less than was asked for.

    `read_only`: the schema stays as it is, a role that may only read is enough, and the server
    refuses every write of these connections.
    """
    level = durability or "power"
    if level not in DURABILITIES:
        raise InvalidValue("durability", f"postgresql knows power and process, not {level!r}")
    target = parse_target(url, pool_size)
    if read_only:
        target = msgspec.structs.replace(target, read_only=True, migrate=False)
    # A test's clock stands in for the database's own.
    stand_in = None if clock is None or isinstance(clock, SystemClock) else clock
    connections = Connections(blocking_driver, BlockingFlusher, target, stand_in, known=False)
    try:
        key = run_now(_inspect(connections, target, level))
    except LedgerstoneError:
        connections.close()
        raise
    except FOREIGN as error:
        connections.close()
        raise translate(error, target.shown) from error
    return PostgresBackend(target, level, stand_in, connections, key)


async def _inspect(connections: Connections, target: Target, level: str) -> bytes:
    """Refuse a server that will not do, prepare the schema, read the key of cursors."""
    ends_s = monotonic_s() + target.connect_timeout_s
    connection = await connections.pool.borrow(ends_s)
    try:
        facts = await read_facts(connection, target.statement_timeout_s)
        check_server(facts.version)
        check_durability(facts, level, target.shown)
        limit_s = target.statement_timeout_s
        await prepare_schema(connection, target.schema, limit_s, may_migrate=target.migrate)
        if not target.read_only:
            await check_rights(connection, target.shown, limit_s)
            await check_feed(connection, target.shown, limit_s)
        await check_security(connection, target.shown, limit_s, asked=target.rls)
        halves = await connection.fetch(load(DIALECT)["cursor_key"].text, (), limit_s)
        return cursor_key(halves)
    finally:
        connections.pool.give_back(connection)


class PostgresBackend(WaitingForChanges):
    """A store in one schema of a database."""

    _changes: PostgresChanges

    def __init__(
        self,
        target: Target,
        durability: str,
        clock: Clock | None,
        connections: Connections,
        key: bytes,
    ) -> None:
        self._target = target
        self._clock = clock
        self._pid = os.getpid()
        self.cursor_key = key
        self._blocking = connections
        self._of_loops: dict[asyncio.AbstractEventLoop, Connections] = {}
        self._making = threading.Lock()
        self._changes = PostgresChanges(connections.pool, target.schema, pooled=not target.prepare)
        self._joiner = Joiner(target, connections.clock)
        self._near = VectorTable(target.shown, target.statement_timeout_s)
        self._closed = False
        self._capabilities = Capabilities(
            name="postgres", durability=durability, multi_process=True, requires_network=True
        )

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def write(self, command: Command[A]) -> A:
        self._check_usable()
        connections = self._blocking
        fast = connections.fast(command)
        try:
            answer: A = (
                run_now(connections.slow.write(command)) if fast is None else fast.write(command)
            )
        except OutcomeUnknown as error:
            error.spent = True
            raise
        self._changes.tell_of(answer)
        return answer

    async def awrite(self, command: Command[A]) -> A:
        """Cancelling the wait does not touch a command that has begun."""
        try:
            answer: A = await (await self._on_loop().begin(command))
        except OutcomeUnknown as error:
            error.spent = True
            raise
        self._changes.tell_of(answer)
        return answer

    def write_many(self, commands: Sequence[Command[A]]) -> list[A | LedgerstoneError]:
        self._check_usable()
        return self._told(self._blocking.write_many(commands))

    async def awrite_many(self, commands: Sequence[Command[A]]) -> list[A | LedgerstoneError]:
        """Cancelling the wait touches none that has begun."""
        return self._told(await self._on_loop().awrite_many(commands))

    def _told(self, found: list[Any]) -> list[Any]:
        for one in found:
            if isinstance(one, OutcomeUnknown):
                one.spent = True
            elif not isinstance(one, LedgerstoneError):
                self._changes.tell_of(one)
        return found

    def join(self, command: Command[A], connection: object) -> A:
        self._check_usable()
        joiner, ask = self._joiner, self._blocking.slow.ask
        theirs = joiner.blocking(connection)
        answer: A = run_now(joiner.join(command, theirs, partial(ask, "server_identity")))
        return answer

    async def ajoin(self, command: Command[A], connection: object) -> A:
        joiner, ask = self._joiner, self._on_loop().slow.ask
        theirs = joiner.on_loop(connection)
        answer: A = await joiner.join(command, theirs, partial(ask, "server_identity"))
        return answer

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        self._check_usable()
        return run_now(self._blocking.slow.read(queries))

    async def aread(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return await self._on_loop().slow.read(queries)

    def prepare_near(self, make: bool) -> bool:
        self._check_usable()
        if make:
            run_now(self._near.make(self._blocking.pool))
        return run_now(self._near.is_there(self._blocking.pool))

    def near(
        self, tenant: str, space: Space, kind: str, query: tuple[float, ...], most: int
    ) -> list[VectorRow] | None:
        self._check_usable()
        pool = self._blocking.pool
        return run_now(self._near.nearest(pool, tenant, space, kind, query, most))

    async def anear(
        self, tenant: str, space: Space, kind: str, query: tuple[float, ...], most: int
    ) -> list[VectorRow] | None:
        return await self._near.nearest(self._on_loop().pool, tenant, space, kind, query, most)

    def tenants(self) -> list[str]:
        self._check_usable()
        if self._target.rls:
            hint = "row-level security shows one at a time; open with a role that has BYPASSRLS"
            raise NotSupported("a list of all tenants", "postgres", hint)
        return [row[0] for row in run_now(self._blocking.slow.ask("list_tenants"))]

    def backup(self, target: str, progress: Progress) -> None:
        hint = (
            "use the server's own tools (pg_dump, or a base backup with its write-ahead log), or "
            "`ledgerstone copy` into a file; see docs/backup.md"
        )
        raise NotSupported("backup", "postgres", hint)

    def health(self) -> Health:
        self._check_usable()
        return run_now(self._health())

    async def _health(self) -> Health:
        slow = self._blocking.slow
        try:
            connection = await slow.pool.borrow()
            try:
                facts = await read_facts(connection, self._target.statement_timeout_s)
            finally:
                slow.pool.give_back(connection)
        except FOREIGN as error:
            raise translate(error, self._target.shown) from error
        version = (await slow.ask("store_version"))[0][0]
        return Health(
            backend="postgres",
            ok=True,
            durability=self._capabilities.durability,
            schema=version,
            version=facts.shown_version,
            warnings=warnings_of(facts, self._capabilities.durability),
        )

    def stats(self) -> StoreStats:
        self._check_usable()
        slow = self._blocking.slow
        counts = run_now(slow.ask("count_rows"))[0]
        sizes = run_now(slow.ask("database_sizes"))[0]
        return StoreStats(
            counts=dict(zip(("sessions", "nodes", "turns"), counts, strict=True)),
            sizes_bytes={"database": int(sizes[0]), "tables": int(sizes[1])},
        )

    def close(self) -> None:
        if self._closed or os.getpid() != self._pid:
            # In a forked child the connections belong to the parent: leave them alone.
            self._closed = True
            return
        self._closed = True
        self._changes.close()
        with self._making:
            found = list(self._of_loops.items())
            self._of_loops.clear()
        for loop, connections in found:
            _close_on(loop, connections)
        self._blocking.close()

    def _on_loop(self) -> Connections:
        """The connections of the running loop."""
        import asyncio

        self._check_usable()
        loop = asyncio.get_running_loop()
        connections = self._of_loops.get(loop)
        if connections is None:
            with self._making:
                for other in [other for other in self._of_loops if other.is_closed()]:
                    del self._of_loops[other]
                connections = self._of_loops[loop] = Connections(
                    async_driver, AsyncFlusher, self._target, self._clock, known=True
                )
            connections.anchor = _until_the_loop_ends(connections)
            with suppress(StopIteration):
                connections.anchor.__anext__().send(None)
        return connections

    def _check_usable(self) -> None:
        if self._closed:
            raise StoreClosed(f"the store {self._target.shown} is closed")
        if os.getpid() != self._pid:
            raise StoreClosed("this store was opened before a fork; open it again in the child")


async def _until_the_loop_ends(connections: Connections) -> AsyncGenerator[None, None]:
    """asyncio.run closes generators that were begun on its loop; this one closes connections."""
    try:
        yield
    finally:
        connections.close()


def _close_on(loop: asyncio.AbstractEventLoop, connections: Connections) -> None:
    """Connections of a loop are closed on it; those of a loop that ended are gone already."""
    import asyncio

    if loop.is_closed():
        return
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        running = None
    if running is loop or not loop.is_running():
        connections.close()
    else:
        loop.call_soon_threadsafe(connections.close)
