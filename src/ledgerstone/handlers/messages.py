"""Messages: reading paths, pages, ranges, runs and versions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple, TypeAlias

from msgspec.structs import replace

from ledgerstone.commands import nodes as commands
from ledgerstone.errors import Corrupt
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.nodes import (
    COLUMNS,
    MAIN,
    Row,
    columns_between,
    count_path,
    end_of,
    ids_at,
    is_live_message,
    is_message,
    node_by_id,
    nodes_with_id,
    places_above,
    read_between,
    read_path,
    row_of,
    stretches,
    tip_of,
)
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import run_names
from ledgerstone.records.messages import Message, Visibility
from ledgerstone.records.sessions import Page
from ledgerstone.rules.bodies import (
    ROLE_NAMES,
    UNREADABLE,
    decode_body,
    read_amended,
    read_loosely,
    read_object,
    visibility_of,
)
from ledgerstone.tables.graph import AMENDMENTS
from ledgerstone.tables.runs import RUNS_BY_ID
from ledgerstone.tables.sessions import HEADS, SESSIONS, Head
from ledgerstone.tables.transaction import Tx

Test: TypeAlias = Callable[[Row], bool]


class Patch(NamedTuple):
    """An amendment of a message: everything that differs from its body since it was written."""

    ord: int
    version: int
    created_us: int
    patch: bytes


@handles(commands.ReadMessages)
async def read_messages(tx: Tx, query: commands.ReadMessages) -> list[Message]:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    leaf = await end_of(tx, head, query.branch, query.at, deleted=query.deleted)
    rows = await read_path(
        tx,
        head,
        await stretches(tx, head, leaf),
        fits=is_message if query.deleted else is_live_message,
        after_seq=query.after_seq,
        last=query.last,
        first=query.first,
    )
    return await messages_of(tx, head, query.session, rows)


async def messages_of(
    tx: Tx, head: Head, session: str, rows: list[Row], revision: int | None = None
) -> list[Message]:
    """Rows as records, with the newest amendments applied: those up to a revision."""
    newest: dict[int, Patch] = {}
    if head.amended and rows:
        ords = [row[0] for row in rows]
        newest = {one.ord: one for one in await _patches(tx, head, min(ords), max(ords), revision)}
    return await _messages(tx, head, session, rows, newest)


async def _messages(
    tx: Tx, head: Head, session: str, rows: list[Row], newest: dict[int, Patch]
) -> list[Message]:
    others = await _other_parents(tx, head.number, rows)
    numbers = {row[4] for row in rows if row[4] is not None} if head.runs else set()
    run_id = (await run_names(tx, head, numbers)).get
    found = []
    before: int | None = None
    parent_id = before_id = None
    for ord, parent, seq, role, run, created_us, id, raw, deleted_us in rows:
        parent_id = before_id if parent == before else others.get(parent)
        before, before_id = ord, id
        try:
            body = decode_body(raw)
        except UNREADABLE:
            body = read_loosely(raw, None, id)
        if ROLE_NAMES.get(role) != body.role:
            raise Corrupt("nodes", id, "role", f"{role!r} does not fit the body")
        message = Message(
            body=body,
            id=id,
            session=session,
            ord=ord,
            seq=seq,
            parent=parent_id,
            run_id=run_id(run),
            created_us=created_us,
            deleted_us=deleted_us,
        )
        if ord in newest:
            message = _amended(message, raw, newest[ord])
        found.append(message)
    return found


def _amended(message: Message, raw: bytes, patch: Patch) -> Message:
    body = read_amended(raw, patch.patch, message.id)
    return replace(message, body=body, version=patch.version, updated_us=patch.created_us)


async def _other_parents(tx: Tx, number: int, rows: list[Row]) -> dict[int, str]:
    """The ids of those parents that do not stand right before their child, by ord."""
    before: int | None = None
    others = set()
    for row in rows:
        if row[1] != before:
            others.add(row[1])
        before = row[0]
    others.discard(0)
    if len(others) == 1 and rows[0][1] in others:
        return await with_parents(tx, number, {}, others)
    return await with_parents(tx, number, {row[0]: row[6] for row in rows}, others)


async def with_parents(
    tx: Tx, number: int, ids: dict[int, str], parents: Iterable[int]
) -> dict[int, str]:
    """Ids by ord, and the ids of those parents that are not among them."""
    missing = set(parents).difference(ids, (0,))
    return await ids_at(tx, number, missing) | ids if missing else ids


async def _patches(
    tx: Tx, head: Head, first: int, last: int, revision: int | None = None
) -> list[Patch]:
    """The amendments between two ords that were not erased, oldest first."""
    rows = await tx.scan_columns(
        AMENDMENTS.primary, (*Patch._fields, "revision"), head.number,
        after=(first - 1,), before=(last + 1,),
    )  # fmt: skip
    return [
        Patch(*row)
        for *row, made in rows
        if row[3] is not None and (revision is None or made <= revision)
    ]


async def amended_visibilities(tx: Tx, head: Head) -> dict[int, Visibility]:
    """Who sees the messages whose amendments say so, by ord."""
    if not head.amended:
        return {}
    found: dict[int, Visibility] = {}
    for one in await _patches(tx, head, 0, head.ord):
        changes = read_object(one.patch, "amendments", f"{one.ord}", "patch")
        if "visibility" in changes:
            found[one.ord] = changes["visibility"] or "all"
    return found


@handles(commands.ReadRange)
async def read_range(tx: Tx, query: commands.ReadRange) -> list[Message]:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    parts = await stretches(tx, head, head.tip)
    first, beyond = query.first - 1, query.last + 1
    rows = await read_path(tx, head, parts, after_seq=first, before_seq=beyond)
    return await messages_of(tx, head, query.session, rows)


@handles(commands.GetMessage)
async def get_message(tx: Tx, query: commands.GetMessage) -> Message | None:
    if query.session is None:
        return await _oldest(tx, query.tenant, query.id)
    head = await find_head(tx, query.tenant, query.session)
    row = None if head is None else await _message_row(tx, head, query.id)
    if head is None or row is None:
        return None
    return (await messages_of(tx, head, query.session, [row]))[0]


async def _message_row(tx: Tx, head: Head, id: str) -> Row | None:
    node = await node_by_id(tx, head.number, id)
    row = None if node is None else row_of(node)
    return row if row is not None and is_message(row) else None


async def _oldest(tx: Tx, tenant: str, id: str) -> Message | None:
    nodes = [node for node in await nodes_with_id(tx, id) if is_message(row_of(node))]
    sessions = await tx.get_many(SESSIONS, [(node.number,) for node in nodes])
    found = [
        (node.created_us, session.id, node)
        for node, session in zip(nodes, sessions, strict=True)
        if session is not None and session.tenant == tenant
    ]
    if not found:
        return None
    _, name, oldest = min(found, key=lambda each: each[:2])
    head = await tx.get(HEADS, oldest.number)
    if head is None:
        raise Corrupt("heads", name, "number", "a message names it, and it is not there")
    return (await messages_of(tx, head, name, [row_of(oldest)]))[0]


@handles(commands.GetVersions)
async def get_versions(tx: Tx, query: commands.GetVersions) -> list[Message]:
    head = await find_head(tx, query.tenant, query.session)
    row = None if head is None else await _message_row(tx, head, query.id)
    if head is None or row is None:
        return []
    (original,) = await _messages(tx, head, query.session, [row], {})
    patches = await _patches(tx, head, row[0], row[0]) if head.amended else []
    return [original, *(_amended(original, row[7], patch) for patch in patches)]


@handles(commands.ListMessages)
async def list_messages(tx: Tx, query: commands.ListMessages) -> Page[Message]:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return Page([], total=0 if query.total else None)
    wanted = query.offset + query.limit + 1
    read = _path_rows if query.run_id is None else _run_rows
    rows, total = await read(tx, head, query, await _test_of(tx, head, query), wanted)
    rows = rows[query.offset : wanted]
    items = await messages_of(tx, head, query.session, rows[: query.limit])
    return Page(items, len(rows) > query.limit, None, total)


async def _test_of(tx: Tx, head: Head, query: commands.ListMessages) -> Test:
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
    tx: Tx, head: Head, query: commands.ListMessages, fits: Test, wanted: int
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


async def _path_total(tx: Tx, head: Head, leaf: int, query: commands.ListMessages) -> int:
    if query.deleted:
        return sum(place.role is not None for place in await places_above(tx, head, leaf, 0))
    return head.messages if query.branch == MAIN else (await count_path(tx, head, leaf))[0]


async def _run_rows(
    tx: Tx, head: Head, query: commands.ListMessages, fits: Test, wanted: int
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
        found = await read_between(
            tx, head.number, COLUMNS, run.first_ord, run.last_ord,
            lambda row: row[4] == n and fits(row), wanted=None, reverse=False,
        )  # fmt: skip
        return rows, len(found)
    columns = ("run", "role", "deleted_us")
    places = await columns_between(tx, head.number, columns, run.first_ord, run.last_ord)
    return rows, sum(
        by == n and role is not None and (query.deleted or deleted_us is None)
        for by, role, deleted_us in places
    )


@handles(commands.CountMessages)
async def count_messages(tx: Tx, query: commands.CountMessages) -> int:
    """Live messages on a path; main's count stands in the head."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return 0
    if query.branch == MAIN:
        return head.messages
    tip = await tip_of(tx, head, query.branch)
    return 0 if tip is None else (await count_path(tx, head, tip[0]))[0]
