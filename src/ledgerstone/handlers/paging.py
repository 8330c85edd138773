"""Reading lists a page at a time."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, TypeVar

import msgspec

from ledgerstone.commands import PageQuery
from ledgerstone.records.sessions import Page
from ledgerstone.tables.table import Index, Key, Table
from ledgerstone.tables.transaction import Tx

R = TypeVar("R", bound=msgspec.Struct)
Row = TypeVar("Row")
Item = TypeVar("Item")

_PAGE_ROWS = 64
"""The fewest rows that are read at once when a filter may refuse some of them."""


def page_of(
    query: PageQuery[Any], rows: Sequence[Row], record: Callable[[Row], Item], total: int | None
) -> Page[Item]:
    """The page from the first rows of a list, which are one more than it needs if there are."""
    end = query.offset + query.limit
    return Page([record(row) for row in rows[query.offset : end]], len(rows) > end, None, total)


async def first_fitting(
    tx: Tx,
    index: Index[R],
    prefix: Key,
    fitting: Callable[[list[R]], Awaitable[list[R]]],
    limit: int | None,
    *,
    after: Key | None = None,
    before: Key | None = None,
    page_rows: int = _PAGE_ROWS,
) -> list[R]:
    """The first rows of an index that pass a filter; read in pages when there is a limit.

    The columns of the index that follow the prefix must not be the same in two rows.
    """
    size = None if limit is None else max(limit, page_rows)
    found: list[R] = []
    while True:
        rows = await tx.scan(index, *prefix, after=after, before=before, limit=size)
        found += await fitting(rows)
        if limit is None or size is None or len(rows) < size or len(found) >= limit:
            return found[:limit]
        after = index.key_of(rows[-1])[len(prefix) :]


async def load_missing(
    tx: Tx, table: Table[R], loaded: dict[int, R | None], numbers: Iterable[int]
) -> None:
    """Load the heads or rows of these sessions, unless they are loaded already."""
    missing = [number for number in dict.fromkeys(numbers) if number not in loaded]
    found = await tx.get_many(table, [(number,) for number in missing])
    loaded.update(zip(missing, found, strict=True))
