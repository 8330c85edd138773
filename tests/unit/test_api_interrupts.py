"""A block that holds work, and the queue is interrupted."""

from __future__ import annotations

import asyncio
import time

import pytest

from ledgerstone import Store, WorkInterrupted
from ledgerstone.records.work import WorkCounts
from tests.unit.test_api_work import SHORT_S, opened

STOPPED = WorkCounts(superseded=1, epoch=1)


@pytest.mark.promise(207)
def test_an_interruption_cancels_the_block_and_gives_the_lease_back() -> None:
    async def main() -> None:
        async with await opened(1) as store:

            async def interrupted() -> None:
                async with store.work.hold(ttl_s=SHORT_S):
                    await store.work.interrupt("s", reason="another question")
                    await asyncio.sleep(30)

            with pytest.raises(WorkInterrupted, match="another question"):
                await asyncio.wait_for(interrupted(), 20)
            assert await store.work.counts("s") == STOPPED
            assert await store.leases.get("s") is None

    asyncio.run(main())


@pytest.mark.promise(207)
def test_a_blocking_block_meets_it_at_its_next_commit() -> None:
    with Store.open("memory://") as store:
        store.sessions.create(id="s")
        store.work.enqueue("s", 1)
        with store.work.hold(ttl_s=SHORT_S) as (lease, claim):
            store.work.interrupt("s")
            time.sleep(2 * SHORT_S)
            turn = store.turns.begin(lease.session)
            turn.complete(claim)
            with pytest.raises(WorkInterrupted):
                turn.commit(lease=lease)
        assert store.work.counts("s") == STOPPED
        assert store.leases.get("s") is None
