"""The queue on PostgreSQL: its functions do what the handlers do, one by one and in groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.clock import ManualClock, monotonic_s
from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import ReleaseLease
from ledgerstone.commands.turns import CommitTurn, VerifySession
from ledgerstone.commands.work import (
    ClaimWork,
    Completion,
    EnqueueWork,
    NewBatch,
    RenewClaim,
    TakeWork,
)
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.drivers.psycopg import PsycopgConnection
from ledgerstone.engines.postgres.interactive import Interactive
from ledgerstone.engines.postgres.planned.queue import PendingCommand
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.records.leases import Lease
from ledgerstone.records.work import Claim, Taken
from ledgerstone.trampoline import run_now
from tests.backends.queue_twins import (
    SECOND_US,
    SESSIONS,
    TENANT,
    Player,
    Twins,
    held,
    outcome,
)

STEPS = 220
LIMIT_S = 30.0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(1_790_000_000 * SECOND_US)


@pytest.fixture
def twins(postgres_url: str, clock: ManualClock, tmp_path: Path) -> Iterator[Twins]:
    postgres = open_postgres(postgres_url, clock=clock)
    sqlite = open_sqlite(str(tmp_path / "twin.db"), clock=clock)
    yield Twins(postgres, sqlite)
    postgres.close()
    sqlite.close()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of all commands that needed more than one round trip."""
    seen: list[str] = []
    plain = Interactive.write

    async def note(self: Interactive, command: Command[Any], *rest: Any, **more: Any) -> Any:
        seen.append(type(command).__name__)
        return await plain(self, command, *rest, **more)

    monkeypatch.setattr(Interactive, "write", note)
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_random_queues_are_those_of_the_handlers(
    twins: Twins, clock: ManualClock, slow: list[str], seed: int
) -> None:
    player = Player(twins, clock, seed)
    for n in range(STEPS):
        player.step()
        if n % 10 == 0:
            twins.compare()
    twins.compare()
    for _ in range(200):
        clock.advance(70)
        player.take()
    twins.compare()
    for session in SESSIONS:
        verified = twins.postgres.read([VerifySession(tenant=TENANT, session=session)])[0]
        assert verified.defects == []
    assert slow.count("TakeWork") < 40


def take_command(n: int, most: int) -> TakeWork:
    return TakeWork(
        tenant=TENANT,
        queue="default",
        owner=f"worker-{n}",
        lease_token=f"lease-{n}",
        claim=f"claim-{n}",
        claim_token=f"proof-{n}",
        ttl_us=60 * SECOND_US,
        max_batches=most,
    )


def in_one_call(backend: PostgresBackend, commands: list[TakeWork]) -> list[Any]:
    """The answers of commands that waited together; None too for what goes the slow way."""
    line = backend._blocking.queue._line
    jobs = [PendingCommand(command, monotonic_s() + 30) for command in commands]
    for job in jobs:
        line.admit(job)
    group = line.take()
    assert group == jobs
    line.settle(group, run_now(line.call(group)))
    return [backend.write(job.command) if job.slow else job.answer for job in jobs]


@pytest.mark.parametrize("most", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_takes_in_one_call_are_takes_one_after_the_other(
    twins: Twins, clock: ManualClock, most: int, seed: int
) -> None:
    player = Player(twins, clock, seed)
    for _ in range(30):
        player.enqueue()
        player.clock.advance(0.001)
    clock.advance(10)
    commands = [take_command(n, most) for n in range(len(SESSIONS) + 2)]
    alone = [outcome(twins.sqlite, command) for command in commands]
    assert in_one_call(twins.postgres, commands) == alone
    assert sum(isinstance(one, Taken) for one in alone) > 3
    twins.compare()


def test_a_take_whose_answer_was_lost_is_found_again(
    twins: Twins, clock: ManualClock, slow: list[str]
) -> None:
    for session in SESSIONS[:2]:
        batch = NewBatch(session=session, id=f"{session}-batch", payloads=b"[1]")
        twins.write(EnqueueWork(tenant=TENANT, batch=batch))
    line = twins.postgres._blocking.queue._line
    job = PendingCommand(take_command(1, 1), monotonic_s() + 30)
    line.admit(job)
    group = line.take()
    run_now(line.call(group))
    line.settle(group, None, unsure=True)
    again = line.take()
    assert again == [job]
    line.settle(again, run_now(line.call(again)))
    assert job.answer == outcome(twins.sqlite, job.command)
    never_sent = PendingCommand(take_command(2, 1), monotonic_s() + 30)
    never_sent.unsure = True
    line.admit(never_sent)
    group = line.take()
    line.settle(group, run_now(line.call(group)))
    assert never_sent.answer == outcome(twins.sqlite, never_sent.command)
    assert slow == []


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every statement that is sent, but for those that wake others afterwards."""
    seen: list[str] = []
    plain = PsycopgConnection._execute

    def note(self: PsycopgConnection, text: str, *rest: Any) -> None:
        if "notify" not in text:
            seen.append(text)
        plain(self, text, *rest)

    monkeypatch.setattr(PsycopgConnection, "_execute", note)
    return seen


def enqueue_command(session: str, batch: str) -> EnqueueWork:
    return EnqueueWork(tenant=TENANT, batch=NewBatch(session=session, id=batch, payloads=b"[1]"))


def claim_command(lease: Lease, claim: str) -> ClaimWork:
    return ClaimWork(
        tenant=TENANT,
        session=lease.session,
        claim=claim,
        owner=lease.owner,
        token="proof",
        ttl_us=SECOND_US,
        guard=Guard(lease.fence, lease.token),
    )


def commit_command(lease: Lease, claim: Claim, *, release: bool) -> CommitTurn:
    return CommitTurn(
        tenant=TENANT,
        session=lease.session,
        turn=f"turn of {claim.id}",
        kind="turn",
        hash=b"h" * 32,
        guard=Guard(lease.fence, lease.token),
        complete=(Completion(claim.id, claim.token),),
        release=release,
    )


def test_each_step_of_a_worker_is_one_round_trip(twins: Twins, trips: list[str]) -> None:
    session = SESSIONS[0]
    # The first command of a session has to ask how it stands.
    twins.write(enqueue_command(session, "first"))

    def send(command: Command[Any]) -> Any:
        trips.clear()
        answer = twins.write(command)
        assert len(trips) == 1, trips
        return answer

    for n in range(3):
        send(enqueue_command(session, f"batch-{n}"))
        lease, claim = send(take_command(n, 1))
        send(commit_command(lease, claim, release=False))
        if n == 0:
            claim = send(claim_command(lease, "next"))
            named = {"tenant": TENANT, "session": session, "claim": claim.id, "token": claim.token}
            send(RenewClaim(ttl_us=90 * SECOND_US, **named))
            send(commit_command(lease, claim, release=True))
        else:
            send(ReleaseLease(**held(lease)))
        assert send(take_command(100 + n, 1)) is None
    twins.compare()
