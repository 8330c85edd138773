"""What the database itself runs: functions that replace older ones, applied after every step."""

from __future__ import annotations

from functools import cache
from hashlib import sha256

from ledgerstone.engines.postgres.planned.writes import with_rows
from ledgerstone.sql.texts import sql_files


@cache
def functions() -> tuple[str, ...]:
    """The texts, with their names in braces filled in."""
    return tuple(with_rows(text) for _, text in sql_files("functions", "postgres"))


@cache
def layout() -> int:
    """A number that is another one when the functions do anything else; comments do not count."""
    lines = [line.strip() for text in functions() for line in text.splitlines()]
    code = "\n".join(line for line in lines if line and not line.startswith("--"))
    return int.from_bytes(sha256(code.encode()).digest()[:7])
