"""Commits made by hand, without the API: their ids are known before they are sent."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands import FREE, Guard
from ledgerstone.commands.turns import CommitTurn, NewNode
from ledgerstone.records.sessions import Session
from ledgerstone.rules.chain import turn_hash

TENANT = "default"


def commit_of(
    session: str,
    turn: str,
    *texts: str,
    guard: Guard = FREE,
    create: bool = True,
    kind: str = "turn",
) -> CommitTurn:
    """A turn of plain nodes, named after it."""
    nodes = tuple(
        NewNode(f"{turn}.{n}", "event", None, b'"' + text.encode() + b'"', b"salt")
        for n, text in enumerate(texts)
    )
    command = CommitTurn(
        tenant=TENANT,
        session=session,
        turn=turn,
        kind=kind,
        nodes=nodes,
        guard=guard,
        create=Session(id=session) if create else None,
    )
    return replace(command, hash=turn_hash(command))
