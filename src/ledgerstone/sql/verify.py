"""Verify: does what is stored still say what was committed?"""

from __future__ import annotations

from hashlib import sha256 as hash_of
from typing import Any

from ledgerstone.codec import decode_json
from ledgerstone.commands.turns import VerifySession
from ledgerstone.errors import Corrupt
from ledgerstone.records.reports import Verified
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import ROLE_NUMBERS, read_any, read_body, read_effects, read_meta
from ledgerstone.rules.chain import frame, link
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.usage import FORGOTTEN
from ledgerstone.sql.chains import chain_node
from ledgerstone.sql.heads import base_of, find_head
from ledgerstone.sql.notes import split_refs
from ledgerstone.sql.told import Told
from ledgerstone.sql.tx import Row, Tx
from ledgerstone.sql.verify_rows import check_runs, check_times
from ledgerstone.sql.verify_standing import Check, check_standing, check_values
from ledgerstone.sql.verify_tickets import check_tickets
from ledgerstone.sql.verify_usage import check_usage
from ledgerstone.sql.verify_work import check_work

_CHUNK_TURNS = 500


async def verify_session(tx: Tx, query: VerifySession) -> Verified:
    """Every defect of one session by name."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return Verified()
    check = Check(query.session, head, Told(forgotten=await _forgotten(tx, head)))
    await _check_turns(tx, check)
    await _check_amendments(tx, check)
    await check_values(tx, check)
    await check_standing(tx, check)
    await check_times(tx, check)
    await check_runs(tx, check)
    await check_work(tx, check)
    await check_tickets(tx, check)
    await check_usage(tx, check, query.tenant)
    return Verified(
        sessions=1,
        turns=check.turns,
        nodes=check.nodes,
        values=check.values,
        defects=check.defects,
    )


async def _forgotten(tx: Tx, head: HeadRow) -> int:
    """The revision until which executions were deleted; 0 when none were."""
    row = await tx.one("get_document", head.number, FORGOTTEN)
    try:
        return 0 if row is None else int(decode_json(row[0])["revision"])
    except (ValueError, TypeError, KeyError):
        return 0  # Its seal is broken then.


async def _check_turns(tx: Tx, check: Check) -> None:
    after = 0
    while rows := await tx.all("list_turns", check.head.number, after, _CHUNK_TURNS):
        for row in rows:
            await _check_turn(tx, check, row)
        if rows[-1][0] <= after:
            # A damaged index can hand out an entry that lies behind: without this, for ever.
            check.defect("revision", "turns", f"{rows[-1][0]} comes after {after}")
            break
        after = rows[-1][0]
    base = base_of(check.head)
    counted = await tx.one("count_nodes", base, base + 0xFFFFFFFF)
    if counted is None or counted[0] != check.nodes:
        check.defect("count", "nodes", f"{counted} rows, the turns brought {check.nodes}")


async def _check_turn(tx: Tx, check: Check, row: Row) -> None:
    revision, id, kind, hash, stored, created_us, leaf, first_ord, count, usage, raw, kept = row
    check.turns += 1
    check.committed_us = created_us
    told = check.told
    if revision != told.revision + 1:
        check.defect("revision", f"turn {id}", f"{revision} follows {told.revision}")
    base = base_of(check.head)
    nodes = []
    if count:
        nodes = await tx.all("chain_rows", base + first_ord, base + first_ord + count - 1)
    if len(nodes) != count:
        check.defect("count", f"turn {id}", f"{len(nodes)} of {count} nodes are there")
    effects = _read_effects(check, id, raw)
    expected = link(
        told.link,
        revision=revision,
        turn=id,
        kind=kind,
        hash=hash,
        created_us=created_us,
        leaf=leaf,
        tip=effects["branch"][1] if "branch" in effects else None,
        usage=ledger.digest(usage, kept),
        effects=raw,
        nodes=[chain_node(node) for node in nodes],
    )
    if expected != stored:
        check.defect("link", f"turn {id}", f"the chain breaks at revision {revision}")
    for node in nodes:
        _check_node(check, node)
    told.link = stored
    try:
        told.take(revision, leaf, usage, effects)
        told.use(usage, created_us)
    except Corrupt as error:
        check.defect("body", f"turn {id}", str(error))


def _read_effects(check: Check, id: str, raw: bytes | None) -> dict[str, Any]:
    try:
        return read_effects(raw, id)
    except Corrupt as error:
        check.defect("body", f"turn {id}.effects", error.reason)
        return {}


def _check_node(check: Check, row: Row) -> None:
    ord, parent, id, _, role, _, _, run, meta, format, refs, _, body, _, seq = row[:15]
    deleted_us, deleted_rev = row[15:]
    check.nodes += 1
    check.live += deleted_us is None
    check.seqs[ord] = seq
    check.branched = check.branched or int(parent != ord - 1)
    if run is not None:
        check.wrote[run] = (check.wrote.get(run, (ord, ord))[0], ord)
    if parent >= ord or (parent and parent not in check.seqs):
        check.defect("parent", f"node {id}", f"ord {parent} is not before {ord}")
    elif seq != check.seqs.get(parent, 0) + 1:
        check.defect("seq", f"node {id}", f"{seq} after {check.seqs.get(parent, 0)}")
    if deleted_us is not None and deleted_rev:
        check.hidden[ord] = deleted_rev
    if body is None:
        check.erased.add(ord)
        if deleted_us is None:
            check.defect("tombstone", f"node {id}", "erased, but not hidden")
        return
    if deleted_us is None:
        check.refs.update(split_refs(refs))
    try:
        read_meta(meta, id)
        if role is None:
            read_any(body, format, id)
        elif ROLE_NUMBERS[read_body(body, id).role] != role:
            check.defect("body", f"node {id}", "role and body disagree")
    except Corrupt as error:
        check.defect("body", f"node {id}", str(error))


async def _check_amendments(tx: Tx, check: Check) -> None:
    base, told = base_of(check.head), check.told
    rows = await tx.all("chain_amendments", base, base + 0xFFFFFFFF)
    stored = {(row[0], row[1]): row for row in rows}
    for place in sorted(set(stored) | set(told.amended)):
        where = f"amendment {place[0]} version {place[1]}"
        row = stored.get(place)
        if row is None or told.amended.get(place) != (row[2].hex(), row[5]):
            check.defect("amendment", where, "the chain knows another one")
        elif row[4] is not None and hash_of(frame(row[3], row[4])).digest() != row[2]:
            check.defect("amendment", where, "the patch does not fit its commitment")
    if check.head.amended != len(rows):
        check.defect("head", "amended", f"{check.head.amended}, there are {len(rows)}")
    for ord in sorted(set(told.gone) | set(check.hidden)):
        if told.gone.get(ord) != check.hidden.get(ord) and ord not in check.erased:
            check.defect("tombstone", f"node at {ord}", "row and history disagree")
