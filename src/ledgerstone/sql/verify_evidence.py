"""Verify, of artifacts, traces and reports: their seals, and whether anything is missing."""

from __future__ import annotations

from ledgerstone.commands.turns import VerifyStore
from ledgerstone.records.reports import Defect
from ledgerstone.rules.evidence import lost_bytes, missing_rows
from ledgerstone.sql.seals import keeps_seals, seal_of
from ledgerstone.sql.tx import Tx

_CHUNK_ROWS = 200
_CHANGED = "changed since it was written"


async def check_evidence(tx: Tx, query: VerifyStore) -> list[Defect]:
    """Rows of the tenant; of others it is only said that something is wrong."""
    defects = await _check(tx, query.tenant)
    if not query.whole:
        return defects
    for (tenant,) in await tx.all("loose_evidence_tenants", query.tenant):
        for found in await _check(tx, tenant):
            where = f"{found.where.partition(' ')[0]} of another tenant"
            defects.append(Defect("", found.kind, where, found.detail))
    return defects


async def _check(tx: Tx, tenant: str) -> list[Defect]:
    defects = []
    if await keeps_seals(tx):
        places = [f"artifacts {id}" for id in await _artifacts(tx, tenant)]
        places += [f"evidence {'/'.join(map(str, key))}" for key in await _documents(tx, tenant)]
        defects += [Defect("", "seal", place, _CHANGED) for place in places]
    defects += [lost_bytes(id) for (id,) in await tx.all("lost_bytes", tenant)]
    for session, kind, _, _ in await tx.all("broken_lists", tenant):
        defects.append(missing_rows(session, kind))
    return defects


async def _artifacts(tx: Tx, tenant: str) -> list[str]:
    """The ids of those whose seal does not fit."""
    broken, after = [], ""
    while rows := await tx.all("sealed_artifacts", tenant, after, _CHUNK_ROWS):
        broken += [row[1] for row in rows if row[-1] != seal_of(*row[:-1])]
        after = rows[-1][1]
    return broken


async def _documents(tx: Tx, tenant: str) -> list[tuple[str, str, int]]:
    """The keys of those whose seal does not fit."""
    broken, after = [], ("", "", 0)
    while rows := await tx.all("sealed_evidence", tenant, *after, _CHUNK_ROWS):
        broken += [row[1:4] for row in rows if row[-1] != seal_of(*row[:-1])]
        after = rows[-1][1:4]
    return broken
