"""Children that are killed while they bring a store to its schema, and what they leave behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import apsw

from ledgerstone.engines.sqlite import backend as sqlite
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.engines.sqlite.marks import APPLICATION_ID
from ledgerstone.sql.migrate import Migration, migrations
from ledgerstone.testing.faults.processes import Child, Say

WAIT_S = 60.0
SECOND = Migration(
    2,
    "colours",
    """
    create table colours (tenant text not null, id text not null, colour text not null) strict;
    insert into colours select tenant, id, coalesce(title, 'none') from sessions;
    create unique index colours_id on colours (tenant, id);
    alter table sessions add column colour text;
    update sessions set colour = (select colour from colours
      where colours.tenant = sessions.tenant and colours.id = sessions.id);
    create table seen (number integer primary key) strict;
    """,
)
COLOURS = "select tenant, id, colour from colours order by tenant, id"
COLUMNS = "select tenant, id, colour from sessions order by tenant, id"
SCHEMA = "select type, name, sql from sqlite_schema order by type, name"

Migrate = Callable[[apsw.Connection], None]


def both(dialect: str) -> tuple[Migration, ...]:
    """The migrations of a version that is not there yet."""
    return (*migrations(dialect), SECOND)


def in_pieces(connection: apsw.Connection) -> None:
    """The sabotage: every statement commits for itself."""
    version = connection.pragma("user_version")
    for step in both("sqlite")[version:]:
        connection.execute(step.text)
        connection.pragma("user_version", step.version)
        connection.pragma("application_id", APPLICATION_ID)


@contextmanager
def _next_version(migrate: Migrate) -> Iterator[None]:
    names = {"migrations": both, "newest": lambda dialect: len(both(dialect)), "migrate": migrate}
    before = {name: getattr(sqlite, name) for name in names}
    for name, value in names.items():
        setattr(sqlite, name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(sqlite, name, value)


def open_newer(path: str, migrate: Migrate | None = None) -> None:
    """Open and close the store as the next version would do it."""
    with _next_version(migrate or sqlite.migrate), closing(open_sqlite(path)):
        pass


def open_current(path: str) -> None:
    """Open and close the store as this version does it."""
    with closing(open_sqlite(path)):
        pass


def open_sabotaged(path: str) -> None:
    """The next version, without its transactions."""
    open_newer(path, in_pieces)


def killed_at(statement: int, opener: Callable[[str], None], path: Path) -> bool:
    """Let a child open the store and kill it before its n-th statement; False when it got by."""
    child = Child(_open_and_die, opener, str(path), statement)
    try:
        return not list(child.hear(WAIT_S))
    finally:
        child.kill()


def _open_and_die(say: Say, opener: Callable[[str], None], path: str, statement: int) -> None:
    left = statement

    def count(cursor: apsw.Cursor, text: str, bindings: object) -> bool:
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = count

    apsw.connection_hooks.append(watch)
    opener(path)
    say(b"done")


class Found:
    """A store file as it lies there, read without Ledgerstone."""

    def __init__(self, path: Path) -> None:
        connection = apsw.Connection(str(path))
        connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)  # Only looking.
        self.version: int = connection.pragma("user_version")
        self.owner: int = connection.pragma("application_id")
        self.schema = connection.execute(SCHEMA).fetchall()
        self.sound = connection.pragma("integrity_check") == "ok"
        self.colours: list[tuple[object, ...]] = []
        self.columns: list[tuple[object, ...]] = []
        if any(row[1] == "seen" for row in self.schema):
            self.colours = connection.execute(COLOURS).fetchall()
            self.columns = connection.execute(COLUMNS).fetchall()
        connection.close()
