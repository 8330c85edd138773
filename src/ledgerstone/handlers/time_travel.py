"""Time travel: a session as it was after one of its commits."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands.sessions import ReadSessionAt
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.messages import COLUMNS, Row, is_message, messages_of, read_path
from ledgerstone.handlers.paths import stretches
from ledgerstone.handlers.registry import handles
from ledgerstone.records.sessions import SessionView
from ledgerstone.rules.bodies import read_effects
from ledgerstone.tables.graph import TURNS_BY_REVISION
from ledgerstone.tables.transaction import Tx


@handles(ReadSessionAt)
async def read_session_at(tx: Tx, query: ReadSessionAt) -> SessionView | None:
    """Leaf, path, amendments and state as of a revision."""
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
