"""A payment that somebody has to approve: asked today, approved tomorrow, paid exactly once."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from ledgerstone import AsyncStore, tool_call, user
from ledgerstone.worker import Context, Worker


async def pay(key: str, eur: int, to: str) -> str:
    """The bank. It knows the key, so a second call with it would pay nothing."""
    print(f"the bank pays {eur} EUR to {to}")
    return f"receipt {key[:8]}"


async def today(folder: Path) -> str:
    """The agent wants to call a tool that needs an approval, so its run waits."""
    async with AsyncStore.open(folder / "agent.db") as store:
        await store.messages.append("invoice-7", user("Pay the invoice"), create=True)
        run = await store.runs.create("invoice-7", agent="bookkeeper")
        async with store.leases.hold("invoice-7") as lease:
            turn = store.turns.begin(lease, run_id=run)
            turn.assistant(parts=[tool_call("pay", {"eur": 120, "to": "Nordic Rail"}, id="c1")])
            ticket = turn.ask("c1", message="Pay 120 EUR?", expires_s=86_400)
            await turn.commit(release=True)
        waiting = await store.runs.get(run)
        assert waiting is not None
        print(f"the run is {waiting.status}: {waiting.waiting_reason}")
        return ticket.id


async def approve(folder: Path, ticket: str) -> None:
    """The next day, in a web handler: the decision and the wake-up are one transaction."""
    async with AsyncStore.open(folder / "agent.db") as store:
        for one in (await store.tickets.inbox()).items:
            print(f"in the inbox: {one.message} {one.tool}({one.arguments})")
        for _ in range(2):  # She clicks twice: the second time it is answered, and nothing is done.
            await store.tickets.resolve(
                ticket, "approve", by="ada", arguments={"eur": 100, "to": "Nordic Rail"}
            )
        print(f"ada approved 100 EUR; wake-ups queued: {len(await store.work.list('invoice-7'))}")


async def handler(context: Context) -> None:
    """The worker goes on where the run stopped."""
    wake = context.payloads[0]
    # The intent is durable before the bank is called; what was not approved is refused.
    async with context.store.executions.run(context.lease, ticket=wake["ticket"]) as call:
        if call.needs_run:
            call.result = await pay(call.key, **call.arguments)
    turn = context.begin(run_id=wake["run"])
    turn.tool("c1", call.result)
    turn.assistant("Paid.")
    turn.run("done", outcome={"termination": {"type": "natural_end"}})


async def main(folder: Path) -> None:
    ticket = await today(folder)
    await approve(folder, ticket)
    async with AsyncStore.open(folder / "agent.db") as store:
        print(f"the worker did {await Worker(store, handler).run_until_idle()} piece of work")
        for execution in await store.executions.list(session="invoice-7"):
            print(f"{execution.tool}: {execution.status}, {execution.arguments}")
        (last,) = await store.messages.last("invoice-7", 1)
        print(f"{last.role}: {last.text}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(main(Path(place)))
