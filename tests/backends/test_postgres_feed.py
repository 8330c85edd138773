"""The feed of a tenant while many write: nothing skipped, nothing twice, in order."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from ledgerstone import AsyncStore, Store, user
from ledgerstone.engines.postgres.drivers.urls import parse_target
from ledgerstone.records.feed import FeedEntry

SPAWN = multiprocessing.get_context("spawn")
EACH = 60
SESSIONS = 5
HOLD_S = 0.03
LIMIT_S = 120.0
TRUSTING = """
select pos from ledgerstone.turns where tenant = 'default' and pos > %s order by pos
"""


def planned(url: str, seed: int) -> None:
    """Many turns at once on a loop: they travel together."""

    async def write() -> None:
        async with AsyncStore.open(url) as store:

            async def one(n: int) -> None:
                await store.turns.commit(f"s{n % SESSIONS}", [user(f"p{n}")], create=True)

            for first in range(0, EACH, 10):
                await asyncio.gather(*(one(n) for n in range(first, first + 10)))

    asyncio.run(write())


def interactive(url: str, seed: int) -> None:
    """Turns that concern two sessions, one after the other."""
    with Store.open(url) as store:
        for n in range(EACH):
            turn = store.turns.begin(f"s{n % SESSIONS}", create=True)
            turn.user(f"i{n}")
            turn.enqueue({"n": n}, session=f"s{(n + 2) % SESSIONS}")
            turn.commit()


def joined(url: str, seed: int) -> None:
    """Turns inside transactions that got their number early and end late, some never."""
    chance = random.Random(seed)
    with Store.open(url) as store, psycopg.connect(parse_target(url).dsn) as connection:
        for n in range(EACH):
            connection.execute("select pg_current_xact_id()")
            time.sleep(HOLD_S * chance.random())
            store.turns.commit(f"s{n % SESSIONS}", [user(f"j{n}")], connection=connection)
            time.sleep(HOLD_S * chance.random())
            if n % 4:
                connection.commit()
            else:
                connection.rollback()
                store.turns.commit(f"s{n % SESSIONS}", [user(f"k{n}")])


WRITERS: list[Callable[[str, int], None]] = [planned, interactive, joined, joined]


async def follow(url: str, count: int) -> list[FeedEntry]:
    async with AsyncStore.open(url) as store:
        seen: list[FeedEntry] = []
        async for entry in store.feed.follow():
            seen.append(entry)
            if len(seen) == count:
                break
        return seen


def poll(store: Store, done: threading.Event) -> list[FeedEntry]:
    """Pages by cursor, as a program without following would read."""
    seen: list[FeedEntry] = []
    cursor = None
    while True:
        last = done.is_set()
        page = store.feed.read(after=cursor, limit=7)
        seen += page.entries
        cursor = page.cursor or cursor
        if last and not page.has_more:
            return seen
        time.sleep(0.001)


def trust(url: str, done: threading.Event) -> list[int]:
    """What a reader sees that believes in the greatest place it saw: the negative control."""
    seen: list[int] = []
    with psycopg.connect(parse_target(url).dsn, autocommit=True) as connection:
        while not done.is_set():
            rows = connection.execute(TRUSTING, (seen[-1] if seen else 0,)).fetchall()
            seen += [row[0] for row in rows]
    return seen


def in_thread(work: Callable[..., Any], *arguments: object) -> tuple[threading.Thread, list[Any]]:
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.extend(work(*arguments)))
    thread.start()
    return thread, found


@pytest.fixture
def store(postgres_url: str) -> Any:
    with Store.open(postgres_url) as opened:
        for n in range(SESSIONS):
            opened.sessions.create(id=f"s{n}")
        yield opened


def test_four_processes_write_and_nobody_misses_anything(store: Store, postgres_url: str) -> None:
    done, count = threading.Event(), len(WRITERS) * EACH
    readers = [in_thread(poll, store, done)]
    readers += [in_thread(lambda: asyncio.run(follow(postgres_url, count))) for _ in range(2)]
    control = in_thread(trust, postgres_url, done)
    processes = [
        SPAWN.Process(target=writer, args=(postgres_url, seed), daemon=True)
        for seed, writer in enumerate(WRITERS)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(LIMIT_S)
    done.set()
    for thread, _ in [*readers, control]:
        thread.join(LIMIT_S)
    assert [process.exitcode for process in processes] == [0] * len(processes)
    wanted = poll(store, done)
    assert len(wanted) == count
    places = [entry.pos for entry in wanted]
    assert places == sorted(set(places))
    for session in {entry.session for entry in wanted}:
        revisions = [entry.revision for entry in wanted if entry.session == session]
        assert revisions == list(range(1, len(revisions) + 1))
    for _, seen in readers:
        assert [entry.pos for entry in seen] == places
    missed = set(places) - set(control[1])
    print(f"the control missed {len(missed)} of {count}")
    assert missed, "the control proves that there was something to miss"


def test_a_late_commit_stands_behind_what_its_session_has(store: Store, postgres_url: str) -> None:
    """Its transaction is older, its turn is younger."""
    with psycopg.connect(parse_target(postgres_url).dsn) as connection:
        connection.execute("select pg_current_xact_id()")
        store.turns.commit("s0", [user("first")])
        store.turns.commit("s1", [user("other")])
        assert not store.feed.read().entries, "an older transaction is still under way"
        store.turns.commit("s0", [user("second")], connection=connection)
        store.turns.commit("s1", [user("another")], connection=connection)
        connection.commit()
    entries = store.feed.read().entries
    for session in ("s0", "s1"):
        assert [one.revision for one in entries if one.session == session] == [1, 2]
    assert len({one.pos for one in entries}) == 4


def test_a_long_transaction_of_somebody_else_delays_and_loses_nothing(
    store: Store, postgres_url: str
) -> None:
    with psycopg.connect(parse_target(postgres_url).dsn) as connection:
        connection.execute("create table elsewhere (id int)")
        store.turns.commit("s0", [user("one")])
        cursor = store.feed.read(after="now").cursor
        assert not store.feed.read().entries
        connection.rollback()
    assert len(store.feed.read().entries) == 1
    assert [one.revision for one in store.feed.read(after=cursor).entries] == [1]
