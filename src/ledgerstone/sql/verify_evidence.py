"""Verify, of artifacts, traces and reports: whether anything is missing."""

from __future__ import annotations

from ledgerstone.commands.turns import VerifyStore
from ledgerstone.records.reports import Defect
from ledgerstone.rules.evidence import lost_bytes, missing_rows
from ledgerstone.sql.tx import Tx


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
    defects = [lost_bytes(id) for (id,) in await tx.all("lost_bytes", tenant)]
    for session, kind, _, _ in await tx.all("broken_lists", tenant):
        defects.append(missing_rows(session, kind))
    return defects
