"""Four processes on sixteen sessions, taking leases from each other: nothing is lost or doubled."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from ledgerstone.clock import monotonic_s
from ledgerstone.commands import Guard
from ledgerstone.commands.leases import ReleaseLease, TakeLease
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.commands.work import EnqueueWork, ListWork, NewBatch
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.errors import Fenced, LeaseExpired, LeaseHeld, RevisionMoved
from ledgerstone.records.leases import Lease
from ledgerstone.records.runs import Run
from ledgerstone.records.usage import Usage, UsageEntry
from tests.backends.planned import TENANT, commit, make, opened, verified

PROCESSES, SESSIONS, TASKS = 4, 16, 8
RUN_S = 4.0
TTL_US = 30_000
REFUSALS = (Fenced, LeaseExpired, LeaseHeld, RevisionMoved)
SAID = "refused"


class Worker:
    """One process: some tasks that write to whatever session they draw."""

    def __init__(self, url: str, name: str, seed: int) -> None:
        self.backend: PostgresBackend = open_postgres(url)
        self.random = random.Random(seed)
        self.name = name
        self.count = 0
        self.done: Counter[str] = Counter()

    async def serve(self) -> Counter[str]:
        ends_s = monotonic_s() + RUN_S
        async with asyncio.TaskGroup() as group:
            for _ in range(TASKS):
                group.create_task(self._work(ends_s))
        self.backend.close()
        await asyncio.sleep(0)
        return self.done

    async def _work(self, ends_s: float) -> None:
        while monotonic_s() < ends_s:
            session = f"s{self.random.randrange(SESSIONS):02}"
            action = self.random.choice((self._commit, self._under_lease, self._enqueue))
            try:
                await action(session)
            except REFUSALS as error:
                self.done[f"{SAID} {type(error).__name__}"] += 1

    def _next(self) -> str:
        self.count += 1
        return f"{self.name}-{self.count}"

    async def _commit(self, session: str) -> None:
        turn = self._next()
        run = Run(id=f"run {turn}", session=session, status="done")
        used = (UsageEntry("m", Usage(1, 1)),)
        await self.backend.awrite(commit(session, turn, text="free", run=run, usage=used))
        self.done[session] += 1

    async def _under_lease(self, session: str) -> None:
        token = self._next()
        taking = TakeLease(tenant=TENANT, session=session, owner=token, token=token, ttl_us=TTL_US)
        lease: Lease | None = await self.backend.awrite(taking)
        if lease is None:
            return
        if self.random.random() < 0.3:
            await asyncio.sleep(TTL_US / 1e6)  # So that somebody else takes it.
        held = Guard(lease.fence, token)
        await self.backend.awrite(commit(session, token, text=str(lease.fence), guard=held))
        self.done[session] += 1
        if self.random.random() < 0.7:
            await self.backend.awrite(
                ReleaseLease(
                    tenant=TENANT, session=session, owner=token, token=token, fence=lease.fence
                )
            )

    async def _enqueue(self, session: str) -> None:
        batch = NewBatch(session=session, id=self._next(), payloads=b"[]")
        await self.backend.awrite(EnqueueWork(tenant=TENANT, batch=batch))
        self.done[f"work {session}"] += 1


def serve(url: str, name: str, seed: int) -> Counter[str]:
    return asyncio.run(Worker(url, name, seed).serve())


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_contended_sessions_hold(postgres_url: str, seed: int) -> None:
    with opened(postgres_url) as backend:
        make(backend, *(f"s{n:02}" for n in range(SESSIONS)))
    done: Counter[str] = Counter()
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        sent = [pool.submit(serve, postgres_url, f"p{n}", seed + n) for n in range(PROCESSES)]
        for future in sent:
            done.update(future.result())
    print(dict(done))
    with opened(postgres_url) as backend:
        for n in range(SESSIONS):
            session = f"s{n:02}"
            assert verified(backend, session) == done[session]
            queued = backend.read([ListWork(tenant=TENANT, session=session)])[0]
            assert [batch.enqueue_seq for batch in queued] == list(range(1, len(queued) + 1))
            assert len(queued) == done[f"work {session}"]
            assert_fences_rise(backend, session)
    assert any(name.startswith(SAID) for name in done), "nobody ever stood in another's way"


def assert_fences_rise(backend: PostgresBackend, session: str) -> None:
    """No commit under an older lease after one under a newer."""
    messages = backend.read([ReadMessages(tenant=TENANT, session=session)])[0]
    texts = [message.text for message in messages]
    fences = [int(text) for text in texts if text != "free"]
    assert fences == sorted(fences)
