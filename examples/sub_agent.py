"""A sub-agent: a run in a session of its own, whose end wakes the run that started it."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from ledgerstone import AsyncStore, user
from ledgerstone.worker import Context, Worker

DONE: dict[str, Any] = {"outcome": {"termination": {"type": "natural_end"}}}


async def start(store: AsyncStore) -> str:
    """The planner asks a searcher, and waits in the meantime."""
    await store.messages.append("trip", user("How do I get to Oslo?"), create=True)
    plan = await store.runs.create("trip", agent="planner")
    child = await store.sessions.create(parent="trip", cause=("tool_call", "c1"))
    search = await store.runs.create(child, agent="search", parent_run=plan, status="created")
    turn = store.turns.begin("trip", run_id=plan)
    turn.assistant("Let me look that up.")
    turn.run("waiting", waiting={"reason": "background_tasks"})
    # Queued if and only if this turn is committed, for the session of the child.
    turn.enqueue({"search": "Oslo", "run": search.id}, session=child)
    await turn.commit()
    return plan.id


async def handler(context: Context) -> None:
    """One handler for both agents: the payload says what to do."""
    task = context.payloads[0]
    if task.get("wake") == "child_run":
        await go_on(context, task)
        return
    turn = context.begin(run_id=task["run"])
    turn.assistant(f"{task['search']}: the 9:40 train has seats")
    # This commit makes the child done and wakes its parent: both or neither.
    turn.run("done", **DONE)
    print("search is done, in a session of its own")


async def go_on(context: Context, wake: dict[str, Any]) -> None:
    found = await context.store.messages.last(wake["child_session"], 1)
    print(f"planner wakes up and reads: {found[0].text}")
    turn = context.begin(run_id=wake["parent_run"])
    turn.assistant("Take the 9:40 train.")
    turn.run("done", **DONE)


async def main(folder: Path) -> None:
    async with AsyncStore.open(folder / "agent.db") as store:
        plan = await start(store)
        pieces = await Worker(store, handler).run_until_idle()
        tree = await store.runs.tree(plan)
        assert tree is not None
        print(f"{pieces} pieces of work, runs: {[(r.agent, r.status) for r in tree.walk()]}")
        for message in await store.messages.history("trip"):
            print(f"{message.role}: {message.text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
