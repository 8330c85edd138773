"""Verify, of memories and vectors: their seals, and the spaces counted again."""

from __future__ import annotations

from ledgerstone.commands.memories import NAMESPACE_END
from ledgerstone.commands.turns import VerifyStore
from ledgerstone.records.reports import Defect
from ledgerstone.rules.vectors import FLOAT_BYTES
from ledgerstone.sql.seals import keeps_seals, seal_of
from ledgerstone.sql.tx import Tx

_CHUNK_ROWS = 200
_TABLES = {"sealed_memories": "memories", "sealed_embeddings": "embeddings"}
_CHANGED = "changed since it was written"


async def check_memories(tx: Tx, query: VerifyStore) -> list[Defect]:
    """Rows of the tenant; of others it is only said that something is wrong."""
    defects = [Defect("", "seal", place, _CHANGED) for place in await _broken(tx, query.tenant)]
    defects += await _check_spaces(tx, query.tenant)
    if not query.whole:
        return defects
    for (tenant,) in await tx.all("loose_memory_tenants", query.tenant):
        for place in await _broken(tx, tenant):
            where = f"{place.partition(' ')[0]} of another tenant"
            defects.append(Defect("", "seal", where, _CHANGED))
        for _ in await _check_spaces(tx, tenant):
            defects.append(Defect("", "space", "spaces of another tenant", "does not fit its rows"))
    return defects


async def _broken(tx: Tx, tenant: str) -> list[str]:
    """Tables and keys of the rows whose seal does not fit."""
    places: list[str] = []
    if not await keeps_seals(tx):
        return places
    for statement, table in _TABLES.items():
        after = ("", "")  # No row is there: every key has a character.
        while rows := await tx.all(statement, tenant, *after, _CHUNK_ROWS):
            for row in rows:
                if row[-1] != seal_of(*row[:-1]):
                    places.append(f"{table} {row[1]}/{row[2]}".replace(NAMESPACE_END, "/"))
            last = (rows[-1][1], rows[-1][2])
            if last <= after:
                break  # A damaged index hands out what lies behind: without this, for ever.
            after = last
    return places


async def _check_spaces(tx: Tx, tenant: str) -> list[Defect]:
    """What the rows say of their spaces."""
    counted = {row[0]: row[1:] for row in await tx.all("counted_spaces", tenant)}
    defects = []
    for model, dimension, count, changes, _ in await tx.all("list_spaces", tenant):
        there, last, least, most = counted.pop(model, (0, 0, None, None))
        size = dimension * FLOAT_BYTES
        if count != there:
            detail = f"{count} rows, there are {there}"
        elif changes < last:
            detail = f"{changes} changes, a row has {last}"
        elif there and not size == least == most:
            detail = f"rows of {least} to {most} bytes, not {size}"
        else:
            continue
        defects.append(Defect("", "space", f"spaces {model}", detail))
    missing = "does not know its rows"
    return defects + [Defect("", "space", f"spaces {model}", missing) for model in counted]
