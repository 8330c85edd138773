"""A worker whose work is interrupted."""

from __future__ import annotations

import asyncio

import pytest

from ledgerstone import AsyncStore
from ledgerstone.records.work import WorkCounts
from ledgerstone.worker import Context
from tests.worker.watched import Watched, on, queued


@pytest.mark.promise(207)
def test_the_handler_is_cancelled_and_the_work_does_not_come_back(url: str) -> None:
    cancelled: list[str] = []

    async def interrupted(context: Context) -> None:
        await context.store.work.interrupt(context.session)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(context.session)
            raise

    async def test(store: AsyncStore) -> None:
        await queued(store, "s")
        worker = Watched(store, interrupted, ttl_s=0.3)
        await worker.run_until_idle()
        assert cancelled == ["s"]
        assert worker.names == ["taken", "fenced"]
        assert await store.work.counts("s") == WorkCounts(superseded=1, epoch=1)
        assert await store.leases.get("s") is None

    on(url, test)
