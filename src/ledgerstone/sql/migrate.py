"""Schema versions: numbered files, each applied in one transaction with its version."""

from __future__ import annotations

import re
from functools import cache
from hashlib import sha256

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


@cache
def functions(dialect: str) -> tuple[str, ...]:
    """What the database itself runs: texts that replace older ones, applied after every step."""
    return tuple(text for _, text in sql_files("functions", dialect))


@cache
def layout(dialect: str) -> int:
    """A number that is another one when the functions do anything else; comments do not count."""
    lines = [line.strip() for text in functions(dialect) for line in text.splitlines()]
    code = "\n".join(line for line in lines if line and not line.startswith("--"))
    return int.from_bytes(sha256(code.encode()).digest()[:7])
