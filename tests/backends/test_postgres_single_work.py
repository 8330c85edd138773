"""Work when nobody else waits: one plain statement, which refuses what the handlers refuse."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from ledgerstone import ClaimLost, LeaseExpired, SessionDeleted, SessionNotFound, Store
from ledgerstone.engines.postgres.backend import PostgresBackend, open_postgres
from ledgerstone.engines.postgres.planned.queue import CommandQueue
from ledgerstone.engines.postgres.planned.work_queue import WorkQueue
from ledgerstone.records.leases import Lease
from ledgerstone.records.work import Batch, Claim
from tests.backends.planned import plain_url

WAIT_S = 0.3
JOIN_S = 20.0


@pytest.fixture
def backend(postgres_url: str) -> Iterator[PostgresBackend]:
    made = open_postgres(postgres_url)
    yield made
    made.close()


@pytest.fixture
def store(backend: PostgresBackend) -> Store:
    return Store(backend)


@pytest.fixture
def other(postgres_url: str) -> Iterator[Store]:
    with Store.open(postgres_url) as made:
        yield made


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What went over the wire of the fast ways: the beginning of each text, or its function."""
    seen: list[str] = []
    for line in (CommandQueue, WorkQueue):
        plain: Any = line._fetch

        async def fetch(
            self: Any, group: Any, text: str, arguments: Any, plain: Any = plain
        ) -> Any:
            found = await plain(self, group, text, arguments)
            word = text.partition("(")[0].rpartition(" ")[2]
            word = word if text.startswith("select") else "alone"
            seen.append(word if found else "nothing")
            return found

        monkeypatch.setattr(line, "_fetch", fetch)
    return seen


def held(store: Store) -> Lease:
    store.sessions.create(id="s")
    lease = store.leases.take("s", owner="w", ttl_s=600)
    assert lease is not None
    return lease


def claimed(store: Store, lease: Lease, **how: Any) -> Claim:
    claim = store.work.claim(lease, **how)
    assert claim is not None
    return claim


def complete(store: Store, lease: Lease, claim: Claim, **how: Any) -> int:
    turn = store.turns.begin(lease)
    turn.complete(claim)
    return turn.commit(**how).revision


def test_a_whole_round_is_three_plain_statements(store: Store, sent: list[str]) -> None:
    lease = held(store)
    sent.clear()
    for n in range(1, 4):
        store.work.enqueue("s", n, key=f"k{n}")
        claim = claimed(store, lease, queue="default" if n == 2 else None)
        assert claim.payloads == [n]
        assert complete(store, lease, claim) == n
    assert sent == ["alone"] * 9
    assert store.work.list("s") == []
    assert store.work.take() is None
    assert not store.admin.verify().defects


def test_what_is_left_keeps_its_place_in_the_line(store: Store, sent: list[str]) -> None:
    lease = held(store)
    store.work.enqueue("s", "first")
    store.work.enqueue("s", "urgent", priority=1)
    store.work.enqueue("s", "elsewhere", queue="q")
    store.work.enqueue("s", "later", delay_s=3600)
    assert claimed(store, lease).payloads == ["urgent"]
    claim = claimed(store, lease)
    assert claim.payloads == ["first"]
    complete(store, lease, claim, release=True)
    assert set(sent[-6:]) == {"alone"}
    # The lease is gone, so the one that is claimed still may be had again.
    taken = store.work.take()
    assert taken is not None
    assert taken.claim.payloads == ["urgent"]
    complete(store, taken.lease, taken.claim, release=True)
    taken = store.work.take(queue="q")
    assert taken is not None
    complete(store, taken.lease, taken.claim, release=True)
    assert store.work.take() is None
    assert [one.reason for one in store.work.stuck("s")] == ["delayed"]
    assert not store.admin.verify().defects


def test_the_same_key_or_id_is_the_batch_that_is_queued(store: Store) -> None:
    held(store)
    first = store.work.enqueue("s", 1, key="k", id="b")
    assert store.work.enqueue("s", 2, key="k") == first
    assert store.work.enqueue("s", 3, id="b") == first


def test_a_boundary_admits_only_what_may_come_there(store: Store) -> None:
    lease = held(store)
    store.work.enqueue("s", "after")
    assert store.work.claim(lease, boundary="active_turn_checkpoint") is None
    store.work.enqueue("s", "soon", delivery="earliest_safe_boundary", priority=1)
    assert claimed(store, lease, boundary="active_turn_checkpoint").payloads == ["soon"]


def test_nothing_to_claim_is_none(store: Store) -> None:
    lease = held(store)
    assert store.work.claim(lease) is None
    store.work.enqueue("s", 1, queue="q")
    assert store.work.claim(lease, queue="other") is None


def test_what_was_put_off_is_claimed_when_it_is_due(store: Store) -> None:
    lease = held(store)
    store.work.enqueue("s", 1, delay_s=0.05)
    store.work.enqueue("s", 2, priority=255)
    threading.Event().wait(0.1)
    assert claimed(store, lease).payloads == [1]


def test_a_session_that_moved_elsewhere_is_met_anew(store: Store, other: Store) -> None:
    lease = held(store)
    store.work.enqueue("s", 1)
    other.work.enqueue("s", 2, priority=1)
    assert claimed(store, lease).payloads == [2]
    other.sessions.delete("s")
    with pytest.raises(SessionDeleted):
        store.work.enqueue("s", 3)
    with pytest.raises(SessionDeleted):
        store.work.claim(lease)
    other.sessions.purge("s")
    with pytest.raises(SessionNotFound):
        store.work.enqueue("s", 3)


def meanwhile(
    url: str, call: Callable[[], object], *statements: str
) -> tuple[object, BaseException | None]:
    """Somebody holds the head, and changes something, while a call waits for it."""
    found: list[Any] = [None, None]

    def run() -> None:
        try:
            found[0] = call()
        except BaseException as error:
            found[1] = error

    with psycopg.connect(plain_url(url)) as connection:
        connection.execute("set search_path to ledgerstone")
        connection.execute("select from heads for no key update")
        thread = threading.Thread(target=run)
        thread.start()
        thread.join(WAIT_S)
        assert thread.is_alive()
        for statement in statements:
            connection.execute(statement)
    thread.join(JOIN_S)
    assert not thread.is_alive()
    return found[0], found[1]


FREE = "update work set claim = null, claim_fence = 0, claim_token = null, attempts = 0"


def test_a_claim_that_was_handed_back_meanwhile_is_lost(store: Store, postgres_url: str) -> None:
    lease = held(store)
    store.work.enqueue("s", 1)
    claim = claimed(store, lease)
    _, error = meanwhile(postgres_url, lambda: complete(store, lease, claim), FREE)
    assert isinstance(error, ClaimLost)
    assert [batch.payloads for batch in store.work.list("s")] == [[1]]
    assert store.turns.list("s") == []


def test_a_lease_that_ended_meanwhile_completes_nothing(store: Store, postgres_url: str) -> None:
    store.sessions.create(id="s")
    store.work.enqueue("s", 1)
    lease = store.leases.take("s", owner="w", ttl_s=0.6)
    assert lease is not None
    claim = claimed(store, lease)
    _, error = meanwhile(
        postgres_url, lambda: complete(store, lease, claim), "select pg_sleep(0.6)"
    )
    assert isinstance(error, LeaseExpired)
    assert store.turns.list("s") == []


def test_a_batch_that_was_cancelled_meanwhile_is_not_claimed(
    store: Store, postgres_url: str
) -> None:
    lease = held(store)
    store.work.enqueue("s", 1)
    claim, error = meanwhile(postgres_url, lambda: store.work.claim(lease), "delete from work")
    assert (claim, error) == (None, None)


def test_a_session_that_was_deleted_meanwhile_gets_nothing(
    store: Store, other: Store, postgres_url: str
) -> None:
    held(store)
    done = threading.Event()

    def delete() -> None:
        other.sessions.delete("s")
        done.set()

    with psycopg.connect(plain_url(postgres_url)) as connection:
        connection.execute("set search_path to ledgerstone")
        connection.execute("select from heads for no key update")
        deleting = threading.Thread(target=delete)
        deleting.start()
        deleting.join(WAIT_S)
        found: list[object] = []

        def queue() -> None:
            try:
                found.append(store.work.enqueue("s", 1))
            except SessionDeleted as error:
                found.append(error)

        queueing = threading.Thread(target=queue)
        queueing.start()
        queueing.join(WAIT_S)
        assert not found
        assert not done.is_set()
    for thread in (deleting, queueing):
        thread.join(JOIN_S)
    assert done.is_set()
    # Whoever came first: nothing is queued in a session that was seen to be deleted.
    if isinstance(found[0], Batch):
        assert len(other.work.list("s")) == 1
    else:
        assert isinstance(found[0], SessionDeleted)
        assert other.work.list("s") == []


def test_many_are_one_call(store: Store, sent: list[str]) -> None:
    names = [f"s{n}" for n in range(30)]
    for name in names:
        store.sessions.create(id=name)
    sent.clear()
    assert all(
        isinstance(one, Batch) for one in store.work.enqueue_many((name, 1) for name in names)
    )
    assert len(store.work.take_many(30)) == 30
    assert sent == ["ledger_apply", "ledger_take"]
