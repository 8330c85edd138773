"""Waiting for a commit on PostgreSQL: of this process, of another one, behind a pooler."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from statistics import median
from typing import Any

import pytest

from ledgerstone.clock import monotonic_s
from ledgerstone.commands.leases import ReleaseLease
from ledgerstone.commands.sessions import CreateSession, GetSession
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.drivers import listener as postgres_listener
from ledgerstone.errors import StoreClosed, Unavailable
from ledgerstone.records.sessions import Session
from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.postgres import PostgresServer

LONG_S = 20.0
SHORT_S = 0.03
ROUNDS = 40
SETTLING_ROUNDS = 20
WAKE_MEDIAN_S = 0.010
SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture
def backend(postgres_url: str) -> Iterator[PostgresBackend]:
    made = open_postgres(postgres_url)
    yield made
    with suppress(StoreClosed):
        made.close()


def create(backend: PostgresBackend, name: str) -> None:
    backend.write(CreateSession(tenant="t", session=Session(id=name)))


def later(work: Any, *arguments: object, after_s: float = SHORT_S) -> threading.Timer:
    timer = threading.Timer(after_s, work, arguments)
    timer.start()
    return timer


def settled(backend: PostgresBackend) -> int:
    """The number, once nothing that ended before moves it any more."""
    seen = backend.changed(-1, 0)
    for _ in range(SETTLING_ROUNDS):
        now = backend.changed(seen, 2 * postgres_listener.LOOK_LAST_S)
        if now == seen:
            return seen
        seen = now
    raise AssertionError("somebody else writes to this server")


def threads() -> set[str]:
    return {one.name for one in threading.enumerate() if one.name.startswith("ledgerstone")}


def write_when_told(url: str, pipe: Connection) -> None:
    """A process of its own: one commit for each message, and when it was answered."""
    backend = open_postgres(url)
    pipe.send(0.0)
    while (name := pipe.recv()) is not None:
        create(backend, name)
        pipe.send(monotonic_s())
    backend.close()
    pipe.send(0.0)


@pytest.fixture
def writer(postgres_url: str) -> Iterator[Connection]:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=write_when_told, args=(postgres_url, theirs), daemon=True)
    process.start()
    assert ours.poll(60)
    ours.recv()
    yield ours
    with suppress(OSError):
        ours.send(None)
    process.join(LONG_S)
    assert process.exitcode == 0


def test_a_commit_moves_the_number_and_a_sleeper_is_woken(backend: PostgresBackend) -> None:
    seen = backend.changed(-1, LONG_S)
    create(backend, "a")
    again = backend.changed(seen, LONG_S)
    assert again != seen
    assert asyncio.run(backend.achanged(seen, LONG_S)) != seen
    began_s = monotonic_s()
    timer = later(create, backend, "b")
    assert backend.changed(again, LONG_S) != again
    assert monotonic_s() - began_s < LONG_S / 2
    timer.join()


def test_nothing_happened_is_said_when_the_time_is_over(backend: PostgresBackend) -> None:
    create(backend, "a")
    seen = settled(backend)
    assert backend.changed(seen, SHORT_S) == seen
    assert asyncio.run(backend.achanged(seen, SHORT_S)) == seen
    assert backend.changed(seen, 0) == seen


def test_a_command_that_wrote_nothing_wakes_nobody(backend: PostgresBackend) -> None:
    create(backend, "a")
    seen = settled(backend)
    count = backend._changes.count
    release = ReleaseLease(tenant="t", session="a", owner="o", fence=7, token="x")
    assert backend.write(release) is False
    assert backend._changes.count == count
    assert seen >= count


def test_nothing_runs_before_somebody_writes_or_waits(backend: PostgresBackend) -> None:
    assert not threads()
    backend.changed(-1, 0)
    assert threads() == {"ledgerstone-listen"}
    create(backend, "a")
    assert threads() == {"ledgerstone-listen", "ledgerstone-tell"}
    backend.close()
    assert not threads()


def test_a_listener_leaves_when_nobody_waits(
    backend: PostgresBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_listener, "IDLE_S", 0.05)
    seen = backend.changed(-1, 0)
    ends_s = monotonic_s() + LONG_S
    while threads() and monotonic_s() < ends_s:
        threading.Event().wait(0.02)
    assert not threads()
    # What happened while nobody listened is not missed: a new listener wakes everybody once.
    assert backend.changed(seen, LONG_S) != seen


def test_a_commit_of_another_process_wakes_both_faces(
    backend: PostgresBackend, writer: Connection
) -> None:
    """The wake-up is quick: the median from the other's answer to this one's waking."""
    taken_s = []
    for n in range(ROUNDS):
        time.sleep(2 * postgres_listener.GAP_S)
        seen = backend.changed(-1, 0)
        writer.send(f"s{n}")
        while backend.read((GetSession(tenant="t", id=f"s{n}"),)) == [None]:
            if n % 2:
                seen = backend.changed(seen, LONG_S)
            else:
                seen = asyncio.run(backend.achanged(seen, LONG_S))
        woken_s = monotonic_s()
        taken_s.append(woken_s - writer.recv())
    print(f"wake-up across processes: median {1000 * median(taken_s):.2f} ms")
    assert median(taken_s) < WAKE_MEDIAN_S


def test_the_last_commit_before_closing_is_told(
    backend: PostgresBackend, postgres_url: str
) -> None:
    seen = settled(backend)
    began_s = monotonic_s()
    with_closing = open_postgres(postgres_url)
    create(with_closing, "a")
    with_closing.close()
    assert backend.changed(seen, LONG_S) != seen
    assert monotonic_s() - began_s < LONG_S / 2


def test_looking_alone_is_enough_behind_a_pooler(postgres_url: str, writer: Connection) -> None:
    joiner = "&" if "?" in postgres_url else "?"
    pooled = open_postgres(f"{postgres_url}{joiner}prepare=no")
    try:
        seen = settled(pooled)
        writer.send("a")
        assert pooled.changed(seen, LONG_S) != seen
        assert monotonic_s() - writer.recv() < 1.0
    finally:
        pooled.close()


def test_a_restarted_server_is_listened_to_again() -> None:
    with PostgresServer(durable=False) as server:
        url = server.create_database("trial")
        backend = open_postgres(url)
        other = None
        try:
            seen = backend.changed(-1, 0)
            server.restart(hard=True)
            ends_s = monotonic_s() + LONG_S
            # Being connected again wakes everybody: what happened meanwhile was not heard.
            assert backend.changed(seen, LONG_S) != seen
            assert monotonic_s() < ends_s
            seen = settled(backend)
            other = open_postgres(url)
            create(other, "a")
            began_s = monotonic_s()
            assert backend.changed(seen, LONG_S) != seen
            assert monotonic_s() - began_s < LONG_S / 2
        finally:
            backend.close()
            if other is not None:
                other.close()


def test_waiting_without_a_server_ends_in_time() -> None:
    with PostgresServer(durable=False) as server:
        backend = open_postgres(f"{server.create_database('trial')}?connect_timeout_s=1")
        server.kill()
        began_s = monotonic_s()
        seen = backend.changed(-1, 0)
        assert backend.changed(seen, SHORT_S) == seen
        with pytest.raises(Unavailable):
            create(backend, "a")
        backend.close()
        assert monotonic_s() - began_s < 60


def test_closing_ends_every_wait(backend: PostgresBackend) -> None:
    seen = settled(backend)
    timer = later(backend.close)
    with pytest.raises(StoreClosed):
        backend.changed(seen, LONG_S)
    timer.join()


def test_closing_ends_the_waits_of_a_loop(backend: PostgresBackend) -> None:
    async def wait() -> None:
        seen = await asyncio.to_thread(settled, backend)
        timer = later(backend.close)
        async with asyncio.timeout(LONG_S / 2):
            with pytest.raises(StoreClosed):
                await backend.achanged(seen, LONG_S)
        await asyncio.to_thread(timer.join)

    asyncio.run(wait())


def test_many_sleepers_of_one_loop_need_no_thread_each(backend: PostgresBackend) -> None:
    async def sleep() -> None:
        seen = await backend.achanged(-1, 0)
        before = threads()
        sleepers = [asyncio.create_task(backend.achanged(seen, LONG_S)) for _ in range(200)]
        await asyncio.sleep(SHORT_S)
        assert threads() == before
        await backend.awrite(CreateSession(tenant="t", session=Session(id="a")))
        async with asyncio.timeout(LONG_S / 2):
            assert seen not in await asyncio.gather(*sleepers)
        backend.close()  # Here: the connections of a loop are closed on it.

    asyncio.run(sleep())


def test_a_forked_child_neither_waits_nor_closes(
    backend: PostgresBackend, postgres_server: DatabaseServer
) -> None:
    seen = backend.changed(-1, 0)
    child = os.fork()
    if child == 0:
        code = 1
        with suppress(BaseException):
            try:
                backend.changed(-1, 0)
            except StoreClosed:
                backend.close()
                code = 0
        os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    create(backend, "a")
    assert backend.changed(seen, LONG_S) != seen
