"""Branch and compare: two answers to one question, then main goes where the better one stands."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from ledgerstone import AsyncStore, Usage, assistant, user


async def explore(store: AsyncStore, branch: str, answer: str, tokens: int) -> None:
    async with store.turns.begin("trip", branch=branch) as turn:
        turn.assistant(answer, model=branch, usage=Usage(120, tokens))
        turn.use(branch, Usage(120, tokens))


async def main(folder: Path) -> None:
    async with AsyncStore.open(folder / "agent.db") as store:
        said = await store.messages.append(
            "trip", user("Oslo"), assistant("When?"), user("Friday"), create=True
        )
        for name in ("cheap", "fast"):
            await store.branches.create("trip", name, at=said[-1])
        await explore(store, "cheap", "The bus, 9 hours", 40)
        await explore(store, "fast", "The 9:40 flight, 1 hour", 55)

        diff = await store.branches.diff("trip", "cheap", "fast")
        print(f"common up to {'Friday' if diff.common == said[-1].id else diff.common}")
        print(f"only cheap: {len(diff.only_a)} node, only fast: {len(diff.only_b)} node")

        main_branch = await store.branches.move("trip", "main", to="fast", expected=said[-1])
        print(f"main stands at position {main_branch.seq} now")
        for message in await store.messages.history("trip"):
            print(f"{message.role}: {message.text}")
        fork = await store.sessions.fork("trip", branch="cheap", new_id="trip-by-bus")
        copied = await store.messages.history(fork)
        print(f"{fork.id} goes its own way with {len(copied)} messages")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
