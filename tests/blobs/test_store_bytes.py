"""A whole store over each place: what comes in goes out again, and is collected."""

from __future__ import annotations

import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from ledgerstone import Store, user
from ledgerstone.blobs.object_calls import PART_BYTES
from ledgerstone.errors import Corrupt, NotSupported, StorageFull
from ledgerstone.records.blobs import CHUNK_BYTES
from tests.backends.places import small_disk
from tests.blobs.servers import BUCKET, Server
from tests.blobs.test_objects import MEMORY_BYTES, listed, resident_bytes

PLACES = ["directory", "database", "beside", pytest.param("objects", marks=pytest.mark.slow)]
LARGE_BYTES = 10 * CHUNK_BYTES + 9

EXAMPLE = Path(__file__).parents[2] / "examples" / "images_in_object_store.py"
STREAM_BYTES = 40 * CHUNK_BYTES

Open = Callable[[], Store]


@pytest.fixture(params=PLACES)
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    """Opens the same store again and again; `beside` is what a store of journals does itself."""
    url: str | Path = tmp_path / "store.db"
    blobs: str | Path | None = None
    if request.param == "directory":
        blobs = tmp_path / "bytes"
    elif request.param == "beside":
        url = f"file://{tmp_path}/store"
    elif request.param == "objects":
        request.getfixturevalue("at_weed")
        blobs = f"s3://{BUCKET}/{uuid4().hex}"
    return lambda: Store.open(url, blobs=blobs)


class TestStores:
    def test_in_and_out(self, open_store: Open) -> None:
        data = bytes(range(256)) * (LARGE_BYTES // 256)
        with open_store() as store:
            small, large = store.blobs.put(b"small"), store.blobs.put(data)
        with open_store() as store:
            assert store.blobs.get(small) == b"small"
            with store.blobs.open(large, first=CHUNK_BYTES + 3) as reader:
                assert b"".join(reader) == data[CHUNK_BYTES + 3 :]

    def test_the_collector_deletes_what_nothing_names(self, open_store: Open) -> None:
        with open_store() as store:
            spare, used = store.blobs.put(b"spare"), store.blobs.put(b"used")
            image = {"type": "image", "blob": used.ref}
            store.messages.append("s", user([image]), create=True)
            collected = store.admin.gc(older_than_s=0)
            assert (collected.deleted, collected.retained) == (1, 1)
            assert store.blobs.get(spare) is None
            assert store.blobs.get(used) == b"used"

    def test_a_large_stream_in_little_memory(self, open_store: Open) -> None:
        chunk = bytes(range(256)) * 1000

        def stream() -> Iterator[bytes]:
            for _ in range(STREAM_BYTES // len(chunk)):
                yield chunk

        with open_store() as store:
            store.blobs.put(b"warm")
            before = resident_bytes()
            tracemalloc.start()
            try:
                large = store.blobs.put(stream())
                with store.blobs.open(large) as reader:
                    size = sum(map(len, reader))
                held = tracemalloc.get_traced_memory()[1]
            finally:
                tracemalloc.stop()
        assert size == large.size_bytes > 39 * CHUNK_BYTES
        assert held < 4 * PART_BYTES
        assert resident_bytes() - before < MEMORY_BYTES

    def test_a_stream_that_breaks_leaves_nothing(self, open_store: Open) -> None:
        def breaking() -> Iterator[bytes]:
            yield b"x" * LARGE_BYTES
            raise ConnectionError

        with open_store() as store:
            with pytest.raises(ConnectionError):
                store.blobs.put(breaking())
            assert store.admin.gc(older_than_s=0).uploads == 0


@pytest.mark.slow
def test_nothing_is_left_in_the_bucket(at_weed: Server, tmp_path: Path) -> None:
    prefix = uuid4().hex
    with Store.open(tmp_path / "store.db", blobs=f"s3://{BUCKET}/{prefix}") as store:
        for n in range(5):
            store.blobs.put(f"{n}".encode() * (n * 3_000_000 + 1))
        assert len(listed(at_weed, prefix)) == 5
        store.admin.gc(older_than_s=0)
        assert listed(at_weed, prefix) == []


def test_a_store_that_is_opened_without_its_place(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db") as store:
        early = store.blobs.put(b"in the database")
    with Store.open(tmp_path / "store.db", blobs=tmp_path / "bytes") as store:
        late = store.blobs.put(b"in the directory")
        assert store.blobs.get(early) == b"in the database"
    with Store.open(tmp_path / "store.db") as store:
        assert store.blobs.get(early) == b"in the database"
        with pytest.raises(NotSupported, match=r"directory.*blobs="):
            store.blobs.get(late)


def test_a_full_disk(tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "4m") as disk:
        if disk is None:
            pytest.skip("nothing can be mounted here; tests/blobs/test_directory.py fakes it")
        with Store.open(tmp_path / "store.db", blobs=disk / "bytes") as store:
            kept = store.blobs.put(b"k" * CHUNK_BYTES)
            with pytest.raises(StorageFull):
                store.blobs.put(b"x" * 8 * CHUNK_BYTES)
            assert len([path for path in disk.rglob("*") if path.is_file()]) == 1
            assert store.blobs.get(kept) == b"k" * CHUNK_BYTES
            late = store.blobs.put(b"l" * CHUNK_BYTES)
            assert store.blobs.get(late) == b"l" * CHUNK_BYTES
            assert store.admin.gc(dry_run=True, older_than_s=0).uploads == 0


def test_bytes_that_somebody_took_away(tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.db", blobs=tmp_path / "bytes") as store:
        gone = store.blobs.put(b"gone")
        for path in (tmp_path / "bytes").rglob("*"):
            if path.is_file():
                path.unlink()
        with pytest.raises(Corrupt, match="not there"):
            store.blobs.get(gone)


HALF = """
import sys, time
from ledgerstone import Store

def stream():
    for _ in range(int(sys.argv[3])):
        yield b"x" * (1 << 20)
    print("half", flush=True)
    time.sleep(600)

Store.open(sys.argv[1], blobs=sys.argv[2]).blobs.put(stream())
"""


@pytest.mark.slow
@pytest.mark.parametrize("size_mib", [3, 20])
@pytest.mark.parametrize("name", ["directory", "objects"])
def test_what_a_kill_leaves_is_collected(
    request: pytest.FixtureRequest, tmp_path: Path, name: str, size_mib: int
) -> None:
    url, prefix = str(tmp_path / "store.db"), uuid4().hex
    blobs = str(tmp_path / "bytes")
    if name == "objects":
        request.getfixturevalue("at_weed")
        blobs = f"s3://{BUCKET}/{prefix}"
    command = [sys.executable, "-c", HALF, url, blobs, str(size_mib)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"half\n"
        child.kill()
    with Store.open(url, blobs=blobs) as store:
        assert store.admin.gc(older_than_s=3600).uploads == 0
        # The bytes go first; their row waits one collection longer, for a writer that is slow.
        store.admin.gc(older_than_s=0)
        assert [path for path in (tmp_path / "bytes").rglob("*") if path.is_file()] == []
        assert [store.admin.gc(older_than_s=0).uploads for _ in range(2)] == [1, 0]
    if name == "objects":
        assert listed(request.getfixturevalue("weed"), prefix) == []


@pytest.mark.slow
def test_the_example_with_a_bucket(at_weed: Server, tmp_path: Path) -> None:
    prefix = uuid4().hex
    done = subprocess.run(
        [sys.executable, "-W", "error", str(EXAMPLE), f"s3://{BUCKET}/{prefix}"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stderr == ""
    assert "still there: 64x48 image/png" in done.stdout
    assert "after the purge: None" in done.stdout
    assert listed(at_weed, prefix) == []
