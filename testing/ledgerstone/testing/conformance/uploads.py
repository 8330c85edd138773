"""Uploads: a row before the first byte, a blob at the end, a row again before the bytes go."""

from __future__ import annotations

from hashlib import sha256

import pytest

from ledgerstone.commands.blobs import (
    BeginUpload,
    CondemnUpload,
    CountBlobs,
    DropBlob,
    FinishUpload,
    ForgetUpload,
    GetBlob,
    ListUploads,
    PutChunk,
    ReadChunk,
    TouchBlob,
)
from ledgerstone.errors import BlobNotFound, NotSupported
from ledgerstone.records.blobs import Blob, BlobCounts
from ledgerstone.testing.bed import Bed


def counts(bed: Bed, tenant: str = "default") -> BlobCounts:
    """How many blobs and uploads a tenant has."""
    return bed.ask(CountBlobs(tenant=tenant))


def begin(bed: Bed, key: str, place: str = "database") -> None:
    bed.write(BeginUpload(tenant="default", key=key, place=place))


def finish(bed: Bed, key: str, ref: str, data: bytes = b"") -> Blob:
    sums = sha256(data).digest() if data else b""
    return bed.write(
        FinishUpload(tenant="default", key=key, ref=ref, size_bytes=len(data), sums=sums)
    )


def put_chunk(bed: Bed, key: str, data: bytes, tenant: str = "default") -> None:
    bed.write(PutChunk(tenant=tenant, key=key, n=0, data=data))


def read_chunk(bed: Bed, key: str) -> bytes | None:
    return bed.ask(ReadChunk(tenant="default", key=key, n=0))


def refuses_chunks(bed: Bed) -> bool:
    """Whether the backend keeps bytes in a folder only; then it says so."""
    if bed.port.capabilities.bytes_folder is None:
        return False
    with pytest.raises(NotSupported):
        put_chunk(bed, "k", b"x")
    return True


class TestChunks:
    """Bytes inside the database, where a backend keeps some there."""

    def test_a_chunk_may_be_put_again(self, backend: Bed) -> None:
        if refuses_chunks(backend):
            return
        begin(backend, "k")
        for data in (b"x", b"y"):
            put_chunk(backend, "k", data)
        assert read_chunk(backend, "k") == b"y"

    def test_a_spare_upload_takes_its_chunks_along(self, backend: Bed) -> None:
        if refuses_chunks(backend):
            return
        for key in ("k1", "k2"):
            begin(backend, key)
            put_chunk(backend, key, b"x")
            finish(backend, key, "ref", b"x")
        assert backend.write(ForgetUpload(tenant="default", key="k2")) is True
        assert read_chunk(backend, "k2") is None
        assert read_chunk(backend, "k1") == b"x"

    def test_forgetting_never_touches_the_bytes_of_a_blob(self, backend: Bed) -> None:
        if refuses_chunks(backend):
            return
        begin(backend, "k")
        put_chunk(backend, "k", b"x")
        finish(backend, "k", "ref", b"x")
        assert backend.write(ForgetUpload(tenant="default", key="k")) is False
        assert read_chunk(backend, "k") == b"x"

    def test_without_an_upload_nothing_is_written(self, backend: Bed) -> None:
        if refuses_chunks(backend):
            return
        with pytest.raises(BlobNotFound):
            put_chunk(backend, "k", b"x")
        begin(backend, "k")
        with pytest.raises(BlobNotFound):
            put_chunk(backend, "k", b"x", tenant="other")
        backend.write(CondemnUpload(tenant="default", key="k", before_us=2**60))
        with pytest.raises(BlobNotFound):
            put_chunk(backend, "k", b"x")
        assert read_chunk(backend, "k") is None


class TestUploads:
    def test_an_upload_becomes_a_blob(self, backend: Bed) -> None:
        begin(backend, "k")
        assert counts(backend) == BlobCounts(uploads=1)
        blob = finish(backend, "k", "ref", b"x")
        now_us = backend.clock.now_us()
        assert (blob.key, blob.place, blob.touched_us) == ("k", "database", now_us)
        assert counts(backend) == BlobCounts(blobs=1, size_bytes=1)

    def test_each_step_may_be_repeated(self, backend: Bed) -> None:
        made = backend.write(BeginUpload(tenant="default", key="k", place="database"))
        backend.clock.advance(5)
        assert backend.write(BeginUpload(tenant="default", key="k", place="other")) == made
        blob = finish(backend, "k", "ref", b"x")
        backend.clock.advance(5)
        again = finish(backend, "k", "ref", b"x")
        assert (again.key, again.created_us) == (blob.key, blob.created_us)
        assert again.touched_us == backend.clock.now_us()

    def test_who_comes_second_keeps_an_upload_to_clean_up(self, backend: Bed) -> None:
        for key in ("k1", "k2"):
            begin(backend, key)
        finish(backend, "k1", "ref", b"x")
        backend.clock.advance(5)
        answer = finish(backend, "k2", "ref", b"x")
        assert (answer.key, answer.touched_us) == ("k1", backend.clock.now_us())
        found = backend.ask(ListUploads(tenant="default", before_us=2**60))
        assert [one.key for one in found] == ["k2"]
        assert backend.write(ForgetUpload(tenant="default", key="k2")) is True
        assert backend.write(ForgetUpload(tenant="default", key="k2")) is False

    def test_without_an_upload_nothing_is_finished(self, backend: Bed) -> None:
        with pytest.raises(BlobNotFound):
            finish(backend, "k", "ref", b"x")
        begin(backend, "k")
        backend.write(ForgetUpload(tenant="default", key="k"))
        with pytest.raises(BlobNotFound):
            finish(backend, "k", "ref", b"x")
        assert counts(backend) == BlobCounts()

    def test_a_condemned_upload_can_not_be_finished(self, backend: Bed) -> None:
        begin(backend, "k")
        made_us = backend.clock.now_us()
        early = CondemnUpload(tenant="default", key="k", before_us=made_us - 1)
        assert backend.write(early) is None
        assert backend.write(CondemnUpload(tenant="default", key="no", before_us=2**60)) is None
        gone = backend.write(CondemnUpload(tenant="default", key="k", before_us=made_us))
        assert gone is not None
        assert gone.leaving is True
        with pytest.raises(BlobNotFound):
            finish(backend, "k", "ref", b"x")

    def test_a_dropped_blob_is_an_upload_on_its_way_out(self, backend: Bed) -> None:
        begin(backend, "k")
        blob = finish(backend, "k", "ref", b"x")
        drop = DropBlob(tenant="default", ref="ref", before_us=blob.touched_us - 1)
        assert backend.write(drop) is None
        backend.clock.advance(1)
        backend.write(TouchBlob(tenant="default", ref="ref"))
        drop = DropBlob(tenant="default", ref="ref", before_us=blob.touched_us)
        assert backend.write(drop) is None
        drop = DropBlob(tenant="default", ref="ref", before_us=backend.clock.now_us())
        upload = backend.write(drop)
        assert upload is not None
        assert (upload.key, upload.leaving) == ("k", True)
        assert backend.write(drop) is None
        assert backend.ask(GetBlob(tenant="default", ref="ref")) is None
        with pytest.raises(BlobNotFound):
            finish(backend, "k", "ref", b"x")
        assert backend.write(TouchBlob(tenant="default", ref="ref")) is None

    def test_uploads_of_a_tenant_are_its_own(self, backend: Bed) -> None:
        begin(backend, "k")
        assert backend.write(ForgetUpload(tenant="other", key="k")) is False
        assert backend.ask(ListUploads(tenant="other", before_us=2**60)) == []
        assert counts(backend).uploads == 1
