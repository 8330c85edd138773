"""Time travel: a session as it was after one of its commits."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.sessions import ReadSessionAt
from ledgerstone.records.sessions import SessionView
from ledgerstone.rules.bodies import read_effects
from ledgerstone.sql.heads import base_of, find_head
from ledgerstone.sql.messages import messages_of
from ledgerstone.sql.tx import Tx


async def read_session_at(tx: Tx, query: ReadSessionAt) -> SessionView | None:
    """Leaf, path, amendments and state as of a revision."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return None
    turn = await tx.one("turn_at", head.number, query.revision)
    if turn is None:
        return None
    base = base_of(head)
    rows = await tx.all("path_at", base, base + turn[0], query.revision)
    rows.reverse()
    whole = [row for row in rows if row[7] is not None]
    texts = [row for row in whole if row[3] is not None]
    return SessionView(
        session=query.session,
        revision=query.revision,
        leaf=rows[-1][6] if rows else None,
        messages=await messages_of(tx, head, query.session, texts, query.revision),
        state=await _state_at(tx, head.number, query.revision),
        complete=len(whole) == len(rows),
        created_us=turn[1],
    )


async def _state_at(tx: Tx, number: int, revision: int) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for (effects,) in await tx.all("effects_until", number, revision):
        state |= read_effects(effects, f"of revision {revision} or earlier").get("state", {})
    return {key: value for key, value in state.items() if value is not None}
