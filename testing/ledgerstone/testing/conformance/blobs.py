"""Blobs: bytes by their SHA-256, from any source, checked on their way out."""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ledgerstone.errors import BlobNotFound, InvalidValue, Misuse
from ledgerstone.records.blobs import CHUNK_BYTES, BlobCounts
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.uploads import counts

LONG = bytes(range(251)) * 10_500
"""A little more than two pieces, and no two of them alike."""


def slices(data: bytes, size: int) -> Iterator[bytes]:
    for at in range(0, len(data), size):
        yield data[at : at + size]


class _Trickle:
    """A stream that gives less than it is asked for."""

    def __init__(self, data: bytes) -> None:
        self._left = data

    def read(self, n: int) -> bytes:
        taken, self._left = self._left[: n // 3], self._left[n // 3 :]
        return taken


SOURCES: dict[str, Callable[[bytes], Any]] = {
    "bytes": bytes,
    "bytearray": bytearray,
    "memoryview": memoryview,
    "an array": lambda data: array("B", data),
    "a reversed view": lambda data: memoryview(data[::-1])[::-1],
    "an open file": io.BytesIO,
    "a trickling stream": _Trickle,
    "small pieces": lambda data: slices(data, 70_001),
    "large pieces": lambda data: [data[:1_500_000], b"", bytearray(data[1_500_000:])],
}


class TestBlobs:
    @pytest.mark.promise(178)
    def test_a_blob_is_named_by_its_content(self, backend: Bed) -> None:
        blobs = backend.store.blobs
        made = blobs.put(b"hello", media_type="text/plain")
        assert made.ref == str(made) == sha256(b"hello").hexdigest()
        assert (made.size_bytes, made.media_type) == (5, "text/plain")
        assert made.created_us == backend.clock.now_us()
        assert blobs.get(made) == blobs.get(made.ref) == b"hello"
        assert blobs.stat(made) == made
        assert blobs.exists(made) is True

    @pytest.mark.promise(178)
    def test_the_same_content_is_the_same_blob(self, backend: Bed) -> None:
        blobs = backend.store.blobs
        first = blobs.put(b"hello")
        backend.clock.advance(5)
        again = blobs.put([b"hel", b"lo"], media_type="text/plain")
        assert (again.ref, again.created_us) == (first.ref, first.created_us)
        assert again.media_type == "text/plain"
        assert blobs.put(b"hello", media_type="text/html").media_type == "text/plain"
        assert counts(backend) == BlobCounts(blobs=1, size_bytes=5)

    def test_an_unknown_one_is_absent(self, backend: Bed) -> None:
        blobs = backend.store.blobs
        for ref in ("f" * 64, "anything", "../../etc/passwd"):
            assert blobs.get(ref) is None
            assert blobs.stat(ref) is None
            assert blobs.exists(ref) is False
            with pytest.raises(BlobNotFound), blobs.open(ref):
                pass

    @pytest.mark.parametrize("source", SOURCES)
    @pytest.mark.parametrize("data", [b"", b"x", LONG], ids=["empty", "short", "long"])
    def test_bytes_come_back_from_every_source(
        self, backend: Bed, source: str, data: bytes
    ) -> None:
        made = backend.store.blobs.put(SOURCES[source](data))
        assert (made.ref, made.size_bytes) == (sha256(data).hexdigest(), len(data))
        assert backend.store.blobs.get(made) == data

    def test_a_path_is_read(self, backend: Bed, tmp_path: Path) -> None:
        for data in (LONG, b""):
            (tmp_path / "file").write_bytes(data)
            made = backend.store.blobs.put(tmp_path / "file", size_bytes=len(data))
            assert backend.store.blobs.get(made) == data

    @pytest.mark.promise(178)
    def test_blobs_survive_a_reopening(self, backend: Bed) -> None:
        made = [backend.store.blobs.put(data) for data in (LONG, b"", b"x")]
        blobs = backend.reopen().blobs
        assert [blobs.get(one) for one in made] == [LONG, b"", b"x"]
        assert [blobs.stat(one) for one in made] == made

    def test_a_tenant_has_its_own(self, backend: Bed) -> None:
        store = backend.store
        made = store.blobs.put(b"secret")
        other = store.for_tenant("other")
        assert other.blobs.get(made) is None
        assert other.blobs.exists(made) is False
        other.blobs.put(b"secret")
        other.admin.gc(older_than_s=0)
        assert other.blobs.get(made) is None
        assert store.blobs.get(made) == b"secret"


class TestBlobReaders:
    def test_pieces_follow_each_other(self, backend: Bed) -> None:
        made = backend.store.blobs.put(LONG, media_type="application/x-long")
        with backend.store.blobs.open(made) as reader:
            assert (reader.ref, reader.size_bytes) == (made.ref, len(LONG))
            assert reader.media_type == "application/x-long"
            found = list(reader)
        assert b"".join(found) == LONG
        assert max(map(len, found)) <= CHUNK_BYTES
        assert all(found)

    @pytest.mark.parametrize("first", [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, len(LONG) - 1])
    def test_reading_begins_anywhere(self, backend: Bed, first: int) -> None:
        made = backend.store.blobs.put(LONG)
        with backend.store.blobs.open(made, first=first) as reader:
            assert b"".join(reader) == LONG[first:]

    @pytest.mark.parametrize("first", [len(LONG), len(LONG) + 1, 2**40])
    def test_behind_the_end_is_nothing(self, backend: Bed, first: int) -> None:
        made = backend.store.blobs.put(LONG)
        with backend.store.blobs.open(made, first=first) as reader:
            assert list(reader) == []
            assert reader.read() == b""

    def test_so_many_bytes_are_read(self, backend: Bed) -> None:
        made = backend.store.blobs.put(LONG)
        with backend.store.blobs.open(made) as reader:
            assert reader.read(0) == b""
            assert reader.read(10) == LONG[:10]
            assert reader.read(CHUNK_BYTES) == LONG[10 : 10 + CHUNK_BYTES]
            assert next(reader) == LONG[10 + CHUNK_BYTES : 2 * CHUNK_BYTES]
            assert reader.read() == LONG[2 * CHUNK_BYTES :]
            assert reader.read() == b""

    def test_a_reader_is_entered_first(self, backend: Bed) -> None:
        made = backend.store.blobs.put(b"x")
        reader = backend.store.blobs.open(made)
        with pytest.raises(Misuse):
            reader.read()
        with pytest.raises(Misuse):
            _ = reader.size_bytes
        with reader:
            pass
        with pytest.raises(Misuse):
            next(reader)


WRONG_DATA: dict[str, Any] = {
    "text": "hello",
    "None": None,
    "a number": 5,
    "numbers": [1, 2],
    "a dictionary": {"a": 1},
    "pieces of text": ["a", "b"],
    "a text file": io.StringIO("hello"),
    "a missing file": Path("/nowhere/at/all"),
    "a directory": Path("/"),
}


class TestRefusedBlobs:
    @pytest.mark.parametrize("name", WRONG_DATA)
    def test_what_is_no_bytes_is_named(self, backend: Bed, name: str) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.blobs.put(WRONG_DATA[name])
        assert caught.value.field == "data"
        assert counts(backend) == BlobCounts()

    def test_the_keys_of_a_dictionary_are_not_read(self, backend: Bed) -> None:
        with pytest.raises(InvalidValue, match="a Path or a stream expected, got dict"):
            backend.store.blobs.put(WRONG_DATA["a dictionary"])

    @pytest.mark.parametrize("media", ["", "text", "/", "a/", "a b/c", "a/b\n", "a/" + "b" * 300])
    def test_a_media_type_has_two_parts(self, backend: Bed, media: str) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.blobs.put(b"x", media_type=media)
        assert caught.value.field == "media_type"

    @pytest.mark.parametrize("size", [0, 4, 6])
    def test_another_size_stores_nothing(self, backend: Bed, size: int) -> None:
        for data in (b"hello", [b"hel", b"lo"]):
            with pytest.raises(InvalidValue, match="bytes were announced") as caught:
                backend.store.blobs.put(data, size_bytes=size)
            assert caught.value.field == "data"
            assert "changed" not in str(caught.value)
        assert counts(backend) == BlobCounts()

    def test_another_size_of_known_bytes_is_refused(self, backend: Bed) -> None:
        backend.store.blobs.put(b"hello")
        with pytest.raises(InvalidValue, match="data: 4 bytes were announced, 5 came"):
            backend.store.blobs.put(b"hello", size_bytes=4)

    @pytest.mark.parametrize("size", [-1, True, 1.5, "5"])
    def test_a_size_is_a_number(self, backend: Bed, size: Any) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.blobs.put(b"hello", size_bytes=size)
        assert caught.value.field == "size_bytes"

    def test_a_source_that_fails_leaves_nothing(self, backend: Bed) -> None:
        def source() -> Iterator[bytes]:
            yield LONG
            raise OSError("the line is dead")

        with pytest.raises(OSError, match="the line is dead"):
            backend.store.blobs.put(source())
        assert counts(backend) == BlobCounts()

    def test_bytes_that_change_under_a_known_name_are_refused(
        self, backend: Bed, tmp_path: Path
    ) -> None:
        class Restless:
            """A file that is another one each time it is opened."""

            opened = 0

            def __fspath__(self) -> str:
                Restless.opened += 1
                path = tmp_path / "file"
                path.write_bytes(b"x" * Restless.opened)
                return str(path)

        with pytest.raises(InvalidValue, match="changed while it was read"):
            backend.store.attachments.put("s", Restless())
        assert counts(backend).blobs == 0
        assert counts(backend).uploads == 0

    @pytest.mark.parametrize("ref", ["", "x" * 300, None, 5, b"x"])
    def test_a_ref_is_text(self, backend: Bed, ref: Any) -> None:
        for call in (backend.store.blobs.get, backend.store.blobs.stat, backend.store.blobs.open):
            with pytest.raises(InvalidValue):
                call(ref)

    @pytest.mark.parametrize("n", [-2, True, "1", 1.0, None])
    def test_a_length_is_a_number(self, backend: Bed, n: Any) -> None:
        made = backend.store.blobs.put(b"x")
        with backend.store.blobs.open(made) as reader:
            with pytest.raises(InvalidValue) as caught:
                reader.read(n)
            assert caught.value.field == "n"
            assert made.ref in repr(reader)

    @pytest.mark.parametrize("first", [-1, True, "0", 1.0])
    def test_a_start_is_a_number(self, backend: Bed, first: Any) -> None:
        with pytest.raises(InvalidValue) as caught:
            backend.store.blobs.open("f" * 64, first=first)
        assert caught.value.field == "first"
