"""Finding a session that has work: in turn, the urgent first, and never one that is owned."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledgerstone.api_sync.store import Store
from ledgerstone.errors import ClaimLost, Fenced
from ledgerstone.records.work import Taken
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import complete, names, take

S = 1_000_000


def fill(backend: Bed, *sessions: str, items: int = 1, **how: Any) -> None:
    """Sessions a second apart, each with so many batches."""
    for session in sessions:
        backend.clock.advance(1)
        backend.store.sessions.ensure(session)
        for n in range(items):
            backend.store.work.enqueue(session, n, id=f"{session}{n}", **how)


def taken(store: Store, **how: Any) -> Taken:
    found = store.work.take(**how)
    assert found is not None
    return found


def serve(backend: Bed, **how: Any) -> str:
    """A worker takes something, does it and leaves; answers whose work it was."""
    backend.clock.advance(1)
    lease, claim = taken(backend.store, **how)
    backend.clock.advance(1)
    complete(backend, lease, claim, release=True)
    return lease.session


class TestTaking:
    def test_a_lease_and_a_claim_in_one_step(self, backend: Bed) -> None:
        fill(backend, "a", items=2)
        now = backend.clock.now_us()
        lease, claim = taken(backend.store, owner="w", ttl_s=30)
        assert (lease.session, lease.owner, lease.fence) == ("a", "w", 1)
        assert (lease.claimed_us, lease.expires_us) == (now, now + 30 * S)
        assert backend.store.leases.get("a") == lease
        assert (claim.session, claim.owner, claim.fence) == ("a", "w", 1)
        assert (claim.claimed_us, claim.expires_us) == (now, now + 30 * S)
        assert (names(claim), claim.batches[0].attempts) == (["a0"], 1)
        assert backend.store.work.list("a")[0] == claim.batches[0]
        complete(backend, lease, claim)
        assert names(backend.store.work.list("a")) == ["a1"]

    def test_nothing_to_do_is_nothing(self, backend: Bed) -> None:
        assert backend.store.work.take() is None
        backend.store.sessions.create(id="idle")
        assert backend.store.work.take() is None

    def test_a_group_is_taken_together(self, backend: Bed) -> None:
        fill(backend, "a", items=3, slot="join", merge="group:g")
        assert names(taken(backend.store, max=2).claim) == ["a0", "a1"]

    def test_every_grant_has_a_fresh_fence(self, backend: Bed) -> None:
        """A worker that comes back must not share a fence with its former self."""
        fill(backend, "a", items=3)
        fences = []
        for _ in range(3):
            lease, claim = taken(backend.store, owner="w")
            fences.append(lease.fence)
            complete(backend, lease, claim, release=True)
        assert fences == [1, 2, 3]

    def test_a_session_with_an_owner_is_left_alone(self, backend: Bed) -> None:
        fill(backend, "a", items=2)
        mine = take(backend, "a")
        assert backend.store.work.take() is None
        backend.store.leases.release(mine)
        lease, _ = taken(backend.store)
        assert backend.store.work.take() is None
        assert backend.store.leases.get("a") == lease

    def test_a_renewed_lease_still_counts(self, backend: Bed) -> None:
        fill(backend, "a", items=2)
        lease, _ = taken(backend.store, ttl_s=10)
        backend.clock.advance(8)
        backend.store.leases.renew(lease, ttl_s=60)
        backend.clock.advance(8)
        assert backend.store.work.take() is None

    @pytest.mark.promise(140)
    def test_the_work_of_a_dead_worker_is_taken_over(self, backend: Bed) -> None:
        fill(backend, "a")
        old, lost = taken(backend.store, owner="ann", ttl_s=60)
        backend.clock.advance(59)
        assert backend.store.work.take() is None
        backend.clock.advance(1)
        lease, claim = taken(backend.store, owner="bob")
        assert names(claim) == ["a0"]
        assert (lease.fence, claim.fence, claim.batches[0].attempts) == (2, 2, 2)
        late = backend.store.turns.begin(old)
        late.complete(lost)
        with backend.unchanged("a"), pytest.raises(Fenced):
            late.commit()
        with backend.unchanged("a"), pytest.raises(ClaimLost):
            backend.store.work.renew(lost)
        complete(backend, lease, claim)
        assert backend.store.work.list("a") == []

    def test_a_broken_lease_frees_the_work_at_once(self, backend: Bed) -> None:
        fill(backend, "a")
        taken(backend.store, owner="hung", ttl_s=3600)
        backend.store.leases.break_("a", by="op", reason="hangs")
        assert names(taken(backend.store).claim) == ["a0"]

    def test_abandoned_and_failed_work_comes_again(self, backend: Bed) -> None:
        fill(backend, "a", backoff_s=10)
        lease, claim = taken(backend.store)
        backend.store.work.abandon(claim)
        backend.store.leases.release(lease)
        lease, claim = taken(backend.store)
        assert claim.batches[0].attempts == 1
        backend.store.work.fail(claim, "no")
        backend.store.leases.release(lease)
        assert backend.store.work.take() is None
        backend.clock.advance(10)
        assert taken(backend.store).claim.batches[0].attempts == 2

    def test_what_is_due_later_is_taken_later(self, backend: Bed) -> None:
        fill(backend, "a", delay_s=30)
        assert backend.store.work.take() is None
        backend.reopen()
        backend.clock.advance(30)
        assert names(taken(backend.store).claim) == ["a0"]

    def test_deadly_work_is_buried_on_the_way(self, backend: Bed) -> None:
        fill(backend, "a", max_attempts=1)
        fill(backend, "b")
        taken(backend.store, ttl_s=10)
        assert taken(backend.store, ttl_s=10).lease.session == "b"
        backend.clock.advance(10)
        assert taken(backend.store).lease.session == "b"
        assert backend.store.work.take() is None
        assert [dead.id for dead in backend.store.work.dead()] == ["a0"]

    @pytest.mark.promise(139)
    def test_many_workers_never_share(self, backend: Bed) -> None:
        sessions = [f"s{n}" for n in range(10)]
        fill(backend, *sessions, items=2)
        stores = [backend.store, backend.open()]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda n: stores[n % 2].work.take(), range(24)))
        owned = Counter(one.lease.session for one in found if one is not None)
        assert owned == Counter(sessions)


class TestInTurn:
    """Nobody waits for ever, and nobody is asked twice while others wait."""

    def test_sessions_with_much_to_do_are_served_in_turn(self, backend: Bed) -> None:
        fill(backend, "a", "b", "c", items=4)
        assert "".join(serve(backend) for _ in range(12)) == "abc" * 4
        assert backend.store.work.take() is None

    def test_a_newcomer_waits_only_one_round(self, backend: Bed) -> None:
        fill(backend, "a", "b", items=5)
        order = serve(backend)
        fill(backend, "c", items=2)
        order += "".join(serve(backend) for _ in range(5))
        assert order == "abacba"

    def test_more_work_costs_no_session_its_place(self, backend: Bed) -> None:
        fill(backend, "a", "b")
        backend.clock.advance(5)
        backend.store.work.enqueue("a", "more")
        assert serve(backend) == "a"

    def test_the_most_urgent_work_of_all_comes_first(self, backend: Bed) -> None:
        fill(backend, "a", "b")
        fill(backend, "c", priority=5)
        fill(backend, "d", priority=200)
        backend.store.work.enqueue("b", "now", id="urgent", priority=1)
        assert [serve(backend) for _ in range(5)] == ["b", "c", "a", "b", "d"]

    def test_what_can_wait_makes_nobody_less_urgent(self, backend: Bed) -> None:
        fill(backend, "a", priority=50)
        fill(backend, "b", priority=1)
        backend.store.work.enqueue("b", "later", priority=200)
        assert [serve(backend) for _ in range(3)] == ["b", "a", "b"]

    def test_urgent_work_of_the_future_does_not_block(self, backend: Bed) -> None:
        fill(backend, "a", priority=0, delay_s=3600)
        fill(backend, "b")
        assert serve(backend) == "b"
        assert backend.store.work.take() is None
        backend.clock.advance(3600)
        assert serve(backend) == "a"

    def test_urgent_work_of_an_owned_session_does_not_block(self, backend: Bed) -> None:
        fill(backend, "a", priority=0)
        fill(backend, "b")
        take(backend, "a")
        assert serve(backend) == "b"

    def test_queues_have_lines_of_their_own(self, backend: Bed) -> None:
        fill(backend, "a", queue="mail")
        fill(backend, "b")
        backend.store.work.enqueue("b", "letter", id="letter", queue="mail")
        assert backend.store.work.take(queue="none") is None
        assert serve(backend) == "b"
        assert backend.store.work.take() is None
        assert serve(backend, queue="mail") == "a"
        assert names(taken(backend.store, queue="mail").claim) == ["letter"]

    def test_the_line_survives_a_reopening(self, backend: Bed) -> None:
        fill(backend, "a", "b", "c", items=2)
        order = ""
        for _ in range(6):
            order += serve(backend)
            backend.reopen()
        assert order == "abcabc"


class TestWhoseWork:
    """Tenants, and sessions that go and come back."""

    def test_no_tenant_takes_the_work_of_another(self, backend: Bed) -> None:
        other = backend.open("other")
        fill(backend, "a")
        assert other.work.take() is None
        assert other.work.list("a") == []
        assert other.work.stuck() == []
        other.sessions.create(id="a")
        other.work.enqueue("a", "theirs", id="a0")
        assert taken(other).claim.payloads == ["theirs"]
        assert taken(backend.store).claim.payloads == [0]
        assert other.work.cancel("a", "a0") is None

    def test_a_deleted_session_is_not_served_until_it_is_back(self, backend: Bed) -> None:
        fill(backend, "a", "b")
        backend.store.sessions.delete("a")
        assert serve(backend) == "b"
        assert backend.store.work.take() is None
        backend.store.sessions.restore("a")
        assert serve(backend) == "a"

    def test_restored_before_anybody_looked(self, backend: Bed) -> None:
        fill(backend, "a")
        backend.store.sessions.delete("a")
        backend.store.sessions.restore("a")
        assert serve(backend) == "a"

    def test_a_purged_session_leaves_no_work(self, backend: Bed) -> None:
        fill(backend, "a", items=2)
        taken(backend.store)
        backend.store.sessions.purge("a")
        assert backend.store.work.take() is None
        assert backend.store.work.list("a") == []
        backend.store.sessions.create(id="a")
        assert backend.store.work.list("a") == []
        assert backend.store.work.take() is None
        backend.store.work.enqueue("a", "new", id="a0")
        assert taken(backend.store).claim.payloads == ["new"]

    def test_copies_and_forks_have_nothing_to_do(self, backend: Bed) -> None:
        fill(backend, "a")
        backend.store.sessions.copy("a", "b")
        backend.store.sessions.fork("a", new_id="c")
        assert serve(backend) == "a"
        assert backend.store.work.take() is None
        assert backend.store.work.list("b") == backend.store.work.list("c") == []
