"""What every place for bytes does alike: a directory, the database, a real object store."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from ledgerstone.errors import BlobNotFound
from ledgerstone.records.blobs import CHUNK_BYTES
from tests.blobs.place_beds import BEDS, TENANT, PlaceBed

NAMES = ["directory", "database", pytest.param("objects", marks=pytest.mark.slow)]
SIZES = [0, 1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 1, 3 * CHUNK_BYTES]
MANY_BYTES = 20 * CHUNK_BYTES + 77
"""More than an object store takes in one piece."""


@pytest.fixture(params=NAMES)
def bed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PlaceBed]:
    if request.param == "objects":
        request.getfixturevalue("at_weed")
    with BEDS[request.param](tmp_path) as opened:  # type: ignore[attr-defined]
        yield opened


def pieces(data: bytes) -> list[bytes]:
    return [data[n : n + CHUNK_BYTES] for n in range(0, len(data), CHUNK_BYTES)]


def noise(size: int, seed: int) -> bytes:
    return Random(seed).randbytes(size)


class TestPlaces:
    @pytest.mark.parametrize("size", SIZES)
    def test_what_was_written_is_read(self, bed: PlaceBed, size: int, seed: int) -> None:
        data = noise(size, seed)
        bed.put("k", *pieces(data))
        assert bed.get("k") == data

    def test_many_bytes(self, bed: PlaceBed, seed: int) -> None:
        data = noise(MANY_BYTES, seed)
        bed.put("k", *pieces(data))
        assert hashlib.sha256(bed.get("k")).digest() == hashlib.sha256(data).digest()

    @pytest.mark.parametrize(
        "first", [1, CHUNK_BYTES - 1, CHUNK_BYTES, CHUNK_BYTES + 5, MANY_BYTES - 1]
    )
    def test_reading_begins_anywhere(self, bed: PlaceBed, first: int, seed: int) -> None:
        data = noise(MANY_BYTES, seed)
        bed.put("k", *pieces(data))
        assert bed.get("k", first) == data[first:]

    def test_a_key_without_bytes(self, bed: PlaceBed) -> None:
        with pytest.raises(BlobNotFound):
            bed.get("nothing")

    def test_unfinished_bytes_are_nothing_to_read(self, bed: PlaceBed) -> None:
        bed.announce("k")
        writer = bed.place.begin(TENANT, "k")
        writer.write(b"x" * CHUNK_BYTES)
        if bed.place.name != "database":
            with pytest.raises(BlobNotFound):
                bed.get("k")
        writer.abort()
        bed.remove("k")
        with pytest.raises(BlobNotFound):
            bed.get("k")

    @pytest.mark.parametrize("size", [0, 10, MANY_BYTES])
    def test_abort_leaves_nothing(self, bed: PlaceBed, size: int, seed: int) -> None:
        bed.announce("k")
        writer = bed.place.begin(TENANT, "k")
        for piece in pieces(noise(size, seed)):
            writer.write(piece)
        writer.abort()
        writer.abort()
        bed.remove("k")
        with pytest.raises(BlobNotFound):
            bed.get("k")

    def test_deleting(self, bed: PlaceBed) -> None:
        bed.put("k", b"bytes")
        bed.put("other", b"others")
        bed.remove("k")
        bed.remove("k")
        bed.place.delete(TENANT, "never")
        bed.place.delete("nobody", "k")
        with pytest.raises(BlobNotFound):
            bed.get("k")
        assert bed.get("other") == b"others"

    def test_tenants_do_not_see_each_other(self, bed: PlaceBed) -> None:
        bed.put("k", b"of acme")
        with pytest.raises(BlobNotFound):
            bed.get("k", tenant="globex")
        bed.put("k", b"of globex", tenant="globex")
        bed.remove("k", tenant="globex")
        assert bed.get("k") == b"of acme"

    def test_keys_and_tenants_are_not_mixed_up(self, bed: PlaceBed) -> None:
        names = ["a", "A", "a/b", "a/", "ab", "é", "e\u0301", "a.tmp", ".."]
        for tenant in names:
            for key in names:
                bed.put(key, f"{tenant}|{key}".encode(), tenant=tenant)
        for tenant in names:
            for key in names:
                assert bed.get(key, tenant=tenant) == f"{tenant}|{key}".encode()

    def test_many_at_once(self, bed: PlaceBed, seed: int) -> None:
        def one(n: int) -> bool:
            data = noise(n * 40_000, seed + n)
            bed.put(f"k{n}", *pieces(data))
            return bed.get(f"k{n}") == data

        with ThreadPoolExecutor(8) as threads:
            assert all(threads.map(one, range(40)))

    def test_two_readers_of_one_key(self, bed: PlaceBed, seed: int) -> None:
        data = noise(3 * CHUNK_BYTES, seed)
        bed.put("k", *pieces(data))
        one, two = bed.place.read(TENANT, "k"), bed.place.read(TENANT, "k")
        first = [next(one), next(two)]
        assert first[0] + b"".join(one) == first[1] + b"".join(two) == data

    def test_pieces_are_of_bounded_size(self, bed: PlaceBed, seed: int) -> None:
        bed.put("k", *pieces(noise(MANY_BYTES, seed)))
        assert all(len(piece) <= CHUNK_BYTES for piece in bed.place.read(TENANT, "k"))

    def test_a_reader_that_stops_early(self, bed: PlaceBed, seed: int) -> None:
        bed.put("k", *pieces(noise(3 * CHUNK_BYTES, seed)))
        for _ in range(50):
            reading = bed.place.read(TENANT, "k")
            next(reading)
            reading.close()  # type: ignore[attr-defined]

    def test_closing_twice(self, bed: PlaceBed) -> None:
        bed.place.close()
        bed.place.close()
