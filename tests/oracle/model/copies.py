"""A new session from the rows of another one: a copy of all of it, or a fork of one path."""

from __future__ import annotations

from hashlib import sha256

from msgspec.structs import replace

from ledgerstone.commands.sessions import CopySession
from ledgerstone.errors import AlreadyExists, BranchNotFound, unknown_node
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.nodes import MESSAGE
from ledgerstone.records.sessions import Session
from ledgerstone.rules import chain, ledger
from ledgerstone.rules.rows import HeadRow
from ledgerstone.rules.usage import FORGOTTEN
from tests.oracle.model import attachments, paths
from tests.oracle.model.commits import USER
from tests.oracle.model.feed import enter_turn
from tests.oracle.model.rows import NodeRow, TurnRow
from tests.oracle.model.standing import Standing, find, make, require_alive, save_head
from tests.oracle.model.state import Tx

FORKED_DOCUMENTS = ("state", "config")
COPIED_HEAD = (
    "ord",
    "leaf",
    "tip",
    "tip_seq",
    "messages",
    "users",
    "first_user",
    "live",
    "branched",
    "named",
    "amended",
    "checkpoint",
)


def copy_session(tx: Tx, command: CopySession) -> Session:
    """The new session; it starts at revision 1 and keeps the ids of what it copies."""
    source = require_alive(tx, command.tenant, command.source)
    if find(tx, command.tenant, command.target.id) is not None:
        raise AlreadyExists(command.target.id)
    target = make(tx, command.tenant, command.target.id, command.target)
    if command.whole:
        amended = _copy(tx, source, target)
    else:
        amended = _fork(tx, source, target, _path(tx, source, command))
    _copy_values(tx, source, target)
    _copy_attachments(tx, source, target)
    _first_turn(tx, command, source, target, amended)
    save_head(tx, target)
    return target.record()


def _path(tx: Tx, source: Standing, command: CopySession) -> list[NodeRow]:
    """The live path to fork, root first."""
    if command.at is not None:
        row = paths.live_by_id(tx, source, command.at)
        if row is None:
            raise unknown_node("at", command.at)
        start = row.ord
    else:
        leaf = paths.stored_leaf(tx, source, command.branch)
        if leaf is None:
            raise BranchNotFound(command.branch)
        start = leaf
    rows = [row for row in paths.upwards(tx, source.number, start) if row.live]
    rows.reverse()
    return rows


def _insert_node(tx: Tx, target: Standing, row: NodeRow) -> None:
    tx.state.nodes.insert((target.number, row.ord), row)
    tx.state.node_ids.insert((target.tenant, row.id, target.number), row.ord)


def _copy_values(tx: Tx, source: Standing, target: Standing) -> None:
    for (_, digest), data in list(tx.state.values.scan((source.number,))):
        tx.state.values.insert((target.number, digest), data)


def _copy_attachments(tx: Tx, source: Standing, target: Standing) -> None:
    """Bytes that the source's messages need are needed here; an intent of the target's stays."""
    for (tenant, _, id), row in list(tx.state.attachments.scan((source.tenant, source.id))):
        if row.committed_us is None:
            continue
        if (tenant, target.id, id) in tx.state.attachments:
            attachments.stamp(tx, tenant, target.id, id, row.committed_us)
        else:
            attachments.add(tx, tenant, replace(row, session=target.id))


def _fork(tx: Tx, source: Standing, target: Standing, path: list[NodeRow]) -> list[list[object]]:
    """Renumber a path from 1; answers the amendments that came along."""
    amended: list[list[object]] = []
    for at, row in enumerate(path, start=1):
        _insert_node(tx, target, replace(row, ord=at, seq=at, parent=at - 1))
        newest = tx.state.amendments.last((source.number, row.ord))
        if newest is not None:
            tx.state.amendments.insert((target.number, at, 1), replace(newest, revision=1))
            amended.append([at, 1, newest.commitment.hex()])
        _count(target.head, row, at)
    head, size = target.head, len(path)
    head.ord = head.leaf = head.tip = head.tip_seq = head.live = size
    head.amended = len(amended)
    for name in FORKED_DOCUMENTS:
        data = tx.state.documents.get((source.number, name))
        if data is not None:
            tx.state.documents.insert((target.number, name), data)
    return amended


def _count(head: HeadRow, row: NodeRow, at: int) -> None:
    if row.kind == MESSAGE:
        head.messages += 1
        head.users += int(row.role == USER)
        if row.role == USER and head.first_user == 0:
            head.first_user = at


def _copy(tx: Tx, source: Standing, target: Standing) -> list[list[object]]:
    """Take everything as it is; answers the amendments that came along."""
    state, old, new = tx.state, source.number, target.number
    for _, row in list(state.nodes.scan((old,))):
        # What is tombstoned was never live here, so no revision of the copy shows it.
        _insert_node(tx, target, row if row.live else replace(row, deleted_rev=0))
    for (_, name), leaf in list(state.branches.scan((old,))):
        state.branches.insert((new, name), leaf)
    for (_, node, key), note in list(state.notes.scan((old,))):
        if not key.startswith(DRAFT_PREFIX):
            state.notes.insert((new, node, key), note)
    for (_, name), data in list(state.documents.scan((old,))):
        if name != FORGOTTEN:
            state.documents.insert((new, name), data)
    amended: list[list[object]] = []
    for (_, at, version), amendment in list(state.amendments.scan((old,))):
        state.amendments.insert((new, at, version), replace(amendment, revision=1))
        amended.append([at, version, amendment.commitment.hex()])
    for name in COPIED_HEAD:
        setattr(target.head, name, getattr(source.head, name))
    return amended


def _first_turn(
    tx: Tx,
    command: CopySession,
    source: Standing,
    target: Standing,
    amended: list[list[object]],
) -> None:
    """The one turn the new session starts with; it names where everything came from."""
    origin, head = source.head, target.head
    effects: dict[str, object] = {
        "source": [source.id, origin.incarnation, origin.revision, origin.link.hex()]
    }
    if amended:
        effects["amend"] = amended
    nodes = [row for _, row in tx.state.nodes.scan((target.number,))]
    kind = "copy" if command.whole else "fork"
    content = sha256(chain.frame(source.id, origin.link)).digest()
    encoded = ledger.encode_effects(effects)
    link = chain.link(
        head.link,
        revision=1,
        turn=command.turn,
        kind=kind,
        hash=content,
        created_us=head.updated_us,
        leaf=head.leaf,
        tip=None,
        usage=None,
        effects=encoded,
        nodes=((row.ord, row.parent, row.id, row.committed()) for row in nodes),
    )
    turn = TurnRow(
        revision=1,
        id=command.turn,
        kind=kind,
        hash=content,
        created_us=head.updated_us,
        leaf=head.leaf,
        first_ord=1 if nodes else 0,
        count=len(nodes),
        usage=None,
        effects=encoded,
        link=link,
    )
    enter_turn(tx, target.number, turn)
    head.revision, head.link = 1, link
