"""The rows of a store on a server, seen and changed behind its back."""

from __future__ import annotations

from ledgerstone.testing.servers.databases import DatabaseServer, text_of

SCHEMA = "ledgerstone"


def edit_rows(url: str, statement: str) -> int:
    """Run a statement in the schema of the store; how many rows it changed."""
    from psycopg.sql import SQL

    with DatabaseServer(url).connected() as connection:
        connection.execute(text_of("enter_schema", name=SCHEMA))
        return connection.execute(SQL(statement)).rowcount


def raw_rows(url: str) -> bytes:
    """All tables as the server keeps their values, one after the other."""
    pieces: list[bytes] = []
    with DatabaseServer(url).connected() as connection:
        connection.execute(text_of("enter_schema", name=SCHEMA))
        names = [row[0] for row in connection.execute(text_of("table_names"), [SCHEMA])]
        for name in names:
            with connection.cursor().copy(text_of("copy_table", name=name)) as rows:
                pieces += map(bytes, rows)
    return b"".join(pieces)
