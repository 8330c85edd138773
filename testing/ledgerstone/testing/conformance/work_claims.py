"""Claims: who owns batches, and how that ends."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone.errors import ClaimLost, Fenced, InvalidValue, LeaseExpired, SessionDeleted
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.work import OnASession, claimed, complete, names, take

S = 1_000_000
JOIN: dict[str, Any] = {"slot": "join", "merge": "group:g"}


def fill(backend: Bed, count: int, session: str = "s", **how: Any) -> None:
    """Batches w1, w2, ... of one kind."""
    for n in range(1, count + 1):
        backend.store.work.enqueue(session, n, id=f"w{n}", **how)


class TestClaiming(OnASession):
    @pytest.mark.promise(133, 136)
    def test_the_oldest_batch_is_claimed_and_stays_listed(self, backend: Bed, session: str) -> None:
        fill(backend, 2)
        lease = take(backend)
        claim = claimed(backend, lease, id="c1", ttl_s=30)
        now = backend.clock.now_us()
        assert (claim.session, claim.id, claim.fence) == (session, "c1", lease.fence)
        assert (claim.owner, claim.claimed_us) == (lease.owner, now)
        assert claim.expires_us == now + 30 * S
        assert claim.payloads == [1]
        listed = backend.store.work.list(session)
        assert [(b.id, b.claim, b.attempts) for b in listed] == [("w1", "c1", 1), ("w2", None, 0)]
        assert claim.batches == listed[:1]

    @pytest.mark.promise(136)
    def test_nothing_ready_is_no_claim(self, backend: Bed, session: str) -> None:
        lease = take(backend)
        assert backend.store.work.claim(lease) is None
        fill(backend, 1)
        with backend.unchanged(session):
            assert backend.store.work.claim(lease, max=0) is None

    @pytest.mark.promise(139)
    def test_a_claimed_batch_is_not_claimed_again(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        lease = take(backend)
        claimed(backend, lease, ttl_s=5)
        assert backend.store.work.claim(lease) is None
        backend.clock.advance(30)
        assert backend.store.work.claim(lease) is None

    @pytest.mark.promise(139)
    def test_claims_at_the_same_time_never_share(self, backend: Bed, session: str) -> None:
        fill(backend, 12)
        lease = take(backend)
        stores = [backend.store, backend.open()]
        with ThreadPoolExecutor(8) as pool:
            made = list(pool.map(lambda n: stores[n % 2].work.claim(lease), range(16)))
        owned = [batch.id for claim in made if claim is not None for batch in claim.batches]
        assert sorted(owned) == sorted(f"w{n}" for n in range(1, 13))

    def test_the_same_claim_again_is_the_same_claim(self, backend: Bed, session: str) -> None:
        fill(backend, 2)
        lease = take(backend)
        first = claimed(backend, lease, id="c1")
        assert backend.store.work.claim(lease, id="c1") == first

    @pytest.mark.promise(128, 135)
    def test_a_claim_needs_a_live_lease(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        old = take(backend, ttl_s=10)
        backend.clock.advance(10)
        with backend.unchanged(session), pytest.raises(LeaseExpired):
            backend.store.work.claim(old)
        take(backend, owner="bob")
        with backend.unchanged(session), pytest.raises(Fenced):
            backend.store.work.claim(old)

    def test_a_deleted_session_gives_no_work(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        lease = take(backend)
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            backend.store.work.claim(lease)

    @pytest.mark.promise(138)
    def test_the_work_of_another_session_is_never_claimed(self, backend: Bed, session: str) -> None:
        backend.store.sessions.create(id="other")
        backend.store.work.enqueue("other", 1, id="w1")
        lease = take(backend)
        assert backend.store.work.claim(lease) is None
        assert backend.store.work.claim(lease, ids=["w1"]) is None

    @pytest.mark.promise(140)
    def test_a_successor_claims_what_the_dead_one_had(self, backend: Bed, session: str) -> None:
        store = backend.store
        fill(backend, 1)
        lost = claimed(backend, take(backend, ttl_s=10), ttl_s=900)
        backend.clock.advance(10)
        new = take(backend, owner="bob")
        claim = claimed(backend, new)
        assert names(claim) == ["w1"]
        assert claim.fence > lost.fence
        assert claim.batches[0].attempts == 2
        turn = store.turns.begin(new)
        turn.complete(lost)
        with backend.unchanged(session), pytest.raises(ClaimLost):
            turn.commit()
        with backend.unchanged(session), pytest.raises(ClaimLost):
            store.work.renew(lost)
        with backend.unchanged(session), pytest.raises(ClaimLost):
            store.work.fail(lost, "too late")
        with backend.unchanged(session):
            assert store.work.abandon(lost) is False
        complete(backend, new, claim)
        assert store.work.list(session) == []

    @pytest.mark.promise(140)
    def test_a_claim_ends_with_its_lease_and_not_with_the_next_claim(
        self, backend: Bed, session: str
    ) -> None:
        fill(backend, 1)
        lost = claimed(backend, take(backend, ttl_s=10), ttl_s=900)
        backend.clock.advance(10)
        new = take(backend, owner="bob")
        turn = backend.store.turns.begin(new)
        turn.complete(lost)
        with backend.unchanged(session):
            with pytest.raises(ClaimLost):
                turn.commit()
            with pytest.raises(ClaimLost):
                backend.store.work.renew(lost)
            with pytest.raises(ClaimLost):
                backend.store.work.fail(lost, "too late")
            assert backend.store.work.abandon(lost) is False
        assert names(backend.store.work.list(session, pending=True)) == ["w1"]

    def test_recovery_names_claimed_work(self, backend: Bed, session: str) -> None:
        fill(backend, 2)
        claimed(backend, take(backend))
        found = backend.store.sessions.recovery(session)
        assert found is not None
        assert names(found.claims) == ["w1"]


class TestCompletingNeedsTheToken(OnASession):
    @pytest.mark.promise(202)
    @pytest.mark.parametrize("batches", [1, 3])
    def test_a_wrong_token_is_lost_also_under_the_right_lease(
        self, backend: Bed, session: str, batches: int
    ) -> None:
        store = backend.store
        for n in range(batches):
            store.work.enqueue(session, n, id=f"w{n}", slot="join", merge="payload")
        lease = take(backend)
        claim = claimed(backend, lease, max=batches)
        assert len(claim.batches) == batches
        guessed = store.turns.begin(lease)
        guessed.complete(replace(claim, token="a guess"))
        guessed.assistant("done")
        with backend.unchanged(session), pytest.raises(ClaimLost) as caught:
            guessed.commit()
        assert (caught.value.session, caught.value.claim) == (session, claim.id)
        complete(backend, lease, claim)
        assert store.work.list(session) == []

    @pytest.mark.promise(202)
    def test_the_token_of_another_claim_is_a_wrong_one(self, backend: Bed, session: str) -> None:
        fill(backend, 2)
        lease = take(backend)
        first, second = claimed(backend, lease), claimed(backend, lease)
        turn = backend.store.turns.begin(lease)
        turn.complete(replace(first, token=second.token))
        with backend.unchanged(session), pytest.raises(ClaimLost):
            turn.commit()

    @pytest.mark.promise(202)
    def test_what_was_failed_and_claimed_again_under_the_same_name_has_a_new_token(
        self, backend: Bed, session: str
    ) -> None:
        """Of the same lease and claim id, made by another process: only the token tells them."""
        fill(backend, 1)
        lease, other = take(backend), backend.open()
        old = claimed(backend, lease, id="c")
        other.work.fail(old, "again", delay_s=0)
        new = other.work.claim(lease, id="c")
        assert new is not None
        assert new.token != old.token
        turn = backend.store.turns.begin(lease)
        turn.complete(old)
        with backend.unchanged(session), pytest.raises(ClaimLost):
            turn.commit()
        complete(backend, lease, new)
        assert backend.store.work.list(session) == []

    @pytest.mark.promise(202)
    def test_the_id_alone_does_not_complete_a_claim(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        lease = take(backend)
        claim = claimed(backend, lease)
        with pytest.raises(InvalidValue, match="a Claim expected"):
            backend.store.turns.begin(lease).complete(claim.id)  # type: ignore[arg-type]


class TestClaimsEnd(OnASession):
    @pytest.mark.promise(142)
    def test_a_renewed_claim_ends_later(self, backend: Bed, session: str) -> None:
        fill(backend, 2, **JOIN)
        lease = take(backend, ttl_s=600)
        claim = claimed(backend, lease, max=2, ttl_s=60)
        backend.clock.advance(30)
        renewed = backend.store.work.renew(claim, ttl_s=60)
        assert renewed.expires_us == claim.expires_us + 30 * S
        same = ("session", "id", "owner", "token", "fence", "claimed_us", "payloads")
        assert [getattr(renewed, name) for name in same] == [getattr(claim, name) for name in same]
        assert names(renewed) == ["w1", "w2"]
        assert {b.claim_expires_us for b in backend.store.work.list(session)} == {
            renewed.expires_us
        }
        shorter = backend.store.work.renew(renewed, ttl_s=1)
        assert shorter.expires_us == renewed.expires_us

    @pytest.mark.promise(142)
    def test_a_lost_claim_is_named(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        lease = take(backend)
        claim = claimed(backend, lease)
        complete(backend, lease, claim)
        with pytest.raises(ClaimLost) as caught:
            backend.store.work.renew(claim)
        assert (caught.value.session, caught.value.claim) == (session, claim.id)

    @pytest.mark.promise(142)
    def test_ownership_counts_and_not_the_clock(self, backend: Bed, session: str) -> None:
        """Nobody took the session since, so nobody else can have the work."""
        fill(backend, 1)
        claim = claimed(backend, take(backend, ttl_s=10), ttl_s=10)
        backend.clock.advance(20)
        assert backend.store.work.renew(claim, ttl_s=10).expires_us == claim.expires_us + 20 * S

    @pytest.mark.promise(143)
    def test_abandoned_work_is_free_at_once_and_in_its_place(
        self, backend: Bed, session: str
    ) -> None:
        work = backend.store.work
        fill(backend, 2)
        before = work.list(session)
        lease = take(backend)
        claim = claimed(backend, lease)
        assert work.abandon(claim) is True
        assert work.list(session) == before == work.list(session, pending=True)
        with backend.unchanged(session):
            assert work.abandon(claim) is False
        assert names(claimed(backend, lease)) == ["w1"]

    def test_abandoned_work_may_rest_a_while(self, backend: Bed, session: str) -> None:
        work = backend.store.work
        fill(backend, 1, max_attempts=1)
        lease = take(backend)
        claim = claimed(backend, lease)
        with backend.unchanged(session), pytest.raises(InvalidValue):
            work.abandon(claim, delay_s=-1)
        assert work.abandon(claim, delay_s=30) is True
        backend.store.leases.release(lease)
        (batch,) = work.list(session)
        assert (batch.attempts, batch.available_us) == (0, backend.clock.now_us() + 30 * S)
        assert work.take() is None
        backend.clock.advance(30)
        taken = work.take()
        assert taken is not None
        assert names(taken.claim) == ["w1"]

    @pytest.mark.promise(143)
    def test_a_stranger_can_not_end_a_claim(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        backend.store.sessions.create(id="other")
        claim = claimed(backend, take(backend))
        work = backend.store.work
        for stranger in (replace(claim, token="guessed"), replace(claim, session="other")):
            with backend.unchanged(session):
                assert work.abandon(stranger) is False
                with pytest.raises(ClaimLost):
                    work.renew(stranger)
                with pytest.raises(ClaimLost):
                    work.fail(stranger, "no")

    @pytest.mark.promise(145)
    def test_completion_removes_exactly_the_claimed_batches(
        self, backend: Bed, session: str
    ) -> None:
        fill(backend, 4, **JOIN)
        lease = take(backend)
        first, second = claimed(backend, lease, max=2), claimed(backend, lease)
        complete(backend, lease, first)
        assert names(backend.store.work.list(session)) == ["w3", "w4"]
        complete(backend, lease, second)
        assert names(backend.store.work.list(session)) == ["w4"]

    @pytest.mark.promise(114, 145)
    def test_a_completed_claim_can_not_be_completed_again(self, backend: Bed, session: str) -> None:
        fill(backend, 1)
        lease = take(backend)
        claim = claimed(backend, lease)
        complete(backend, lease, claim)
        again = backend.store.turns.begin(lease)
        again.user("twice")
        again.complete(claim)
        with backend.unchanged(session), pytest.raises(ClaimLost):
            again.commit()

    @pytest.mark.promise(145)
    def test_a_repeated_commit_completes_once(self, backend: Bed, session: str) -> None:
        fill(backend, 2)
        lease = take(backend)
        claim = claimed(backend, lease)
        answers = []
        for _ in range(2):
            turn = backend.store.turns.begin(lease, id="t1")
            turn.complete(claim)
            answers.append(turn.commit())
        assert [answer.replayed for answer in answers] == [False, True]
        assert names(backend.store.work.list(session)) == ["w2"]
