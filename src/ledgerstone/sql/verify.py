"""Verify: does what is stored still say what was committed?"""

from __future__ import annotations

from hashlib import sha256 as hash_of
from typing import Any

import msgspec

from ledgerstone.codec import decode_json, sha256
from ledgerstone.commands.turns import VerifySession
from ledgerstone.errors import Corrupt
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.rules.bodies import ROLE_NUMBERS, read_any, read_body, read_meta
from ledgerstone.rules.chain import GENESIS, frame, link
from ledgerstone.rules.rows import HeadRow
from ledgerstone.sql.chains import chain_node
from ledgerstone.sql.heads import base_of, find_head
from ledgerstone.sql.notes import split_refs
from ledgerstone.sql.paths import count_path, effective
from ledgerstone.sql.tx import Row, Tx

_CHUNK_TURNS = 500


class _Check(msgspec.Struct):
    """What is known while the session is walked from its first commit to its last."""

    session: str
    head: HeadRow
    link: bytes = GENESIS
    revision: int = 0
    turns: int = 0
    nodes: int = 0
    values: int = 0
    live: int = 0
    seqs: dict[int, int] = {}
    gone: dict[int, int] = {}
    erased: set[int] = set()
    hidden: dict[int, int] = {}
    amended: dict[tuple[int, int], str] = {}
    refs: set[str] = set()
    defects: list[Defect] = []

    def defect(self, kind: str, where: str, detail: str = "") -> None:
        self.defects.append(Defect(self.session, kind, where, detail))


async def verify_session(tx: Tx, query: VerifySession) -> Verified:
    """Every defect of one session by name."""
    head = await find_head(tx, query.tenant, query.session)
    if head is None:
        return Verified()
    check = _Check(query.session, head)
    await _check_turns(tx, check)
    await _check_amendments(tx, check)
    await _check_values(tx, check)
    await _check_head(tx, check)
    return Verified(
        sessions=1,
        turns=check.turns,
        nodes=check.nodes,
        values=check.values,
        defects=check.defects,
    )


async def _check_turns(tx: Tx, check: _Check) -> None:
    after = 0
    while rows := await tx.all("list_turns", check.head.number, after, _CHUNK_TURNS):
        for row in rows:
            await _check_turn(tx, check, row)
        after = rows[-1][0]


async def _check_turn(tx: Tx, check: _Check, row: Row) -> None:
    revision, id, kind, hash, stored, created_us, leaf, first_ord, count, usage, raw = row
    check.turns += 1
    if revision != check.revision + 1:
        check.defect("revision", f"turn {id}", f"{revision} follows {check.revision}")
    base = base_of(check.head)
    nodes = []
    if count:
        nodes = await tx.all("chain_rows", base + first_ord, base + first_ord + count - 1)
    if len(nodes) != count:
        check.defect("count", f"turn {id}", f"{len(nodes)} of {count} nodes are there")
    try:
        effects: dict[str, Any] = {} if raw is None else decode_json(raw)
    except ValueError as error:
        check.defect("body", f"turn {id}.effects", str(error))
        effects = {}
    tip = effects["branch"][1] if "branch" in effects else None
    expected = link(
        check.link,
        revision=revision,
        turn=id,
        kind=kind,
        hash=hash,
        created_us=created_us,
        leaf=leaf,
        tip=tip,
        usage=usage,
        effects=raw,
        nodes=[chain_node(node) for node in nodes],
    )
    if expected != stored:
        check.defect("link", f"turn {id}", f"the chain breaks at revision {revision}")
    for node in nodes:
        _check_node(check, node)
    for first, last in effects.get("gone", []):
        for ord in range(first, last + 1):
            check.gone[ord] = revision
    for ord, version, digest in effects.get("amend", []):
        check.amended[(ord, version)] = digest
    check.link, check.revision = stored, revision


def _check_node(check: _Check, row: Row) -> None:
    ord, parent, id, _, role, _, _, _, meta, format, refs, _, body, _, seq = row[:15]
    deleted_us, deleted_rev = row[15:]
    check.nodes += 1
    check.live += deleted_us is None
    check.seqs[ord] = seq
    if parent >= ord or (parent and parent not in check.seqs):
        check.defect("parent", f"node {id}", f"ord {parent} is not before {ord}")
    elif seq != check.seqs.get(parent, 0) + 1:
        check.defect("seq", f"node {id}", f"{seq} after {check.seqs.get(parent, 0)}")
    if deleted_us is not None and deleted_rev:
        check.hidden[ord] = deleted_rev
    if body is None:
        check.erased.add(ord)
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


async def _check_amendments(tx: Tx, check: _Check) -> None:
    base = base_of(check.head)
    rows = await tx.all("chain_amendments", base, base + check.head.ord)
    stored = {(row[0], row[1]): row for row in rows}
    for place in sorted(set(stored) | set(check.amended)):
        where = f"amendment {place[0]} version {place[1]}"
        row = stored.get(place)
        if row is None or check.amended.get(place) != row[2].hex():
            check.defect("amendment", where, "the chain knows another one")
        elif row[4] is not None and hash_of(frame(row[3], row[4])).digest() != row[2]:
            check.defect("amendment", where, "the patch does not fit its commitment")
    for ord in sorted(set(check.gone) | set(check.hidden)):
        if check.gone.get(ord) != check.hidden.get(ord) and ord not in check.erased:
            check.defect("tombstone", f"node at {ord}", "row and history disagree")


async def _check_values(tx: Tx, check: _Check) -> None:
    number = check.head.number
    present = set()
    for digest, _ in await tx.all("list_values", number):
        row = await tx.one("get_value", number, digest)
        present.add(digest)
        check.values += 1
        if row is None or sha256(row[0]) != digest:
            check.defect("value", digest, "the bytes do not fit their name")
    wanted = set(check.refs)
    for _, _, refs in await tx.all("note_refs", number):
        wanted.update(split_refs(refs))
    if check.head.checkpoint is not None:
        wanted.add(check.head.checkpoint)
    for digest in sorted(wanted - present):
        check.defect("reference", digest, "points at a value that is not there")


async def _check_head(tx: Tx, check: _Check) -> None:
    head = check.head
    if head.revision != check.revision or head.link != check.link:
        found = f"{head.revision}, last turn {check.revision}"
        check.defect("head", "revision", found)
    if head.ord != max(check.seqs, default=0) or head.live != check.live:
        check.defect("head", "counters", f"ord {head.ord}, live {head.live} of {check.live}")
    leaves = [("main", head.leaf), *(await tx.all("list_branches", head.number))]
    for name, leaf in leaves:
        if leaf and leaf not in check.seqs:
            check.defect("leaf", f"branch {name}", f"stands at ord {leaf}, which is not there")
            return
    tip = await effective(tx, head, head.leaf)
    if tip != (head.tip, head.tip_seq):
        check.defect("leaf", "branch main", f"effective leaf {head.tip}, should be {tip[0]}")
    counted = await count_path(tx, head, head.tip)
    if counted != (head.messages, head.users, head.first_user):
        check.defect("count", "head", f"{head.messages} messages, the path has {counted[0]}")
