"""Many processes take from one line: nothing twice or lost, one worker per session, in order."""

from __future__ import annotations

import multiprocessing
from collections import defaultdict
from itertools import pairwise
from multiprocessing.connection import Connection
from typing import NamedTuple

from ledgerstone import Store
from ledgerstone.clock import monotonic_s

PROCESSES = 4
SESSIONS = 12
EACH = 25
LIMIT_S = 120.0
SPAWN = multiprocessing.get_context("spawn")


class Done(NamedTuple):
    """What one worker did with one session: between these moments it held it."""

    session: str
    numbers: list[int]
    from_s: float
    to_s: float


def serve(url: str, most: int, answers: Connection) -> None:
    """Takes until nothing is left for a while; half of the workers put more into the line."""
    done: list[Done] = []
    with Store.open(url) as store:
        idle = 0
        while idle < 20:
            taken = store.work.take(max=most, ttl_s=LIMIT_S)
            if taken is None:
                idle += 1
                continue
            idle, from_s = 0, monotonic_s()
            draft = store.turns.begin(taken.lease)
            draft.complete(taken.claim)
            numbers = [payload["n"] for payload in taken.claim.payloads]
            done.append(Done(taken.lease.session, numbers, from_s, monotonic_s()))
            draft.commit(release=True)
    answers.send(done)
    answers.close()


def work_off(url: str, sessions: int, each: int, most: int, processes: int) -> list[Done]:
    """Fill the queues while the workers take from them."""
    pipes, workers = [], []
    with Store.open(url) as store:
        for n in range(sessions):
            store.sessions.create(id=f"s{n}")
            store.work.enqueue(f"s{n}", {"n": 0})
        for _ in range(processes):
            ours, theirs = SPAWN.Pipe(duplex=False)
            worker = SPAWN.Process(target=serve, args=(url, most, theirs), daemon=True)
            worker.start()
            theirs.close()
            pipes.append(ours)
            workers.append(worker)
        for number in range(1, each):
            for n in range(sessions):
                store.work.enqueue(f"s{n}", {"n": number}, slot="join", merge="payload")
        done = [one for pipe in pipes for one in pipe.recv()]
        for worker in workers:
            worker.join(LIMIT_S)
        # The workers may have left before the last came.
        while (taken := store.work.take(max=most)) is not None:
            now_s = monotonic_s()
            numbers = [payload["n"] for payload in taken.claim.payloads]
            done.append(Done(taken.lease.session, numbers, now_s, now_s))
            draft = store.turns.begin(taken.lease)
            draft.complete(taken.claim)
            draft.commit(release=True)
        assert store.admin.verify().defects == []
    return done


def check(done: list[Done], sessions: int, each: int) -> None:
    by_session: dict[str, list[Done]] = defaultdict(list)
    for one in sorted(done, key=lambda one: one.from_s):
        by_session[one.session].append(one)
    assert len(by_session) == sessions
    for ones in by_session.values():
        assert [number for one in ones for number in one.numbers] == list(range(each))
        for before, after in pairwise(ones):
            assert before.to_s <= after.from_s


def test_four_processes_work_off_one_line(postgres_url: str) -> None:
    check(work_off(postgres_url, SESSIONS, EACH, 3, PROCESSES), SESSIONS, EACH)
