"""Poison: items that cannot be done, and what they cost the others.

One kind fails each time, the other kills whoever works on it, without a word. Workers take turns
in rounds: in each round every one of them takes one batch and ends it. So what the others lose is
counted in rounds and not in seconds.
"""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import msgspec

from ledgerstone.api_sync.store import Store
from ledgerstone.clock import ManualClock, monotonic_s
from ledgerstone.errors import BatchNotFound, Fenced, LeaseExpired
from ledgerstone.ports.backend import Backend
from ledgerstone.records.work import Taken
from ledgerstone.testing.faults.processes import Child, Say
from ledgerstone.testing.faults.queue_load import is_drained

SESSIONS = 20
WORKERS = 4
ATTEMPTS = 5
TTL_S = 3.0
ROUND_S = 1.0
PATIENCE = 10
"""How many times as long as it should take they go on."""

FAILS, KILLS = "fails", "kills"
ERROR = "cannot be done"
DYING = b"dying"
LOOK_S = 0.01
IDLE_S = 0.005
SHORT_TTL_S = 0.15


class Mix(msgspec.Struct, frozen=True):
    """How many items each session has, and how many of either poison there are beside them."""

    each: int
    poison: int = 0

    @property
    def good(self) -> list[tuple[str, str]]:
        return [(f"s{n}", f"s{n}/{item}") for item in range(self.each) for n in range(SESSIONS)]

    @property
    def bad(self) -> list[tuple[str, str]]:
        """Every poison is the first item of a session that has good ones too."""
        kinds = (FAILS, KILLS)
        return [(f"s{n}", f"{kinds[n % 2]}/{n}") for n in range(self.poison * len(kinds))]


def fill(store: Store, mix: Mix, attempts: int | None = ATTEMPTS) -> None:
    """Enqueue everything, the poison first."""
    for session, item in (*mix.bad, *mix.good):
        store.sessions.ensure(session)
        store.work.enqueue(session, item, id=item, max_attempts=attempts)


class Rounds:
    """Workers that take turns; `cured`: what was poison can be done after all."""

    def __init__(self, store: Store, clock: ManualClock, items: int) -> None:
        self._store = store
        self._clock = clock
        self._count_max = PATIENCE * (items // WORKERS + ATTEMPTS)
        self.count = 0
        self.cured = False

    def until(self, done: Callable[[], bool]) -> int:
        """The number of the round after which it is done."""
        while not done() and self.count < self._count_max:
            self.count += 1
            for n in range(WORKERS):
                taken = self._store.work.take(owner=f"w{self.count}/{n}", ttl_s=TTL_S)
                if taken is not None:
                    self._end(taken)
            self._clock.advance(ROUND_S)
        return self.count

    def _end(self, taken: Taken) -> None:
        kind = taken.claim.payloads[0].split("/")[0]
        if kind == KILLS and not self.cured:
            return  # Dead: nobody says anything, and the lease lives on.
        if kind == FAILS and not self.cured:
            self._store.work.fail(taken.claim, ERROR)
            self._store.leases.release(taken.lease)
        else:
            finish(self._store, taken)


def finish(store: Store, taken: Taken) -> None:
    """Commit what was taken."""
    turn = store.turns.begin(taken.lease)
    for item in taken.claim.payloads:
        turn.user(item)
    turn.complete(taken.claim)
    turn.commit(release=True)


def committed(store: Store) -> Counter[str]:
    """How often each item was done."""
    found: Counter[str] = Counter()
    for n in range(SESSIONS):
        if store.sessions.get(f"s{n}") is not None:
            found.update(one.text for one in store.messages.history(f"s{n}"))
    return found


class Trial:
    """One store with poison in its queue, from the first round to the replay."""

    def __init__(self, store: Store, clock: ManualClock, mix: Mix) -> None:
        self._store = store
        self._mix = mix
        self._good = {item for _, item in mix.good}
        self._bad = {item for _, item in mix.bad}
        self._rounds = Rounds(store, clock, len(mix.good) + len(mix.bad))
        fill(store, mix)

    def others(self) -> int:
        """After how many rounds everything that can be done is done."""
        return self._rounds.until(lambda: self._good <= committed(self._store).keys())

    def burial(self) -> Iterator[str]:
        """All poison becomes dead letters, after as many attempts as it has, and nothing else."""
        self._rounds.until(lambda: len(self._dead()) >= len(self._bad))
        dead = self._dead()
        yield from (f"{item} is not dead" for item in sorted(self._bad - dead.keys()))
        yield from (f"{item} is dead" for item in sorted(dead.keys() - self._bad))
        for item, (attempts, reason) in dead.items():
            wanted = ERROR if item.startswith(FAILS) else "no worker came back"
            if attempts != ATTEMPTS or wanted not in reason:
                yield f"{item} died after {attempts} attempts: {reason}"
        yield from self._counts(self._good)

    def replay(self) -> Iterator[str]:
        """Each comes back once, and is done once when it can be."""
        for item in sorted(self._bad):
            self._store.work.replay(item)
            try:
                self._store.work.replay(item)
                yield f"{item} was replayed twice"
            except BatchNotFound:
                pass
        queued = [one for n in range(SESSIONS) for one in self._store.work.list(f"s{n}")]
        if sorted(one.id for one in queued) != sorted(self._bad):
            yield f"queued after the replay: {sorted(one.id for one in queued)}"
        yield from (f"{one.id} has {one.attempts} attempts" for one in queued if one.attempts)
        self._rounds.cured = True
        everything = self._good | self._bad
        self._rounds.until(lambda: everything <= committed(self._store).keys())
        yield from self._counts(everything)
        yield from (f"{item} is dead again" for item in self._dead())

    def _dead(self) -> dict[str, tuple[int, str]]:
        page = self._store.work.dead(limit=500)
        return {one.id: (one.batch.attempts, one.reason) for one in page.items}

    def _counts(self, wanted: set[str]) -> Iterator[str]:
        found = committed(self._store)
        yield from (f"{item} was done {found[item]} times" for item in wanted if found[item] != 1)
        yield from (f"{item} was done" for item in sorted(found.keys() - wanted))


# --- with workers that are really killed


def work_or_die(say: Say, make: Callable[[], Backend], name: str) -> None:
    """The life of a worker: it ends with the first item that kills."""
    store = Store(make())
    while True:
        taken = store.work.take(owner=name, ttl_s=SHORT_TTL_S)
        if taken is None:
            time.sleep(IDLE_S)
            continue
        if taken.claim.payloads[0].startswith(KILLS):
            say(DYING)
            os.kill(os.getpid(), signal.SIGKILL)
        with suppress(Fenced, LeaseExpired):  # On a busy machine the lease may be over by now.
            finish(store, taken)


def die_often(make: Callable[[], Backend], time_s: float) -> int:
    """Workers on what is queued, each dead one replaced, until nothing is queued; the deaths."""
    backend, deaths, started = make(), 0, monotonic_s()
    crew = [Child(work_or_die, make, f"w{n}") for n in range(WORKERS)]
    try:
        while not is_drained(backend) and monotonic_s() - started < time_s:
            for n, child in enumerate(crew):
                if DYING in list(child.hear(LOOK_S)):
                    deaths += 1
                    child.kill()
                    crew[n] = Child(work_or_die, make, f"w{n}/{deaths}")
    finally:
        deaths += sum(DYING in child.kill() for child in crew)
        backend.close()
    return deaths
