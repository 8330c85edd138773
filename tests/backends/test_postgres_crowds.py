"""Threads that send for each other: nobody waits for ever, whoever is stopped in the middle.

A right to send that is lost would leave everybody waiting; all waits here have an end.
"""

from __future__ import annotations

import ctypes
import gc
import random
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import pytest

from ledgerstone.commands.work import EnqueueWork, NewBatch, TakeWork
from ledgerstone.engines.postgres.backend import PostgresBackend
from ledgerstone.engines.postgres.planned import flusher as postgres_flusher
from ledgerstone.engines.postgres.planned.flusher import BlockingFlusher
from ledgerstone.engines.postgres.planned.queue import CommandQueue
from ledgerstone.errors import OutcomeUnknown, Timeout
from ledgerstone.records.work import QUEUE_DEFAULT
from tests.backends.planned import TENANT, TTL_US, commit, make, opened, verified

PATIENCE_S = 60.0
STOPS = 150
NAMES = [f"s{n:02}" for n in range(24)]


class Stopped(BaseException):
    """Stands for KeyboardInterrupt in a thread that is not the first."""


@pytest.fixture
def here(postgres_url: str) -> Iterator[PostgresBackend]:
    with opened(postgres_url) as backend:
        make(backend, *NAMES)
        yield backend


def flusher_of(backend: PostgresBackend) -> BlockingFlusher:
    hot = backend._blocking.hot
    assert isinstance(hot, BlockingFlusher)
    return hot


def assert_at_rest(backend: PostgresBackend) -> None:
    """Nobody sends, nobody waits, and every session takes the next command at once."""
    flusher = flusher_of(backend)
    line: Any = flusher._line
    assert flusher._sender is None or flusher._sender.done
    assert not line.waiting
    assert not line._of
    started_s = time.monotonic()
    for name in NAMES:
        backend.write(commit(name, "last"))
    assert time.monotonic() - started_s < PATIENCE_S


def together(jobs: list[Any]) -> list[Any]:
    """Each in a thread of its own; what became of them, none of which may take for ever."""
    pool = ThreadPoolExecutor(len(jobs))
    try:
        futures = [pool.submit(job) for job in jobs]
        _, late = wait(futures, PATIENCE_S)
        assert not late, f"{len(late)} of {len(jobs)} threads still wait"
        return [future.exception() or future.result() for future in futures]
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def test_who_is_done_gathers_for_the_next_call(
    here: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    call = CommandQueue.call

    async def counted(line: CommandQueue, group: Any) -> Any:
        sizes.append(len(group))
        # A server that is some way off: what comes meanwhile travels together.
        time.sleep(0.02)
        return await call(line, group)

    monkeypatch.setattr(CommandQueue, "call", counted)

    def write(name: str) -> None:
        for n in range(5):
            here.write(commit(name, f"t{n}"))

    together([lambda name=name: write(name) for name in NAMES])
    assert sum(sizes) == 5 * len(NAMES)
    assert len(sizes) <= 5 * len(NAMES) / 4
    assert [verified(here, name) for name in NAMES] == [5] * len(NAMES)
    assert_at_rest(here)


# Stopped between having a connection and keeping it: nobody is left who could close it.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("seed", range(3))
def test_threads_that_are_stopped_anywhere(
    here: PostgresBackend, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(postgres_flusher, "LOOK_S", 0.05)
    chance = random.Random(seed)
    running = set[int]()
    ended = threading.Event()

    def write(name: str) -> int:
        stopped = n = 0
        while n < 12:
            try:
                running.add(threading.get_ident())
                here.write(commit(name, f"t{n}"))
                running.discard(threading.get_ident())
            except Stopped:
                # Whatever it was doing: repeating the call settles it.
                stopped += 1
                continue
            n += 1
        return stopped

    def survive(name: str) -> int:
        while True:
            try:
                return write(name)
            except Stopped:
                continue

    def stop_some() -> None:
        for _ in range(STOPS):
            if ended.wait(0.01 * chance.random()):
                return
            if running:
                ident = chance.choice(sorted(running))
                running.discard(ident)
                raise_in(ident)

    hunter = threading.Thread(target=stop_some)
    hunter.start()
    try:
        answers = together([lambda name=name: survive(name) for name in NAMES[:12]])
    finally:
        ended.set()
        hunter.join(PATIENCE_S)
    assert all(isinstance(answer, int) for answer in answers), answers
    assert [verified(here, name) for name in NAMES[:12]] == [12] * 12
    assert_at_rest(here)
    gc.collect()


def raise_in(ident: int) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), ctypes.py_object(Stopped))


def test_whose_time_is_over_goes_and_the_others_stay(
    here: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    flusher = flusher_of(here)
    line: Any = flusher._line
    call, began, go_on = CommandQueue.call, threading.Event(), threading.Event()

    async def held(line: CommandQueue, group: Any) -> Any:
        began.set()
        assert go_on.wait(PATIENCE_S)
        return await call(line, group)

    monkeypatch.setattr(CommandQueue, "call", held)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(here.write, commit("s00", "t1"))
        assert began.wait(PATIENCE_S)
        patient = pool.submit(here.write, commit("s01", "t1"))
        wait([patient], 0.05)
        line.limit_s = 0.1
        hasty = [pool.submit(here.write, commit(name, "t1")) for name in ("s02", "s00", "s03")]
        for one in hasty:
            assert isinstance(one.exception(PATIENCE_S), Timeout)
        line.limit_s = 30.0
        later = pool.submit(here.write, commit("s02", "t2"))
        wait([later], 0.05)
        go_on.set()
        assert first.result(PATIENCE_S).revision == 1
        assert patient.result(PATIENCE_S).revision == 1
        # What timed out was not sent: this one is the first of its session.
        assert later.result(PATIENCE_S).revision == 1
    assert [verified(here, name) for name in ("s00", "s01", "s02", "s03")] == [1, 1, 1, 0]
    assert_at_rest(here)


def test_one_in_a_call_that_takes_too_long_is_not_told_a_lie(
    here: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its own time is over while another thread's call carries it."""
    flusher = flusher_of(here)
    line: Any = flusher._line
    call, go_on, sizes = CommandQueue.call, threading.Event(), list[int]()
    first_began = threading.Event()

    async def held(line: CommandQueue, group: Any) -> Any:
        sizes.append(len(group))
        first_began.set()
        if len(sizes) == 1:
            time.sleep(0.2)
        else:
            assert go_on.wait(PATIENCE_S)
        return await call(line, group)

    monkeypatch.setattr(CommandQueue, "call", held)
    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(here.write, commit("s00", "t1"))
        assert first_began.wait(PATIENCE_S)
        heir = pool.submit(here.write, commit("s01", "t1"))
        wait([heir], 0.05)
        line.limit_s = 0.4
        carried = pool.submit(here.write, commit("s02", "t1"))
        assert isinstance(carried.exception(PATIENCE_S), OutcomeUnknown)
        line.limit_s = 30.0
        go_on.set()
        assert first.result(PATIENCE_S).revision == 1
        assert heir.result(PATIENCE_S).revision == 1
    assert sizes[1] == 2
    assert here.write(commit("s02", "t1")).replayed
    assert_at_rest(here)


def test_a_baton_that_was_dropped_is_picked_up(
    here: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if its thread had been stopped between being done and handing it on."""
    monkeypatch.setattr(postgres_flusher, "LOOK_S", 0.05)
    flusher = flusher_of(here)
    dropped: list[Any] = []
    hand_on = BlockingFlusher._hand_on

    def forgetful(self: BlockingFlusher, job: Any) -> list[Any]:
        bells = hand_on(self, job)
        if self is flusher and job.done and len(dropped) % 2 == 0:
            self._sender = job
            bells = []
        dropped.append(job)
        return bells

    monkeypatch.setattr(BlockingFlusher, "_hand_on", forgetful)

    def write(name: str) -> None:
        for n in range(3):
            here.write(commit(name, f"t{n}"))

    answers = together([lambda name=name: write(name) for name in NAMES])
    assert answers == [None] * len(NAMES)
    assert [verified(here, name) for name in NAMES] == [3] * len(NAMES)


def test_the_queue_is_served_in_the_same_way(here: PostgresBackend) -> None:
    for name in NAMES:
        batch = NewBatch(session=name, id=f"w {name}", payloads=b"[1]")
        here.write(EnqueueWork(tenant=TENANT, batch=batch))

    def take(n: int) -> Any:
        return here.write(
            TakeWork(
                tenant=TENANT, queue=QUEUE_DEFAULT, owner=f"w{n}", lease_token=f"l{n}",
                claim=f"c{n}", claim_token=f"k{n}", ttl_us=TTL_US, max_batches=10,
            )
        )  # fmt: skip

    taken = together([lambda n=n: take(n) for n in range(len(NAMES) + 4)])
    sessions = [one.lease.session for one in taken if one is not None]
    assert sorted(sessions) == NAMES
    assert taken.count(None) == 4
