"""Moving: a store copied elsewhere, whatever the backends, is the same store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.api_sync.store import Store
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command
from ledgerstone.commands.transfer import (
    Chunk,
    ExportSessions,
    ExportTable,
    ImportRows,
    Row,
)
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.errors import CopyConflict, CopyDisturbed, Fenced, InvalidValue
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.rules.transfer import BLOBS, OF_A_TENANT, TABLES
from ledgerstone.testing import movable
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.faults import specimen
from ledgerstone.testing.wrappers import Wrapper

EVERYTHING = 1 << 40


class Stopped(Exception):
    """What ends a copy in the middle."""


class Ending(Wrapper):
    """A target that takes so many commands and then no more."""

    def __init__(self, inner: Backend, commands: int) -> None:
        super().__init__(inner)
        self._left = commands

    def write(self, command: Command[Any]) -> Any:
        if isinstance(command, ImportRows):
            self._left -= 1
            if self._left < 0:
                raise Stopped
        return self.inner.write(command)


class Copies:
    @pytest.fixture
    def clock(self, backend: Bed) -> ManualClock:
        return backend.clock

    @pytest.fixture
    def here(self, backend: Bed) -> Store:
        """The store under test, without a tenant."""
        return backend.open(tenant=None)

    @pytest.fixture
    def port(self, clock: ManualClock) -> Iterator[MemoryBackend]:
        made = MemoryBackend(clock)
        yield made
        made.close()

    @pytest.fixture
    def there(self, port: MemoryBackend, clock: ManualClock) -> Store:
        """A store in memory, without a tenant."""
        return Store(port, tenant=None, clock=clock)


class TestMovedStores(Copies):
    def test_out_of_it_everything_comes_along(
        self, backend: Bed, port: MemoryBackend, there: Store
    ) -> None:
        here = movable.fill(backend.port, backend.clock)
        copied = here.admin.copy_to(there)
        assert copied.root == here.admin.root().root == there.admin.root().root
        assert movable.answers(there, port) == movable.answers(here, backend.port)
        assert movable.defects(there) == []
        assert specimen.probe(port, backend.clock) == specimen.probe(backend.port, backend.clock)

    def test_into_it_everything_comes_along(
        self, backend: Bed, port: MemoryBackend, here: Store
    ) -> None:
        there = movable.fill(port, backend.clock)
        copied = there.admin.copy_to(here)
        backend.reopen()
        here = backend.open(tenant=None)
        assert copied.root == here.admin.root().root == there.admin.root().root
        assert movable.answers(here, backend.port) == movable.answers(there, port)
        assert movable.defects(here) == []
        assert specimen.probe(backend.port, backend.clock) == specimen.probe(port, backend.clock)

    def test_counts_say_what_was_copied(self, backend: Bed, here: Store, there: Store) -> None:
        store = there.for_tenant("default")
        store.messages.append("s", user("one"), user("two"), create=True)
        store.blobs.put(b"12345")
        (done,) = there.admin.copy_to(here).tenants
        assert {name: done.rows[name] for name in ("sessions", "nodes", "turns", "blobs")} == {
            "sessions": 1,
            "nodes": 2,
            "turns": 1,
            "blobs": 1,
        }
        assert (done.tenant, done.blobs, done.blob_bytes) == ("default", 1, 5)
        assert done.written == sum(done.rows.values())

    def test_one_tenant_is_copied_alone(self, here: Store, there: Store) -> None:
        for name in ("red", "blue"):
            there.for_tenant(name).messages.append("s", user(name), create=True)
        copied = there.for_tenant("red").admin.copy_to(here)
        assert [one.tenant for one in copied.tenants] == ["red"]
        assert here.admin.tenants() == ["red"]
        there.admin.copy_to(here)
        assert here.admin.root() == there.admin.root()

    def test_the_copy_goes_on_by_itself(self, backend: Bed, here: Store, there: Store) -> None:
        store = there.for_tenant("default")
        store.messages.append("s", user("one"), create=True)
        there.admin.copy_to(here)
        mine = here.for_tenant("default")
        before = mine.feed.read()
        mine.messages.append("s", user("two"))
        mine.messages.append("t", user("three"), create=True)
        assert backend.texts("s") == ["one", "two"]
        after = mine.feed.read(after=before.cursor)
        assert [one.session for one in after.entries] == ["s", "t"]
        assert movable.defects(here) == []

    def test_many_small_pages_and_large_rows(self, here: Store, there: Store) -> None:
        store = there.for_tenant("default")
        for n in range(12):
            text = "x" * (1_500_000 if n % 5 == 0 else 10)
            store.messages.append(f"s{n % 3}", user(text), create=True)
        there.admin.copy_to(here)
        assert here.admin.root() == there.admin.root()


class TestMovedOwnership(Copies):
    def held(self, there: Store) -> Lease:
        store = there.for_tenant("default")
        store.messages.append("s", user("one"), create=True)
        first = store.leases.take("s", owner="ann", ttl_s=60)
        assert first is not None
        store.leases.release(first)
        taken = store.leases.take("s", owner="bob", ttl_s=60)
        assert taken is not None
        return taken

    def test_a_lease_goes_on_and_its_fence_never_falls(
        self, backend: Bed, here: Store, there: Store
    ) -> None:
        lease = self.held(there)
        there.admin.copy_to(here)
        mine = here.for_tenant("default")
        mine.messages.append("s", user("two"), lease=lease)
        assert mine.leases.take("s", owner="eve", ttl_s=60) is None
        backend.clock.advance(61)
        newer = mine.leases.take("s", owner="eve", ttl_s=60)
        assert newer is not None
        assert newer.fence > lease.fence
        with pytest.raises(Fenced):
            mine.messages.append("s", user("late"), lease=lease)
        assert backend.texts("s") == ["one", "two"]

    @pytest.mark.promise(124)
    @pytest.mark.parametrize("outward", [True, False])
    def test_where_fences_begin_after_a_restore_comes_along(
        self, here: Store, there: Store, outward: bool
    ) -> None:
        source, target = (here, there) if outward else (there, here)
        restored = source.for_tenant("t")
        restored.sessions.create(id="old")
        restored.admin.after_restore(jump=1000)
        source.admin.copy_to(target)
        moved = target.for_tenant("t")
        moved.sessions.create(id="new")
        lease = moved.leases.take("new", owner="ann", ttl_s=60)
        assert lease is not None
        assert lease.fence > 1000

    def test_a_claim_is_completed_where_it_was_copied_to(self, here: Store, there: Store) -> None:
        lease = self.held(there)
        store = there.for_tenant("default")
        store.work.enqueue("s", {"n": 1}, id="w1")
        store.work.enqueue("s", {"n": 2}, id="w2")
        claim = store.work.claim(lease, id="c1")
        assert claim is not None
        there.admin.copy_to(here)
        mine = here.for_tenant("default")
        with mine.turns.begin("s", lease=lease) as turn:
            turn.complete(claim)
        left = [one.id for one in mine.work.list("s")]
        assert left == [one for one in ("w1", "w2") if one not in {b.id for b in claim.batches}]
        assert mine.work.enqueue("s", {"n": 3}, id="w3").enqueue_seq > 2


class TestMovingAgain(Copies):
    @pytest.mark.parametrize("commands", [1, 2, 4, 6, 9])
    def test_a_copy_that_ended_goes_on(
        self, backend: Bed, port: MemoryBackend, commands: int
    ) -> None:
        there = movable.fill(port, backend.clock)
        ending = Store(Ending(backend.port, commands), tenant=None, clock=backend.clock)
        with pytest.raises(Stopped):
            there.admin.copy_to(ending)
        backend.reopen()
        here = backend.open(tenant=None)
        there.admin.copy_to(here)
        assert here.admin.root() == there.admin.root()
        assert movable.defects(here) == []

    def test_a_second_copy_writes_nothing(self, here: Store, there: Store) -> None:
        store = there.for_tenant("default")
        store.messages.append("s", user("one"), create=True)
        store.artifacts.put("a", b"bytes", session="s")
        first = there.admin.copy_to(here)
        again = there.admin.copy_to(here)
        assert again.root == first.root
        assert again.written == len(store.admin.root().tenants)  # The times of its one blob.
        assert again.tenants[0].blobs == 0

    def test_what_was_not_quiet_is_told(self, here: Store, there: Store) -> None:
        store = there.for_tenant("default")
        for name in ("a", "b"):
            store.messages.append(name, user("one"), create=True)

        def disturb(phase: str, done: int, total: int) -> None:
            if phase == "sessions" and done == 2:
                store.messages.append("a", user("two"))

        with pytest.raises(CopyDisturbed) as caught:
            there.admin.copy_to(here, progress=disturb)
        assert caught.value.tenant == "default"


class TestMovingOntoOthers(Copies):
    def refused(self, here: Store, there: Store) -> CopyConflict:
        before = here.admin.root()
        with pytest.raises(CopyConflict) as caught:
            there.admin.copy_to(here)
        assert here.admin.root() == before
        return caught.value

    def test_another_session_is_in_the_way(self, here: Store, there: Store) -> None:
        there.for_tenant("default").messages.append("s", user("one"), create=True)
        there.for_tenant("default").memories.put("n", "k", 1)
        here.for_tenant("default").messages.append("t", user("two"), create=True)
        error = self.refused(here, there)
        assert (error.table, error.key, error.tenant) == ("sessions", "t", "default")

    def test_the_same_session_with_other_content_is_in_the_way(
        self, here: Store, there: Store
    ) -> None:
        for store, text in ((here, "one"), (there, "two")):
            store.for_tenant("default").messages.append("s", user(text), create=True)
        assert self.refused(here, there).key == "s"

    def test_a_memory_is_in_the_way(self, here: Store, there: Store) -> None:
        for store, value in ((here, 1), (there, 2)):
            store.for_tenant("default").memories.put("n", "k", value)
        assert self.refused(here, there).table == "memories"

    def test_more_than_the_source_has_is_in_the_way(self, here: Store, there: Store) -> None:
        there.for_tenant("default").sessions.create(id="s")
        there.admin.copy_to(here)
        here.for_tenant("default").memories.put("n", "k", 1)
        assert self.refused(here, there).table == "memories"

    def test_another_tenant_is_not(self, here: Store, there: Store) -> None:
        here.for_tenant("red").messages.append("s", user("one"), create=True)
        there.for_tenant("blue").messages.append("s", user("two"), create=True)
        there.admin.copy_to(here)
        assert here.admin.tenants() == ["blue", "red"]
        assert there.admin.root().tenants == here.for_tenant("blue").admin.root().tenants

    def test_the_store_itself_and_no_store_are_refused(self, here: Store) -> None:
        for target in (here, here.for_tenant("red"), here.admin, "agent.db", None):
            with pytest.raises(InvalidValue) as caught:
                here.admin.copy_to(target)  # type: ignore[arg-type]
            assert caught.value.field == "target"


class TestMovedRoot(Copies):
    def test_an_empty_store_has_one_too(self, here: Store, there: Store) -> None:
        assert here.admin.root() == there.admin.root()
        assert here.for_tenant("x").admin.root() == there.for_tenant("x").admin.root()

    def test_it_moves_with_whatever_is_written(self, backend: Bed, here: Store) -> None:
        store = backend.store
        seen = {here.admin.root().root}
        for write in (
            lambda: store.messages.append("s", user("one"), create=True),
            lambda: store.sessions.update("s", title="new"),
            lambda: store.nodes.annotate("s", "n", {"k": 1}),
            lambda: store.leases.take("s", owner="ann", ttl_s=60),
            lambda: store.memories.put("n", "k", 1),
            lambda: store.blobs.put(b"x"),
            lambda: store.work.enqueue("s", {"n": 1}),
            lambda: store.sessions.delete("s"),
            lambda: store.sessions.purge("s"),
        ):
            write()
            seen.add(here.admin.root().root)
        assert len(seen) == 10

    def test_reading_does_not_move_it(self, backend: Bed) -> None:
        here = movable.fill(backend.port, backend.clock)
        before = here.admin.root()
        movable.answers(here, backend.port)
        backend.reopen()
        assert backend.open(tenant=None).admin.root() == before


class TestMovedRows(Copies):
    def rows(self, backend: Bed, tenant: str, **pages: int) -> dict[str, list[Row]]:
        """Every row of a tenant, read in pages of some size."""
        found: dict[str, list[Row]] = {name: [] for name in TABLES}
        for table in OF_A_TENANT:
            after: Row | None = None
            while True:
                query = ExportTable(tenant=tenant, table=table.name, after=after, **pages)
                page = backend.ask(query)
                found[table.name] += page.rows
                if page.next is None:
                    break
                after = page.next
        left = tuple(row[0] for row in found["sessions"])
        table_name: str | None = None
        after = None
        while left:
            asked = ExportSessions(
                tenant=tenant, sessions=left, table=table_name, after=after, **pages
            )
            answer = backend.ask(asked)
            for chunk in answer.chunks:
                found[chunk.table] += chunk.rows
            table_name, after = answer.table, answer.next
            if table_name is None:
                left = left[answer.covered :]
        return found

    @pytest.mark.parametrize(
        "pages",
        [
            {"rows_max": 1, "bytes_max": EVERYTHING},
            {"rows_max": 3, "bytes_max": EVERYTHING},
            {"rows_max": 1000, "bytes_max": 1},
            {"rows_max": 1000, "bytes_max": 900},
        ],
    )
    def test_pages_of_any_size_tell_the_same(self, backend: Bed, pages: dict[str, int]) -> None:
        movable.fill(backend.port, backend.clock)
        whole = self.rows(backend, "default", rows_max=10**6, bytes_max=EVERYTHING)
        assert self.rows(backend, "default", **pages) == whole
        assert all(whole.values()), "the specimen has something of everything"
        for name, rows in whole.items():
            assert {len(row) for row in rows} == {len(TABLES[name].columns)}, name

    def test_the_same_rows_again_change_nothing(self, backend: Bed, port: MemoryBackend) -> None:
        there = movable.fill(port, backend.clock)
        here = backend.open(tenant=None)
        there.admin.copy_to(here)
        before = here.admin.root()
        for name, rows in self.rows(backend, "default", rows_max=10**6).items():
            written = backend.write(ImportRows(tenant="default", chunks=(Chunk(name, rows),)))
            assert written == 0 or name in (BLOBS.name, "ready"), name
        assert here.admin.root() == before

    def test_a_fork_of_nothing_begins_nowhere(self, backend: Bed) -> None:
        backend.store.sessions.create(id="empty")
        backend.store.sessions.fork("empty", new_id="copy")
        rows = self.rows(backend, "default")["turns"]
        places = [dict(zip(TABLES["turns"].columns, row, strict=True)) for row in rows]
        assert [(one["first_ord"], one["count"]) for one in places] == [(0, 0)]

    def test_other_rows_are_a_conflict_and_unknown_tables_an_error(self, backend: Bed) -> None:
        backend.store.memories.put("n", "k", 1)
        (row,) = self.rows(backend, "default")["memories"]
        other = Chunk("memories", [(*row[:2], b"2", *row[3:])])
        with pytest.raises(CopyConflict):
            backend.write(ImportRows(tenant="default", chunks=(other,)))
        assert self.rows(backend, "default")["memories"] == [row]
        with pytest.raises(InvalidValue):
            backend.write(ImportRows(tenant="default", chunks=(Chunk("nothing", [(1,)]),)))
        with pytest.raises(InvalidValue):
            backend.ask(ExportTable(tenant="default", table="nodes"))
