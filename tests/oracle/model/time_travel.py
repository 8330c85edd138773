"""A session as it was after an earlier commit."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from ledgerstone.commands.sessions import ReadSessionAt
from ledgerstone.records.messages import Message
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.sessions import SessionView
from tests.oracle.model import answers, paths
from tests.oracle.model.messages import message_version
from tests.oracle.model.rows import NodeRow
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx
from tests.oracle.model.turns import fold_state


def read_session_at(tx: Tx, query: ReadSessionAt) -> SessionView | None:
    """Leaf, messages and state as of a revision; vacuumed nodes are gaps."""
    found = find(tx, query.tenant, query.session)
    if found is None or not 1 <= query.revision <= found.head.revision:
        return None
    turn = tx.state.turns[(found.number, query.revision)]
    messages: list[Message] = []
    complete = True
    for row in paths.upwards(tx, found.number, turn.leaf):
        if not row.visible_at(query.revision):
            continue
        if row.body is None:
            complete = False
        elif row.kind == MESSAGE:
            messages.append(_message_at(tx, found, row, query.revision))
    messages.reverse()
    return SessionView(
        session=found.id,
        revision=query.revision,
        leaf=answers.visible_leaf(tx, found.number, turn.leaf, query.revision),
        messages=messages,
        state=_state_at(tx, found, query.revision),
        complete=complete,
        created_us=turn.created_us,
    )


def _message_at(tx: Tx, found: Standing, row: NodeRow, revision: int) -> Message:
    """The message as it was: with the amendments of its time, and not yet deleted."""
    as_it_was = replace(row, deleted_us=None)
    versions = tx.state.amendments.scan((found.number, row.ord), reverse=True)
    for key, amendment in versions:
        if amendment.revision <= revision:
            return message_version(tx, found, as_it_was, key[2], amendment)
    return message_version(tx, found, as_it_was, 0, None)


def _state_at(tx: Tx, found: Standing, revision: int) -> dict[str, Any]:
    state: dict[str, Any] = {}
    for key, turn in tx.state.turns.scan((found.number,)):
        if key[1] > revision:
            break
        state = fold_state(state, answers.read_effects(turn).get("state", {}))
    return state
