"""Processes that fork after they opened a store: run in a child of the test, never in pytest."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec

from ledgerstone import AsyncStore, Store, user
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.faults.processes import Say

THREADS = 4


def outcome(call: Callable[[], Any]) -> str:
    """The name and text of what a call raised, or what it returned."""
    try:
        return f"returned {call()!r}"
    except BaseException as error:
        return f"{type(error).__name__}: {error}"


def in_a_fork(work: Callable[[], Any]) -> Any:
    """What `work` returned in a forked child, which then ends at once."""
    ear, mouth = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(ear)
        try:
            answer = work()
        except BaseException as error:
            answer = f"the child failed: {type(error).__name__}: {error}"
        os.write(mouth, msgspec.json.encode(answer))
        os._exit(0)
    os.close(mouth)
    with os.fdopen(ear, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return msgspec.json.decode(data)


def blocking(say: Say, path: str) -> None:
    """Every way to use the parent's store in the child, then the child's own store."""
    store = Store.open(path)
    store.messages.append("s", user("before"), create=True)
    store.messages.last("s")
    turn = store.turns.begin("s")
    turn.user("collected before the fork")

    def child() -> dict[str, str]:
        calls: dict[str, Callable[[], Any]] = {
            "append": lambda: store.messages.append("s", user("from the child")),
            "last": lambda: store.messages.last("s"),
            "commit": turn.commit,
            "take": lambda: store.leases.take("s"),
            "health": store.admin.health,
            "other tenant": lambda: store.for_tenant("x").sessions.get("s"),
        }
        found = {name: outcome(call) for name, call in calls.items()}
        found["close"] = outcome(store.close)
        with Store.open(path) as own:
            own.messages.append("s", user("own store"))
            found["own"] = str(len(own.messages.history("s")))
        return found

    found = in_a_fork(child)
    turn.commit()
    found["parent"] = str([message.text for message in store.messages.history("s")])
    found["verify"] = str(store.admin.verify().ok)
    store.close()
    say(msgspec.json.encode(found))


def looping(say: Say, path: str) -> None:
    """The same through the async face, with its writer and reader threads already running."""

    async def main() -> dict[str, str]:
        store = await AsyncStore.open(path)
        await store.messages.append("s", user("before"), create=True)
        await store.messages.last("s")

        def child() -> dict[str, str]:
            found = {
                "append": outcome(lambda: asyncio.run(_append(store, "from the child"))),
                "last": outcome(lambda: asyncio.run(_last(store))),
                "close": outcome(lambda: asyncio.run(store.close())),
            }
            found["own"] = asyncio.run(_own(path))
            return found

        found = in_a_fork(child)
        await store.messages.append("s", user("after"))
        found["parent"] = str([one.text for one in await store.messages.history("s")])
        found["verify"] = str((await store.admin.verify()).ok)
        await store.close()
        return found

    say(msgspec.json.encode(asyncio.run(main())))


async def _append(store: AsyncStore, text: str) -> None:
    await store.messages.append("s", user(text))


async def _last(store: AsyncStore) -> None:
    await store.messages.last("s")


async def _own(path: str) -> str:
    async with AsyncStore.open(path) as own:
        await own.messages.append("s", user("own store"))
        return str(len(await own.messages.history("s")))


def while_committing(say: Say, path: str, forks: int) -> None:
    """Fork again and again while other threads hold every lock the store has."""
    store = Store.open(path)
    done = threading.Event()
    counts = [0] * THREADS

    def commit(n: int) -> None:
        while not done.is_set():
            store.messages.append(f"s{n}", user("x"), create=True)
            counts[n] += 1

    threads = [threading.Thread(target=commit, args=(n,)) for n in range(THREADS)]
    for thread in threads:
        thread.start()
    answers = []
    for _ in range(forks):
        answers.append(in_a_fork(lambda: outcome(lambda: store.messages.last("s0"))))
        time.sleep(0.002)
    done.set()
    for thread in threads:
        thread.join()
    kept = sum(store.messages.count(f"s{n}") for n in range(THREADS))
    verified = store.admin.verify().ok
    store.close()
    say(msgspec.json.encode([answers, sum(counts), kept, verified]))


def unchecked(say: Say, path: str) -> None:
    """What a child gets from a store that believes to be its own: for the negative control."""
    backend = open_sqlite(path)
    store = Store(backend)
    store.messages.append("s", user("before"), create=True)
    store.messages.last("s")

    def child() -> list[str]:
        backend._pid = os.getpid()
        return [outcome(lambda: store.messages.last("s")), outcome(store.admin.tenants)]

    say(msgspec.json.encode(in_a_fork(child)))


def late(say: Say, path: str, gate: str) -> None:
    """Fork, close the store properly, and let the child end in an ordinary way much later."""
    store: Store | None = Store.open(path)
    assert store is not None
    store.messages.append("s", user("one"), create=True)
    store.messages.last("s")
    pid = os.fork()
    if pid == 0:
        with open(gate, "rb") as opened:  # noqa: PTH123
            opened.read()
        # What the interpreter does at its end, said aloud: the copied connection is dropped.
        store = None
        gc.collect()
        os._exit(0)
    store.close()
    say(b"%d" % pid)
    os.waitpid(pid, 0)
    say(b"over")
