"""Verify a session: does what is stored still say what was committed?

Everything is computed again from turns and nodes. No function that maintains what is checked here
takes part in checking it.
"""

from __future__ import annotations

from bisect import bisect_left
from hashlib import sha256
from typing import Any

from ledgerstone.commands.turns import VerifySession
from ledgerstone.errors import Corrupt
from ledgerstone.handlers.history import chain_node
from ledgerstone.handlers.nodes import columns_between, nodes_between
from ledgerstone.handlers.notes import split_refs
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.verify_check import Check, Place, begin_check
from ledgerstone.handlers.verify_head import check_head, check_runs, check_values
from ledgerstone.handlers.verify_records import (
    check_ended_work,
    check_executions,
    check_tickets,
    check_usage,
    check_work,
)
from ledgerstone.records.reports import Verified
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import ROLE_NUMBERS, read_any, read_body, read_effects, read_meta
from ledgerstone.rules.chain import frame, link
from ledgerstone.tables.graph import AMENDMENTS, TURNS_BY_REVISION, AmendmentRow, NodeRow, TurnRow
from ledgerstone.tables.table import ORD_BITS
from ledgerstone.tables.transaction import Tx

_PAGE_TURNS = 50
_LAST_ORD = (1 << ORD_BITS) - 1


@handles(VerifySession)
async def verify_session(tx: Tx, query: VerifySession) -> Verified:
    """Every defect of one session by name."""
    check = await begin_check(tx, query.tenant, query.session)
    if check is None:
        return Verified()
    await _check_turns(tx, check)
    await _check_amendments(tx, check)
    await check_values(tx, check)
    await check_head(tx, check)
    check_runs(check)
    await check_work(tx, check)
    await check_ended_work(tx, check)
    await check_tickets(tx, check)
    await check_executions(tx, check)
    await check_usage(tx, check)
    return Verified(
        sessions=1,
        turns=check.turns,
        nodes=check.nodes,
        values=check.values,
        defects=check.defects,
    )


async def _check_turns(tx: Tx, check: Check) -> None:
    after = 0
    while turns := await tx.scan(
        TURNS_BY_REVISION, check.number, after=(after,), limit=_PAGE_TURNS
    ):
        nodes = await _nodes_of(tx, check.number, turns)
        ords = [node.ord for node in nodes]
        for turn in turns:
            start = bisect_left(ords, turn.first_ord)
            end = bisect_left(ords, turn.first_ord + turn.count)
            _check_turn(check, turn, nodes[start:end])
        if turns[-1].revision <= after:
            # A damaged index can hand out an entry that lies behind: without this, for ever.
            check.defect("revision", "turns", f"{turns[-1].revision} comes after {after}")
            break
        after = turns[-1].revision
    counted = len(await columns_between(tx, check.number, ("ord",), 1, _LAST_ORD))
    if counted != check.nodes:
        check.defect("count", "nodes", f"{counted} rows, the turns brought {check.nodes}")


async def _nodes_of(tx: Tx, number: int, turns: list[TurnRow]) -> list[NodeRow]:
    """The nodes that turns brought, in commit order."""
    spans = [(turn.first_ord, turn.first_ord + turn.count - 1) for turn in turns if turn.count]
    if not spans:
        return []
    first, last = min(first for first, _ in spans), max(last for _, last in spans)
    return await nodes_between(tx, number, max(first, 1), min(last, _LAST_ORD))


def _check_turn(check: Check, turn: TurnRow, nodes: list[NodeRow]) -> None:
    check.turns += 1
    history, where = check.history, f"turn {turn.id}"
    if turn.revision != history.revision + 1:
        check.defect("revision", where, f"{turn.revision} follows {history.revision}")
    if len(nodes) != turn.count:
        check.defect("count", where, f"{len(nodes)} of {turn.count} nodes are there")
    effects = _read_effects(check, turn)
    if _link_of(check, turn, effects, nodes) != turn.link:
        check.defect("link", where, f"the chain breaks at revision {turn.revision}")
    for node in nodes:
        _check_node(check, node)
    try:
        history.add(turn, effects)
    except Corrupt as error:
        check.defect("body", where, str(error))


def _read_effects(check: Check, turn: TurnRow) -> dict[str, Any]:
    try:
        return read_effects(turn.effects, turn.id)
    except Corrupt as error:
        check.defect("body", f"turn {turn.id}.effects", error.reason)
        return {}


def _link_of(check: Check, turn: TurnRow, effects: dict[str, Any], nodes: list[NodeRow]) -> bytes:
    """The link that follows from the link before and from what is stored."""
    return link(
        check.history.link,
        revision=turn.revision,
        turn=turn.id,
        kind=turn.kind,
        hash=turn.hash,
        created_us=turn.created_us,
        leaf=turn.leaf,
        tip=effects["branch"][1] if "branch" in effects else None,
        usage=ledger.digest(turn.usage, turn.usage_digest),
        effects=turn.effects,
        nodes=[chain_node(node, check.run_ids.get(node.run or 0)) for node in nodes],
    )


def _check_node(check: Check, node: NodeRow) -> None:
    where, hidden = f"node {node.id}", node.deleted_us is not None
    check.nodes += 1
    if node.run is not None:
        check.wrote[node.run] = (check.wrote.get(node.run, (node.ord, 0))[0], node.ord)
    above = check.places.get(node.parent)
    if node.parent >= node.ord or (node.parent and above is None):
        check.defect("parent", where, f"ord {node.parent} is not before {node.ord}")
    elif node.seq != (0 if above is None else above.seq) + 1:
        check.defect("seq", where, f"{node.seq} after {0 if above is None else above.seq}")
    deleted_rev = (node.deleted_rev or 0) if hidden else None
    check.places[node.ord] = Place(node.parent, node.seq, node.role, deleted_rev)
    if node.body is None:
        check.erased.add(node.ord)
        if not hidden:
            check.defect("tombstone", where, "erased, but not hidden")
        return
    if not hidden:
        check.refs.update(split_refs(node.refs))
    _check_body(check, node, node.body)


def _check_body(check: Check, node: NodeRow, body: bytes) -> None:
    where = f"node {node.id}"
    try:
        read_meta(node.meta, node.id)
        if node.role is None:
            read_any(body, node.format, node.id)
        elif ROLE_NUMBERS[read_body(body, node.id).role] != node.role:
            check.defect("body", where, "role and body disagree")
    except Corrupt as error:
        check.defect("body", where, str(error))


async def _check_amendments(tx: Tx, check: Check) -> None:
    """Every amendment is the one that the chain knows, and so is every tombstone."""
    rows = await tx.scan(AMENDMENTS.primary, check.number)
    stored, known = {(row.ord, row.version): row for row in rows}, check.history.amended
    for place in sorted(set(stored) | set(known)):
        where = f"amendment {place[0]} version {place[1]}"
        row = stored.get(place)
        if row is None or known.get(place) != (row.commitment.hex(), row.revision):
            check.defect("amendment", where, "the chain knows another one")
        elif row.patch is not None and _digest(row) != row.commitment:
            check.defect("amendment", where, "the patch does not fit its commitment")
    if check.head.amended != len(rows):
        check.defect("head", "amended", f"{check.head.amended}, there are {len(rows)}")
    gone = check.history.gone
    hidden = {ord: place.deleted_rev for ord, place in check.places.items() if place.deleted_rev}
    for ord in sorted(set(gone) | set(hidden)):
        if gone.get(ord) != hidden.get(ord) and ord not in check.erased:
            check.defect("tombstone", f"node at {ord}", "row and history disagree")


def _digest(row: AmendmentRow) -> bytes:
    return sha256(frame(row.salt, row.patch)).digest()
