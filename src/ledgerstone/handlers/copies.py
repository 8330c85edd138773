"""Fork and copy: a new session with the rows of another."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

from msgspec.structs import replace

from ledgerstone.commands.sessions import CopySession
from ledgerstone.errors import AlreadyExists, BranchNotFound, unknown_node
from ledgerstone.handlers.heads import open_session, save_head
from ledgerstone.handlers.nodes import (
    USER,
    add_nodes,
    chain_node,
    node_by_id,
    nodes_between,
    stretches,
    tip_of,
)
from ledgerstone.handlers.registry import handles
from ledgerstone.handlers.runs import run_names
from ledgerstone.handlers.sessions import insert_session, session_of
from ledgerstone.records.drafts import DRAFT_PREFIX
from ledgerstone.records.sessions import Session
from ledgerstone.rules.chain import frame, link
from ledgerstone.rules.ledger import encode_effects
from ledgerstone.rules.usage import FORGOTTEN
from ledgerstone.tables.blobs import ATTACHMENTS
from ledgerstone.tables.graph import (
    AMENDMENTS,
    BRANCHES,
    CONTENTS,
    NOTES,
    TURNS,
    AmendmentRow,
    NodeRow,
    TurnRow,
)
from ledgerstone.tables.runs import RUNS, RunRow
from ledgerstone.tables.sessions import DOCUMENTS, SESSIONS, SESSIONS_BY_ID, Head
from ledgerstone.tables.transaction import Tx

_FORKED_DOCUMENTS = ("state", "config")
_COPIED_FIELDS = (
    "ord", "leaf", "tip", "tip_seq", "messages", "users", "first_user", "live", "branched", "named",
    "amended", "checkpoint",
)  # fmt: skip


@handles(CopySession)
async def copy_session(tx: Tx, command: CopySession) -> Session:
    source = await open_session(tx, command.tenant, command.source)
    if await tx.find(SESSIONS_BY_ID, command.tenant, command.target.id) is not None:
        raise AlreadyExists(command.target.id)
    target = await insert_session(tx, command.tenant, command.target)
    if command.whole:
        nodes, amendments = await _copy(tx, source, target)
    else:
        nodes, amendments = await _fork(tx, command, source, target)
    add_nodes(tx, nodes)
    tx.insert(AMENDMENTS, amendments)
    contents = await tx.scan(CONTENTS.primary, source.number)
    tx.insert(CONTENTS, [replace(row, number=target.number) for row in contents])
    await _copy_attachments(tx, command)
    names = await run_names(tx, source, {row.run for row in nodes if row.run is not None})
    ords: dict[int, list[int]] = {}
    for node in nodes:
        if node.run in names:
            ords.setdefault(node.run, []).append(node.ord)
    # The names of runs and where each wrote; no records.
    runs = [RunRow(target.number, n, names[n], min(at), max(at)) for n, at in ords.items()]
    tx.insert(RUNS, runs)
    target.runs = source.runs
    _insert_turn(tx, command, source, target, nodes, amendments, names)
    save_head(tx, target)
    row = await tx.get(SESSIONS, target.number)
    assert row is not None
    return session_of(row, target)


async def _copy(tx: Tx, source: Head, target: Head) -> tuple[list[NodeRow], list[AmendmentRow]]:
    """All nodes and amendments as they will be; the rest but values and runs is copied here."""
    number = target.number
    # What is hidden in the source was never visible in the copy: not in any revision of it.
    nodes = [
        replace(row, number=number, deleted_rev=None if row.deleted_us is None else 0)
        for row in await nodes_between(tx, source.number, 1, source.ord)
    ]
    versions = await tx.scan(AMENDMENTS.primary, source.number) if source.amended else []
    for branch in await tx.scan(BRANCHES.primary, source.number) if source.named else []:
        tx.put(BRANCHES, replace(branch, number=number))
    for note in await tx.scan(NOTES.primary, source.number):
        if not note.key.startswith(DRAFT_PREFIX):  # Those belong to the writer of the source.
            tx.put(NOTES, replace(note, number=number))
    for document in await tx.scan(DOCUMENTS.primary, source.number):
        if document.name != FORGOTTEN:
            tx.put(DOCUMENTS, replace(document, number=number))
    for name in _COPIED_FIELDS:
        setattr(target, name, getattr(source, name))
    return nodes, [replace(row, number=number, revision=1) for row in versions]


async def _fork(
    tx: Tx, command: CopySession, source: Head, target: Head
) -> tuple[list[NodeRow], list[AmendmentRow]]:
    """The nodes of a live path, numbered anew, and their newest amendments."""
    leaf = await _fork_leaf(tx, command, source)
    path: list[NodeRow] = []
    for part in reversed(await stretches(tx, source, leaf)) if leaf else ():
        path += await nodes_between(tx, source.number, part.first, part.last)
    path = [row for row in path if row.deleted_us is None]
    nodes = [
        replace(row, number=target.number, ord=ord, parent=ord - 1, seq=ord)
        for ord, row in enumerate(path, start=1)
    ]
    versions = await tx.scan(AMENDMENTS.primary, source.number) if source.amended else []
    newest = {row.ord: row for row in versions}
    amendments = [
        replace(newest[old.ord], number=target.number, ord=new.ord, version=1, revision=1)
        for old, new in zip(path, nodes, strict=True)
        if old.ord in newest and newest[old.ord].patch is not None
    ]
    for name in _FORKED_DOCUMENTS:
        document = await tx.get(DOCUMENTS, source.number, name)
        if document is not None:
            tx.put(DOCUMENTS, replace(document, number=target.number))
    target.ord = target.leaf = target.tip = target.tip_seq = target.live = len(nodes)
    target.amended = len(amendments)
    users = [row.ord for row in nodes if row.role == USER]
    target.messages = sum(row.role is not None for row in nodes)
    target.users, target.first_user = len(users), min(users, default=0)
    return nodes, amendments


async def _fork_leaf(tx: Tx, command: CopySession, source: Head) -> int:
    if command.at is not None:
        row = await node_by_id(tx, source.number, command.at)
        if row is None or row.deleted_us is not None:
            raise unknown_node("at", command.at)
        return row.ord
    tip = await tip_of(tx, source, command.branch)
    if tip is None:
        raise BranchNotFound(command.branch)
    return tip[0]


async def _copy_attachments(tx: Tx, command: CopySession) -> None:
    """Bytes that messages of the source need are needed here; an intent of the target's stays."""
    tenant, target = command.tenant, command.target.id
    rows = await tx.scan(ATTACHMENTS.primary, tenant, command.source)
    needed = [row for row in rows if row.committed_us is not None]
    stored = await tx.get_many(ATTACHMENTS, [(tenant, target, row.id) for row in needed])
    for row, old in zip(needed, stored, strict=True):
        if old is None:
            tx.put(ATTACHMENTS, replace(row, session=target))
        elif old.committed_us is None:
            tx.put(ATTACHMENTS, replace(old, committed_us=row.committed_us))


def _insert_turn(
    tx: Tx,
    command: CopySession,
    source: Head,
    target: Head,
    nodes: list[NodeRow],
    amendments: list[AmendmentRow],
    names: dict[int, str],
) -> None:
    """The chain of the new session starts by naming where it came from."""
    said: dict[str, Any] = {
        "revision": 1,
        "kind": "copy" if command.whole else "fork",
        "hash": sha256(frame(command.source, source.link)).digest(),
        "created_us": target.updated_us,
        "leaf": target.leaf,
        "usage": None,
        "effects": _effects(command, source, amendments),
    }
    chained = [chain_node(row, None if row.run is None else names.get(row.run)) for row in nodes]
    target.revision = 1
    target.link = link(target.link, turn=command.turn, tip=None, nodes=chained, **said)
    turn = TurnRow(
        pos=0,
        number=target.number,
        id=command.turn,
        link=target.link,
        first_ord=1 if nodes else 0,
        count=len(nodes),
        **said,
    )
    tx.insert(TURNS, [turn])


def _effects(command: CopySession, source: Head, amendments: list[AmendmentRow]) -> bytes | None:
    effects: dict[str, object] = {
        "source": [command.source, source.incarnation, source.revision, source.link.hex()]
    }
    if amendments:
        effects["amend"] = [[row.ord, row.version, row.commitment.hex()] for row in amendments]
    return encode_effects(effects)
