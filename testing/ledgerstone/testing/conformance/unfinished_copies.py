"""Copies that did not end: disturbed, interrupted or refused. Verify of the target says so."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from ledgerstone import user
from ledgerstone.api_sync.store import Store
from ledgerstone.clock import ManualClock
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.errors import CopyConflict, CopyDisturbed
from ledgerstone.testing import movable
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.transfer import Copies, Ending, Stopped

ROUNDS = 30
TENANTS = ("red", "green", "blue")
Step = Callable[[str, int, int], object]


def unfinished(store: Store, tenant: str) -> bool:
    """Whether verify says that the copy of a tenant has not ended, and what to do."""
    found = [one for one in store.for_tenant(tenant).admin.verify().defects if one.kind == "copy"]
    assert all("ledgerstone copy" in one.detail for one in found)
    return bool(found)


def some_store(random: Random, clock: ManualClock, tenant: str) -> Store:
    """A small store with something of several kinds."""
    store = Store(MemoryBackend(clock), tenant=None, clock=clock)
    mine = store.for_tenant(tenant)
    for n in range(random.randrange(1, 4)):
        mine.messages.append(f"s{n}", user("one"), create=True)
    mine.memories.put("n", "k", 1)
    mine.blobs.put(b"bytes")
    return store


def disturbing(random: Random, store: Store) -> Step:
    """Writes to the source once, at a random step of the copy."""
    writes = (
        lambda: store.messages.append("s0", user("two")),
        lambda: store.messages.append("new", user("two"), create=True),
        lambda: store.memories.put("n", "k2", 2),
        lambda: store.nodes.annotate("s0", "n", {"k": 1}),
        lambda: store.leases.take("s0", owner="ann", ttl_s=60),
        lambda: store.work.enqueue("s0", {"n": 1}),
    )
    left = [random.randrange(1, 12)]

    def step(phase: str, done: int, total: int) -> None:
        left[0] -= 1
        if left[0] == 0:
            random.choice(writes)()

    return step


class TestUnfinishedCopies(Copies):
    def test_after_a_disturbed_copy_verify_is_never_silent(
        self, here: Store, clock: ManualClock
    ) -> None:
        random, disturbed, silent = Random(67), 0, 0
        for n in range(ROUNDS):
            tenant = f"t{n}"
            source = some_store(random, clock, tenant)
            step = disturbing(random, source.for_tenant(tenant))
            try:
                source.admin.copy_to(here, progress=step)
            except CopyDisturbed:
                disturbed += 1
                silent += not unfinished(here, tenant)
            else:
                # The control: a copy that nobody disturbed is whole, and not under suspicion.
                assert not unfinished(here, tenant)
            source.close()
        assert 5 < disturbed < ROUNDS
        assert silent == 0

    @pytest.mark.parametrize("commands", [0, 1, 2, 4, 6, 9])
    def test_after_an_interrupted_copy_too_until_it_is_made_whole(
        self, backend: Bed, port: MemoryBackend, commands: int
    ) -> None:
        there = movable.fill(port, backend.clock)
        ending = Store(Ending(backend.port, commands), tenant=None, clock=backend.clock)
        with pytest.raises(Stopped):
            there.admin.copy_to(ending)
        backend.reopen()
        here = backend.open(tenant=None)
        assert all(unfinished(here, name) for name in there.admin.tenants())
        there.admin.copy_to(here)
        assert movable.defects(here) == []
        assert here.admin.root() == there.admin.root()

    def test_no_tenant_is_finished_before_the_last(self, here: Store, there: Store) -> None:
        for name in TENANTS:
            there.for_tenant(name).messages.append("s", user(name), create=True)
        proved = 0

        def interrupt(phase: str, done: int, total: int) -> None:
            nonlocal proved
            proved += phase == "checking the target"
            if proved == len(TENANTS) - 1:
                raise Stopped

        with pytest.raises(Stopped):
            there.admin.copy_to(here, progress=interrupt)
        assert all(unfinished(here, name) for name in TENANTS)

    def test_a_tenant_that_comes_meanwhile_disturbs(self, here: Store, there: Store) -> None:
        there.for_tenant("red").messages.append("s", user("one"), create=True)

        def disturb(phase: str, done: int, total: int) -> None:
            there.for_tenant("late").sessions.ensure("s")

        with pytest.raises(CopyDisturbed) as caught:
            there.admin.copy_to(here, progress=disturb)
        assert caught.value.tenant == "late"
        assert unfinished(here, "red")

    def test_a_store_that_was_no_target_is_not_under_suspicion(
        self, here: Store, there: Store
    ) -> None:
        """A conflict is found before anything is written, wherever it stands."""
        store, mine = there.for_tenant("red"), here.for_tenant("red")
        store.messages.append("s", user("one"), create=True)
        there.admin.copy_to(here)
        for change in (
            lambda: mine.nodes.annotate("s", "n", {"k": 1}),
            lambda: mine.messages.append("s", user("mine")),
        ):
            change()
            with pytest.raises(CopyConflict):
                there.admin.copy_to(here)
            assert not unfinished(here, "red")

    def test_the_mark_is_no_row_of_the_store_and_goes_along(
        self, here: Store, there: Store, clock: ManualClock
    ) -> None:
        """A copy of what is unfinished is unfinished, until the first copy was made whole."""
        there.for_tenant("red").messages.append("s", user("one"), create=True)

        def interrupt(phase: str, done: int, total: int) -> None:
            if phase == "checking the target":
                assert here.admin.root() == there.admin.root()
                raise Stopped

        with pytest.raises(Stopped):
            there.admin.copy_to(here, progress=interrupt)
        assert unfinished(here, "red")
        onward = Store(MemoryBackend(clock), tenant=None, clock=clock)
        here.admin.copy_to(onward)
        assert unfinished(onward, "red")
        there.admin.copy_to(here)
        here.admin.copy_to(onward)
        assert not unfinished(here, "red")
        assert not unfinished(onward, "red")
        onward.close()
