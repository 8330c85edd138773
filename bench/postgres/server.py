"""The server of a run: a throwaway one with fsync on, and one database per contender."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.machine import filesystem

if TYPE_CHECKING:
    from ledgerstone.testing.servers.postgres import PostgresServer

SETTINGS: Final = {
    "max_connections": "300",
    "shared_buffers": "256MB",
    "max_wal_size": "4GB",
    # A checkpoint in the middle of a round would be somebody's bad luck.
    "checkpoint_timeout": "1h",
}
SIZE: Final = """
select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint
from pg_class c join pg_namespace n on n.oid = c.relnamespace
where c.relkind in ('r', 'p', 'm') and n.nspname !~ '^pg_' and n.nspname <> 'information_schema'
"""
DESCRIBED: Final = ("fsync", "synchronous_commit", "shared_buffers")


class Server:
    def __init__(self, directory: Path) -> None:
        self._server = started(directory)
        self.databases: set[str] = set()

    @property
    def port(self) -> int:
        return self._server.port

    def url(self, database: str) -> str:
        return self._server.url(database)

    def create(self, database: str, template: str = "template1") -> None:
        self._server.create_database(database, template=template)
        self.databases.add(database)

    def drop(self, database: str) -> None:
        self._server.drop_databases(database)
        self.databases.discard(database)

    def execute(self, database: str, *statements: str) -> None:
        """Untimed preparation, each statement a transaction; it may take a while."""
        with self._server.connected(database) as connection:
            connection.execute("set statement_timeout = 0")
            for statement in statements:
                connection.execute(statement.encode())

    def fetch(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        with self._server.connected(database) as connection:
            return connection.execute(statement.encode()).fetchall()

    def size_bytes(self, database: str) -> int:
        """Tables, their indexes and their long values; not the log, which the server shares."""
        return int(self.fetch(database, SIZE)[0][0])

    def described(self) -> str:
        ((version,),) = self.fetch("postgres", "show server_version")
        shown = [f"{name}={self.fetch('postgres', f'show {name}')[0][0]}" for name in DESCRIBED]
        where = filesystem(self._server.folder)
        return f"PostgreSQL {version} over TCP on loopback ({where}, {', '.join(shown)})"

    def close(self) -> None:
        self._server.close()


def started(directory: Path) -> PostgresServer:
    """On the disk of the other files, where the account that runs the server can get there."""
    from ledgerstone.testing.servers.postgres import PostgresServer

    before = tempfile.tempdir
    if os.geteuid() != 0 or is_open(directory.parent):
        tempfile.tempdir = str(directory.parent)
    try:
        server = PostgresServer(durable=True, settings=SETTINGS)
    finally:
        tempfile.tempdir = before
    return server.__enter__()


def is_open(folder: Path) -> bool:
    """Whether everybody may pass through a folder and those above it."""
    return all(one.stat().st_mode & stat.S_IXOTH for one in (folder, *folder.parents))
