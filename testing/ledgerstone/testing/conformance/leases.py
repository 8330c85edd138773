"""Leases: one owner at a time, fences that only rise, one rule for every write."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone import assistant, user
from ledgerstone.commands.leases import TakeLease
from ledgerstone.errors import Fenced, LeaseExpired, LeaseHeld, SessionDeleted, SessionNotFound
from ledgerstone.records.leases import Lease
from ledgerstone.testing.bed import Bed


def take(
    backend: Bed,
    owner: str = "ann",
    ttl_s: float = 60,
    session: str = "s",
    *,
    reenter: bool = False,
) -> Lease:
    """A lease that must be granted."""
    lease = backend.store.leases.take(session, owner=owner, ttl_s=ttl_s, reenter=reenter)
    assert lease is not None
    return lease


class OnALeasedSession:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        """A session with two messages, `m1` and `m2`, held by nobody."""
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), assistant("yo", id="m2"), create=True)
        return "s"


class TestTakingALease(OnALeasedSession):
    @pytest.mark.promise(121)
    def test_a_free_session_is_granted_until_now_plus_ttl(self, backend: Bed, session: str) -> None:
        now_us = backend.clock.now_us()
        lease = take(backend, ttl_s=12.5)
        assert (lease.session, lease.owner, lease.fence) == (session, "ann", 1)
        assert (lease.claimed_us, lease.expires_us) == (now_us, now_us + 12_500_000)
        assert lease.token
        assert backend.store.leases.get(session) == lease

    @pytest.mark.promise(121, 124)
    def test_a_released_session_is_granted_with_a_higher_fence(
        self, backend: Bed, session: str
    ) -> None:
        first = take(backend)
        assert backend.store.leases.release(first) is True
        assert backend.store.leases.get(session) is None
        second = take(backend, "bob")
        assert (second.owner, second.fence) == ("bob", first.fence + 1)
        assert second.token != first.token

    @pytest.mark.promise(121, 124)
    def test_an_expired_session_is_granted_at_the_very_end_of_the_ttl(
        self, backend: Bed, session: str
    ) -> None:
        first = take(backend, ttl_s=10)
        backend.clock.advance(9.999999)
        assert backend.store.leases.take(session, owner="bob") is None
        backend.clock.advance(0.000001)
        assert take(backend, "bob").fence == first.fence + 1

    @pytest.mark.promise(122)
    def test_another_owner_gets_nothing_while_the_lease_lives(
        self, backend: Bed, session: str
    ) -> None:
        lease = take(backend)
        with backend.unchanged(session):
            assert backend.store.leases.take(session, owner="bob") is None
            assert backend.store.leases.take(session, owner="bob", reenter=True) is None
        assert backend.store.leases.get(session) == lease

    @pytest.mark.promise(123)
    def test_who_re_enters_gets_the_same_token_and_fence_again(
        self, backend: Bed, session: str
    ) -> None:
        first = take(backend, ttl_s=60)
        backend.clock.advance(5)
        again = take(backend, ttl_s=60, reenter=True)
        assert (again.token, again.fence) == (first.token, first.fence)
        assert again.expires_us == first.expires_us + 5_000_000

    @pytest.mark.promise(123)
    def test_re_entering_never_shortens_the_lease(self, backend: Bed, session: str) -> None:
        first = take(backend, ttl_s=60)
        assert take(backend, ttl_s=1, reenter=True).expires_us == first.expires_us

    @pytest.mark.promise(123, 204)
    @pytest.mark.parametrize("end", ["expired", "released", "never held"])
    def test_who_re_enters_what_nobody_holds_gets_a_new_fence(
        self, backend: Bed, session: str, end: str
    ) -> None:
        before = 0
        if end != "never held":
            first = take(backend, ttl_s=10)
            before = first.fence
            backend.clock.advance(10 if end == "expired" else 0)
            backend.store.leases.release(first) if end == "released" else None
        assert take(backend, reenter=True).fence == before + 1

    @pytest.mark.promise(124, 204)
    def test_every_grant_is_a_new_fence_and_token_also_for_the_same_owner(
        self, backend: Bed, session: str
    ) -> None:
        zombie = take(backend)
        lease = take(backend)
        assert (lease.fence, lease.owner) == (zombie.fence + 1, zombie.owner)
        assert lease.token != zombie.token
        with backend.unchanged(session), pytest.raises(Fenced):
            backend.store.messages.append(session, user("late"), lease=zombie)
        with pytest.raises(Fenced):
            backend.store.leases.renew(zombie)
        assert backend.store.leases.release(zombie) is False
        backend.store.messages.append(session, user("mine"), lease=lease)

    @pytest.mark.promise(204)
    def test_a_restarted_worker_never_shares_a_fence_with_its_former_self(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        store.work.enqueue(session, "job")
        former = store.work.take(owner="pod-0")
        assert former is not None
        for again in range(2, 5):
            restarted = take(backend, "pod-0")
            assert restarted.fence == again
            with backend.unchanged(session), pytest.raises(Fenced):
                store.messages.append(session, user("zombie"), lease=former.lease)
        with store.leases.hold(session, owner="pod-0", heartbeat=False) as held:
            assert held.fence == 5
            with backend.unchanged(session), pytest.raises(Fenced):
                store.messages.append(session, user("zombie"), lease=restarted)
            claim = store.work.claim(held)
            assert claim is not None
            assert claim.fence == held.fence

    @pytest.mark.promise(204)
    def test_take_and_hold_last_a_minute_by_default(self, backend: Bed, session: str) -> None:
        minute_us = 60_000_000
        lease = backend.store.leases.take(session)
        assert lease is not None
        assert lease.expires_us - lease.claimed_us == minute_us
        backend.store.leases.release(lease)
        with backend.store.leases.hold(session, heartbeat=False) as held:
            assert held.expires_us - held.lease.claimed_us == minute_us

    def test_the_same_command_again_is_the_same_grant(self, backend: Bed, session: str) -> None:
        """A lost answer is asked for again; that must not cost the asker its own fence."""
        command = TakeLease(tenant="default", session=session, owner="ann", token="t", ttl_us=5)
        first = backend.write(command)
        assert first is not None
        assert backend.write(command) == first

    @pytest.mark.promise(130)
    def test_ttl_zero_is_already_expired(self, backend: Bed, session: str) -> None:
        dead = take(backend, ttl_s=0)
        assert backend.store.leases.get(session) is None
        assert take(backend, "bob").fence == dead.fence + 1

    @pytest.mark.promise(127)
    def test_two_handles_that_race_give_one_winner(self, backend: Bed, session: str) -> None:
        stores = [backend.store, backend.open()]
        start = threading.Barrier(len(stores))
        won: list[Lease | None] = [None, None]

        def race(n: int) -> None:
            start.wait()
            won[n] = stores[n].leases.take(session, owner=f"worker {n}")

        threads = [threading.Thread(target=race, args=(n,)) for n in range(len(stores))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        granted = [lease for lease in won if lease is not None]
        assert len(granted) == 1
        assert granted[0].fence == 1
        assert backend.store.leases.get(session) == granted[0]

    @pytest.mark.promise(124)
    def test_the_lease_and_its_fence_survive_a_reopening(self, backend: Bed, session: str) -> None:
        lease = take(backend)
        backend.reopen()
        assert backend.store.leases.get(session) == lease
        assert backend.store.leases.take(session, owner="bob") is None
        assert backend.store.leases.release(lease) is True
        backend.reopen()
        assert take(backend, "bob").fence == lease.fence + 1

    def test_a_missing_session_can_not_be_leased(self, backend: Bed) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.leases.take("nowhere")
        assert backend.store.leases.get("nowhere") is None

    def test_a_deleted_session_is_not_granted(self, backend: Bed, session: str) -> None:
        backend.store.sessions.delete(session)
        with pytest.raises(SessionDeleted):
            backend.store.leases.take(session)

    def test_a_lease_does_not_move_the_revision(self, backend: Bed, session: str) -> None:
        lease = take(backend)
        backend.store.leases.renew(lease)
        backend.store.leases.release(lease)
        assert backend.revision(session) == 1


class TestRenewingAndReleasing(OnALeasedSession):
    @pytest.mark.promise(125)
    def test_a_renewal_moves_the_expiry_only(self, backend: Bed, session: str) -> None:
        lease = take(backend, ttl_s=60)
        backend.clock.advance(30)
        renewed = backend.store.leases.renew(lease, ttl_s=60)
        assert renewed.identity() == lease.identity()
        assert renewed.expires_us == backend.clock.now_us() + 60_000_000
        assert backend.store.leases.get(session) == renewed

    @pytest.mark.promise(125)
    def test_an_expired_lease_is_not_renewed(self, backend: Bed, session: str) -> None:
        lease = take(backend, ttl_s=10)
        backend.clock.advance(10)
        with pytest.raises(LeaseExpired) as caught:
            backend.store.leases.renew(lease)
        assert (caught.value.session, caught.value.fence) == (session, lease.fence)
        assert backend.store.leases.get(session) is None

    @pytest.mark.promise(125, 199)
    def test_a_lease_that_was_taken_over_is_fenced(self, backend: Bed, session: str) -> None:
        old = take(backend, ttl_s=10)
        backend.clock.advance(11)
        new = take(backend, "bob")
        with pytest.raises(Fenced) as caught:
            backend.store.leases.renew(old)
        assert (caught.value.yours, caught.value.current) == (old.fence, new.fence)
        assert backend.store.leases.get(session) == new

    @pytest.mark.promise(125, 129)
    @pytest.mark.parametrize("field", ["owner", "token"])
    def test_every_identity_field_must_match_for_a_renewal(
        self, backend: Bed, session: str, field: str
    ) -> None:
        lease = take(backend)
        with pytest.raises((LeaseExpired, Fenced)):
            backend.store.leases.renew(_altered(lease, field))
        assert backend.store.leases.get(session) == lease

    @pytest.mark.promise(126)
    def test_releasing_twice_is_fine(self, backend: Bed, session: str) -> None:
        lease = take(backend)
        assert backend.store.leases.release(lease) is True
        assert backend.store.leases.release(lease) is False

    @pytest.mark.promise(126)
    def test_a_stale_release_never_hurts_the_successor(self, backend: Bed, session: str) -> None:
        old = take(backend, ttl_s=10)
        backend.clock.advance(11)
        new = take(backend, "bob")
        assert backend.store.leases.release(old) is False
        assert backend.store.leases.get(session) == new

    @pytest.mark.promise(126, 129)
    @pytest.mark.parametrize("field", ["owner", "token", "fence"])
    def test_every_identity_field_must_match_for_a_release(
        self, backend: Bed, session: str, field: str
    ) -> None:
        lease = take(backend)
        assert backend.store.leases.release(_altered(lease, field)) is False
        assert backend.store.leases.get(session) == lease

    @pytest.mark.promise(129)
    def test_a_lease_names_its_four_identity_fields(self, backend: Bed, session: str) -> None:
        lease = take(backend)
        assert lease.identity() == (session, "ann", lease.token, lease.fence)


def _altered(lease: Lease, field: str) -> Lease:
    value: Any = 0 if field == "fence" else "somebody else"
    return replace(lease, **{field: value})


def _commit(backend: Bed, lease: Lease | None) -> object:
    turn = backend.store.turns.begin("s" if lease is None else lease)
    turn.user("new")
    return turn.commit()


Write = Callable[[Bed, Lease | None], object]

WRITES: dict[str, Write] = {
    "append": lambda b, lease: b.store.messages.append("s", user("new"), lease=lease),
    "replace": lambda b, lease: b.store.messages.replace("s", [user("new")], lease=lease),
    "pop": lambda b, lease: b.store.messages.pop("s", lease=lease),
    "clear": lambda b, lease: b.store.messages.clear("s", lease=lease),
    "amend": lambda b, lease: b.store.messages.amend(
        "m1", session="s", metadata={"a": 1}, lease=lease
    ),
    "compact": lambda b, lease: b.store.messages.compact(
        "s", "all said", tail_start="m2", lease=lease
    ),
    "nodes": lambda b, lease: b.store.nodes.append("s", {"kind": "plugin", "body": 1}, lease=lease),
    "tombstone": lambda b, lease: b.store.nodes.tombstone("s", ["m1"], lease=lease),
    "branch": lambda b, lease: b.store.branches.create("s", "b", at="m1", lease=lease),
    "move": lambda b, lease: b.store.branches.move("s", "main", to="m1", lease=lease),
    "turn": _commit,
}


@pytest.mark.parametrize("name", WRITES)
class TestOneRuleForEveryWrite(OnALeasedSession):
    """Contract D9: the same rule for each call that moves the revision."""

    @pytest.mark.promise(107)
    def test_the_holder_may_write(self, backend: Bed, session: str, name: str) -> None:
        WRITES[name](backend, take(backend))
        assert backend.revision(session) == 2

    @pytest.mark.promise(107)
    def test_anybody_may_write_what_nobody_holds(
        self, backend: Bed, session: str, name: str
    ) -> None:
        WRITES[name](backend, None)
        assert backend.revision(session) == 2

    def test_nobody_else_may_write_what_is_held(
        self, backend: Bed, session: str, name: str
    ) -> None:
        lease = take(backend)
        with backend.unchanged(session), pytest.raises(LeaseHeld) as caught:
            WRITES[name](backend, None)
        assert (caught.value.session, caught.value.owner) == (session, "ann")
        assert caught.value.expires_us == lease.expires_us

    @pytest.mark.promise(107, 128)
    def test_an_expired_lease_is_told_apart_from_a_lost_one(
        self, backend: Bed, session: str, name: str
    ) -> None:
        lease = take(backend, ttl_s=10)
        backend.clock.advance(10)
        with backend.unchanged(session), pytest.raises(LeaseExpired):
            WRITES[name](backend, lease)

    @pytest.mark.promise(128)
    def test_a_stale_fence_changes_nothing(self, backend: Bed, session: str, name: str) -> None:
        old = take(backend, ttl_s=10)
        backend.clock.advance(10)
        new = take(backend, "bob")
        with backend.unchanged(session), pytest.raises(Fenced) as caught:
            WRITES[name](backend, old)
        assert (caught.value.yours, caught.value.current) == (old.fence, new.fence)

    @pytest.mark.promise(128)
    def test_the_right_fence_with_another_token_is_refused(
        self, backend: Bed, session: str, name: str
    ) -> None:
        lease = take(backend)
        with backend.unchanged(session), pytest.raises(Fenced):
            WRITES[name](backend, _altered(lease, "token"))
