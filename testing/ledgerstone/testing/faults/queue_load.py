"""Producers and workers on one queue; `queue_accounts` keeps the books.

Producers enqueue numbered items over many sessions. Workers take whatever is ready and commit it
as messages, together with the end of the claim. Here they are threads: nobody can be killed, so a
worker forgets what it holds now and then, or sleeps too long over it. `queue_crew` has processes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random

import msgspec

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import monotonic_s
from ledgerstone.commands.work import PeekWork
from ledgerstone.errors import Busy, ClaimLost, Fenced, LeaseExpired, OutcomeUnknown
from ledgerstone.ports.backend import Backend
from ledgerstone.records.work import PRIORITY_DEFAULT, QUEUE_DEFAULT, Taken
from ledgerstone.testing.faults.commits import TENANT
from ledgerstone.testing.faults.crowds import switching_often
from ledgerstone.testing.faults.queue_accounts import (
    Books,
    Claimed,
    Completed,
    Diary,
    Put,
    Refused,
    Sent,
    read_diary,
)

PRODUCERS = 2
WORKERS = 6
SESSIONS = 50
URGENT = PRIORITY_DEFAULT - 28
IDLE_S = 0.002
JOINED_MAX = 3
LOOK_S = 0.01
DONE = b"done"

Make = Callable[[], Backend]


class Load(msgspec.Struct, frozen=True):
    """How much work there is, and how badly it is done."""

    items: int
    seed: int
    ttl_s: float = 0.25
    pause_s: float = 0.005
    forget_share: float = 0.0
    stall_share: float = 0.0
    abandon_share: float = 0.02
    renew_share: float = 0.05
    every_s: float = 0.1
    time_s: float = 900.0


class Report(msgspec.Struct):
    """The books and what the nemesis did."""

    books: Books
    kills: int = 0
    stops: int = 0


def session_of(number: int) -> str:
    """Items that follow each other go to different sessions; each session has one producer."""
    return f"s{number % SESSIONS}"


SESSION_NAMES = [session_of(n) for n in range(SESSIONS)]


# --- the two roles


def produce(store: Store, diary: Diary, load: Load, share: int, first: int) -> None:
    """Enqueue every PRODUCERS-th item from `first` on; in half of the sessions they join."""
    random = Random(f"{load.seed}/{share}/{first}")
    for number in range(first, load.items, PRODUCERS):
        session, item = session_of(number), f"i{number}"
        priority = URGENT if random.random() < 0.2 else PRIORITY_DEFAULT
        joins = number % SESSIONS < SESSIONS // 2
        diary.write(Sent(item))
        try:
            batch = store.work.enqueue(
                session,
                item,
                id=item,
                priority=priority,
                slot="join" if joins else "exclusive",
                merge="payload" if joins else "never",
                max_attempts=None,
            )
        except OutcomeUnknown:
            continue  # It may be there or not, as after a kill.
        diary.write(Put(session, item, batch.enqueue_seq, priority))


def work(
    store: Store, diary: Diary, load: Load, name: str, over: Callable[[], bool] = lambda: False
) -> None:
    """Take, work, commit, until it is over."""
    random = Random(f"{load.seed}/{name}")
    while not over():
        start_s = monotonic_s()
        try:
            taken = store.work.take(owner=name, ttl_s=load.ttl_s, max=random.randint(1, JOINED_MAX))
        except (Busy, OutcomeUnknown):
            continue  # Somebody was stopped with the file in his hands, or the answer got lost.
        if taken is None:
            time.sleep(IDLE_S)
            continue
        lease, claim = taken
        items = tuple(claim.payloads)
        diary.write(
            Claimed(name, lease.session, claim.id, claim.fence, items, start_s, monotonic_s())
        )
        try:
            _finish(store, diary, load, taken, random)
        except (Fenced, LeaseExpired, ClaimLost, Busy, OutcomeUnknown) as error:
            diary.write(Refused(claim.id, type(error).__name__))


def _finish(store: Store, diary: Diary, load: Load, taken: Taken, random: Random) -> None:
    lease, claim = taken
    draw = random.random()
    if draw < load.forget_share:
        return
    if draw < load.forget_share + load.stall_share:
        time.sleep(load.ttl_s * 1.5)
    elif random.random() < load.abandon_share:
        store.work.abandon(claim)
        store.leases.release(lease)
        return
    elif random.random() < load.renew_share:
        store.work.renew(claim, ttl_s=load.ttl_s)
        store.leases.renew(lease, ttl_s=load.ttl_s)
    else:
        time.sleep(random.random() * load.pause_s)
    turn = store.turns.begin(lease)
    for item in claim.payloads:
        turn.user(item, metadata={"claim": claim.id, "fence": claim.fence})
    turn.complete(claim)
    start_s = monotonic_s()
    turn.commit(release=True)
    diary.write(Completed(claim.session, claim.id, claim.fence, start_s))


def is_drained(backend: Backend) -> bool:
    """Whether no session has anything to do any more."""
    (due_us,) = backend.read([PeekWork(tenant=TENANT, queue=QUEUE_DEFAULT)])
    return due_us is None


def prepared(backend: Backend) -> Store:
    """A store in which all sessions are there."""
    store = Store(backend)
    for session in SESSION_NAMES:
        store.sessions.ensure(session)
    return store


def diary_path(folder: Path, name: str) -> Path:
    return folder / f"{name}.diary"


def next_number(path: Path, share: int) -> int:
    """Where a producer goes on after the one before it was killed."""
    numbers = [int(one.item[1:]) for one in read_diary(path) if isinstance(one, Sent)]
    return max(numbers, default=share - PRODUCERS) + PRODUCERS


def report(store: Store, folder: Path) -> Report:
    """The books after everybody is done."""
    books = Books()
    for path in sorted(folder.glob(diary_path(folder, "*").name)):
        books.add(read_diary(path))
    books.read(store, SESSION_NAMES)
    return Report(books)


# --- in threads


def in_threads(backend: Backend, folder: Path, load: Load) -> Report:
    """All of them on one handle, until everything is worked off."""
    run_threads(backend, folder, load)
    return report(Store(backend), folder)


def run_threads(backend: Backend, folder: Path, load: Load, life: int = 0) -> None:
    """The same; `life` counts the processes that have been at it before."""
    store, started = prepared(backend), monotonic_s()
    producing = threading.Event()
    failures: list[BaseException] = []

    def over() -> bool:
        late = monotonic_s() - started > load.time_s
        return bool(failures) or late or (producing.is_set() and is_drained(backend))

    def guarded(role: Callable[[Diary], None], path: Path) -> None:
        diary = Diary(path)
        try:
            role(diary)
        except BaseException as error:
            failures.append(error)
        finally:
            diary.close()

    def start(role: Callable[[Diary], None], path: Path) -> threading.Thread:
        thread = threading.Thread(target=guarded, args=(role, path), daemon=True)
        thread.start()
        return thread

    with switching_often():
        names = [f"w{n}-{life}" for n in range(WORKERS)]
        workers = [
            start(partial(work, store, load=load, name=name, over=over), diary_path(folder, name))
            for name in names
        ]
        producers = []
        for n in range(PRODUCERS):
            path = diary_path(folder, f"p{n}")
            role = partial(produce, store, load=load, share=n, first=next_number(path, n))
            producers.append(start(role, path))
        for thread in producers:
            thread.join()
        producing.set()
        for thread in workers:
            thread.join()
    if failures:
        raise failures[0]
