"""Collectors that die, and several at once: nothing live is lost, nothing dead stays for ever."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.api_sync.store import Store
from ledgerstone.commands.blobs import DropBlob
from ledgerstone.connect import Equipment
from ledgerstone.errors import BlobNotFound, NotSupported
from ledgerstone.records.blobs import BlobCounts, Collected
from ledgerstone.records.parts import Image
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.gc import HOUR, blob_of, fill
from ledgerstone.testing.conformance.uploads import begin, counts, finish


class TestInterruptedCollectors:
    def test_what_a_dead_writer_left_goes(self, backend: Bed) -> None:
        place = Equipment(backend.port).place
        begin(backend, "k", place.name)
        writer = place.begin("default", "k")
        writer.write(b"half of it")
        backend.clock.advance(HOUR - 1)
        assert backend.store.admin.gc().uploads == 0
        backend.clock.advance(1)
        first = backend.store.admin.gc().uploads
        with pytest.raises(BlobNotFound):
            b"".join(place.read("default", "k"))
        # Where a slow writer may still put bytes, its row is kept for as long again.
        backend.clock.advance(HOUR)
        assert first + backend.store.admin.gc().uploads == 1
        assert counts(backend) == BlobCounts()

    def test_what_lies_in_another_place_stays(self, backend: Bed) -> None:
        begin(backend, "k1", "somewhere")
        begin(backend, "k2", "somewhere")
        finish(backend, "k1", "f" * 64, b"x")
        for dry_run in (True, False):
            found = backend.store.admin.gc(older_than_s=0, dry_run=dry_run)
            assert (found.deleted, found.uploads, found.elsewhere) == (0, 0, 2)
        assert counts(backend) == BlobCounts(blobs=1, size_bytes=1, uploads=1)
        with pytest.raises(NotSupported, match="somewhere"):
            backend.store.blobs.get("f" * 64)
        with pytest.raises(NotSupported, match="blobs="), backend.store.blobs.open("f" * 64):
            pass

    @pytest.mark.parametrize("deleted", [False, True])
    def test_a_collector_that_died_is_followed_up(self, backend: Bed, deleted: bool) -> None:
        """Dead after the row moved, or after the bytes were deleted as well."""
        store = backend.store
        (ref,) = fill(backend, 1)
        blob = blob_of(backend, ref)
        place = Equipment(backend.port).place
        backend.write(DropBlob(tenant="default", ref=ref, before_us=2**60))
        if deleted:
            place.delete("default", blob.key)
        assert store.blobs.get(ref) is None
        # The content comes back under a key of its own, before and after the rest is removed.
        assert fill(backend, 1) == [ref]
        backend.clock.advance(HOUR)
        store.blobs.put(b"loose 0")
        found = store.admin.gc()
        assert (found.uploads, found.deleted, found.retained) == (1, 0, 1)
        assert store.blobs.get(ref) == b"loose 0"
        with pytest.raises(BlobNotFound):
            b"".join(place.read("default", blob.key))

    def test_a_reader_of_bytes_that_went_is_told(self, backend: Bed) -> None:
        (ref,) = fill(backend, 1)
        with backend.store.blobs.open(ref) as reader:
            backend.store.admin.gc(older_than_s=0)
            with pytest.raises(BlobNotFound):
                reader.read()


class TestConcurrentCollectors:
    @pytest.mark.promise(179)
    def test_each_removal_is_counted_once(self, backend: Bed) -> None:
        fill(backend, 40)
        for n in range(10):
            begin(backend, f"k{n}")
        kept = backend.store.attachments.put("s", b"kept")
        found: list[Collected] = []
        stores = [backend.open() for _ in range(3)]

        def collect(store: Store) -> None:
            found.append(store.admin.gc(older_than_s=0))

        run_all([partial(collect, store) for store in stores])
        assert sum(one.deleted for one in found) == 40
        assert sum(one.uploads for one in found) >= 10
        backend.store.admin.gc(older_than_s=0)
        assert counts(backend) == BlobCounts(blobs=1, size_bytes=4, referenced=1, roots=1)
        assert backend.store.blobs.get(kept) == b"kept"

    @pytest.mark.promise(176, 179)
    def test_no_commit_names_bytes_that_are_gone(self, backend: Bed) -> None:
        """Writers put and use the same few bytes while collectors that spare nothing run."""
        used: set[str] = set()

        def write(store: Store, session: str) -> None:
            for n in range(12):
                data = b"bytes %d" % (n % 4)
                try:
                    ref = store.blobs.put([data]).ref
                    part = Image(blob=ref)
                    store.messages.append(session, user([part]), create=True)
                    used.add(ref)
                except BlobNotFound:
                    continue

        def collect(store: Store) -> None:
            for _ in range(8):
                store.admin.gc(older_than_s=0)

        calls = [partial(write, backend.open(), f"s{n}") for n in range(2)]
        calls += [partial(collect, backend.open()) for _ in range(2)]
        run_all(calls)
        for ref in used:
            data = backend.store.blobs.get(ref)
            assert data is not None
            assert data.startswith(b"bytes ")
        backend.store.admin.gc(older_than_s=0)
        assert counts(backend).blobs == counts(backend).referenced == len(used)
        assert counts(backend).uploads == 0


def run_all(calls: Sequence[Callable[[], object]]) -> None:
    """All at once; the first error of any of them is raised here."""
    errors: list[BaseException] = []

    def guarded(call: Callable[[], object]) -> None:
        try:
            call()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=guarded, args=(call,)) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class TestForgottenUploads:
    def test_a_put_that_lost_its_upload_says_so(self, backend: Bed) -> None:
        """With no time to spare at all, a collector may take what is being written."""
        store = backend.store

        def source() -> Any:
            yield b"a" * (1 << 20)
            store.admin.gc(older_than_s=0)
            yield b"b"

        with pytest.raises(BlobNotFound):
            store.blobs.put(source())
        assert counts(backend) == BlobCounts()
