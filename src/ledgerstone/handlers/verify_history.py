"""Verify, of a session: its turns and nodes, walked from the first commit to the last.

Everything is computed again from turns and nodes. No function that maintains what is checked here
takes part in checking it.
"""

from __future__ import annotations

from bisect import bisect_left
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from ledgerstone.codec import decode_json
from ledgerstone.errors import Corrupt
from ledgerstone.handlers.heads import find_session
from ledgerstone.handlers.nodes import MAIN, chain_node, columns_between, nodes_between
from ledgerstone.handlers.notes import split_refs
from ledgerstone.records.reports import Defect
from ledgerstone.rules import ledger
from ledgerstone.rules.bodies import ROLE_NUMBERS, read_any, read_body, read_effects, read_meta
from ledgerstone.rules.chain import frame, link
from ledgerstone.rules.rows import GENESIS, UsageDay
from ledgerstone.rules.usage import FORGOTTEN, DayKey, sum_days
from ledgerstone.tables.graph import AMENDMENTS, TURNS_BY_REVISION, NodeRow, TurnRow
from ledgerstone.tables.runs import RUNS, RunRow
from ledgerstone.tables.sessions import DOCUMENTS, Head, SessionRow
from ledgerstone.tables.table import ORD_BITS
from ledgerstone.tables.transaction import Tx

_PAGE_TURNS = 50
_LAST_ORD = (1 << ORD_BITS) - 1


class History(msgspec.Struct):
    """What a session must look like after the turns that were added.

    `copied`: it began as a copy, with branches, state and documents that its own turns do not
    name; what they say later is still binding. `forgotten` is the revision until which executions
    were deleted. `gone` has the revision in which each node was hidden, `amended` digest and
    revision by ord and version; tickets, executions and documents are digests by id or name.
    """

    link: bytes = GENESIS
    revision: int = 0
    leaf: int = 0
    committed_us: int = 0
    copied: bool = False
    usage: bytes | None = None
    checkpoint: str | None = None
    state: dict[str, Any] = {}
    branches: dict[str, int] = {}
    documents: dict[str, str] = {}
    gone: dict[int, int] = {}
    amended: dict[tuple[int, int], tuple[str, int]] = {}
    tickets: dict[str, str] = {}
    executions: dict[str, str] = {}
    days: dict[DayKey, UsageDay] = {}
    forgotten: int = 0

    def add(self, turn: TurnRow, effects: dict[str, Any]) -> None:
        """Add the next turn; Corrupt when its usage cannot be read."""
        self.revision, self.leaf, self.link = turn.revision, turn.leaf, turn.link
        self.committed_us = turn.created_us
        self.copied = self.copied or "source" in effects
        self.checkpoint = effects.get("checkpoint", self.checkpoint)
        self.documents |= effects.get("documents", {})
        state = self.state | effects.get("state", {})
        self.state = {key: value for key, value in state.items() if value is not None}
        self._move_branches(effects)
        self._change_nodes(effects)
        self.tickets |= dict(effects.get("tickets", []))
        if turn.revision > self.forgotten:
            self.executions |= dict(effects.get("executions", []))
        if turn.usage is not None:
            self._use(turn, turn.usage)

    def _move_branches(self, effects: dict[str, Any]) -> None:
        if "branch" in effects:
            name, leaf = effects["branch"]
            self.branches[name] = leaf
        for name, leaf in effects.get("branches", []):
            if name != MAIN:  # Its leaf stands in the turn itself.
                self.branches[name] = leaf

    def _change_nodes(self, effects: dict[str, Any]) -> None:
        for first, last in effects.get("gone", []):
            for ord in range(first, last + 1):
                self.gone[ord] = self.revision
        for ord, version, digest in effects.get("amend", []):
            self.amended[(ord, version)] = (digest, self.revision)

    def _use(self, turn: TurnRow, usage: bytes) -> None:
        entries = tuple(ledger.read_usage(str(turn.revision), usage))
        self.usage = ledger.merge(self.usage, entries)
        for key, line in sum_days((turn.created_us, entry) for entry in entries).items():
            old = self.days.get(key)
            self.days[key] = line if old is None else old + line


class CheckedNode(NamedTuple):
    """A node without its content."""

    parent: int
    seq: int
    role: int | None
    deleted_rev: int | None
    """In which revision it was hidden; 0 when nobody wrote that down."""


class SessionCheck(msgspec.Struct):
    """Grows as the session is walked from its first commit to its last.

    `refs` are the values that visible nodes name, `wrote` the first and the last ord of each run,
    by its number in the session.
    """

    row: SessionRow
    head: Head
    documents: dict[str, bytes]
    runs: list[RunRow]
    run_ids: dict[int, str]
    history: History
    turns: int = 0
    nodes: int = 0
    values: int = 0
    places: dict[int, CheckedNode] = {}
    erased: set[int] = set()
    refs: set[str] = set()
    wrote: dict[int, tuple[int, int]] = {}
    defects: list[Defect] = []

    @property
    def number(self) -> int:
        return self.head.number

    def defect(self, kind: str, where: str, detail: str = "") -> None:
        """Note one."""
        self.defects.append(Defect(self.row.id, kind, where, detail))

    def path(self, leaf: int) -> list[tuple[int, CheckedNode]]:
        """The nodes of a path, newest first; it ends where one is missing."""
        found = []
        while (place := self.places.get(leaf)) is not None:
            found.append((leaf, place))
            leaf = min(place.parent, leaf - 1)  # Always the parent, unless the store is damaged.
        return found


async def begin_check(tx: Tx, tenant: str, session: str) -> SessionCheck | None:
    """What the checks of a session have in common; None for an unknown session."""
    found = await find_session(tx, tenant, session)
    if found is None:
        return None
    row, head = found
    documents = {one.name: one.body for one in await tx.scan(DOCUMENTS.primary, row.number)}
    runs = await tx.scan(RUNS.primary, row.number)
    history = History(forgotten=_forgotten(documents.get(FORGOTTEN)))
    return SessionCheck(row, head, documents, runs, {run.n: run.id for run in runs}, history)


def _forgotten(document: bytes | None) -> int:
    """The revision until which executions were deleted; 0 when none were."""
    try:
        return 0 if document is None else int(decode_json(document)["revision"])
    except (ValueError, TypeError, KeyError):
        return 0  # The checksum of the row does not fit then.


async def check_turns(tx: Tx, check: SessionCheck) -> None:
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


def _check_turn(check: SessionCheck, turn: TurnRow, nodes: list[NodeRow]) -> None:
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


def _read_effects(check: SessionCheck, turn: TurnRow) -> dict[str, Any]:
    try:
        return read_effects(turn.effects, turn.id)
    except Corrupt as error:
        check.defect("body", f"turn {turn.id}.effects", error.reason)
        return {}


def _link_of(
    check: SessionCheck, turn: TurnRow, effects: dict[str, Any], nodes: list[NodeRow]
) -> bytes:
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


def _check_node(check: SessionCheck, node: NodeRow) -> None:
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
    check.places[node.ord] = CheckedNode(node.parent, node.seq, node.role, deleted_rev)
    if node.body is None:
        check.erased.add(node.ord)
        if not hidden:
            check.defect("tombstone", where, "erased, but not hidden")
        return
    if not hidden:
        check.refs.update(split_refs(node.refs))
    _check_body(check, node, node.body)


def _check_body(check: SessionCheck, node: NodeRow, body: bytes) -> None:
    where = f"node {node.id}"
    try:
        read_meta(node.meta, node.id)
        if node.role is None:
            read_any(body, node.format, node.id)
        elif ROLE_NUMBERS[read_body(body, node.id).role] != node.role:
            check.defect("body", where, "role and body disagree")
    except Corrupt as error:
        check.defect("body", where, str(error))


async def check_amendments(tx: Tx, check: SessionCheck) -> None:
    """Every amendment is the one that the chain knows, and so is every tombstone."""
    rows = await tx.scan(AMENDMENTS.primary, check.number)
    stored, known = {(row.ord, row.version): row for row in rows}, check.history.amended
    for place in sorted(set(stored) | set(known)):
        where = f"amendment {place[0]} version {place[1]}"
        row = stored.get(place)
        if row is None or known.get(place) != (row.commitment.hex(), row.revision):
            check.defect("amendment", where, "the chain knows another one")
        elif (
            row.patch is not None and sha256(frame(row.salt, row.patch)).digest() != row.commitment
        ):
            check.defect("amendment", where, "the patch does not fit its commitment")
    if check.head.amended != len(rows):
        check.defect("head", "amended", f"{check.head.amended}, there are {len(rows)}")
    gone = check.history.gone
    hidden = {ord: place.deleted_rev for ord, place in check.places.items() if place.deleted_rev}
    for ord in sorted(set(gone) | set(hidden)):
        if gone.get(ord) != hidden.get(ord) and ord not in check.erased:
            check.defect("tombstone", f"node at {ord}", "row and history disagree")
