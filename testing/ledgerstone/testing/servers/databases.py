"""A server that answers, started here or not: its addresses, and making and dropping databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit, urlunsplit

from ledgerstone.sql.catalogue import parse
from ledgerstone.testing.servers.install import NoServer

if TYPE_CHECKING:
    from psycopg import Connection

CONNECT_S = 10
STATEMENT_MS = 60_000
SUPERUSER = "postgres"

_STATEMENTS = {
    statement.name: statement.text
    for statement in parse(Path(__file__).with_name("databases.sql").read_text("utf-8"))
}


class DatabaseServer:
    """Somebody's PostgreSQL, given by the url of a database from which others can be made."""

    def __init__(self, url: str) -> None:
        self._url = url

    def url(
        self,
        database: str | None = None,
        *,
        user: str | None = None,
        password: str | None = None,
        **options: str,
    ) -> str:
        """The address of a database; what is not said stays as in the server's own url."""
        parts = urlsplit(self._url)
        who, at, where = parts.netloc.rpartition("@")
        if user is not None:
            secret = "" if password is None else f":{quote(password, safe='')}"
            who, at = f"{quote(user, safe='')}{secret}", "@"
        path = parts.path if database is None else f"/{quote(database, safe='')}"
        query = urlencode({**dict(parse_qsl(parts.query)), **options}, safe="/")
        return urlunsplit((parts.scheme, f"{who}{at}{where}", path, query, ""))

    def create_database(self, name: str, *, template: str = "template1") -> str:
        """Make a database, and answer its url."""
        self._do("create_database", name=name, template=template)
        return self.url(name)

    def drop_databases(self, *names: str) -> None:
        """Drop databases, whoever is connected to them."""
        with self.connected() as connection:
            for name in names:
                connection.execute(text_of("drop_database", name=name))

    @contextmanager
    def connected(self, database: str | None = None) -> Iterator[Connection[Any]]:
        """A plain connection that commits each statement, for what a test does behind the store."""
        with self._connect(database) as connection:
            yield connection

    def _connect(self, database: str | None = None) -> Connection[Any]:
        import psycopg

        return psycopg.connect(
            self.url(database),
            autocommit=True,
            connect_timeout=CONNECT_S,
            options=f"-c statement_timeout={STATEMENT_MS}",
        )

    def emptying(self, database: str) -> Emptying:
        """What takes every row out of the store in that database, as often as it is asked."""
        return Emptying(self._connect(database))

    def check(self, said_by: str) -> None:
        """It answers; NoServer with the reason if not."""
        import psycopg

        try:
            self._do("answers")
        except psycopg.Error as error:
            reason = f"{said_by} names a PostgreSQL that does not answer: {error}"
            raise NoServer(f"{reason} Correct it, or unset it for a throwaway one.") from error

    def close(self) -> None:
        """Somebody else's server goes on."""

    def _do(self, statement: str, /, *bound: Any, **names: str) -> list[Any]:
        with self.connected() as connection:
            cursor = connection.execute(text_of(statement, **names), bound or None)
            return cursor.fetchall() if cursor.description else []


class Emptying:
    """A connection that is kept, since making one costs more than what it is for."""

    def __init__(self, connection: Connection[Any]) -> None:
        self._connection = connection

    def __call__(self) -> None:
        self._connection.execute(text_of("cut_others"))
        self._connection.execute(text_of("empty_tables"))

    def close(self) -> None:
        self._connection.close()


def text_of(statement: str, /, **names: str) -> Any:
    """A statement with names in their places, and the bound ones as psycopg writes them."""
    from psycopg import sql

    text = _STATEMENTS[statement].replace("?1", "%s")
    made = {
        key: sql.Literal(value) if key == "password" else sql.Identifier(value)
        for key, value in names.items()
    }
    return sql.SQL(text).format(**made) if made else sql.SQL(text)
