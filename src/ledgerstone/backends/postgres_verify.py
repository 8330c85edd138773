"""Verify on PostgreSQL: the schema, when all of the store is asked for, then the rows.

There are no seals here and no pages of ours: the server checks its own pages (data checksums), and
roles say who may write. What can still go unnoticed is a schema that somebody changed by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from ledgerstone.commands.turns import VerifyStore
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.sql import handlers
from ledgerstone.sql.migrate import migrations
from ledgerstone.sql.tx import Row, Tx
from ledgerstone.sql.verify_rows import verify_rows

_TABLE = re.compile(r"(?ms)^create table (\w+) \(\n(.*?)^\)")
_COLUMN = re.compile(r'  "?(\w+)"? (bigint|integer|smallint|text|bytea)\b(.*)')
_KEY = re.compile(r"  primary key \(([\w, ]+)\)")
_INDEX = re.compile(r"(?m)^create (unique )?index (\w+) on (\w+)")


async def verify_store(tx: Tx, query: VerifyStore) -> Verified:
    """The schema, and the rows of the tenant that belong to no session."""
    defects = await _check_schema(tx) if query.whole else []
    rows = await verify_rows(tx, query)
    return Verified(defects=[*defects, *rows.defects])


async def _check_schema(tx: Tx) -> list[Defect]:
    """What is missing or different; tables and indexes that others added are theirs."""
    wanted, found = set(_wanted()), set(await tx.all("schema_texts"))
    differing = {row[:3] for row in wanted - found}
    differing |= {row[:3] for row in found if row[0] == "trigger"}
    return [
        Defect("", "schema", f"{kind} {name} of {table}", "not what the migrations make")
        for kind, name, table in sorted(differing)
    ]


@cache
def _wanted() -> tuple[Row, ...]:
    """What the migrations say, as `schema_texts` would."""
    return tuple(row for step in migrations("postgres") for row in _rows(step.text))


def _rows(text: str) -> Iterator[Row]:
    for table, body in _TABLE.findall(text):
        lines = [line for line in body.splitlines() if not line.startswith("  --")]
        keys = {name for line in lines for name in _names(_KEY.match(line))}
        for column in filter(None, map(_COLUMN.match, lines)):
            name, kind, rest = column.groups()
            alone = "primary key" in rest
            is_full = alone or name in keys or "not null" in rest
            yield "column", name, table, f"{kind} not null" if is_full else kind
            if alone:
                keys.add(name)
        if keys:
            yield "index", f"{table}_pkey", table, "unique"
    for unique, name, table in _INDEX.findall(text):
        yield "index", name, table, unique.strip()


def _names(found: re.Match[str] | None) -> list[str]:
    return [] if found is None else [name.strip() for name in found[1].split(",")]


READS: dict[type, Any] = {**handlers.READS, VerifyStore: verify_store}
