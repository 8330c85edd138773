"""A program for a process of its own: it works through three steps, and may be killed on the way.

Every call of the tool adds a line to the file `effects`. `kill` is "model:N", "before:N" or
"after:N": the process kills itself at the Nth question to the model, or before or after the effect
of the Nth call; "withdraw": when it is about to withdraw a ticket. How it ended is written to the
file `answer`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from agents import Agent, Runner, function_tool

from ledgerstone import AsyncStore, ids
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.api.tickets import AsyncTickets
from ledgerstone.errors import Conflict
from tests.adapters.openai_agents.scripted import Scripted, call, say

STEPS = (1, 2, 3)


class Worker(Scripted):
    """Asks for the next step that the history does not have; its ids are new each time."""

    def __init__(self, kill: str) -> None:
        super().__init__()
        self.kill = kill

    def _next(self, input: Any) -> tuple[list[Any], str]:
        self.asked.append(list(input))
        if self.kill == f"model:{len(self.asked)}":
            os.kill(os.getpid(), signal.SIGKILL)
        told = {item["call_id"] for item in input if item.get("type") == "function_call_output"}
        done = {json.loads(item["arguments"])["n"] for item in input if _is_call(item, told)}
        left = [n for n in STEPS if n not in done]
        if not left:
            return [say("Done.")], ids.new_id()
        # First one step, then all the others at once.
        return [call("step", {"n": n}, ids.new_id()) for n in left if done or n == 1], ids.new_id()


def _is_call(item: Any, told: set[str]) -> bool:
    return item.get("type") == "function_call" and item["call_id"] in told


def make(session: LedgerSession, effects: str, kill: str, *, approval: bool) -> Agent:
    made = [0]

    @function_tool(needs_approval=approval)
    def step(n: int) -> str:
        """Do a step."""
        made[0] += 1
        mine = made[0]
        if kill == f"before:{mine}":
            os.kill(os.getpid(), signal.SIGKILL)
        with Path(effects).open("a", encoding="utf-8") as file:
            file.write(f"{n}\n")
            file.flush()
            os.fsync(file.fileno())
        if kill == f"after:{mine}":
            os.kill(os.getpid(), signal.SIGKILL)
        return f"step {n} done"

    return Agent(name="desk", model=Worker(kill), tools=[session.once(step)])


async def die(*given: object) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


async def main(url: str, effects: str, mode: str, kill: str) -> str:
    if kill == "withdraw":
        # The process is forked for this, and nobody else lives in it.
        AsyncTickets.cancel = die  # type: ignore[assignment, method-assign]
    async with AsyncStore.open(url) as store:
        session = LedgerSession(store, "s")
        agent = make(session, effects, kill, approval=mode in ("ask", "resume"))
        try:
            if mode == "recover":
                await session.recover()
            given: Any = "Work." if mode in ("begin", "ask") else []
            if mode == "resume":
                given = await session.load_state(agent) or "Work."
            result = await Runner.run(agent, given, session=session)
            tickets = await session.save_state(result)
        except Conflict as error:
            return f"{type(error).__name__}: {error}"
        return " ".join(["asked", *(one.id for one in tickets)]) if tickets else "ended"


def entry(url: str, effects: str, mode: str, kill: str, answer: str) -> None:
    """What the process does."""
    Path(answer).write_text(asyncio.run(main(url, effects, mode, kill)), "utf-8")
