"""Damaged blobs: no wrong byte gets out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from ledgerstone.commands.blobs import FinishUpload, ForgetUpload, GetBlob, ListUploads
from ledgerstone.connect import Equipment
from ledgerstone.errors import Corrupt
from ledgerstone.records.blobs import CHUNK_BYTES
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.blobs import LONG, slices
from ledgerstone.testing.conformance.uploads import begin, counts, finish


class TestDamagedBlobs:
    """Other bytes are put under the key of a blob, as a broken disk or a stranger would."""

    @pytest.mark.parametrize("n", [0, 1, 2])
    def test_a_changed_byte_is_found(self, backend: Bed, n: int) -> None:
        changed = bytearray(LONG)
        changed[n * CHUNK_BYTES + 7] ^= 1
        check_damage(backend, bytes(changed), n)

    @pytest.mark.parametrize("n", [0, 1, 2])
    def test_a_lost_end_is_found(self, backend: Bed, n: int) -> None:
        check_damage(backend, LONG[: n * CHUNK_BYTES + 100], n)

    def test_more_bytes_are_found_before_the_last_piece(self, backend: Bed) -> None:
        check_damage(backend, LONG + b"more", 2)

    def test_lost_bytes_are_corrupt_not_absent(self, backend: Bed) -> None:
        store = backend.store
        for data in (LONG, b""):
            ref = store.blobs.put(data).ref
            rewrite(backend, ref, None)
            with pytest.raises(Corrupt):
                store.blobs.get(ref)
            with pytest.raises(Corrupt), store.blobs.open(ref) as reader:
                reader.read()

    def test_bytes_of_an_empty_one_are_found(self, backend: Bed) -> None:
        ref = backend.store.blobs.put(b"").ref
        rewrite(backend, ref, b"more")
        with pytest.raises(Corrupt):
            backend.store.blobs.get(ref)

    def test_a_wrong_whole_of_right_pieces_is_found(self, backend: Bed) -> None:
        place = Equipment(backend.port).place
        begin(backend, "k", place.name)
        writer = place.begin("default", "k")
        writer.write(b"hello")
        writer.finish()
        wrong = finish(backend, "k", "e" * 64, b"hello")
        with pytest.raises(Corrupt):
            backend.store.blobs.get(wrong.ref)


class TestVerifiedBlobs:
    def test_all_bytes_are_read_when_asked_to(self, backend: Bed) -> None:
        store = backend.store
        refs = [store.blobs.put(data).ref for data in (LONG, b"", b"good", b"lost")]
        store.for_tenant("other").blobs.put(b"of another")
        found = store.admin.verify(blobs=True)
        assert (found.blobs, found.defects) == (4, [])
        rewrite(backend, refs[0], LONG[:-1] + b"x")
        rewrite(backend, refs[3], None)
        assert store.admin.verify().defects == []
        found = store.admin.verify(blobs=True)
        assert found.blobs == 4
        assert {one.kind for one in found.defects} == {"blob"}
        assert [one.where for one in found.defects] == sorted([refs[0], refs[3]])

    def test_bytes_in_another_place_are_told(self, backend: Bed) -> None:
        begin(backend, "k", "somewhere")
        finish(backend, "k", "e" * 64, b"x")
        (found,) = backend.store.admin.verify(blobs=True).defects
        assert "somewhere" in found.detail


class TestHealedBlobs:
    """Who puts the content again has it stored, whatever became of the first bytes."""

    @pytest.mark.parametrize("damage", [None, b"", LONG[1:], b"x" + LONG[1:]])
    @pytest.mark.parametrize("source", [bytes, lambda data: [data]], ids=["bytes", "stream"])
    def test_content_that_got_lost_can_be_put_again(
        self, backend: Bed, source: Callable[[bytes], Any], damage: bytes | None
    ) -> None:
        store = backend.store
        made = store.blobs.put(LONG)
        old = backend.ask(GetBlob(tenant="default", ref=made.ref))
        rewrite(backend, made.ref, damage)
        again = store.blobs.put(source(LONG))
        assert (again.ref, again.created_us) == (made.ref, made.created_us)
        assert store.blobs.get(made) == LONG
        new = backend.ask(GetBlob(tenant="default", ref=made.ref))
        assert old is not None
        assert new is not None
        assert new.key != old.key
        assert store.admin.verify().ok
        found = backend.ask(ListUploads(tenant="default", before_us=2**60))
        assert [(one.key, one.leaving) for one in found] == [(old.key, True)]
        kept = store.attachments.put("s", LONG)
        store.admin.gc(older_than_s=0)
        assert counts(backend).uploads == 0
        assert store.blobs.get(kept) == LONG

    def test_an_empty_one_can_be_put_again(self, backend: Bed) -> None:
        made = backend.store.blobs.put(b"")
        rewrite(backend, made.ref, None)
        backend.store.blobs.put(b"")
        assert backend.store.blobs.get(made) == b""

    def test_what_was_healed_meanwhile_stays(self, backend: Bed) -> None:
        place = Equipment(backend.port).place.name
        for key in ("k1", "k2", "k3"):
            begin(backend, key, place)
        finish(backend, "k1", "r" * 64, b"x")
        command = FinishUpload(
            tenant="default",
            key="k2",
            ref="r" * 64,
            size_bytes=1,
            sums=b"",
            instead_of="k1",
        )
        assert backend.write(command).key == "k2"
        assert backend.write(replace(command, key="k3")).key == "k2"
        assert backend.write(command).key == "k2"
        found = backend.ask(ListUploads(tenant="default", before_us=2**60))
        assert [(one.key, one.leaving) for one in found] == [("k1", True), ("k3", False)]


def check_damage(bed: Bed, data: bytes, good: int) -> None:
    """The pieces before the damage are handed out, nothing of the rest is."""
    store = bed.store
    ref = store.blobs.put(LONG).ref
    rewrite(bed, ref, data)
    with pytest.raises(Corrupt) as caught:
        store.blobs.get(ref)
    assert (caught.value.table, caught.value.key, caught.value.field) == ("blobs", ref, "data")
    found: list[bytes] = []
    with pytest.raises(Corrupt), store.blobs.open(ref) as reader:
        found.extend(reader)
    assert b"".join(found) == LONG[: good * CHUNK_BYTES]


def rewrite(bed: Bed, ref: str, data: bytes | None) -> None:
    """Make the bytes of a blob these, or none."""
    blob = bed.ask(GetBlob(tenant="default", ref=ref))
    assert blob is not None
    place = Equipment(bed.port).place
    begin(bed, blob.key, place.name)
    place.delete("default", blob.key)
    bed.write(ForgetUpload(tenant="default", key=blob.key))
    if data is None:
        return
    begin(bed, blob.key, place.name)
    writer = place.begin("default", blob.key)
    for piece in slices(data, CHUNK_BYTES):
        writer.write(piece)
    writer.finish()
