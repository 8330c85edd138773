"""Serverless: open, one optimistic commit without a lease, close; nothing runs in between."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from ledgerstone import AsyncStore, RevisionMoved


async def invoke(url: Path, seen: int, text: str) -> str:
    """One invocation: says what it saw, and learns if it was not the first."""
    async with AsyncStore.open(url) as store:
        turn = store.turns.begin("trip", expected_revision=seen, create=seen == 0)
        turn.user(text)
        try:
            done = await turn.commit()
        except RevisionMoved as moved:
            return f"{text!r}: somebody was faster, revision is {moved.actual} now: read again"
        return f"{text!r}: committed as revision {done.revision}"


async def main(folder: Path) -> None:
    url = folder / "agent.db"
    print(await invoke(url, 0, "hello"))
    for line in await asyncio.gather(invoke(url, 1, "first"), invoke(url, 1, "second")):
        print(line.replace("'first'", "one of two").replace("'second'", "one of two"))

    async with AsyncStore.open(url) as store:
        # The answer got lost on the way, so the platform calls again: the same turn id does
        # nothing twice.
        for _ in range(2):
            turn = store.turns.begin("trip", id="invocation-4711")
            turn.user("once only")
            done = await turn.commit()
            print(f"revision {done.revision}, replayed: {done.replayed}")
        print(f"messages: {await store.messages.count('trip')}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
