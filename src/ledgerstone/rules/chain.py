"""Hashes: the content hash of a turn, the commitment of a node, the link between two turns.

    turn hash    over the content of a commit, nothing of its envelope: the idempotency key
    commitment   H(salt, envelope, body) of one node; vacuum erases body and salt and keeps this
    link         H(previous link, turn row, commitments): makes a session's history a chain

Fields are framed as MessagePack, so no two different inputs share one encoding.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from sys import intern

import msgspec
from msgspec.structs import replace

from ledgerstone.codec import encode_json, encode_struct
from ledgerstone.commands.turns import Amendment, CommitTurn, NewNode, is_usual
from ledgerstone.records.runs import Run, Waiting

_pack = msgspec.msgpack.Encoder().encode
_RUN_TIMES = {"created_us": 0, "started_us": None, "finished_us": None, "updated_us": 0}


def frame(*fields: bytes | str | int | None) -> bytes:
    """Fields in one encoding (a MessagePack array): typed, and their borders stay visible."""
    return _pack(fields)


def turn_hash(command: CommitTurn) -> bytes:
    """The hash of what a commit says; ids, times, fence, revision and claims are not in it."""
    content: list[bytes | str | int | None] = [command.kind, command.branch]
    for node in command.nodes:
        content += (
            node.kind,
            node.role,
            node.label,
            node.run_id,
            node.meta,
            node.format,
            node.body,
            "".join(node.refs) if node.refs else "",
            int(node.on_path),
        )
    usual = is_usual(command)
    if command.rewind is not None:
        rewind = command.rewind
        content += ("rewind", rewind.pop, int(rewind.supersede), int(rewind.to is None))
    if _has_more(command, usual):
        content += _more_content(command, usual)
    return sha256(_pack(content)).digest()


def _has_more(command: CommitTurn, usual: bool) -> bool:
    if command.usage or command.run is not None or command.state is not None:
        return True
    return not usual and bool(
        command.amendments
        or command.tombstones
        or command.branches
        or command.values
        or command.notes
        or command.kept_notes
        or command.attach
        or command.tickets
        or command.executions
        or command.enqueue
        or command.blobs
        or command.artifacts
        or command.traces
        or command.reports
        or command.memories
        or command.config is not None
        or command.frames is not None
        or command.checkpoint is not None
    )


def _more_content(command: CommitTurn, usual: bool) -> list[bytes | str | int | None]:
    more: list[bytes | str | int | None] = [] if usual else _changes_content(command)
    for entry in command.usage:
        said = replace(entry, id="", message=None) if entry.id or entry.message else entry
        # Built again under another price list, a turn still says the same.
        said = replace(said, cost=None, estimated=False) if entry.estimated else said
        more += ("usage", encode_struct(said, "usage"))
    if not usual:
        more += _beside_content(command)
    if command.state is not None:
        more += ("state", encode_json(command.state, "state"))
    if command.run is not None:
        more += ("run", _run_content(command.run))
    checkpoint = command.checkpoint
    more += (command.config, command.frames, None if checkpoint is None else checkpoint.ref)
    return more


def _changes_content(command: CommitTurn) -> list[bytes | str | int | None]:
    more: list[bytes | str | int | None] = []
    for amendment in command.amendments:
        more += ("amend", amendment.node, amendment.patch)
    for node in command.tombstones:
        more += ("tombstone", node)
    for move in command.branches:
        flags = (int(move.create), int(move.delete))
        more += ("branch", move.name, move.to, move.to_branch, *flags)
    return more


def _beside_content(command: CommitTurn) -> list[bytes | str | int | None]:
    more: list[bytes | str | int | None] = []
    for value in command.values:
        more += ("value", value.digest)
    for name, notes in (("note", command.notes), ("kept note", command.kept_notes)):
        for note in notes:
            more += (name, note.node, note.key, note.body, note.format, "".join(note.refs))
    for attachment in command.attach:
        more += ("attach", attachment)
    for ticket in command.tickets:
        more += ("ticket", _pack(replace(ticket, id="", node=None)))
    for finish in command.executions:
        more += ("execution", finish.id, finish.result, finish.error)
    for batch in command.enqueue:
        more += ("enqueue", _pack(replace(batch, id="")))
    return more + _kept_content(command)


def _kept_content(command: CommitTurn) -> list[bytes | str | int | None]:
    """Bytes, evidence and memories; blobs that messages name are in their bodies already."""
    more: list[bytes | str | int | None] = []
    for artifact in command.artifacts:
        more += ("artifact", _pack(replace(artifact, id="")))
    for name, bodies in (("trace", command.traces), ("report", command.reports)):
        for body in bodies:
            more += (name, body)
    for memory in command.memories:
        more += ("memory", _pack(memory))
    return more


def _run_content(run: Run) -> bytes:
    # Defaults are left out by identity, so equal texts must be the same object.
    status = intern(run.status)
    times = (run.created_us, run.started_us, run.finished_us, run.updated_us)
    if status is not run.status or times != (0, None, None, 0):
        run = replace(run, status=status, **_RUN_TIMES)
    if run.waiting is not None and run.waiting.tickets:
        run = replace(run, waiting=_waiting_content(run.waiting))
    return encode_struct(run, "run")


def _waiting_content(waiting: Waiting) -> Waiting:
    """A turn that is built again asks the same question under another ticket id."""
    ids = {ticket.id for ticket in waiting.tickets}
    return replace(
        waiting,
        ticket_ids=[id for id in waiting.ticket_ids if id not in ids],
        tickets=[replace(ticket, id="", updated_us=0) for ticket in waiting.tickets],
    )


def commitment(node: NewNode, created_us: int) -> bytes:
    """What the chain knows of a new node: `commit_fields` of its row, without the detour."""
    envelope = (
        node.salt,
        node.role,
        node.kind,
        node.label,
        node.run_id,
        node.meta,
        node.format,
        "".join(node.refs) if node.refs else "",
        created_us,
    )
    return sha256(_pack(envelope) + node.body).digest()


def commit_fields(
    salt: bytes,
    role: int | None,
    kind: str,
    label: str,
    run_id: str | None,
    meta: bytes | None,
    format: str | None,
    refs: str,
    created_us: int,
    body: bytes,
) -> bytes:
    """The commitment of a node, from the fields of its row."""
    envelope = (salt, role, kind, label, run_id, meta, format, refs, created_us)
    return sha256(_pack(envelope) + body).digest()


def amendment_commitment(amendment: Amendment) -> bytes:
    """What the chain knows of an amendment."""
    return sha256(frame(amendment.salt, amendment.patch)).digest()


def link(
    previous: bytes,
    *,
    revision: int,
    turn: str,
    kind: str,
    hash: bytes,
    created_us: int,
    leaf: int,
    tip: int | None,
    usage: bytes | None,
    effects: bytes | None,
    nodes: Iterable[tuple[int, int, str, bytes]],
) -> bytes:
    """The next link; nodes are (ord, parent ord, id, commitment) in commit order.

    `usage` is the digest of the turn's usage, so that usage can be deleted and the chain holds.
    """
    row = (previous, revision, turn, kind, hash, created_us, leaf, tip, usage, effects)
    return sha256(_pack((row, list(nodes)))).digest()
