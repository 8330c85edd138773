"""What a copy reads and writes: both sides hold the same rows, and take them again as their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ledgerstone.commands import Command
from ledgerstone.commands.transfer import Chunk, ExportSessions, ExportTable, ImportRows, Row
from ledgerstone.ports.backend import Backend
from ledgerstone.rules.transfer import BLOBS, OF_A_TENANT, SESSIONS, TABLES

FEW_ROWS = 12
"""Pages end in the middle of a table, and where they do is each backend's own."""
ENDED = ("ended_work", "work_sums")
"""What became of work: the oracle only knows dead letters."""


def everything(tenant: str, backend: Backend) -> dict[str, list[Row]]:
    """All rows of a tenant that count for its root, by table, as far as the oracle has them."""
    found: dict[str, list[Row]] = {}
    for chunk in chunks(tenant, backend):
        if TABLES[chunk.table].rooted and chunk.table not in ENDED:
            found.setdefault(chunk.table, []).extend(chunk.rows)
    return dict(sorted(found.items()))


def again(tenant: str, backend: Backend) -> Iterator[Command[Any]]:
    """Commands that bring every row once more."""
    last: dict[str, Row] = {}
    for chunk in list(chunks(tenant, backend)):
        # The bytes of a blob would have to be put before.
        if chunk.table != BLOBS.name:
            rows, after = chunk.rows, last.get(chunk.table)
            yield ImportRows(tenant=tenant, chunks=(Chunk(chunk.table, rows, after),))
            last[chunk.table] = TABLES[chunk.table].key_of(rows[-1])


def chunks(tenant: str, backend: Backend) -> Iterator[Chunk]:
    """All that a copy would read, page by page."""
    for table in OF_A_TENANT:
        yield from _of_table(tenant, backend, table.name)
    names = tuple(
        row[0] for chunk in _of_table(tenant, backend, SESSIONS.name) for row in chunk.rows
    )
    place: dict[str, Any] = {"table": None, "after": None}
    while names:
        query = ExportSessions(tenant=tenant, sessions=names, rows_max=FEW_ROWS, **place)
        page = backend.read([query])[0]
        yield from page.chunks
        if page.table is None:
            names, place = names[page.covered :], {"table": None, "after": None}
        else:
            place = {"table": page.table, "after": page.next}


def _of_table(tenant: str, backend: Backend, table: str) -> Iterator[Chunk]:
    after: Row | None = None
    while True:
        query = ExportTable(tenant=tenant, table=table, after=after, rows_max=FEW_ROWS)
        page = backend.read([query])[0]
        if page.rows:
            yield Chunk(table, page.rows)
        if page.next is None:
            return
        after = page.next
