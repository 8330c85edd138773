"""Streaming: an answer is kept while it grows, so a crash in the middle loses no more than 250 ms.

The question is appended before the model is called: what a turn collects is only stored when it
commits, and a chat must not forget what its user said.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from ledgerstone import AsyncStore, user

ANSWER = "The fjord line leaves at 9:40 from platform two."


class PowerCut(Exception):
    """Stands for the crash."""


async def model(tokens: int) -> AsyncIterator[str]:
    for token in ANSWER.split(" ")[:tokens]:
        await asyncio.sleep(0.05)
        yield token + " "


async def answer(store: AsyncStore, *, tokens: int, crash: bool) -> None:
    async with store.turns.begin("trip") as turn, turn.draft(model="m-1") as draft:
        async for token in model(tokens):
            draft.write(token)
        if crash:
            raise PowerCut


async def main(folder: Path) -> None:
    async with AsyncStore.open(folder / "agent.db") as store:
        await store.messages.append("trip", user("When does it leave?"), create=True)
        try:
            await answer(store, tokens=4, crash=True)
        except PowerCut:
            print("the writer died in the middle of its answer")

    async with AsyncStore.open(folder / "agent.db") as store:
        (found,) = await store.drafts.list("trip")
        print(f"found after the crash: {found.text!r}")
        async with store.turns.begin("trip") as turn:
            turn.adopt(found, finish_reason="interrupted")
        await store.messages.append("trip", user("Go on"))
        await answer(store, tokens=99, crash=False)
        for message in await store.messages.history("trip"):
            print(f"{message.role}: {message.text}")
        print(f"drafts left: {len(await store.drafts.list('trip'))}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
