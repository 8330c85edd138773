"""A role that row-level security binds, in a store of a test's own."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql

from ledgerstone.engines.postgres.admin import migrate_store
from ledgerstone.testing.servers.places import Places


@contextmanager
def secured_role(places: Places, url: str) -> Iterator[tuple[str, str]]:
    """The url of the store for that role, and its name; it is dropped afterwards."""
    name, word = f"ledger_app_{secrets.token_hex(4)}", secrets.token_hex(8)
    with psycopg.connect(url, autocommit=True) as admin:
        role = sql.Identifier(name)
        make = sql.SQL("create role {} login password {}")
        admin.execute(make.format(role, sql.Literal(word)))
        try:
            migrate_store(url, name)
            yield places.server.url(admin.info.dbname, user=name, password=word), name
        finally:
            admin.execute(sql.SQL("drop owned by {}").format(role))
            admin.execute(sql.SQL("drop role {}").format(role))
