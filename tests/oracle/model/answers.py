"""What a commit answered, told again from its turn row, and the list of commits."""

from __future__ import annotations

from typing import Any

import msgspec

from ledgerstone.codec import decode_struct
from ledgerstone.commands.turns import FindTurn, GetTurn, ListTurns
from ledgerstone.errors import Corrupt
from ledgerstone.records.turns import Checkpoint, Placed, TurnCommitted, TurnInfo
from ledgerstone.rules import bodies, ledger
from tests.oracle.model import paths
from tests.oracle.model.rows import NodeRow, TurnRow
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx

_manifest_decoder = msgspec.json.Decoder(Checkpoint)


def read_effects(turn: TurnRow) -> dict[str, Any]:
    """What the commit did besides adding nodes."""
    return bodies.read_effects(turn.effects, turn.id)


def read_manifest(data: bytes, session: str) -> Checkpoint:
    """A stored checkpoint manifest."""
    try:
        return decode_struct(_manifest_decoder, data)
    except (ValueError, msgspec.ValidationError) as error:
        raise Corrupt("documents", session, "checkpoint", str(error)) from None


def to_placed(tx: Tx, number: int, row: NodeRow) -> Placed:
    """Where a stored node lies."""
    parent = paths.id_of(tx, number, row.parent)
    return Placed(row.id, row.ord, row.seq, parent, row.created_us)


def visible_leaf(tx: Tx, number: int, start: int, revision: int) -> str | None:
    """The id of the nearest ancestor that was live right after a commit."""
    path = paths.upwards(tx, number, max(start, 0))
    return next((row.id for row in path if row.visible_at(revision)), None)


def tell_again(tx: Tx, standing: Standing, turn: TurnRow) -> TurnCommitted:
    """The first answer of a commit."""
    number, effects = standing.number, read_effects(turn)
    leaf = turn.leaf
    if "branches" in effects:
        leaf = effects["branches"][-1][1]
    elif "branch" in effects:
        leaf = effects["branch"][1]
    ords = range(turn.first_ord, turn.first_ord + turn.count)
    touched = [*effects.get("popped", []), *effects.get("tombstoned", [])]
    ref = effects.get("checkpoint")
    data = None if ref is None else tx.state.values.get((number, ref))
    return TurnCommitted(
        session=standing.id,
        turn=turn.id,
        revision=turn.revision,
        leaf=visible_leaf(tx, number, leaf, turn.revision),
        placed=tuple(to_placed(tx, number, tx.state.nodes[(number, at)]) for at in ords),
        checkpoint_ref=ref,
        checkpoint=None if data is None else read_manifest(data, standing.id),
        affected=tuple(tx.state.nodes[(number, at)].id for at in touched),
        superseded=effects.get("superseded", 0),
        created_us=turn.created_us,
        replayed=True,
        over_budget=tuple(effects.get("over_budget", ())),
    )


def find_turn(tx: Tx, number: int, turn: str) -> TurnRow | None:
    """The commit with this turn id, or None."""
    revision = tx.state.turn_ids.get((number, turn))
    return None if revision is None else tx.state.turns[(number, revision)]


def get_turn(tx: Tx, query: GetTurn | FindTurn) -> TurnCommitted | None:
    """The answer of an earlier commit, or None."""
    found = find(tx, query.tenant, query.session)
    turn = None if found is None else find_turn(tx, found.number, query.turn)
    return None if found is None or turn is None else tell_again(tx, found, turn)


def list_turns(tx: Tx, query: ListTurns) -> list[TurnInfo]:
    """The commit history of a session, oldest first."""
    found = find(tx, query.tenant, query.session)
    infos: list[TurnInfo] = []
    if found is None:
        return infos
    since = (found.number, query.after_revision + 1)
    for _, turn in tx.state.turns.scan((found.number,), since=since):
        if len(infos) >= query.limit:
            break
        infos.append(
            TurnInfo(
                session=found.id,
                turn=turn.id,
                kind=turn.kind,
                revision=turn.revision,
                hash=turn.hash.hex(),
                link=turn.link.hex(),
                leaf=paths.id_of(tx, found.number, turn.leaf),
                nodes=turn.count,
                created_us=turn.created_us,
                usage=ledger.read_usage(turn.id, turn.usage),
            )
        )
    return infos
