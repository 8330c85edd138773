"""Workers that take, renew, release, break, read and use leases at random, and write it all down.

Some leases are long and given back, others so short that they run out between two calls; every
worker also tries what it held before and lost.
"""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

from msgspec.structs import replace

from ledgerstone.clock import SystemClock, monotonic_s
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.leases import BreakLease, GetLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.records.sessions import Session
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.linear import Op

LONG_US = 600_000_000
SHORT_US = (1, 4_000)
LONG_SHARE = 0.6
REMEMBERED = 3
CALLS = ("take", "take", "take", "renew", "release", "release", "commit", "commit", "get", "free")
BREAK_SHARE = 0.02

_clock = SystemClock()


def make_sessions(backend: Backend, names: list[str]) -> None:
    for name in names:
        backend.write(CreateSession(tenant=TENANT, session=Session(id=name), ensure=True))


def record(backend: Backend, worker: str, names: list[str], calls: int, seed: int) -> list[Op]:
    """So many random calls of one worker, each with its answer and its times."""
    random = Random(f"{seed}/{worker}")
    held: dict[str, list[Lease]] = {}
    history = []
    for number in range(calls):
        session = random.choice(names)
        lease = random.choice(held.get(session) or [None])
        call = "break" if random.random() < BREAK_SHARE else random.choice(CALLS)
        op, command = _drawn(call, session, lease, f"{worker}/{seed}/{number}", worker, random)
        op, granted = _called(backend, op, command)
        if granted is not None and op.call == "take":
            held[session] = [*held.get(session, []), granted][-REMEMBERED:]
        history.append(op)
    return history


def flips(history: list[Op], random: Random, count: int) -> Iterator[list[Op]]:
    """The history again and again, each time with one answer changed that decides something."""
    places = [
        n for n, op in enumerate(history) if op.result == "ok" and op.call in ("take", "commit")
    ]
    for n in random.sample(places, min(count, len(places))):
        op = history[n]
        if op.call == "take":
            lie = replace(op, got_fence=op.got_fence + random.choice((-1, 1)))
        else:
            lie = replace(op, got_revision=op.got_revision + random.choice((-1, 1)))
        yield [*history[:n], lie, *history[n + 1 :]]


def _drawn(
    call: str, session: str, lease: Lease | None, name: str, worker: str, random: Random
) -> tuple[Op, Command[Any] | Query[Any]]:
    ttl_us = LONG_US if random.random() < LONG_SHARE else random.randint(*SHORT_US)
    where: dict[str, Any] = {"tenant": TENANT, "session": session}
    if call == "break":
        command: Command[Any] = BreakLease(by=worker, reason="chance", **where)
        return Op(session=session, call="break"), command
    if call == "get":
        return Op(session=session, call="get"), GetLease(**where)
    if call == "take" or (lease is None and call in ("renew", "release")):
        grant: dict[str, Any] = {"owner": worker, "token": name, "ttl_us": ttl_us}
        grant["reenter"] = random.random() < 0.5
        return Op(session=session, call="take", **grant), TakeLease(**grant, **where)
    if call == "free" or lease is None:
        return Op(session=session, call="commit"), commit_of(session, name, "x")
    identity: dict[str, Any] = {"owner": lease.owner, "token": lease.token, "fence": lease.fence}
    op = Op(session=session, call=call, ttl_us=ttl_us, **identity)
    if call == "renew":
        return op, RenewLease(ttl_us=ttl_us, **identity, **where)
    if call == "release":
        return op, ReleaseLease(**identity, **where)
    return op, commit_of(session, name, "x", guard=Guard(lease.fence, lease.token))


def _called(
    backend: Backend, op: Op, command: Command[Any] | Query[Any]
) -> tuple[Op, Lease | None]:
    """The call with its answer and times; the store's time is asked outside of its own."""
    start_us, start_s = _clock.now_us(), monotonic_s()
    answer: Any = None
    result = "ok"
    try:
        if isinstance(command, Query):
            answer = backend.read([command])[0]
        else:
            answer = backend.write(command)
    except LedgerstoneError as error:
        result = type(error).__name__
    end_s, end_us = monotonic_s(), _clock.now_us()
    if result == "ok" and (answer is None or answer is False):
        result = "no"
    op = replace(op, start_us=start_us, start_s=start_s, end_us=end_us, end_s=end_s, result=result)
    if isinstance(answer, TurnCommitted):
        return replace(op, got_revision=answer.revision), None
    if not isinstance(answer, Lease):
        return op, None
    op = replace(
        op, got_token=answer.token, got_fence=answer.fence, got_expires_us=answer.expires_us
    )
    return op, answer


def play(
    names: list[str], calls: int, seed: int, backend: Backend, number: int, racer: int
) -> list[Op]:
    """One round of a `Race`."""
    return record(backend, f"p{racer}", names, calls, seed * 1_000_003 + number)
