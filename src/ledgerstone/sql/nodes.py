"""Nodes of every kind: one, found by id, listed, along a path."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.nodes import FindNodes, GetNode, ListNodes, ReadPath
from ledgerstone.records.nodes import MESSAGE, Node
from ledgerstone.rules.bodies import read_any, read_meta
from ledgerstone.rules.filters import contains
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.heads import ORD_BITS, find_head
from ledgerstone.sql.messages import read_path
from ledgerstone.sql.notes import notes_of, split_refs, values_of
from ledgerstone.sql.paths import end_of
from ledgerstone.sql.tx import Row, Tx

_ORDERS = {"ord": "by_ord", "-ord": "by_ord_desc", "id": "by_id", "-id": "by_id_desc"}


async def node_of(
    tx: Tx, row: Row, session: str, *, notes: bool = False, resolve: bool = False
) -> Node:
    """A row as a record, with its notes and values on request."""
    key, parent, seq, role, kind, label, run_id, meta, format, refs, created_us, id, raw = row[:13]
    head = HeadRow(key >> ORD_BITS)
    above = None
    if parent:
        found = await tx.one("id_at", (head.number << ORD_BITS) + parent)
        above = None if found is None else found[0]
    pointers = split_refs(refs)
    beside = await notes_of(tx, head, id) if notes else None
    resolved = None
    if resolve:
        more = [ref for note in (beside or {}).values() for ref in note.values]
        resolved = await values_of(tx, head, tuple(dict.fromkeys([*pointers, *more])))
    return Node(
        id=id,
        kind=MESSAGE if role is not None else kind,
        body=read_any(raw, format, id),
        session=session,
        ord=key & 0xFFFFFFFF,
        seq=seq,
        parent=above,
        label=label or "",
        run_id=run_id,
        meta=read_meta(meta, id),
        values=pointers,
        created_us=created_us,
        deleted_us=row[13],
        notes=beside,
        resolved=resolved,
    )


async def get_node(tx: Tx, query: GetNode) -> Node | None:
    """One live node of a session."""
    rows = await tx.pick("find_nodes", tenant=query.tenant, id=query.id, session=query.session)
    if not rows:
        return None
    flags = {"notes": query.notes, "resolve": query.resolve}
    return await node_of(tx, rows[0], query.session, **flags)


async def find_nodes(tx: Tx, query: FindNodes) -> list[Node]:
    """Live nodes with this id in any session of the tenant."""
    rows = await tx.pick("find_nodes", tenant=query.tenant, id=query.id)
    return [await node_of(tx, row, row[14]) for row in rows]


async def read_node_path(tx: Tx, query: ReadPath) -> list[Node]:
    """Live nodes along a path, oldest first."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    leaf = await end_of(tx, head, query.branch, query.at)
    rows = await read_path(tx, head, leaf, messages=False, kind=query.kind, last=query.last)
    return [await node_of(tx, row, query.session) for row in rows]


async def list_nodes(tx: Tx, query: ListNodes) -> list[Node]:
    """Live nodes of a session or tenant; subset filters are judged here, chunk by chunk."""
    found: list[Node] = []
    after = query.after
    flags = {"notes": query.notes, "resolve": query.resolve}
    while True:
        rows = await _rows(tx, query, after)
        for row in rows:
            if not _fits(row, query):
                continue
            found.append(await node_of(tx, row, row[14], **flags))
            if len(found) == query.limit:
                return found
        if len(rows) < query.limit:
            return found
        last = rows[-1]
        after = (last[11], last[14], last[0] & 0xFFFFFFFF)


def _fits(row: Row, query: ListNodes) -> bool:
    wanted = query.meta_contains
    return wanted is None or contains(read_meta(row[7], row[11]), wanted)


async def _rows(tx: Tx, query: ListNodes, after: tuple[str, str, int] | None) -> list[Row]:
    is_message = query.kind == MESSAGE
    given: dict[str, Any] = {
        "tenant": query.tenant,
        "kind": None if is_message else query.kind,
        "any_kind": True if query.kind is None or is_message else None,
        "message": is_message or None,
        "label": query.label,
        "run_id": query.run_id,
        "before_id": query.before_id,
        "limit": query.limit,
        _ORDERS[query.order]: True,
    }
    if after is not None:
        given |= {"after_id": after[0], "after_ord": after[2]}
    if query.session is not None:
        return await tx.pick("list_session_nodes", session=query.session, **given)
    if after is not None:
        given["after_session"] = after[1]
    return await tx.pick("list_tenant_nodes", **given)
