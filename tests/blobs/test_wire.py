"""An object store behind a bad line: nothing is lost that was answered, nothing hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from ledgerstone import Store
from ledgerstone.blobs.objects import Objects, open_objects
from ledgerstone.errors import Unavailable
from ledgerstone.records.blobs import CHUNK_BYTES
from tests.blobs.servers import BUCKET, Server
from tests.blobs.test_objects import listed, put
from tests.blobs.wire import Wire, wire_to

pytestmark = pytest.mark.slow

SOON_S = 30.0


@pytest.fixture
def wire(at_weed: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Wire]:
    with wire_to(at_weed.port) as opened:
        monkeypatch.setenv("AWS_ENDPOINT_URL", opened.endpoint)
        yield opened


@pytest.fixture
def place(wire: Wire) -> Objects:
    return open_objects(f"s3://{BUCKET}/{uuid4().hex}")


@pytest.mark.parametrize("size_mib", [1, 20])
def test_answers_that_get_lost(place: Objects, wire: Wire, size_mib: int) -> None:
    """The same request again, and the store's "it is there" is understood as our own."""
    pieces = [bytes([n]) * CHUNK_BYTES for n in range(size_mib)]
    for n in range(1, 4):
        wire.answers_to_lose = 1
        put(place, f"k{n}", *pieces)
        assert b"".join(place.read("acme", f"k{n}")) == b"".join(pieces)
    assert wire.lost == 3


def test_a_reader_goes_on_after_a_lost_answer(place: Objects, wire: Wire) -> None:
    pieces = [bytes([n]) * CHUNK_BYTES for n in range(20)]
    put(place, "k", *pieces)
    reading = place.read("acme", "k")
    got = [next(reading)]
    wire.answers_to_lose = 1
    got.extend(reading)
    assert b"".join(got) == b"".join(pieces)


@pytest.mark.parametrize("size_mib", [1, 20])
def test_the_line_is_cut_half_way(
    wire: Wire, at_weed: Server, tmp_path: Path, size_mib: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = uuid4().hex

    def stream() -> Iterator[bytes]:
        for n in range(size_mib):
            if n == size_mib // 2:
                wire.cut()
            yield bytes([n]) * CHUNK_BYTES

    with Store.open(tmp_path / "store.db", blobs=f"s3://{BUCKET}/{prefix}") as store:
        early = store.blobs.put(b"early")
        begin = time.monotonic()
        with pytest.raises(Unavailable):
            store.blobs.put(stream())
        with pytest.raises(Unavailable):
            store.blobs.get(early)
        assert time.monotonic() - begin < SOON_S
    monkeypatch.setenv("AWS_ENDPOINT_URL", at_weed.endpoint)
    with Store.open(tmp_path / "store.db", blobs=f"s3://{BUCKET}/{prefix}") as store:
        assert store.blobs.get(early) == b"early"
        collected = [store.admin.gc(older_than_s=0) for _ in range(2)]
        assert sum(one.uploads for one in collected) == 1, "the row of the lost upload was kept"
    assert listed(at_weed, prefix) == []
