"""An agent that dies in the middle of a tool, run by a test as a process of its own.

Arguments: the url of the store, a file that says which tools ran, and when to die: before the tool
does its work, after it, or between two turns.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.simplefilter("ignore")

from google.adk.agents import LlmAgent  # noqa: E402
from google.adk.runners import Runner  # noqa: E402

from ledgerstone import Store  # noqa: E402
from ledgerstone.adapters.adk import LedgerSessionService  # noqa: E402
from tests.adapters.adk.scripted import KEY, Scripted, asks, calls, says  # noqa: E402


def tools(log: Path, dies: str) -> list[Any]:
    """Two tools that leave a trace; the second one is the death of its process."""

    def book(city: str) -> dict[str, str]:
        """Book a trip."""
        _trace(log, f"book {city}")
        return {"booked": city}

    def pay(eur: int) -> dict[str, int]:
        """Pay it."""
        if dies == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        _trace(log, f"pay {eur}")
        if dies == "after":
            os.kill(os.getpid(), signal.SIGKILL)
        return {"paid": eur}

    return [book, pay]


def _trace(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(line + "\n")
        file.flush()
        os.fsync(file.fileno())


async def main(url: str, log: str, dies: str) -> None:
    store = await asyncio.to_thread(Store.open, url)
    service = LedgerSessionService(store)
    await service.create_session(**KEY, session_id="s", state={"trip": "new"})
    script = [
        calls(("book", {"city": "Oslo"})),
        says("Booked."),
        calls(("pay", {"eur": 120})),
        says("Paid."),
    ]
    agent = LlmAgent(name="guide", model=Scripted(script=script), tools=tools(Path(log), dies))
    runner = Runner(app_name=KEY["app_name"], agent=agent, session_service=service)
    for text in ("Book Oslo", "Pay it"):
        loop = runner.run_async(user_id=KEY["user_id"], session_id="s", new_message=asks(text))
        async for event in loop:
            # Whoever reads this has the word of the store that it is kept.
            print(event.id, flush=True)
        if dies == "between":
            os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
