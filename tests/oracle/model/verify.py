"""Verify: recompute everything a session promises about itself and name what does not hold."""

from __future__ import annotations

from hashlib import sha256

from ledgerstone.codec import decode_json
from ledgerstone.codec import sha256 as digest_of
from ledgerstone.commands.turns import VerifySession, VerifyStore
from ledgerstone.errors import Corrupt
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.reports import Defect, Verified
from ledgerstone.rules import chain, ledger
from ledgerstone.rules import executions as execution_rules
from ledgerstone.rules import tickets as ticket_rules
from ledgerstone.rules.rows import GENESIS
from ledgerstone.rules.usage import FORGOTTEN, line_name
from tests.oracle.model import answers, budgets, paths, usage
from tests.oracle.model.artifacts import check_bytes
from tests.oracle.model.commits import USER
from tests.oracle.model.embeddings import check_spaces
from tests.oracle.model.evidence import check_lists
from tests.oracle.model.messages import to_message
from tests.oracle.model.nodes import to_node
from tests.oracle.model.rows import CallSums, NodeRow, TurnRow, split_refs
from tests.oracle.model.standing import Standing, find
from tests.oracle.model.state import Tx
from tests.oracle.model.transfer_in import check_copy


class _Inspection:
    """One session under inspection: its rows, and the defects found so far."""

    def __init__(self, tx: Tx, found: Standing) -> None:
        self.tx = tx
        self.found = found
        self.nodes = {key[1]: row for key, row in tx.state.nodes.scan((found.number,))}
        self.defects: list[Defect] = []

    def report(self, kind: str, where: str, detail: str) -> None:
        self.defects.append(Defect(self.found.id, kind, where, detail))

    def path(self, start: int) -> list[NodeRow]:
        """A path newest first; it ends where a node is missing or out of order."""
        rows: list[NodeRow] = []
        at: int = start
        while at in self.nodes and (not rows or at < rows[-1].ord):
            rows.append(self.nodes[at])
            at = rows[-1].parent
        return rows


def verify_session(tx: Tx, query: VerifySession) -> Verified:
    """What was checked, and everything that did not hold; zeros for an unknown session."""
    found = find(tx, query.tenant, query.session)
    if found is None:
        return Verified()
    inspection = _Inspection(tx, found)
    turns = [turn for _, turn in tx.state.turns.scan((found.number,))]
    _check_chain(inspection, turns)
    _check_amendments(inspection, turns)
    _check_tickets(inspection, turns)
    _check_nodes(inspection)
    _check_leaves(inspection)
    _check_counts(inspection)
    _check_usage(inspection)
    values = _check_values(inspection)
    return Verified(
        sessions=1,
        turns=len(turns),
        nodes=len(inspection.nodes),
        values=values,
        defects=inspection.defects,
    )


def verify_store(tx: Tx, query: VerifyStore) -> Verified:
    """Nothing of a store in memory is outside of its tables; what follows is counted again."""
    checks = (check_copy, check_spaces, budgets.check_budgets, check_bytes, check_lists)
    return Verified(defects=[flaw for check in checks for flaw in check(tx, query.tenant)])


def _check_chain(inspection: _Inspection, turns: list[TurnRow]) -> None:
    """Every link follows from the rows it covers; the head holds the last one."""
    previous, expected = GENESIS, 0
    for turn in turns:
        expected += 1
        where = f"turn {turn.revision}"
        if turn.revision != expected:
            inspection.report("link", where, f"revision {expected} is missing")
            expected = turn.revision
        if _link_of(inspection, turn, previous) != turn.link:
            inspection.report("link", where, "the link does not follow from the stored rows")
        previous = turn.link
    head = inspection.found.head
    if head.revision != expected:
        inspection.report("head", "revision", f"{head.revision}, last turn is {expected}")
    if head.link != previous:
        inspection.report("head", "link", "not the link of the last turn")


def _link_of(inspection: _Inspection, turn: TurnRow, previous: bytes) -> bytes:
    effects = answers.read_effects(turn)
    ords = range(turn.first_ord, turn.first_ord + turn.count)
    rows = [inspection.nodes[at] for at in ords if at in inspection.nodes]
    return chain.link(
        previous,
        revision=turn.revision,
        turn=turn.id,
        kind=turn.kind,
        hash=turn.hash,
        created_us=turn.created_us,
        leaf=turn.leaf,
        tip=effects["branch"][1] if "branch" in effects else None,
        usage=ledger.digest(turn.usage, turn.usage_digest),
        effects=turn.effects,
        nodes=((row.ord, row.parent, row.id, row.committed()) for row in rows),
    )


def _check_amendments(inspection: _Inspection, turns: list[TurnRow]) -> None:
    """Every amendment is what the chain knows of it, and none is missing."""
    known = {
        (at, version): commitment
        for turn in turns
        for at, version, commitment in answers.read_effects(turn).get("amend", [])
    }
    stored = inspection.tx.state.amendments.scan((inspection.found.number,))
    for (_, at, version), row in list(stored):
        where = f"amendment {at}/{version}"
        if known.pop((at, version), None) != row.commitment.hex():
            inspection.report("hash", where, "not what its turn says")
        if row.patch is not None and row.salt is not None:
            made = sha256(chain.frame(row.salt, row.patch)).digest()
            if made != row.commitment:
                inspection.report("hash", where, "the patch does not fit its commitment")
    for at, version in known:
        inspection.report("hash", f"amendment {at}/{version}", "missing")


def _check_tickets(inspection: _Inspection, turns: list[TurnRow]) -> None:
    """Tickets are what their turns asked, outcomes what their turns told, and none is missing."""
    state, number = inspection.tx.state, inspection.found.number
    told = state.documents.get((number, FORGOTTEN))
    forgotten = 0 if told is None else decode_json(told)["revision"]
    asked: dict[str, str] = {}
    finished: dict[str, str] = {}
    for turn in turns:
        effects = answers.read_effects(turn)
        asked |= dict(effects.get("tickets", []))
        if turn.revision > forgotten:
            finished |= dict(effects.get("executions", []))
    for (_, id), data in state.tickets.scan((number,)):
        flaw = ticket_rules.flaw(ticket_rules.read(id, data), asked.pop(id, None))
        if flaw is not None:
            inspection.report("ticket", f"ticket {id}", flaw)
    for (_, id), data in state.executions.scan((number,)):
        flaw = execution_rules.flaw(execution_rules.read(id, data), finished.pop(id, None))
        if flaw is not None:
            inspection.report("execution", f"execution {id}", flaw)
    for kind, missing in (("ticket", asked), ("execution", finished)):
        for id in missing:
            inspection.report(kind, f"{kind} {id}", "is not there")


def _check_nodes(inspection: _Inspection) -> None:
    """Parents exist and are older, positions follow, bodies decode, references lead somewhere."""
    values = inspection.tx.state.values
    for row in inspection.nodes.values():
        where = f"node {row.id}"
        parent = inspection.nodes.get(row.parent)
        if row.parent and (parent is None or parent.ord >= row.ord):
            inspection.report("parent", where, f"no older node {row.parent}")
        elif row.seq != (1 if parent is None else parent.seq + 1):
            inspection.report("seq", where, f"position {row.seq} does not follow its parent")
        if row.body is None:
            if row.commitment is None or row.live:
                inspection.report("body", where, "missing")
            continue
        _check_body(inspection, row)
        for digest in split_refs(row.refs) if row.live else ():
            if (inspection.found.number, digest) not in values:
                inspection.report("reference", where, f"no value {digest}")


def _check_body(inspection: _Inspection, row: NodeRow) -> None:
    try:
        to_node(inspection.tx, inspection.found, row)
        if row.kind == MESSAGE:
            to_message(inspection.tx, inspection.found, row)
    except Corrupt as error:
        inspection.report("body", f"node {row.id}", str(error))


def _check_leaves(inspection: _Inspection) -> None:
    """Every branch stands at a node of the session, and the tip is main's effective leaf."""
    found = inspection.found
    branches = inspection.tx.state.branches.scan((found.number,))
    leaves = {paths.MAIN: found.head.leaf, **{key[1]: leaf for key, leaf in branches}}
    for name, leaf in leaves.items():
        if leaf and leaf not in inspection.nodes:
            inspection.report("leaf", f"branch {name}", f"no node {leaf}")
    live = (row for row in inspection.path(found.head.leaf) if row.live)
    tip = next(live, None)
    wanted = (0, 0) if tip is None else (tip.ord, tip.seq)
    if (found.head.tip, found.head.tip_seq) != wanted:
        inspection.report("leaf", "tip", f"{found.head.tip}, should be {wanted[0]}")
    if found.head.named != len(leaves) - 1:
        inspection.report("count", "named", f"{found.head.named}, found {len(leaves) - 1}")


def _check_counts(inspection: _Inspection) -> None:
    """The head's counters are what a full count gives."""
    found, head = inspection.found, inspection.found.head
    path = inspection.path(head.leaf)
    messages = [row for row in reversed(path) if row.live and row.kind == MESSAGE]
    users = [row for row in messages if row.role == USER]
    amendments = inspection.tx.state.amendments.scan((found.number,))
    for name, stored, counted in (
        ("ord", head.ord, max(inspection.nodes, default=0)),
        ("live", head.live, sum(1 for row in inspection.nodes.values() if row.live)),
        ("messages", head.messages, len(messages)),
        ("users", head.users, len(users)),
        ("first_user", head.first_user, users[0].ord if users else 0),
        ("amended", head.amended, sum(1 for _ in amendments)),
    ):
        if stored != counted:
            inspection.report("count", name, f"{stored}, counted {counted}")


def _check_usage(inspection: _Inspection) -> None:
    """Days and counted tool calls are what the turns and executions give."""
    state, found = inspection.tx.state, inspection.found
    rows = state.usage_days.scan((found.tenant, found.number))
    stored = {key[2:]: line for key, line in rows}
    told = usage.days_of(state, found.number)
    for key in sorted(set(stored) | set(told)):
        if stored.get(key) != told.get(key):
            inspection.report("usage", line_name(key), "not the sum of what the turns used")
    sums = state.call_sums.get((found.number,)) or CallSums()
    counted = usage.calls_of(state, found.number)
    if sums != counted:
        inspection.report("count", "call_sums", f"{sums}, the executions say {counted}")


def _check_values(inspection: _Inspection) -> int:
    """Every value has the name its content gives it; answers how many there are."""
    found, state = inspection.found, inspection.tx.state
    checked = 0
    for (_, digest), data in state.values.scan((found.number,)):
        checked += 1
        if digest_of(data) != digest:
            inspection.report("value", f"value {digest}", "the content has another hash")
    for (_, node, key), note in state.notes.scan((found.number,)):
        for digest in split_refs(note.refs):
            if (found.number, digest) not in state.values:
                inspection.report("reference", f"note {node}/{key}", f"no value {digest}")
    checkpoint = found.head.checkpoint
    if checkpoint is not None and (found.number, checkpoint) not in state.values:
        inspection.report("reference", "checkpoint", f"no value {checkpoint}")
    return checked
