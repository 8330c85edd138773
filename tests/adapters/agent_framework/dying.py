"""A process that dies in the middle of a workflow or an agent's run."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any, Never

from agent_framework import (
    Agent,
    Content,
    Executor,
    Workflow,
    WorkflowBuilder,
    WorkflowContext,
    handler,
)

from ledgerstone import Store
from ledgerstone.adapters.agent_framework import (
    LedgerCheckpointStorage,
    LedgerHistoryProvider,
    LedgerToolMiddleware,
)
from tests.adapters.agent_framework.scripted import ScriptedClient


class Diary:
    """Writes down what happens, and ends the process at one of these things."""

    def __init__(self, path: Path, where: str) -> None:
        self.path, self.where = path, where

    def note(self, what: str) -> None:
        with self.path.open("a") as file:
            file.write(what + "\n")
        if what == self.where:
            os.kill(os.getpid(), signal.SIGKILL)


class Step(Executor):
    def __init__(self, id: str, diary: Diary) -> None:
        super().__init__(id=id)
        self.diary = diary

    @handler
    async def go(self, said: str, ctx: WorkflowContext[str]) -> None:
        self.diary.note(self.id)
        await ctx.send_message(f"{said} {self.id}")


class End(Executor):
    def __init__(self, id: str, diary: Diary) -> None:
        super().__init__(id=id)
        self.diary = diary

    @handler
    async def go(self, said: str, ctx: WorkflowContext[Never, str]) -> None:
        self.diary.note(self.id)
        await ctx.yield_output(f"{said} {self.id}")


def workflow(store: Store, diary: Diary) -> Workflow:
    first, second, third = Step("first", diary), Step("second", diary), End("third", diary)
    builder = WorkflowBuilder(
        name="steps",
        start_executor=first,
        checkpoint_storage=LedgerCheckpointStorage(store),
        output_from=[third],
    )
    return builder.add_edge(first, second).add_edge(second, third).build()


async def talk(store: Store, diary: Diary) -> str:
    """Two runs of an agent, the second with a tool."""

    def pay(eur: int) -> str:
        """Pay."""
        diary.note("pay")
        return "paid"

    call: Any = Content.from_function_call("c1", "pay", arguments={"eur": 1})
    client = ScriptedClient(["hello"], [call], ["done"])
    agent = Agent(client, context_providers=[LedgerHistoryProvider(store)], tools=[pay])
    session = agent.create_session(session_id="talk")
    await agent.run("hi", session=session)
    return (await agent.run("pay it", session=session)).text


async def guarded(store: Store, diary: Diary, call_id: str) -> str:
    """A run with a tool that is written down; the model goes on when it was told."""

    def pay(eur: int) -> str:
        """Pay."""
        diary.note("pay")
        return "paid"

    class Client(ScriptedClient):
        def _inner_get_response(self, **asked: Any) -> Any:
            if asked["messages"][-1].role == "tool":
                diary.note("paid")
            return super()._inner_get_response(**asked)

    call: Any = Content.from_function_call(call_id, "pay", arguments={"eur": 1})
    agent = Agent(
        Client([call], ["done"]),
        context_providers=[LedgerHistoryProvider(store)],
        middleware=[LedgerToolMiddleware(store)],
        tools=[pay],
    )
    return (await agent.run("pay it", session=agent.create_session(session_id="talk"))).text


async def work(store: Store, diary: Diary, what: str) -> None:
    if what == "talk":
        await talk(store, diary)
    elif what == "guarded":
        await guarded(store, diary, "c1")
    else:
        await workflow(store, diary).run("go")


def main() -> None:
    """Imported and not run: a workflow is known by the modules of its executors."""
    url, log, where, what = sys.argv[1:]
    with Store.open(url) as opened:
        asyncio.run(work(opened, Diary(Path(log), where), what))
