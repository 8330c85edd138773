"""Work for another session: a line belongs to one, so the batch travels, and never gets lost."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.clock import ManualClock
from ledgerstone.commands.sessions import CreateSession, DeleteSession, PurgeSession
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import EnqueueWork, ListWork, NewBatch, TakeWork
from ledgerstone.errors import SessionDeleted, SessionNotFound
from ledgerstone.records.sessions import Session
from ledgerstone.records.work import Batch
from ledgerstone.rules.chain import turn_hash
from tests.backends.journals import journal_of

T = "default"
CLOCK = ManualClock()


def opened(path: Path) -> FileBackend:
    return open_file(str(path), clock=CLOCK)


def started(path: Path) -> FileBackend:
    backend = opened(path)
    for session in ("parent", "child"):
        backend.write(CreateSession(tenant=T, session=Session(id=session, tenant=T)))
    return backend


def batch(to: str, id: str = "b1", **fields: Any) -> NewBatch:
    return NewBatch(session=to, id=id, payloads=b'["x"]', **fields)


def commit(turn: str, *batches: NewBatch) -> CommitTurn:
    command = CommitTurn(
        tenant=T, session="child", turn=turn, kind="turn", state={"t": turn}, enqueue=batches
    )
    return replace(command, hash=turn_hash(command))


def queued(backend: FileBackend, session: str) -> list[Batch]:
    found: list[Batch] = backend.read([ListWork(tenant=T, session=session)])[0]
    return found


def waiting(backend: FileBackend) -> int:
    return backend.stats().counts["outbox"]


def test_it_has_arrived_when_the_commit_is_answered(tmp_path: Path) -> None:
    backend = started(tmp_path)
    backend.write(commit("t1", batch("parent"), batch("child", "b2"), batch("parent", "b3")))
    assert [one.id for one in queued(backend, "parent")] == ["b1", "b3"]
    assert [one.id for one in queued(backend, "child")] == ["b2"]
    assert waiting(backend) == 0
    assert not backend.capabilities.shared_commit
    backend.close()
    backend = opened(tmp_path)
    assert [one.id for one in queued(backend, "parent")] == ["b1", "b3"]
    backend.close()


def test_what_a_crash_left_in_the_outbox_arrives_at_the_next_opening(tmp_path: Path) -> None:
    backend = started(tmp_path)
    moment = CLOCK.now_us()
    # The writer alone: as if the process ended right after the line of the commit.
    backend._writer.carry_out(commit("t1", batch("parent", delay_us=5)))
    assert queued(backend, "parent") == []
    assert waiting(backend) == 1
    backend.close()
    CLOCK.advance(60)
    backend = opened(tmp_path)
    (found,) = queued(backend, "parent")
    assert (found.enqueued_us, found.available_us) == (moment, moment + 5), "as of the commit"
    assert waiting(backend) == 0
    backend.close()


def test_a_crash_between_arriving_and_forgetting_does_not_double_it(tmp_path: Path) -> None:
    backend = started(tmp_path)
    backend._writer.carry_out(commit("t1", batch("parent")))
    backend._writer.carry_out(EnqueueWork(tenant=T, batch=batch("parent")))
    backend.close()
    backend = opened(tmp_path)
    assert [one.id for one in queued(backend, "parent")] == ["b1"]
    assert waiting(backend) == 0
    backend.close()


def test_a_target_that_is_gone_fails_the_commit(tmp_path: Path) -> None:
    backend = started(tmp_path)
    with pytest.raises(SessionNotFound):
        backend.write(commit("t1", batch("nobody")))
    backend.write(DeleteSession(tenant=T, id="parent"))
    with pytest.raises(SessionDeleted):
        backend.write(commit("t2", batch("parent")))
    assert waiting(backend) == 0
    backend.close()


def test_a_target_that_went_meanwhile_is_not_waited_for(tmp_path: Path) -> None:
    backend = started(tmp_path)
    backend._writer.carry_out(commit("t1", batch("parent")))
    backend._writer.carry_out(PurgeSession(tenant=T, id="parent"))
    backend.close()
    backend = opened(tmp_path)
    assert waiting(backend) == 0
    backend.close()


def test_a_damaged_target_gets_it_when_it_is_whole_again(tmp_path: Path) -> None:
    backend = started(tmp_path)
    backend.write(EnqueueWork(tenant=T, batch=batch("parent", "first")))
    backend._writer.carry_out(commit("t1", batch("parent")))
    backend.close()
    journal = journal_of(tmp_path, "parent")
    whole = journal.read_bytes()
    journal.write_bytes(whole.replace(b"first", b"worst"))
    (tmp_path / "snapshot.jsonl").unlink(missing_ok=True)
    backend = opened(tmp_path)
    assert not backend.health().ok
    assert waiting(backend) == 1
    backend.close()
    journal.write_bytes(whole)
    backend = opened(tmp_path)
    assert [one.id for one in queued(backend, "parent")] == ["first", "b1"]
    assert waiting(backend) == 0
    backend.close()


def test_poisoned_sessions_are_written_down_one_by_one(tmp_path: Path) -> None:
    """A look for work that buries batches of two sessions on its way writes a line for each."""
    backend = started(tmp_path)
    for session in ("parent", "child"):
        backend.write(EnqueueWork(tenant=T, batch=batch(session, session, max_attempts=0)))
    take = TakeWork(
        tenant=T, queue="default", owner="o", lease_token="l", claim="c", claim_token="t", ttl_us=1
    )
    assert backend.write(take) is None
    assert backend.stats().counts["dead_work"] == 2
    backend.close()
    backend = opened(tmp_path)
    assert backend.stats().counts["dead_work"] == 2
    assert (queued(backend, "parent"), queued(backend, "child")) == ([], [])
    backend.close()
