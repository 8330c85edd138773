"""A dead letter: work that failed too often is put aside, and comes back once the cause is gone."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from ledgerstone import AsyncStore
from ledgerstone.worker import Bury, Context, Worker

MAIL = {"works": False}


async def handler(context: Context) -> None:
    letter = context.payloads[0]
    if "@" not in letter["to"]:
        raise Bury(f"{letter['to']!r} is no address")  # Trying again would not help.
    if letter["to"].endswith("@down.example") and not MAIL["works"]:
        raise ConnectionError("the mail server does not answer")
    context.turn.assistant(f"sent to {letter['to']}")


def watch(name: str, fields: dict[str, Any]) -> None:
    if name in ("failed", "buried", "done"):
        print(f"{fields['session']}: {name} {fields.get('error', '')}".rstrip())


async def work(store: AsyncStore, pieces: int) -> None:
    """Until so many came to an end; the pauses between attempts are short here."""
    ended = 0

    def count(name: str, fields: dict[str, Any]) -> None:
        nonlocal ended
        watch(name, fields)
        ended += name in ("buried", "done")
        if ended == pieces:
            worker.stop()

    worker = Worker(store, handler, concurrency=1, poll_s=0.05, on_event=count)
    await worker.run()


async def main(folder: Path) -> None:
    async with AsyncStore.open(folder / "agent.db") as store:
        for name, to in (
            ("ann", "ann@down.example"),
            ("bob", "nowhere"),
            ("eve", "eve@up.example"),
        ):
            await store.sessions.create(id=name)
            await store.work.enqueue(name, {"to": to}, max_attempts=2, backoff_s=0.1)
        await work(store, 3)

        for dead in (await store.work.dead()).items:
            print(f"dead letter of {dead.session}: {dead.reason}")
        for stuck in await store.work.stuck("ann"):
            print(f"why does ann not move? {stuck.reason}")

        MAIL["works"] = True
        for dead in (await store.work.dead()).items:
            if dead.session == "ann":
                await store.work.replay(dead)
            else:
                await store.work.drop(dead)
        await work(store, 1)
        print([message.text for message in await store.messages.history("ann")])
        print(f"dead letters left: {len((await store.work.dead()).items)}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
