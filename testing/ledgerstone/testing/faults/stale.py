"""A holder that is stopped past the end of its lease and wakes up as nobody.

The holder is a child that commits under its lease until it is refused. It is stopped (SIGSTOP) at
a random moment, somebody else takes the session over and commits, and it goes on (SIGCONT) as if
nothing had happened. Then it tries everything that the fence guards, once each.
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from functools import partial
from random import Random

import msgspec

from ledgerstone.api_sync.store import Store
from ledgerstone.errors import Fenced, LeaseExpired, LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import AnyLease, Lease
from ledgerstone.records.messages import user
from ledgerstone.records.work import Claim
from ledgerstone.testing.faults.commits import TENANT
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.processes import Child, Say

TTL_S = 0.05
LONG_TTL_S = 600.0
HEAR_S = 60.0
BLOCKED_S = 1.5
"""A holder that is stopped inside a transaction holds the file: it is woken after so long."""

AWAKE_S = 0.01
BLOCKED_MAX = 20

TAKE_PAUSE_S = 0.005
COMMIT_PAUSE_S = 0.003
TRIES_MAX = 1000
"""A holder that nobody refuses stops trying after so many commits."""

SUCCESSOR_TURNS = 3
DRAFT = "draft of the old one"
FIRST_NEW = "new/0"

Make = Callable[[], Backend]


class Held(msgspec.Struct, frozen=True, tag=True):
    """The child holds the lease of this session."""

    session: str
    fence: int


class Woken(msgspec.Struct, frozen=True, tag=True):
    """What the child did and what became of every stale write of it."""

    session: str
    acked: tuple[str, ...]
    ended: str
    answers: dict[str, str]
    by_itself: int = 0


class Tally(msgspec.Struct):
    """What a series of rounds came to; `stale` counts refused and accepted stale writes.

    `blocked`: how often the stopped holder had the file locked. `by_itself`: how often it was
    refused before anybody had taken over.
    """

    rounds: int = 0
    stale: int = 0
    blocked: int = 0
    by_itself: int = 0
    violations: list[str] = []


_decoder = msgspec.json.Decoder(Held | Woken)


def stop_often(
    make: Make,
    *,
    rounds: int,
    seed: int,
    heartbeat: bool,
    change: Callable[[Backend], Backend] | None = None,
) -> Tally:
    """Stop a holder past its time again and again; `change` is applied to its backend only."""
    random, tally = Random(seed), Tally()
    backend = make()
    child = Child(hold_on, make, heartbeat, change)
    try:
        for _ in range(rounds):
            _round(backend, child, random, tally)
    finally:
        child.kill()
        backend.close()
    return tally


def hold_on(
    say: Say, make: Make, heartbeat: bool, change: Callable[[Backend], Backend] | None
) -> None:
    """The life of the holder: one session after the other, until it is killed."""
    backend = make()
    store = Store(backend if change is None else change(backend))
    for number in range(1_000_000):
        session = f"held-{number}"
        store.messages.append(session, user("first", id="first"), create=True)
        store.work.enqueue(session, {"n": number})
        if not heartbeat:
            lease = store.leases.take(session, owner="old", ttl_s=TTL_S)
            assert lease is not None
            say(msgspec.json.encode(_commit_until_refused(say, store, lease)))
            continue
        try:
            with store.leases.hold(session, owner="old", ttl_s=TTL_S) as held:
                say(msgspec.json.encode(_commit_until_refused(say, store, held)))
        except LedgerstoneError:
            continue  # What is given back at the end of the block was not ours any more.


def _round(backend: Backend, child: Child, random: Random, tally: Tally) -> None:
    heard = child.hear(HEAR_S)
    held = _decoder.decode(next(heard))
    assert isinstance(held, Held), "a round begins with a lease"
    threading.Event().wait(random.uniform(0, TTL_S / 2))
    os.kill(child.pid, signal.SIGSTOP)
    store = Store(backend)
    try:
        lease, blocked = _take_over(store, held.session, child.pid)
        tally.blocked += blocked
        turns = [_commit(store, lease, FIRST_NEW)]
    finally:
        os.kill(child.pid, signal.SIGCONT)
    for n in range(1, SUCCESSOR_TURNS):
        turns.append(_commit(store, lease, f"new/{n}"))
    if random.random() < 0.5:
        store.leases.release(lease)
    woken = _decoder.decode(next(heard))
    assert isinstance(woken, Woken), "the woken holder tells what it met"
    tally.rounds += 1
    tally.stale += len(woken.answers) + 1
    tally.by_itself += woken.by_itself
    tally.violations += _judge(backend, held, lease, woken, turns)


def _take_over(store: Store, session: str, pid: int) -> tuple[Lease, int]:
    """The lease, once the old one ran out, and how often the stopped holder had the file locked.

    Such a one is woken for a moment, and stopped again.
    """
    granted: list[Lease] = []

    def take() -> None:
        while not granted:
            lease = store.leases.take(session, owner="new", ttl_s=LONG_TTL_S)
            if lease is not None:
                granted.append(lease)
            threading.Event().wait(TAKE_PAUSE_S)

    taker = threading.Thread(target=take, daemon=True)
    taker.start()
    for blocked in range(BLOCKED_MAX):
        taker.join(BLOCKED_S)
        if granted:
            return granted[0], blocked
        os.kill(pid, signal.SIGCONT)
        threading.Event().wait(AWAKE_S)
        os.kill(pid, signal.SIGSTOP)
    raise AssertionError("nobody could take the session over")


def _judge(
    backend: Backend, held: Held, lease: Lease, woken: Woken, turns: list[str]
) -> Iterator[str]:
    where = held.session
    if lease.fence <= held.fence:
        yield f"{where}: fence {lease.fence} follows {held.fence}"
    if woken.ended != "Fenced":
        yield f"{where}: the stale holder's commits ended with {woken.ended}"
    for name, answer in woken.answers.items():
        if answer not in EXPECTED[name]:
            yield f"{where}: stale {name} got {answer}"
    found = read_back(backend, TENANT, where)
    names = [turn.turn for turn in found.turns if turn.turn.startswith(("old/", "new/"))]
    if names != sorted(names, key=lambda name: name.startswith("new/")):
        yield f"{where}: a turn of the stale holder came after its successor's: {names}"
    lost = [turn for turn in (*woken.acked, *turns) if turn not in names]
    if lost:
        yield f"{where}: acknowledged and not there: {lost}"
    others = [turn.turn for turn in found.turns if turn.turn not in names]
    if len(others) != 1:
        yield f"{where}: turns of nobody: {others}"
    if DRAFT in found.nodes:
        yield f"{where}: a stale draft became a message"
    yield from (f"{where}: {defect.kind} {defect.detail}" for defect in found.defects)


def _commit(store: Store, lease: AnyLease, name: str) -> str:
    turn = store.turns.begin(lease, id=name)
    turn.user(name)
    return turn.commit().turn


def _commit_until_refused(say: Say, store: Store, lease: AnyLease) -> Woken:
    claim = _claimed(store, lease)
    say(msgspec.json.encode(Held(lease.session, lease.fence)))
    acked: list[str] = []
    ended, by_itself = "nobody refused it", 0
    for _ in range(TRIES_MAX):
        try:
            acked.append(_commit(store, lease, f"old/{len(acked)}"))
        except LeaseExpired:
            pass  # Not yet taken over: go on until somebody says so.
        except Fenced:
            if store.turns.get(lease.session, FIRST_NEW) is not None:
                ended = "Fenced"
                break
            by_itself += 1  # Nobody has taken over yet: its own heartbeat took the lease again.
        threading.Event().wait(COMMIT_PAUSE_S)
    answers = {name: _answer(partial(write, store, lease)) for name, write in STALE_WRITES.items()}
    if claim is not None:
        for name, use in STALE_CLAIMS.items():
            answers[name] = _answer(partial(use, store, lease, claim))
    return Woken(lease.session, tuple(acked), ended, answers, by_itself)


def _claimed(store: Store, lease: AnyLease) -> Claim | None:
    """What it works on; on a slow machine the lease may be over before that."""
    try:
        return store.work.claim(lease)
    except LedgerstoneError:
        return None


def _answer(write: Callable[[], object]) -> str:
    try:
        return repr(write())
    except LedgerstoneError as error:
        return type(error).__name__


def _complete(store: Store, lease: AnyLease, claim: Claim) -> object:
    turn = store.turns.begin(lease)
    turn.complete(claim)
    return turn.commit()


def _draft(store: Store, lease: AnyLease) -> int:
    return store.nodes.annotate(lease.session, DRAFT, {"seen": "by nobody"})


STALE_WRITES: dict[str, Callable[[Store, AnyLease], object]] = {
    "append": lambda store, lease: store.messages.append(lease.session, user("x"), lease=lease),
    "replace": lambda store, lease: store.messages.replace(lease.session, [user("x")], lease=lease),
    "pop": lambda store, lease: store.messages.pop(lease.session, lease=lease),
    "clear": lambda store, lease: store.messages.clear(lease.session, lease=lease),
    "amend": lambda store, lease: store.messages.amend(
        "first", session=lease.session, lease=lease, metadata={"x": 1}
    ),
    "delete": lambda store, lease: store.messages.delete(
        "first", session=lease.session, lease=lease
    ),
    "node": lambda store, lease: store.nodes.append(lease.session, {"kind": "k"}, lease=lease),
    "tombstone": lambda store, lease: store.nodes.tombstone(lease.session, ["first"], lease=lease),
    "branch": lambda store, lease: store.branches.create(lease.session, "b", lease=lease),
    "claim": lambda store, lease: store.work.claim(lease),
    "renew": lambda store, lease: store.leases.renew(lease),
    # Notes and drafts are not guarded: what matters is that they stay notes.
    "note": _draft,
    "release": lambda store, lease: store.leases.release(lease),
}

STALE_CLAIMS: dict[str, Callable[[Store, AnyLease, Claim], object]] = {
    "claim, completed": _complete,
    "claim, renewed": lambda store, lease, claim: store.work.renew(claim),
    "claim, failed": lambda store, lease, claim: store.work.fail(claim, "too late"),
    "claim, handed back": lambda store, lease, claim: store.work.abandon(claim),
}

EXPECTED = dict.fromkeys(STALE_WRITES, ("Fenced",)) | {
    "note": ("1",),
    "release": ("False",),
    "claim, completed": ("Fenced",),
    "claim, renewed": ("ClaimLost",),
    "claim, failed": ("ClaimLost",),
    "claim, handed back": ("False",),
}
