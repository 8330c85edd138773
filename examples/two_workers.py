"""Two workers and a crash: the first is killed in the middle, the second takes over, once."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from ledgerstone import AsyncStore, Store
from ledgerstone.worker import Context, Worker

TTL_S = 0.6
"""So short only here: it is how long nobody notices that a worker is dead."""


async def crash(context: Context) -> None:
    """Says something, and dies before it can be committed."""
    context.turn.assistant("half an answer")
    print(f"worker 1 took {context.payloads[0]!r} and is killed in the middle", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)


async def answer(context: Context) -> None:
    print(f"worker 2 took {context.payloads[0]!r}, attempt {context.attempts}")
    context.turn.assistant(f"did {context.payloads[0]}")


async def first(path: str) -> None:
    async with AsyncStore.open(path) as store:
        await Worker(store, crash, owner="worker-1", ttl_s=TTL_S).run()


async def second(path: str) -> None:
    done = 0

    def watch(name: str, fields: dict[str, Any]) -> None:
        nonlocal done
        done += name == "done"
        if done == 2:
            worker.stop()

    async with AsyncStore.open(path) as store:
        worker = Worker(store, answer, owner="worker-2", ttl_s=TTL_S, on_event=watch)
        await worker.run()


def main(folder: Path) -> None:
    path = str(folder / "agent.db")
    with Store.open(path) as store:
        store.sessions.create(id="trip")
        store.work.enqueue("trip", "book the train")
        store.work.enqueue("trip", "book the hotel")

    killed = subprocess.run([sys.executable, __file__, path], check=False)
    print(f"worker 1 ended with signal {-killed.returncode}")

    # Nobody renews the lease of a dead worker: when it runs out, the session is free again.
    asyncio.run(second(path))
    with Store.open(path) as store:
        print([message.text for message in store.messages.history("trip")])
        print(f"left in the queue: {store.work.list('trip')}")


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(first(sys.argv[1]))
    else:
        with tempfile.TemporaryDirectory() as place:
            main(Path(place))
