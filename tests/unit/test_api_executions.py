"""Tool calls on the async face: cancellation, and many workers at once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ledgerstone import AsyncStore, ExecutionUnresolved, tool_call
from ledgerstone.records.executions import Execution


def test_a_cancelled_call_has_no_outcome(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncStore.open(tmp_path / "agent.db") as store:
            await store.sessions.create(id="s")
            begun = asyncio.Event()

            async def call_for_ever() -> None:
                async with (
                    store.leases.hold("s") as lease,
                    store.executions.run(lease, id="x1", call_id="c1", tool="wait"),
                ):
                    begun.set()
                    await asyncio.Event().wait()

            task = asyncio.create_task(call_for_ever())
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            (left,) = await store.executions.unresolved()
            assert (left.id, left.status) == ("x1", "unknown")

    asyncio.run(main())


def test_of_many_blocks_with_one_id_one_calls_the_tool(tmp_path: Path) -> None:
    """All begin at once, without a lease: whoever looks first and writes then is too late."""

    async def main() -> None:
        async with AsyncStore.open(tmp_path / "agent.db") as store:
            await store.sessions.create(id="s")

            async def call() -> None:
                async with store.executions.run("s", id="x1", call_id="c1", tool="pay") as running:
                    if running.needs_run:
                        called.append(running.id)
                    running.result = 1

            called: list[str] = []
            ended = await asyncio.gather(*(call() for _ in range(20)), return_exceptions=True)
            assert called == ["x1"]
            refused = [one for one in ended if one is not None]
            assert all(isinstance(one, ExecutionUnresolved) for one in refused)

    asyncio.run(main())


def test_of_many_only_one_calls_the_tool(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncStore.open(tmp_path / "agent.db") as store:
            await store.sessions.create(id="s")
            async with store.turns.begin("s", run_id="r1") as turn:
                turn.assistant([tool_call("pay", {"eur": 1}, id="c1")])
                ticket = turn.ask("c1")
            await store.tickets.resolve(ticket, "approve", by="ada")
            begun = await asyncio.gather(
                *(store.executions.start("s", ticket=ticket) for _ in range(20)),
                return_exceptions=True,
            )
            assert len([one for one in begun if isinstance(one, Execution)]) == 1
            assert len([one for one in begun if isinstance(one, ExecutionUnresolved)]) == 19
            assert len(await store.executions.list(session="s")) == 1

    asyncio.run(main())


def test_a_block_outlives_a_renewed_lease(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncStore.open(tmp_path / "agent.db") as store:
            await store.sessions.create(id="s")
            async with (
                store.leases.hold("s", ttl_s=0.5) as lease,
                store.executions.run(lease, call_id="c1", tool="slow") as running,
            ):
                await asyncio.sleep(0.8)
                running.result = "late, and still ours"
            found = await store.executions.get(running.id)
            assert found is not None
            assert (found.status, found.result) == ("succeeded", "late, and still ours")

    asyncio.run(main())


def test_of_many_decisions_one_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncStore.open(tmp_path / "agent.db") as store:
            await store.sessions.create(id="s")
            async with store.turns.begin("s") as turn:
                ticket = turn.ask("c1", tool="pay")
            said = await asyncio.gather(
                *(store.tickets.resolve(ticket, "approve", by=f"user {n}") for n in range(10)),
                return_exceptions=True,
            )
            assert len([one for one in said if not isinstance(one, BaseException)]) == 1
            assert len(await store.work.list("s")) == 1

    asyncio.run(main())
