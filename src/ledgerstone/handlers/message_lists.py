"""Pages of messages, of a path or of what one run wrote, and how many messages a path has."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from ledgerstone.commands.nodes import CountMessages, ListMessages
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.messages import (
    COLUMNS,
    Row,
    amended_visibilities,
    is_live_message,
    is_message,
    messages_of,
    read_between,
    read_path,
)
from ledgerstone.handlers.nodes import columns_between
from ledgerstone.handlers.paths import MAIN, count_path, end_of, places_above, stretches, tip_of
from ledgerstone.handlers.registry import handles
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Page
from ledgerstone.rules.bodies import visibility_of
from ledgerstone.tables.runs import RUNS_BY_ID, RunRow
from ledgerstone.tables.sessions import Head
from ledgerstone.tables.transaction import Tx

Test: TypeAlias = Callable[[Row], bool]


@handles(ListMessages)
async def list_messages(tx: Tx, query: ListMessages) -> Page[Message]:
    """A page of a path, or of what one run wrote."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return Page([], total=0 if query.total else None)
    wanted = query.offset + query.limit + 1
    read = _path_rows if query.run_id is None else _run_rows
    rows, total = await read(tx, head, query, await _test_of(tx, head, query), wanted)
    rows = rows[query.offset : wanted]
    items = await messages_of(tx, head, query.session, rows[: query.limit])
    return Page(items, len(rows) > query.limit, None, total)


async def _test_of(tx: Tx, head: Head, query: ListMessages) -> Test:
    """Which rows are in the list."""
    there = is_message if query.deleted else is_live_message
    if query.visibility is None:
        return there
    amended = await amended_visibilities(tx, head)

    def fits(row: Row) -> bool:
        if not there(row):
            return False
        visibility = amended.get(row[0]) or visibility_of(row[7], row[6])
        return visibility == query.visibility

    return fits


async def _path_rows(
    tx: Tx, head: Head, query: ListMessages, fits: Test, wanted: int
) -> tuple[list[Row], int | None]:
    leaf = await end_of(tx, head, query.branch, None, deleted=query.deleted)
    after = None if query.after is None else query.after[0]
    parts = await stretches(tx, head, leaf)
    rows = await read_path(
        tx,
        head,
        parts,
        fits=fits,
        after_seq=0 if query.newest_first else after or 0,
        before_seq=after if query.newest_first else None,
        first=None if query.newest_first else wanted,
        last=wanted if query.newest_first else None,
    )
    total = None
    if query.total and query.visibility is not None:
        total = len(await read_path(tx, head, parts, fits=fits))
    elif query.total:
        total = await _path_total(tx, head, leaf, query)
    return (rows[::-1] if query.newest_first else rows), total


async def _path_total(tx: Tx, head: Head, leaf: int, query: ListMessages) -> int:
    if query.deleted:
        return sum(place.role is not None for place in await places_above(tx, head, leaf, 0))
    return head.messages if query.branch == MAIN else (await count_path(tx, head, leaf))[0]


async def _run_rows(
    tx: Tx, head: Head, query: ListMessages, fits: Test, wanted: int
) -> tuple[list[Row], int | None]:
    run = await tx.find(RUNS_BY_ID, query.run_id, head.number)
    if run is None or not run.first_ord:
        return [], 0 if query.total else None
    n = run.n
    first, last = run.first_ord, run.last_ord
    if query.after is not None and query.newest_first:
        last = min(last, query.after[1] - 1)
    elif query.after is not None:
        first = max(first, query.after[1] + 1)
    rows = await read_between(
        tx, head.number, COLUMNS, first, last, lambda row: row[4] == n and fits(row),
        wanted=wanted, reverse=query.newest_first,
    )  # fmt: skip
    if not query.total:
        return rows, None
    if query.visibility is not None:
        return rows, await _run_total(tx, head, run, fits)
    columns = ("run", "role", "deleted_us")
    places = await columns_between(tx, head.number, columns, run.first_ord, run.last_ord)
    return rows, sum(
        by == n and role is not None and (query.deleted or deleted_us is None)
        for by, role, deleted_us in places
    )


async def _run_total(tx: Tx, head: Head, run: RunRow, fits: Test) -> int:
    rows = await read_between(
        tx, head.number, COLUMNS, run.first_ord, run.last_ord,
        lambda row: row[4] == run.n and fits(row), wanted=None, reverse=False,
    )  # fmt: skip
    return len(rows)


@handles(CountMessages)
async def count_messages(tx: Tx, query: CountMessages) -> int:
    """Live messages on a path; main's count stands in the head."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return 0
    if query.branch == MAIN:
        return head.messages
    tip = await tip_of(tx, head, query.branch)
    return 0 if tip is None else (await count_path(tx, head, tip[0]))[0]
