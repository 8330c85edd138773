"""Verify, of vectors: the spaces counted again."""

from __future__ import annotations

from ledgerstone.commands.turns import VerifyStore
from ledgerstone.records.reports import Defect
from ledgerstone.rules.vectors import FLOAT_BYTES
from ledgerstone.sql.tx import Tx


async def check_memories(tx: Tx, query: VerifyStore) -> list[Defect]:
    """Rows of the tenant; of others it is only said that something is wrong."""
    defects = await _check_spaces(tx, query.tenant)
    if not query.whole:
        return defects
    for (tenant,) in await tx.all("loose_memory_tenants", query.tenant):
        for _ in await _check_spaces(tx, tenant):
            defects.append(Defect("", "space", "spaces of another tenant", "does not fit its rows"))
    return defects


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
