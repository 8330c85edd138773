"""A process that runs an agent and dies in the middle of it: python dying.py url log where."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness.step_persistence import StepPersistence

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerDurability, LedgerStepStore
from ledgerstone.adapters.pydantic_ai.durable import Task

TASK = "report-7"


def make_agent(log: Path, where: str, capability: AbstractCapability[None]) -> Agent[None, str]:
    """Two tools after each other, then an answer; everything that happens is in the log."""

    def note(what: str) -> None:
        with log.open("a") as file:
            file.write(what + "\n")
        if what == where:
            os.kill(os.getpid(), signal.SIGKILL)

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        note(f"model {len(messages)}")
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("first", {}, tool_call_id="c1")])
        if len(messages) == 3:
            return ModelResponse(parts=[ToolCallPart("second", {}, tool_call_id="c2")])
        return ModelResponse(parts=[TextPart("done")])

    agent = Agent(FunctionModel(answer), name="reporter", capabilities=[capability])

    @agent.tool_plain
    def first() -> str:
        note("first")
        return "one"

    @agent.tool_plain
    def second() -> str:
        note("second")
        return "two"

    return agent


async def durable(store: Store | AsyncStore, log: Path, where: str, *, repeat: bool = False) -> str:
    """One task; answers what the agent said."""
    durability: LedgerDurability[None] = LedgerDurability(store)
    agent = make_agent(log, where, durability)
    async with durability.task(TASK, repeat_unknown=repeat):
        return str((await agent.run("report")).output)


async def stepwise(store: Store | AsyncStore, log: Path, where: str) -> str:
    """One run with its steps kept."""
    steps = StepPersistence[None](store=LedgerStepStore(store), run_id="run-1")
    agent = make_agent(log, where, steps)
    return str((await agent.run("report", conversation_id=TASK)).output)


def die_after(ending: str) -> None:
    """Die when an operation of that name has finished, before the next one begins."""
    execute = Task.execute

    async def until(
        self: Task, name: str, body: Callable[[], Awaitable[object]], *, repeatable: bool
    ) -> object:
        result = await execute(self, name, body, repeatable=repeatable)
        if name.endswith(ending):
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    Task.execute = until  # type: ignore[method-assign]


if __name__ == "__main__":
    url, log, where, what = sys.argv[1:]
    if where.startswith("after "):
        die_after(where.removeprefix("after "))
    with Store.open(url) as opened:
        work = durable if what == "durable" else stepwise
        print(asyncio.run(work(opened, Path(log), where)))
