"""The seals of a SQLite file: the writer's triggers that keep them, and the file as a whole."""

from __future__ import annotations

from functools import cache

import apsw

from ledgerstone.backends.sqlite_connection import SqliteTx
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.sql.catalogue import load
from ledgerstone.sql.migrate import migrations
from ledgerstone.sql.seals import seal_of
from ledgerstone.sql.texts import sql_files
from ledgerstone.sql.tx import Row
from ledgerstone.sql.verify_seals import verify_rows

# More than an operator reads; a broken page is named by each of its cells.
FAULTS_MAX = 20


@cache
def _triggers() -> str:
    return "\n".join(text for _, text in sql_files("triggers", "sqlite"))


def keep_seals(connection: apsw.Connection) -> None:
    """From now on, what this connection writes is sealed; nothing of it is in the file.

    May be called again, when it was interrupted.
    """
    connection.create_scalar_function("ledger_seal", seal_of, deterministic=True)
    connection.execute(_triggers())


async def verify_store(tx: SqliteTx, query: VerifyStore) -> Verified:
    """The file itself, when all of it is asked for, then the rows that belong to no session."""
    defects = await _verify_file(tx) if query.whole else []
    rows = await verify_rows(tx, query)
    return Verified(defects=[*defects, *rows.defects])


async def _verify_file(tx: SqliteTx) -> list[Defect]:
    defects = [
        Defect("", "file", "pages", str(fault))
        for (fault,) in tx.execute(f"PRAGMA integrity_check({FAULTS_MAX})")
        if fault != "ok"
    ]
    if await tx.all("schema_texts") != _schema():
        defects.append(Defect("", "file", "schema", "not what the migrations make"))
    return defects


@cache
def _schema() -> list[Row]:
    """What the schema of a new file says."""
    fresh = apsw.Connection(":memory:")
    try:
        for step in migrations("sqlite"):
            fresh.execute(step.text)
        return fresh.execute(load()["schema_texts"].text).fetchall()
    finally:
        fresh.close()
