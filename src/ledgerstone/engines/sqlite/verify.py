"""What verify looks at beside the handlers: the seals of all rows, and the file itself."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import apsw
from msgspec.structs import replace

from ledgerstone.commands.turns import VerifySession, VerifyStore
from ledgerstone.engines.sqlite.rows import SqliteRows
from ledgerstone.engines.sqlite.seals import seal_of
from ledgerstone.engines.statements import ORD_MASK, expression, packed, quoted
from ledgerstone.handlers.registry import HANDLERS
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.sql.catalogue import load
from ledgerstone.sql.migrate import migrations
from ledgerstone.tables.schema import TABLES
from ledgerstone.tables.sessions import SESSIONS, SESSIONS_BY_ID
from ledgerstone.tables.table import Table
from ledgerstone.tables.transaction import Tx
from ledgerstone.trampoline import run_now

FAULTS_MAX = 20
"""More than an operator reads; a broken page is named by each of its cells."""
_CHANGED = "changed since it was written"
_SEALED = tuple(table for table in TABLES if table.sealed)
_OF_SESSIONS = tuple(table for table in _SEALED if table.owner or table is SESSIONS)
_OF_TENANTS = tuple(table for table in _SEALED if not table.owner and table is not SESSIONS)


async def verify_session(tx: Tx, query: VerifySession) -> Verified:
    """What the handler finds, and seals that do not fit."""
    return _with(_of_session(_rows_of(tx), query), await HANDLERS[VerifySession](tx, query))


async def verify_store(tx: Tx, query: VerifyStore) -> Verified:
    """The same of what belongs to no session, and what is wrong with the file as a whole."""
    found = await HANDLERS[VerifyStore](tx, query)
    rows = _rows_of(tx)
    return _with([*(_of_file(rows) if query.whole else ()), *_of_store(rows, query)], found)


def _rows_of(tx: Tx) -> SqliteRows:
    assert isinstance(tx.rows, SqliteRows)
    return tx.rows


def _with(defects: list[Defect], found: Verified) -> Verified:
    return replace(found, defects=[*defects, *found.defects])


def _of_session(rows: SqliteRows, query: VerifySession) -> list[Defect]:
    session = run_now(rows.find(SESSIONS_BY_ID, (query.tenant, query.session)))
    if session is None:
        return []
    places = [
        f"{table.name} {place}"
        for table in _OF_SESSIONS
        for place in _broken(rows, table, *_owned(table, session.number))
    ]
    return [Defect(query.session, "seal", place, _CHANGED) for place in places]


def _of_store(rows: SqliteRows, query: VerifyStore) -> list[Defect]:
    """Rows of the tenant; `whole`: of no session too, and that something of others is wrong."""
    places = []
    for table in _OF_TENANTS:
        mine = _broken(rows, table, "tenant = ?", query.tenant, skip=1)
        places += [f"{table.name} {place}" for place in mine]
    if query.whole:
        for table in _OF_SESSIONS:
            if table.owner:
                places += [f"{table.name} {place}" for place in _broken(rows, table, _loose(table))]
        for table in _OF_TENANTS:
            others = _broken(rows, table, "tenant <> ?", query.tenant)
            places += [f"{table.name} of another tenant" for _ in others]
    return [Defect("", "seal", place, _CHANGED) for place in places]


def _broken(
    rows: SqliteRows, table: Table[Any], where: str, *bound: Any, skip: int = 0
) -> Iterator[str]:
    """The keys of rows whose seal does not fit, without their first parts."""
    size = len(table.key)
    for *values, seal in rows.connection.execute(_sealed(table) + where, bound):
        key, sealed = tuple(values[:size]), tuple(values[size:])
        may_lack = all(name in table.optional for name in table.sealed)
        unsealed = may_lack and sealed == (None,) * len(sealed)
        if seal != (None if unsealed else seal_of(key, sealed)):
            yield "/".join(map(str, key[skip:]))


@cache
def _sealed(table: Table[Any]) -> str:
    names = [expression(table, name) for name in (*table.key, *table.sealed)]
    text = f"select {', '.join(names)}, seal from {table.name} where "
    if all(name in table.optional for name in table.sealed):
        some = [f"{quoted(name)} is not null" for name in (*table.sealed, "seal")]
        text += f"({' or '.join(some)}) and "
    return text


def _owned(table: Table[Any], number: int) -> tuple[Any, ...]:
    """Which rows belong to a session."""
    if table.packed:
        return "key between ? and ?", packed(number, 0), packed(number, ORD_MASK)
    return f"{quoted(table.owner or 'number')} = ?", number


def _loose(table: Table[Any]) -> str:
    """Which rows belong to no session."""
    owner = expression(table, table.owner or "number")
    return f"{owner} not in (select number from {SESSIONS.name})"


def _of_file(rows: SqliteRows) -> list[Defect]:
    connection = rows.connection
    defects = [
        Defect("", "file", "pages", str(fault))
        for (fault,) in connection.execute(f"PRAGMA integrity_check({FAULTS_MAX})")
        if fault != "ok"
    ]
    if _schema_of(connection) != _schema():
        defects.append(Defect("", "file", "schema", "not what the migrations make"))
    return defects


def _schema_of(connection: apsw.Connection) -> list[Any]:
    """What a file says its tables are; an ANALYZE by somebody else may have added its own."""
    return connection.execute(load("sqlite")["schema_texts"].text).fetchall()


@cache
def _schema() -> list[Any]:
    """What the schema of a new file says."""
    fresh = apsw.Connection(":memory:")
    try:
        for step in migrations("sqlite"):
            fresh.execute(step.text)
        return _schema_of(fresh)
    finally:
        fresh.close()
