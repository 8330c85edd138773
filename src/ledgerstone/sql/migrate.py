"""Schema versions: numbered files, each applied in one transaction with its version."""

from __future__ import annotations

import re
from functools import cache

import msgspec

from ledgerstone.sql.texts import sql_files

_FILE = re.compile(r"(\d{4})_(\w+)\.sql\Z")


class Migration(msgspec.Struct, frozen=True):
    """One step forward."""

    version: int
    name: str
    text: str


@cache
def migrations(dialect: str) -> tuple[Migration, ...]:
    """Every step for a database, in order and without gaps."""
    found = []
    for name, text in sql_files("migrations", dialect):
        match = _FILE.match(name)
        if match is not None:
            found.append(Migration(int(match[1]), match[2], text))
    found.sort(key=lambda migration: migration.version)
    if [migration.version for migration in found] != list(range(1, len(found) + 1)):
        raise ValueError(f"the migrations of {dialect} are not numbered 1, 2, 3, ...")
    return tuple(found)


def newest(dialect: str) -> int:
    """The version this code knows."""
    return len(migrations(dialect))
