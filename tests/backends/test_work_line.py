"""The line of sessions with work, when many in it are held or deleted: bounded steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.commands.leases import TakeLease
from ledgerstone.commands.sessions import CreateSession, DeleteSession
from ledgerstone.commands.work import EnqueueWork, NewBatch, PeekWork, TakeWork
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.records.work import Taken
from ledgerstone.rules.work import PEEK_ROWS

T = "default"
MANY = 2 * PEEK_ROWS + 5
LEASE_US = 90_000_000

MAKERS: dict[str, Callable[[Path, ManualClock], Backend]] = {
    "memory": lambda path, clock: open_memory(None, clock),
    "sqlite": lambda path, clock: open_sqlite(str(path / "s.db"), clock=clock),
    "file": lambda path, clock: open_file(str(path / "s"), clock=clock, durability="process"),
}


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=MAKERS)
def backend(
    request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock
) -> Iterator[Backend]:
    made = MAKERS[request.param](tmp_path, clock)
    for n in range(MANY):
        made.write(CreateSession(tenant=T, session=Session(id=f"s{n}", tenant=T)))
        batch = NewBatch(session=f"s{n}", id=f"b{n}", payloads=b"[1]")
        made.write(EnqueueWork(tenant=T, batch=batch))
    yield made
    made.close()


def peek(backend: Backend) -> int | None:
    found: int | None = backend.read([PeekWork(tenant=T, queue="default")])[0]
    return found


def take(backend: Backend) -> Taken | None:
    command = TakeWork(
        tenant=T,
        queue="default",
        owner="o",
        lease_token="l",
        claim="c",
        claim_token="t",
        ttl_us=LEASE_US,
    )
    return backend.write(command)


def looks(backend: Backend, clock: ManualClock) -> int:
    """How often a worker has to look in vain until it knows when there will be something."""
    count = 0
    while (due := peek(backend)) is not None and due <= clock.now_us():
        assert take(backend) is None
        count += 1
        assert count < MANY
    return count


def test_sessions_that_are_held_are_put_behind_the_end_of_their_lease(
    backend: Backend, clock: ManualClock
) -> None:
    for n in range(MANY):
        name = f"s{n}"
        ttl_us = LEASE_US + n
        backend.write(TakeLease(tenant=T, session=name, owner=name, token=name, ttl_us=ttl_us))
    until_us = clock.now_us() + LEASE_US
    assert looks(backend, clock) == 2
    assert peek(backend) == until_us
    clock.advance(LEASE_US / 1_000_000)
    assert peek(backend) == until_us
    taken = take(backend)
    assert taken is not None
    assert taken.lease.session == "s0", "whose lease ended first"


def test_sessions_that_are_deleted_leave_the_line(backend: Backend, clock: ManualClock) -> None:
    for n in range(MANY - 1):
        backend.write(DeleteSession(tenant=T, id=f"s{n}"))
    answers = [take(backend) for _ in range(3)]
    assert answers[:2] == [None, None]
    assert answers[2] is not None
    assert answers[2].lease.session == f"s{MANY - 1}"
    assert peek(backend) == answers[2].lease.expires_us
