"""Turns as they were committed: the feed, and a session as it was after one of them."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.commands.feed import FeedEnd, ReadFeed
from ledgerstone.commands.sessions import ReadSessionAt
from ledgerstone.commands.turns import FindTurn, GetTurn, ListTurns
from ledgerstone.errors import Corrupt
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.messages import messages_of
from ledgerstone.handlers.nodes import (
    COLUMNS,
    Row,
    columns_between,
    id_at,
    ids_at,
    is_message,
    node_at,
    read_path,
    stretches,
)
from ledgerstone.handlers.paging import load_missing
from ledgerstone.handlers.registry import handles
from ledgerstone.records.feed import FeedEntry
from ledgerstone.records.sessions import SessionView
from ledgerstone.records.turns import Checkpoint, Placed, TurnCommitted, TurnInfo
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import read_effects, read_struct
from ledgerstone.tables.graph import CONTENTS, TURNS, TURNS_BY_ID, TURNS_BY_REVISION, TurnRow
from ledgerstone.tables.sessions import SESSIONS, SESSIONS_BY_ID, Head, SessionRow
from ledgerstone.tables.transaction import Tx

_checkpoint = msgspec.json.Decoder(Checkpoint)


_PAGE_ROWS = 50
"""At least so many commits are looked at once: most may be of other tenants."""

_COLUMNS = ("pos", "number", "revision", "id", "kind", "count", "created_us")


@handles(ReadFeed)
async def read_feed(tx: Tx, query: ReadFeed) -> list[FeedEntry]:
    if query.session is None:
        return await _of_tenant(tx, query)
    session = await tx.find(SESSIONS_BY_ID, query.tenant, query.session)
    if session is None:
        return []
    rows = await tx.scan_columns(
        TURNS_BY_REVISION, _COLUMNS, session.number, after=(query.after,), limit=query.limit
    )
    return [_entry(session.id, row) for row in rows]


async def _of_tenant(tx: Tx, query: ReadFeed) -> list[FeedEntry]:
    """The commits of all tenants are looked at."""
    found: list[FeedEntry] = []
    sessions: dict[int, SessionRow | None] = {}
    after, size = query.after, max(query.limit, _PAGE_ROWS)
    while len(found) < query.limit:
        rows = await tx.scan_columns(TURNS.primary, _COLUMNS, after=(after,), limit=size)
        await load_missing(tx, SESSIONS, sessions, [row[1] for row in rows])
        for row in rows:
            session = sessions[row[1]]
            if session is not None and session.tenant == query.tenant:
                found.append(_entry(session.id, row))
        if len(rows) < size:
            break
        after = rows[-1][0]
    return found[: query.limit]


def _entry(session: str, row: tuple[Any, ...]) -> FeedEntry:
    pos, _, revision, turn, kind, count, created_us = row
    return FeedEntry(
        session=session,
        revision=revision,
        turn=turn,
        kind=kind,
        nodes=count,
        created_us=created_us,
        pos=pos,
    )


@handles(FeedEnd)
async def feed_end(tx: Tx, query: FeedEnd) -> int:
    """The position of the newest commit of the store, whoever asks; 0 before the first one."""
    return await tx.last_serial(TURNS)


@handles(ReadSessionAt)
async def read_session_at(tx: Tx, query: ReadSessionAt) -> SessionView | None:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return None
    turn = await tx.find(TURNS_BY_REVISION, head.number, query.revision)
    if turn is None:
        return None

    def was_there(row: Row) -> bool:
        return row[-1] is None or bool(row[-1] > query.revision)

    parts = await stretches(tx, head, turn.leaf)
    columns = (*COLUMNS, "deleted_rev")
    rows = await read_path(tx, head, parts, columns=columns, fits=was_there)
    # Nothing of this was deleted then.
    texts = [(*row[:8], None) for row in rows if is_message(row)]
    return SessionView(
        session=query.session,
        revision=query.revision,
        leaf=rows[-1][6] if rows else None,
        messages=await messages_of(tx, head, query.session, texts, query.revision),
        state=await _state_at(tx, head.number, query.revision),
        complete=all(row[7] is not None for row in rows),
        created_us=turn.created_us,
    )


async def _state_at(tx: Tx, number: int, revision: int) -> dict[str, Any]:
    state: dict[str, Any] = {}
    turns = await tx.scan_columns(TURNS_BY_REVISION, ("effects",), number, before=(revision + 1,))
    for (effects,) in turns:
        if effects is not None:
            changed = read_effects(effects, f"of revision {revision} or earlier")
            state |= changed.get("state", {})
    return {key: value for key, value in state.items() if value is not None}


async def get_turn(tx: Tx, query: GetTurn | FindTurn) -> TurnCommitted | None:
    """The answer of an earlier commit."""
    head = await find_head(tx, query.tenant, query.session)
    stamp = None if head is None else await tx.find(TURNS_BY_ID, query.turn, head.number)
    if head is None or stamp is None:
        return None
    return await first_answer(tx, head, query.session, stamp)


handles(GetTurn)(get_turn)
handles(FindTurn)(get_turn)


async def first_answer(tx: Tx, head: Head, session: str, stamp: TurnRow) -> TurnCommitted:
    """Rebuild what a commit answered from its row and the nodes it placed."""
    number, leaf = head.number, stamp.leaf
    effects = read_effects(stamp.effects, stamp.id)
    if "branches" in effects:
        leaf = max(effects["branches"][-1][1], 0)
    elif "branch" in effects:
        leaf = effects["branch"][1]
    affected = effects.get("popped", []) + effects.get("tombstoned", [])
    ids = await ids_at(tx, number, affected)
    ref = effects.get("checkpoint")
    return TurnCommitted(
        session=session,
        turn=stamp.id,
        revision=stamp.revision,
        leaf=await _leaf_then(tx, number, leaf, stamp.revision),
        placed=await _placed(tx, number, stamp.first_ord, stamp.count),
        checkpoint_ref=ref,
        checkpoint=None if ref is None else await _manifest(tx, number, ref),
        affected=tuple(ids[ord] for ord in affected if ord in ids),
        superseded=effects.get("superseded", 0),
        created_us=stamp.created_us,
        replayed=True,
        over_budget=tuple(effects.get("over_budget", ())),
    )


async def _placed(tx: Tx, number: int, first_ord: int, count: int) -> tuple[Placed, ...]:
    if not count:
        return ()
    columns = ("ord", "parent", "seq", "created_us", "id")
    rows = await columns_between(tx, number, columns, first_ord, first_ord + count - 1)
    ids = {row[0]: row[4] for row in rows}
    placed = []
    for ord, parent, seq, created_us, id in rows:
        parent_id = ids.get(parent) or await id_at(tx, number, parent)
        placed.append(Placed(id, ord, seq, parent_id, created_us))
    return tuple(placed)


async def _leaf_then(tx: Tx, number: int, leaf: int, revision: int) -> str | None:
    """The effective leaf as it was right after a commit."""
    while leaf:
        row = await node_at(tx, number, leaf)
        if row is None or row.parent >= leaf:
            raise Corrupt("nodes", f"{leaf}", "parent", "it does not lead to the root")
        if row.deleted_rev is None or row.deleted_rev > revision:
            return row.id
        leaf = row.parent
    return None


async def _manifest(tx: Tx, number: int, ref: str) -> Checkpoint | None:
    row = await tx.get(CONTENTS, number, ref)
    if row is None:
        return None
    return read_struct(_checkpoint, row.data, "contents", ref, "data")


@handles(ListTurns)
async def list_turns(tx: Tx, query: ListTurns) -> list[TurnInfo]:
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return []
    after, limit = (query.after_revision,), query.limit
    rows = await tx.scan(TURNS_BY_REVISION, head.number, after=after, limit=limit)
    leaves = await ids_at(tx, head.number, {row.leaf for row in rows})
    return [
        TurnInfo(
            session=query.session,
            turn=row.id,
            kind=row.kind,
            revision=row.revision,
            hash=row.hash.hex(),
            link=row.link.hex(),
            leaf=leaves.get(row.leaf),
            nodes=row.count,
            created_us=row.created_us,
            usage=ledger.read_usage(row.id, row.usage),
        )
        for row in rows
    ]
