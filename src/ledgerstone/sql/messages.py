"""Messages: reading paths, pages, ranges, runs and versions."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands.nodes import (
    CountMessages,
    GetMessage,
    GetVersions,
    ListMessages,
    ReadMessages,
    ReadRange,
)
from ledgerstone.errors import Corrupt
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.sessions import Page
from ledgerstone.rules.bodies import (
    ROLE_NAMES,
    UNREADABLE,
    decode_body,
    read_amended,
    read_body,
    read_loosely,
)
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import base_of, find_head, find_outline
from ledgerstone.sql.paths import (
    MAIN,
    count_path,
    end_of,
    id_at,
    places_above,
    stretches,
    tip_of,
)
from ledgerstone.sql.run_rows import run_names
from ledgerstone.sql.tx import Row, Tx

Patch = tuple[int, int, bytes]
"""Version, time and whole patch of the newest amendment of a message."""


async def read_messages(tx: Tx, query: ReadMessages) -> list[Message]:
    """A path, or its newest or oldest part, oldest first."""
    head = await find_outline(tx, query.tenant, query.session)
    if head is None:
        return []
    leaf = await end_of(tx, head, query.branch, query.at, deleted=query.deleted)
    rows = await read_path(
        tx,
        head,
        leaf,
        live=not query.deleted,
        after_seq=query.after_seq,
        last=query.last,
        first=query.first,
    )
    return await messages_of(tx, head, query.session, rows)


async def read_path(
    tx: Tx,
    head: HeadRow,
    leaf: int,
    *,
    messages: bool = True,
    live: bool = True,
    kind: str | None = None,
    after_seq: int = 0,
    before_seq: int | None = None,
    last: int | None = None,
    first: int | None = None,
) -> list[Row]:
    """Rows of a path, oldest first, read as the ranges that its straight stretches are."""
    if leaf == 0:
        return []
    given = {
        "messages": messages or None,
        "nodes": None if messages else True,
        "spoken": True if messages or kind == MESSAGE else None,
        "live": live or None,
        "kind": None if kind == MESSAGE else kind,
        "ascending": True if last is None else None,
        "descending": None if last is None else True,
    }
    base, wanted = base_of(head), first if last is None else last
    parts = await stretches(tx, head, leaf)
    if last is None:
        parts.reverse()
    found: list[Row] = []
    for part in parts:
        low, high = part.within(after_seq, before_seq)
        left = None if wanted is None else wanted - len(found)
        if left == 0:
            break
        if low <= high:
            bounds = {"first": base + low, "last": base + high, "limit": left}
            found += await tx.pick("read_straight", **bounds, **given)
    return found if last is None else found[::-1]


async def messages_of(
    tx: Tx, head: HeadRow, session: str, rows: list[Row], revision: int | None = None
) -> list[Message]:
    """Rows as records, with the newest amendments applied."""
    patches = await _patches(tx, head, rows, revision) if head.amended and rows else {}
    run_id = (await _runs(tx, head, rows) if head.runs else {}).get
    base, before, before_id = base_of(head), 0, None
    found = []
    for key, parent, seq, role, run, created_us, id, raw, deleted_us in rows:
        ord = key - base
        if parent != before:
            before_id = await id_at(tx, head, parent)
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
            parent=before_id,
            run_id=run_id(run),
            created_us=created_us,
            deleted_us=deleted_us,
        )
        if ord in patches:
            version, updated_us, patch = patches[ord]
            message = _version(message, version, updated_us, read_amended(raw, patch, id))
        found.append(message)
        before, before_id = ord, id
    return found


async def _runs(tx: Tx, head: HeadRow, rows: list[Row]) -> dict[int, str]:
    numbers = {row[4] for row in rows}
    numbers.discard(None)
    return await run_names(tx, head, numbers) if numbers else {}


async def _patches(
    tx: Tx, head: HeadRow, rows: list[Row], revision: int | None
) -> dict[int, Patch]:
    keys = [row[0] for row in rows]
    given = {"first": min(keys), "last": max(keys), "revision": revision}
    found = await tx.pick("amendments_between", **given)
    return {ord: (version, created_us, patch) for ord, version, created_us, patch in found}


async def list_messages(tx: Tx, query: ListMessages) -> Page[Message]:
    """A page of a path, or of what one run wrote."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return Page([], total=0 if query.total else None)
    wanted = query.offset + query.limit + 1
    if query.run_id is not None:
        rows, total = await _run_rows(tx, head, query)
    else:
        leaf = await end_of(tx, head, query.branch, None, deleted=query.deleted)
        after = None if query.after is None else query.after[0]
        rows = await read_path(
            tx,
            head,
            leaf,
            live=not query.deleted,
            after_seq=0 if query.newest_first else after or 0,
            before_seq=after if query.newest_first else None,
            first=None if query.newest_first else wanted,
            last=wanted if query.newest_first else None,
        )
        total = await _path_total(tx, head, leaf, query.deleted) if query.total else 0
        if query.newest_first:
            rows = rows[::-1]
    rows = rows[query.offset : wanted]
    page = rows[: query.limit]
    items = await messages_of(tx, head, query.session, sorted(page))
    if query.newest_first:
        items.reverse()
    return Page(items, len(rows) > query.limit, None, total if query.total else None)


async def _run_rows(tx: Tx, head: HeadRow, query: ListMessages) -> tuple[list[Row], int]:
    rows = await tx.pick(
        "read_run",
        number=head.number,
        run_id=query.run_id,
        live=None if query.deleted else True,
    )
    total = len(rows)
    base = base_of(head)
    if query.after is not None:
        edge = base + query.after[1]
        rows = [row for row in rows if (row[0] < edge if query.newest_first else row[0] > edge)]
    return (rows[::-1] if query.newest_first else rows), total


async def _path_total(tx: Tx, head: HeadRow, leaf: int, deleted: bool) -> int:
    if not deleted:
        return int((await count_path(tx, head, leaf))[0])
    return sum(row[2] is not None for row in await places_above(tx, head, leaf, 0))


async def count_messages(tx: Tx, query: CountMessages) -> int:
    """Live messages on a path; main's count stands in the head."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return 0
    if query.branch == MAIN:
        return head.messages
    tip = await tip_of(tx, head, query.branch)
    return 0 if tip is None else int((await count_path(tx, head, tip[0]))[0])


async def read_range(tx: Tx, query: ReadRange) -> list[Message]:
    """Messages of the main path by inclusive position."""
    head = await find_outline(tx, query.tenant, query.session)
    if head is None:
        return []
    first, beyond = query.first - 1, query.last + 1
    rows = await read_path(tx, head, head.tip, after_seq=first, before_seq=beyond)
    return await messages_of(tx, head, query.session, rows)


async def get_message(tx: Tx, query: GetMessage) -> Message | None:
    """By id, soft-deleted ones too."""
    rows = await tx.pick("find_messages", tenant=query.tenant, id=query.id, session=query.session)
    if not rows:
        return None
    *oldest, session = min(rows, key=lambda row: (row[5], row[0]))
    head = await find_head(tx, query.tenant, session)
    if head is None:
        raise Corrupt("heads", session, "number", "a message names it, and it is not there")
    return (await messages_of(tx, head, session, [tuple(oldest)]))[0]


async def get_versions(tx: Tx, query: GetVersions) -> list[Message]:
    """The original, then every amendment."""
    message = await get_message(
        tx, GetMessage(tenant=query.tenant, id=query.id, session=query.session)
    )
    head = await find_head(tx, query.tenant, query.session)
    if message is None or head is None:
        return []
    key = base_of(head) + message.ord
    row = await tx.one("body_at", key)
    if row is None:
        raise Corrupt("nodes", query.id, "key", "its index names a row that is not there")
    bodies = [(0, None, read_body(row[0], query.id))]
    for _, version, created_us, patch in await tx.pick("amendments_between", first=key, last=key):
        bodies.append((version, created_us, read_amended(row[0], patch, query.id)))
    return [_version(message, *version) for version in bodies]


def _version(message: Message, version: int, updated_us: int | None, body: object) -> Message:
    return replace(message, body=body, version=version, updated_us=updated_us)
