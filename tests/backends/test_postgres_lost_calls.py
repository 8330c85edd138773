"""Planned commands in trouble: lost answers, held heads, cut connections, cancelled callers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from ledgerstone.commands.leases import ReleaseLease
from ledgerstone.commands.sessions import (
    GetHead,
)
from ledgerstone.commands.work import CancelWork, EnqueueWork, ListWork, NewBatch
from ledgerstone.engines.postgres.backend import PostgresBackend
from ledgerstone.engines.postgres.drivers.port import ConnectionLost
from ledgerstone.engines.postgres.planned.queue import CommandQueue
from ledgerstone.errors import (
    OutcomeUnknown,
)
from ledgerstone.records.turns import TurnCommitted
from tests.backends.planned import (
    TENANT,
    all_outcomes,
    at_once,
    commit,
    make,
    opened,
    plain_url,
    take,
    verified,
)


class Cut:
    """The next call is carried out or not, and its answer is lost in both cases."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fetch = CommandQueue._fetch
        self.applied: bool | None = None
        self.meanwhile: Callable[[], object] = int
        cut = self

        async def lossy(line: CommandQueue, group: Any, text: str, arguments: Any) -> Any:
            if cut.applied is None:
                return await cut._fetch(line, group, text, arguments)
            if cut.applied:
                await cut._fetch(line, group, text, arguments)
                cut.meanwhile()
            cut.applied = None
            raise ConnectionLost("cut")

        monkeypatch.setattr(CommandQueue, "_fetch", lossy)


@pytest.fixture
def cut(monkeypatch: pytest.MonkeyPatch) -> Cut:
    return Cut(monkeypatch)


@pytest.mark.parametrize("applied", [True, False])
class TestLostAnswers:
    def test_commits(self, here: PostgresBackend, cut: Cut, applied: bool) -> None:
        make(here, "s")
        here.write(commit("s", "t1"))
        cut.applied = applied
        answer = here.write(commit("s", "t2"))
        assert (answer.revision, answer.replayed) == (2, applied)
        assert verified(here, "s") == 2

    def test_leases(self, here: PostgresBackend, cut: Cut, applied: bool) -> None:
        make(here, "s")
        cut.applied = applied
        lease = here.write(take("s"))
        assert lease is not None
        assert (lease.fence, lease.token) == (1, "k")
        letting = ReleaseLease(tenant=TENANT, session="s", owner="ann", token="k", fence=1)
        # By now this process knows nothing of the session: a lost question is no doubt.
        cut.applied = True
        assert here.write(take("s")) == lease
        assert here.write(take("s")) == lease
        cut.applied = applied
        if applied:
            with pytest.raises(OutcomeUnknown):
                here.write(letting)
        else:
            assert here.write(letting) is True
        assert here.write(commit("s", "t1")).revision == 1

    def test_batches(self, here: PostgresBackend, cut: Cut, applied: bool) -> None:
        make(here, "s")
        batch = NewBatch(session="s", id="w", payloads=b"[]")
        cut.applied = applied
        assert here.write(EnqueueWork(tenant=TENANT, batch=batch)).enqueue_seq == 1
        assert len(here.read([ListWork(tenant=TENANT, session="s")])[0]) == 1

    def test_a_batch_that_is_done_is_not_queued_again(
        self, here: PostgresBackend, there: PostgresBackend, cut: Cut, applied: bool
    ) -> None:
        make(here, "s")
        first = NewBatch(session="s", id="first", payloads=b"[]")
        here.write(EnqueueWork(tenant=TENANT, batch=first))
        cut.applied = applied
        cut.meanwhile = lambda: there.write(CancelWork(tenant=TENANT, session="s", batch="w"))
        enqueue = EnqueueWork(tenant=TENANT, batch=NewBatch(session="s", id="w", payloads=b"[]"))
        if applied:
            with pytest.raises(OutcomeUnknown):
                here.write(enqueue)
        else:
            here.write(enqueue)
        queued = here.read([ListWork(tenant=TENANT, session="s")])[0]
        assert len(queued) == (1 if applied else 2)


class TestTrouble:
    def test_a_held_session_stops_nobody_else(
        self, here: PostgresBackend, postgres_url: str
    ) -> None:
        names = [f"s{n}" for n in range(6)]
        make(here, *names)
        held = psycopg.connect(plain_url(postgres_url))
        held.execute("set search_path = ledgerstone")

        async def main() -> None:
            with opened(postgres_url) as backend:
                await all_outcomes(backend, [commit(name, "t1") for name in names])
                held.execute("select from heads order by number limit 1 for update")
                waiting = asyncio.ensure_future(backend.awrite(commit("s0", "t2")))
                await asyncio.sleep(0.05)
                async with asyncio.timeout(8):
                    answers = await all_outcomes(backend, [commit(n, "t2") for n in names[1:]])
                assert {answer.revision for answer in answers} == {2}
                assert not waiting.done()
                held.rollback()
                assert (await waiting).revision == 2
            await asyncio.sleep(0)

        with held:
            asyncio.run(main())

    def test_a_connection_that_is_cut(self, here: PostgresBackend, postgres_url: str) -> None:
        make(here, "s")
        for n in range(6):
            here.write(commit("s", f"t{n}"))
            with psycopg.connect(plain_url(postgres_url), autocommit=True) as other:
                other.execute(
                    "select pg_terminate_backend(pid) from pg_stat_activity "
                    "where datname = current_database() and application_name = 'ledgerstone'"
                )
        assert verified(here, "s") == 6

    def test_cancelling_does_not_touch_the_command(
        self, here: PostgresBackend, postgres_url: str
    ) -> None:
        make(here, "s")

        async def main() -> None:
            with opened(postgres_url) as backend:
                task = asyncio.ensure_future(backend.awrite(commit("s", "t1")))
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await backend.awrite(commit("s", "t2"))).revision == 2
            await asyncio.sleep(0)

        asyncio.run(main())
        assert verified(here, "s") == 2

    def test_texts_that_no_column_holds(self, here: PostgresBackend, postgres_url: str) -> None:
        make(here, "s", "n\0l")
        answers = at_once(postgres_url, [commit("s", "t1"), commit("n\0l", "t\0")])
        assert [type(answer) for answer in answers] == [TurnCommitted] * 2
        assert verified(here, "n\0l") == verified(here, "s") == 1
        head = here.read([GetHead(tenant=TENANT, id="n\0l")])[0]
        assert head is not None
        assert head.leaf == "node n\0l t\0"
