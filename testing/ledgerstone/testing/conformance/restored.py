"""After a backup was restored: no fence that was granted since is granted again."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import Store, user
from ledgerstone.commands import Command
from ledgerstone.errors import Fenced, InvalidValue
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.wrappers import Wrapper

JUMP = 1 << 20


class Counting(Wrapper):
    """Notes the names of all commands."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.written: list[str] = []

    def write(self, command: Command[Any]) -> Any:
        self.written.append(type(command).__name__)
        return super().write(command)


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
    def test_all_sessions_of_the_tenant_in_one_command(self, backend: Bed) -> None:
        """Deleted ones and those with work too; not those of another tenant."""
        counting = Counting(backend.port)
        store, other = Store(counting, clock=backend.clock), backend.store.for_tenant("other")
        for n in range(5):
            store.messages.append(f"s{n}", user("hi"), create=True)
            store.work.enqueue(f"s{n}", n, available_at=backend.clock.now_us() + n * 1_000_000)
            assert store.leases.take(f"s{n}", owner="ann", ttl_s=60) is not None
        other.messages.append("s0", user("hi"), create=True)
        theirs = other.leases.take("s0", owner="eve", ttl_s=60)
        assert theirs is not None
        store.sessions.delete("s4")
        counting.written.clear()
        assert store.admin.after_restore() == 5
        assert counting.written == ["RaiseFences"]
        heads = [backend.store.sessions.head(f"s{n}") for n in range(4)]
        assert [head and head.fence for head in heads] == [1 + JUMP] * 4
        assert other.leases.get("s0") == theirs
        for n in range(4):
            taken = store.work.take(owner="bob")
            assert taken is not None, n
            assert (taken.lease.session, taken.lease.fence) == (f"s{n}", JUMP + 2)
            backend.clock.advance(1)
        store.sessions.restore("s4")
        assert store.admin.verify().ok

    @pytest.mark.promise(124)
    def test_it_needs_a_jump(self, backend: Bed) -> None:
        for bad in (0, -1, 1.5, "1", True):
            with pytest.raises(InvalidValue):
                backend.store.admin.after_restore(jump=bad)  # type: ignore[arg-type]
