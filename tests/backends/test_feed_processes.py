"""The feed of a file that several processes write to: complete, in order, by whoever follows."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path

from ledgerstone import AsyncStore, Store, user
from ledgerstone.records.feed import FeedEntry

EACH = 25
WRITER = """
import sys
from ledgerstone import Store, user
with Store.open(sys.argv[1]) as store:
    for n in range(int(sys.argv[3])):
        store.messages.append(f"s{n % 3}", user(sys.argv[2]), create=True)
"""


def write_here(path: str, name: str) -> None:
    with Store.open(path) as store:
        for n in range(EACH):
            store.messages.append(f"s{n % 3}", user(name), create=True)


def start_writers(path: str) -> tuple[list[threading.Thread], list[subprocess.Popen[bytes]]]:
    threads = [threading.Thread(target=write_here, args=(path, f"t{n}")) for n in range(2)]
    for thread in threads:
        thread.start()
    command = [sys.executable, "-c", WRITER, path]
    children = [subprocess.Popen([*command, f"p{n}", str(EACH)]) for n in range(2)]
    return threads, children


async def follow(store: AsyncStore, count: int, after: str | None = None) -> list[FeedEntry]:
    seen: list[FeedEntry] = []
    async for entry in store.feed.follow(after=after):
        seen.append(entry)
        if len(seen) == count:
            return seen
    return seen


async def follow_in_two_parts(store: AsyncStore, path: str, count: int) -> list[FeedEntry]:
    """Stops in the middle, and goes on with another store where the first one ended."""
    first = await follow(store, count // 3)
    async with await AsyncStore.open(path) as other:
        return [*first, *await follow(other, count - len(first), first[-1].cursor)]


def test_four_writers_in_three_processes_and_three_followers(tmp_path: Path) -> None:
    path, count = str(tmp_path / "store.db"), 4 * EACH

    async def watch() -> None:
        async with await AsyncStore.open(path) as store, asyncio.timeout(60):
            parts = asyncio.gather(
                follow(store, count), follow(store, count), follow_in_two_parts(store, path, count)
            )
            threads, children = start_writers(path)
            seen = await parts
            for thread in threads:
                await asyncio.to_thread(thread.join)
            assert [await asyncio.to_thread(child.wait) for child in children] == [0, 0]
            wanted = (await store.feed.read()).entries
            assert len(wanted) == count
            for entries in seen:
                assert entries == wanted
                places = [(entry.session, entry.revision) for entry in entries]
                assert len(set(places)) == count
                for name in ("s0", "s1", "s2"):
                    revisions = [revision for session, revision in places if session == name]
                    assert revisions == list(range(1, len(revisions) + 1))

    asyncio.run(watch())


def test_a_cancelled_step_of_a_follower_loses_nothing(tmp_path: Path) -> None:
    async def watch() -> None:
        async with await AsyncStore.open(tmp_path / "store.db") as store:
            following = store.feed.follow()
            seen: list[int] = []
            for n in range(1, 40):
                await store.messages.append("s", user("x"), create=True)
                step = asyncio.ensure_future(anext(following))
                # Sometimes before it began, sometimes while it reads, sometimes when it is done.
                for _ in range(n % 5):
                    await asyncio.sleep(0.0003)
                if step.done() or not step.cancel():
                    seen.append((await step).revision)
                else:
                    await asyncio.wait((step,))
                    if not step.cancelled():
                        seen.append(step.result().revision)
            while len(seen) < 39:
                seen.append((await asyncio.wait_for(anext(following), 10)).revision)
            assert seen == list(range(1, 40))

    asyncio.run(watch())
