"""Traces and reports."""

from __future__ import annotations

import msgspec

from ledgerstone.tables.table import Table


class EvidenceRow(msgspec.Struct, frozen=True, gc=False):
    """One entry of a list of a session, from place 1; place 0 says that there is a list."""

    tenant: str
    session: str
    kind: str
    n: int
    created_us: int
    body: bytes


EVIDENCE = Table(
    "evidence", EvidenceRow, ("tenant", "session", "kind", "n"), sealed=("created_us", "body")
)
