"""What verify looks at beside the handler: the schema, and the rows of all tenants.

There are no seals here and no pages of ours: the server checks its own pages (data checksums), and
roles say who may write. What can still go unnoticed is a schema that somebody changed by hand.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from msgspec.structs import replace

from ledgerstone.commands.turns import VerifyStore
from ledgerstone.engines.postgres.rows import PostgresRows, ask
from ledgerstone.handlers.registry import HANDLERS
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.rules.evidence import missing_rows
from ledgerstone.sql.migrate import migrations
from ledgerstone.tables.transaction import Tx

_TABLE = re.compile(r"(?ms)^create table (\w+) \(\n(.*?)^\)")
_COLUMN = re.compile(r'  "?(\w+)"? (bigint|integer|smallint|text|bytea)\b(.*)')
_KEY = re.compile(r"  primary key \(([\w, ]+)\)")
_INDEX = re.compile(r"(?m)^create (unique )?index (\w+) on (\w+)")
_OWNERS = ("head", "usage", "work")
_MASKED = ("count", "reference", "space")
"""Kinds of defects that are told of other tenants too, and those of which it is not said where."""


async def verify_store(tx: Tx, query: VerifyStore) -> Verified:
    """The schema, and the rows of the tenant that belong to no session; `whole`: of others too."""
    rows = tx.rows
    assert isinstance(rows, PostgresRows)
    defects = await _of_tenant(rows, query, tx.now_us)
    if query.whole:
        defects[:0] = await _check_schema(rows)
        for (tenant,) in await ask(rows.asking, "verified_tenants"):
            if tenant != query.tenant:
                others = PostgresRows(rows.asking, tenant)
                found = await _of_tenant(others, replace(query, tenant=tenant), tx.now_us)
                defects += [_masked(one) for one in found if one.kind in _OWNERS + _MASKED]
    return Verified(defects=defects)


async def _of_tenant(rows: PostgresRows, query: VerifyStore, now_us: int) -> list[Defect]:
    """Where months of traces are dropped, the first documents of a list may be gone."""
    found: Verified = await HANDLERS[VerifyStore](Tx(rows, now_us), query)
    broken = await ask(rows.asking, "broken_lists", query.tenant)
    kept = [one for one in found.defects if not one.where.startswith("evidence ")]
    return kept + [missing_rows(session, kind) for session, kind, *_ in broken]


def _masked(defect: Defect) -> Defect:
    if defect.kind in _OWNERS:
        return defect
    where = f"{defect.where.partition(' ')[0]} of another tenant"
    detail = "does not fit its rows" if defect.kind == "space" else defect.detail
    return Defect("", defect.kind, where, detail)


async def _check_schema(rows: PostgresRows) -> list[Defect]:
    """What is missing or different; tables and indexes that others added are theirs."""
    wanted, found = set(_wanted()), set(await ask(rows.asking, "schema_texts"))
    differing = {row[:3] for row in wanted - found}
    differing |= {row[:3] for row in found if row[0] == "trigger"}
    return [
        Defect("", "schema", f"{kind} {name} of {table}", "not what the migrations make")
        for kind, name, table in sorted(differing)
    ]


@cache
def _wanted() -> tuple[tuple[Any, ...], ...]:
    """What the migrations say, as `schema_texts` would."""
    return tuple(row for step in migrations("postgres") for row in _rows(step.text))


def _rows(text: str) -> Iterator[tuple[Any, ...]]:
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
