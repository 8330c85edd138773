"""The end of a lease: a renewal and a takeover at the same moment, and calls of strangers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from functools import partial
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from ledgerstone.clock import SystemClock
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import GetLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.errors import Fenced, LeaseExpired, LeaseHeld, LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.records.sessions import Session
from ledgerstone.testing.faults.commits import TENANT, commit_of

SHORT_US = (300, 2_000)
EARLY_US = (-300, 300)
LONG_US = 600_000_000
ROUND_WAIT_S = 60.0

_clock = SystemClock()


class Ends(msgspec.Struct):
    """Who got the lease at its end, how often."""

    renewed: int = 0
    taken: int = 0
    neither: int = 0
    violations: list[str] = []


def race_for_the_end(
    holder: Backend, rival: Backend, rounds: int, seed: int, *, trip_us: int = 0
) -> Ends:
    """The holder renews and the rival takes when the lease runs out: never do both get it.

    A call may take up to about `trip_us` until it is judged; so much earlier it may be sent.
    """
    random, ends = Random(seed), Ends()
    session = "end"
    holder.write(CreateSession(tenant=TENANT, session=Session(id=session), ensure=True))
    together, answers = threading.Barrier(3), [None, None]
    jobs: list[Callable[[], Any]] = [lambda: None, lambda: None]

    def live(n: int) -> None:
        for _ in range(rounds):
            together.wait(ROUND_WAIT_S)
            answers[n] = _outcome(jobs[n])
            together.wait(ROUND_WAIT_S)

    threads = [threading.Thread(target=live, args=(n,), daemon=True) for n in range(2)]
    for thread in threads:
        thread.start()
    for number in range(rounds):
        ttl_us = trip_us + random.randint(*SHORT_US)
        lease = holder.write(_take(session, "holder", f"h{number}", ttl_us))
        assert lease is not None, "the round before gave it back"
        taking = _take(session, "rival", f"r{number}", LONG_US)
        for n, backend, command in ((0, holder, _renewal(lease)), (1, rival, taking)):
            jobs[n] = _later(lease, random.randint(-trip_us, 0), random, backend, command)
        together.wait(ROUND_WAIT_S)
        together.wait(ROUND_WAIT_S)
        _judge(holder, rival, lease, answers[0], answers[1], ends)
    for thread in threads:
        thread.join()
    return ends


def try_as_a_stranger(backend: Backend, tries: int, seed: int) -> Iterator[str]:
    """Calls with another owner, token or fence than the holder's; a sentence for each success."""
    random, session = Random(seed), "strange"
    backend.write(CreateSession(tenant=TENANT, session=Session(id=session), ensure=True))
    old = _granted(backend, session, "token 0")
    lease = _granted(backend, session, "token 1")
    for number in range(tries):
        if random.random() < 0.05:
            old, lease = lease, _granted(backend, session, f"again {number}")
        forged = random.choice(_forged(lease, old))
        command = random.choice(_guarded(session, forged, number))
        answer = _outcome(partial(backend.write, command))
        if answer not in ("Fenced", "LeaseExpired", "LeaseHeld", False):
            yield f"try {number}: {type(command).__name__} of {forged} got {answer}"
        kept = backend.read([GetLease(tenant=TENANT, session=session)])[0]
        if kept != lease:
            yield f"try {number}: the lease is {kept} now, not {lease}"
            lease = _granted(backend, session, f"after {number}")


def _granted(backend: Backend, session: str, token: str) -> Lease:
    lease = backend.write(_take(session, "owner", token, LONG_US))
    assert lease is not None, "only one owner takes this session"
    return lease


def _forged(lease: Lease, old: Lease) -> list[Lease]:
    """Everything that is nearly the lease."""
    return [
        replace(lease, token="guessed"),
        replace(lease, token=old.token),
        replace(lease, fence=lease.fence - 1),
        replace(lease, fence=lease.fence + 1),
        replace(lease, fence=0),
        replace(old, token=lease.token),
        old,
    ]


def _guarded(session: str, forged: Lease, number: int) -> list[Command[Any]]:
    """What such a one may try; a commit proves itself by fence and token alone."""
    stranger = replace(forged, owner="stranger")
    guard = Guard(forged.fence, forged.token)
    return [
        _renewal(forged),
        _renewal(stranger),
        _release(forged),
        _release(stranger),
        commit_of(session, f"forged {number}", "x", guard=guard),
        commit_of(session, f"free {number}", "x"),
    ]


def _judge(
    holder: Backend, rival: Backend, lease: Lease, renewed: Any, taken: Any, ends: Ends
) -> None:
    where = f"fence {lease.fence}"
    if isinstance(renewed, Lease) and isinstance(taken, Lease):
        ends.violations.append(f"{where}: renewed and taken as {taken.fence}")
    if isinstance(taken, Lease) and taken.fence != lease.fence + 1:
        ends.violations.append(f"{where}: taken as {taken.fence}")
    if not isinstance(renewed, Lease) and renewed not in ("Fenced", "LeaseExpired"):
        ends.violations.append(f"{where}: the renewal got {renewed}")
    for backend, mine, grant in ((holder, lease, renewed), (rival, taken, taken)):
        if not isinstance(mine, Lease):
            continue
        command = commit_of(
            lease.session, f"by {mine.token}", "x", guard=Guard(mine.fence, mine.token)
        )
        accepted = not isinstance(_outcome(partial(backend.write, command)), str)
        if accepted != isinstance(grant, Lease):
            ends.violations.append(f"{where}: a commit of {mine.owner} {accepted=}")
    ends.renewed += isinstance(renewed, Lease)
    ends.taken += isinstance(taken, Lease)
    ends.neither += not isinstance(renewed, Lease) and not isinstance(taken, Lease)
    if isinstance(taken, Lease):
        rival.write(_release(taken))
    holder.write(_release(lease))


def _later(
    lease: Lease, off_us: int, random: Random, backend: Backend, command: Command[Any]
) -> Callable[[], Any]:
    """Send the command at about the moment when the lease runs out."""
    at_us = lease.expires_us + off_us + random.randint(*EARLY_US)

    def send() -> Any:
        # It spins for a few milliseconds at most: no sleep ends so exactly.
        while _clock.now_us() < at_us:
            pass
        return backend.write(command)

    return send


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except (Fenced, LeaseExpired, LeaseHeld) as error:
        return type(error).__name__
    except LedgerstoneError as error:
        return f"unexpected {type(error).__name__}"


def _take(session: str, owner: str, token: str, ttl_us: int) -> TakeLease:
    return TakeLease(tenant=TENANT, session=session, owner=owner, token=token, ttl_us=ttl_us)


def _renewal(lease: Lease) -> RenewLease:
    owner, token, fence = lease.owner, lease.token, lease.fence
    return RenewLease(
        tenant=TENANT,
        session=lease.session,
        owner=owner,
        token=token,
        fence=fence,
        ttl_us=LONG_US,
    )


def _release(lease: Lease) -> ReleaseLease:
    return ReleaseLease(
        tenant=TENANT,
        session=lease.session,
        owner=lease.owner,
        token=lease.token,
        fence=lease.fence,
    )
