"""After a backup was restored: no fence that was granted since is granted again."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import Fenced, InvalidValue
from ledgerstone.testing.bed import Bed

JUMP = 1 << 20


class TestAfterARestore:
    @pytest.mark.promise(124, 128)
    def test_fences_rise_and_every_lease_ends(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("hi"), create=True)
        before = store.leases.take("s", owner="ann", ttl_s=60)
        assert before is not None
        store.work.enqueue("s", {"job": 1})
        assert store.admin.after_restore() == 1
        with pytest.raises(Fenced):
            store.messages.append("s", user("late"), lease=before)
        after = store.leases.take("s", owner="bob", ttl_s=60)
        assert after is not None
        assert after.fence == before.fence + JUMP + 1
        assert store.admin.verify().ok

    @pytest.mark.promise(124)
    def test_work_of_a_holder_that_is_gone_can_be_taken_at_once(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("hi"), create=True)
        store.work.enqueue("s", {"job": 1})
        assert store.work.take(owner="ann") is not None
        assert store.work.take(owner="bob") is None
        store.admin.after_restore()
        taken = store.work.take(owner="bob")
        assert taken is not None
        assert taken.lease.fence > JUMP

    @pytest.mark.promise(124)
    def test_sessions_that_are_gone_or_to_come_begin_above(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("gone", user("hi"), create=True)
        for _ in range(3):
            lease = store.leases.take("gone", owner="ann", ttl_s=60)
            assert lease is not None
            store.leases.release(lease)
        store.sessions.purge("gone")
        assert store.admin.after_restore() == 0
        assert store.admin.after_restore(jump=5) == 0
        for name, last in (("gone", 3), ("new", 0)):
            store.messages.append(name, user("hi"), create=True)
            lease = store.leases.take(name, owner="ann", ttl_s=60)
            assert lease is not None
            assert lease.fence == last + JUMP + 5 + 1
        assert store.admin.verify().ok
        assert store.for_tenant("other").admin.after_restore() == 0

    @pytest.mark.promise(124)
    def test_it_needs_a_jump(self, backend: Bed) -> None:
        for bad in (0, -1, 1.5, "1", True):
            with pytest.raises(InvalidValue):
                backend.store.admin.after_restore(jump=bad)  # type: ignore[arg-type]
