"""Commands for tests of planned commands, and ways to send many of them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from ledgerstone.codec import encode_struct
from ledgerstone.commands import Command
from ledgerstone.commands.leases import TakeLease
from ledgerstone.commands.sessions import (
    CreateSession,
)
from ledgerstone.commands.turns import CommitTurn, ListTurns, NewNode, VerifySession
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.records.messages import MessageBody
from ledgerstone.records.parts import Text
from ledgerstone.records.sessions import Session
from ledgerstone.rules.chain import turn_hash

TENANT = "default"
TTL_US = 60_000_000


def commit(session: str, turn: str, **fields: Any) -> CommitTurn:
    said = MessageBody(role="user", parts=[Text(fields.pop("text", "hello"))])
    body = encode_struct(said, "body")
    node = NewNode(f"node {session} {turn}", "message", 2, body, b"0" * 16)
    given: dict[str, Any] = {"session": session, "turn": turn, "kind": "turn", "nodes": (node,)}
    command = CommitTurn(tenant=TENANT, **(given | fields))
    return msgspec.structs.replace(command, hash=turn_hash(command))


def make(backend: PostgresBackend, *sessions: str) -> None:
    for session in sessions:
        backend.write(CreateSession(tenant=TENANT, session=Session(id=session)))


def take(session: str, owner: str = "ann", token: str = "k", ttl_us: int = TTL_US) -> TakeLease:
    return TakeLease(tenant=TENANT, session=session, owner=owner, token=token, ttl_us=ttl_us)


def verified(backend: PostgresBackend, session: str) -> int:
    """The number of commits, none of them wrong."""
    turns = backend.read([ListTurns(tenant=TENANT, session=session, limit=100_000)])[0]
    assert [turn.revision for turn in turns] == list(range(1, len(turns) + 1))
    defects = backend.read([VerifySession(tenant=TENANT, session=session)])[0].defects
    assert defects == [], defects
    return len(turns)


@contextmanager
def opened(url: str) -> Iterator[PostgresBackend]:
    backend = open_postgres(url)
    try:
        yield backend
    finally:
        backend.close()


async def all_outcomes(backend: PostgresBackend, commands: Sequence[Command[Any]]) -> list[Any]:
    waiting = [backend.awrite(command) for command in commands]
    return await asyncio.gather(*waiting, return_exceptions=True)


def at_once(url: str, *rounds: Sequence[Command[Any]]) -> list[Any]:
    """Each round from one event loop, all its commands at the same time; answers of the last."""

    async def main() -> list[Any]:
        with opened(url) as backend:
            for commands in rounds:
                answers = await all_outcomes(backend, commands)
        await asyncio.sleep(0)
        return answers

    return asyncio.run(main())


def plain_url(url: str) -> str:
    """The url without what is ours, for a bare connection."""
    return parse_target(url).dsn
