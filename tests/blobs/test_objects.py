"""Object stores: proved before they are used, spoken to with deadlines, no secret in any error."""

from __future__ import annotations

import json
import logging
import os
import socket
import sys
import threading
import time
import traceback
import tracemalloc
import urllib.error
import urllib.request
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from uuid import uuid4

import obstore
import pytest
from obstore.store import S3Store

from ledgerstone.blobs.names import key_name, tenant_name
from ledgerstone.blobs.object_calls import PART_BYTES, Bucket, parse_address
from ledgerstone.blobs.objects import Objects, open_objects
from ledgerstone.blobs.opening import open_place
from ledgerstone.clock import SystemClock
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.errors import (
    AlreadyExists,
    InvalidValue,
    LedgerstoneError,
    NotSupported,
    ReadOnly,
    StoreClosed,
    Timeout,
    Unavailable,
)
from ledgerstone.records.blobs import CHUNK_BYTES
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.blobs.conftest import use
from tests.blobs.servers import BUCKET, KEYS, SECRETS, Server, free_ports

pytestmark = pytest.mark.slow

TENANT, KEY = "acme", "k"
WRITERS = 16
LARGE_BYTES = 40 * CHUNK_BYTES
MEMORY_BYTES = 80 << 20
"""A few parts on their way, and what the library keeps for itself."""


@pytest.fixture
def prefix() -> str:
    return uuid4().hex


@pytest.fixture
def place(at_weed: Server, prefix: str) -> Iterator[Objects]:
    opened = open_objects(f"s3://{BUCKET}/{prefix}")
    yield opened
    opened.close()


def put(place: Objects, key: str, *pieces: bytes) -> None:
    writer = place.begin(TENANT, key)
    for piece in pieces:
        writer.write(piece)
    writer.finish()


def listed(server: Server, prefix: str = "") -> list[str]:
    """What lies in the bucket, asked by somebody else's code."""
    access, secret, _ = KEYS["worker"]
    store = S3Store(
        BUCKET,
        prefix=prefix or None,
        endpoint=server.endpoint,
        access_key_id=access,
        secret_access_key=secret,
        region="us-east-1",
        client_options={"allow_http": True},
    )
    return sorted(one["path"] for page in obstore.list(store) for one in page)


def told(error: BaseException) -> str:
    """All that anybody could see of an error: its text, its traceback, its causes."""
    shown = "".join(traceback.format_exception(error))
    chain, one = [], error.__cause__ or error.__context__
    while one is not None:
        chain.append(f"{one!r} {one}")
        one = one.__cause__ or one.__context__
    return "\n".join([str(error), repr(error), repr(error.__dict__), shown, *chain])


def race_often(url: str, times: int, line: Line) -> None:
    """Many write one new name at once: whoever is told so won, and it is his that is there."""
    bucket = Bucket(parse_address(url))
    with ThreadPoolExecutor(WRITERS) as threads:
        for n in range(times):
            data = [f"{n} of {m}".encode() for m in range(WRITERS)]
            won = list(threads.map(partial(bucket.put_new, f"n{n}"), data))
            line.n += 1
            if won.count(True) != 1:
                line.violations.append(f"race {n} has {won.count(True)} winners")
            elif bucket.get(f"n{n}", 0, 99) != (data[won.index(True)], len(data[won.index(True)])):
                line.violations.append(f"race {n}: the winner's bytes are not there")


class TestProbe:
    def test_a_store_that_keeps_its_word(self, at_weed: Server, prefix: str) -> None:
        open_objects(f"s3://{BUCKET}/{prefix}").close()
        assert listed(at_weed, prefix) == []

    def test_a_store_that_lets_everybody_win(
        self, careless: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use(careless, monkeypatch)
        with pytest.raises(NotSupported, match="create-only writes; it lets a second writer") as e:
            open_objects(f"s3://{BUCKET}/some/prefix")
        assert e.value.capability == "create-only writes"
        assert e.value.backend == f"s3://{BUCKET}"
        left = [path for path in (careless.folder / "data").rglob("*") if path.is_file()]
        assert left == []

    def test_a_store_is_proved_when_it_is_opened(
        self, careless: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        use(careless, monkeypatch)
        backend = open_memory(durability=None, clock=SystemClock())
        with pytest.raises(NotSupported):
            open_place(backend, f"s3://{BUCKET}/prefix")

    @pytest.mark.faults
    def test_one_writer_wins(
        self, at_weed: Server, prefix: str, scoreboard: Scoreboard, scale: Scale
    ) -> None:
        """What the probe asks for, under load."""
        with scoreboard.line("races for one name", "SeaweedFS") as line:
            race_often(f"s3://{BUCKET}/{prefix}", scale(4, 100), line)

    @pytest.mark.faults
    def test_control_everybody_wins(
        self,
        careless: Server,
        prefix: str,
        scoreboard: Scoreboard,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        use(careless, monkeypatch)
        with scoreboard.line("races for one name", "rclone", control=True) as line:
            race_often(f"s3://{BUCKET}/{prefix}", 4, line)

    def test_without_the_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "obstore", None)
        with pytest.raises(NotSupported, match=r"ledgerstone\[objects\]"):
            open_objects(f"s3://{BUCKET}/x")

    def test_two_open_at_once(self, at_weed: Server, prefix: str) -> None:
        with ThreadPoolExecutor(8) as threads:
            for one in threads.map(open_objects, [f"s3://{BUCKET}/{prefix}"] * 8):
                one.close()
        assert listed(at_weed, prefix) == []


class TestRefusals:
    """Each says which call failed, on which bucket, and what to do about it."""

    def refused(self, url: str, expected: type[LedgerstoneError], *texts: str) -> None:
        with pytest.raises(expected) as caught:
            open_objects(url, request_s=10.0)
        assert type(caught.value) is expected
        shown = told(caught.value)
        for text in texts:
            assert text in str(caught.value)
        for secret in [*SECRETS, "wrong-secret", *(access for access, _, _ in KEYS.values())]:
            assert secret not in shown

    def test_no_such_bucket(self, careless: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        use(careless, monkeypatch)
        text = "probe: put on s3://nowhere failed: there is no bucket 'nowhere'"
        self.refused("s3://nowhere/x", InvalidValue, text)

    def test_no_right_to_a_bucket(self, at_weed: Server) -> None:
        # SeaweedFS says that a bucket is forbidden when it is not there.
        self.refused("s3://nowhere/x", ReadOnly, "probe: put on s3://nowhere", "s3:PutObject")

    @pytest.mark.parametrize("server", ["weed", "careless"])
    @pytest.mark.parametrize("wrong", ["AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID"])
    def test_wrong_credentials(
        self,
        request: pytest.FixtureRequest,
        monkeypatch: pytest.MonkeyPatch,
        server: str,
        wrong: str,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        caplog.set_level(logging.DEBUG)
        use(request.getfixturevalue(server), monkeypatch)
        monkeypatch.setenv(wrong, "wrong-secret")
        self.refused(f"s3://{BUCKET}/x", InvalidValue, "credentials are not accepted", wrong)
        for secret in [*SECRETS, "wrong-secret"]:
            assert secret not in caplog.text

    def test_only_reading_is_allowed(self, weed: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        use(weed, monkeypatch, "reader")
        text = f"probe: put on s3://{BUCKET} is not allowed (403 AccessDenied); grant s3:PutObject"
        self.refused(f"s3://{BUCKET}/x", ReadOnly, text)

    def test_only_writing_is_allowed(
        self, weed: Server, monkeypatch: pytest.MonkeyPatch, prefix: str
    ) -> None:
        use(weed, monkeypatch, "putter")
        text = f"probe: get on s3://{BUCKET} (403 AccessDenied); grant s3:GetObject"
        self.refused(f"s3://{BUCKET}/{prefix}", NotSupported, text)
        assert listed(weed, prefix) == []

    def test_rights_that_were_taken_away(
        self, place: Objects, weed: Server, monkeypatch: pytest.MonkeyPatch, prefix: str
    ) -> None:
        put(place, KEY, b"x")
        use(weed, monkeypatch, "reader")
        reader = Objects(Bucket(parse_address(f"s3://{BUCKET}/{prefix}")))
        assert b"".join(reader.read(TENANT, KEY)) == b"x"
        with pytest.raises(ReadOnly, match=r"^put on s3://bytes is not allowed"):
            put(reader, "new", b"x")
        with pytest.raises(ReadOnly, match="grant s3:DeleteObject"):
            reader.delete(TENANT, KEY)

    def test_nobody_listens(self, at_weed: Server, monkeypatch: pytest.MonkeyPatch) -> None:
        (port,) = free_ports(1)
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        begin = time.monotonic()
        self.refused(f"s3://{BUCKET}/x", Unavailable, "probe: put on s3://bytes failed")
        assert time.monotonic() - begin < 20.0

    def test_somebody_listens_and_says_nothing(
        self, at_weed: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with silent_server() as port:
            monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
            begin = time.monotonic()
            with pytest.raises(Timeout, match="no answer in time"):
                open_objects(f"s3://{BUCKET}/x", request_s=1.0)
            # The put, then the delete that tidies up, each with its repeats.
            assert time.monotonic() - begin < 15.0

    def test_no_encryption_to_another_machine(
        self, at_weed: Server, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://user:canary-in-url@store.example:9000")
        with pytest.raises(InvalidValue, match="AWS_ALLOW_HTTP") as caught:
            open_objects(f"s3://{BUCKET}/x")
        assert "canary-in-url" not in told(caught.value)


@contextmanager
def silent_server() -> Iterator[int]:
    """It takes connections and never answers."""
    with socket.socket() as ears:
        ears.bind(("127.0.0.1", 0))
        ears.listen(64)
        taken: list[socket.socket] = []
        over = threading.Event()

        def listen() -> None:
            ears.settimeout(0.1)
            while not over.is_set():
                try:
                    taken.append(ears.accept()[0])
                except TimeoutError:
                    continue

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield ears.getsockname()[1]
        finally:
            over.set()
            thread.join()
            for one in taken:
                one.close()


class TestBytes:
    def test_names_are_hashes_below_the_prefix(
        self, place: Objects, at_weed: Server, prefix: str
    ) -> None:
        put(place, KEY, b"x")
        assert listed(at_weed, prefix) == [f"{tenant_name(TENANT)}/{key_name(KEY)}"]

    @pytest.mark.parametrize("size", [PART_BYTES, PART_BYTES + 1])
    def test_about_as_much_as_one_piece(self, place: Objects, size: int) -> None:
        data = os.urandom(size)
        pieces = [data[n : n + CHUNK_BYTES] for n in range(0, size, CHUNK_BYTES)]
        put(place, KEY, *pieces)
        assert b"".join(place.read(TENANT, KEY)) == data

    def test_a_key_that_is_taken(self, place: Objects) -> None:
        put(place, KEY, b"first")
        writer = place.begin(TENANT, KEY)
        writer.write(b"other")
        with pytest.raises(AlreadyExists):
            writer.finish()
        writer.abort()
        assert b"".join(place.read(TENANT, KEY)) == b"first"

    def test_an_answer_that_was_lost(self, place: Objects) -> None:
        """The same bytes under the same new key: our own first attempt, which did arrive."""
        put(place, KEY, b"same")
        put(place, KEY, b"same")
        assert b"".join(place.read(TENANT, KEY)) == b"same"

    def test_parts_that_were_given_up(self, place: Objects, at_weed: Server, prefix: str) -> None:
        before = unfinished(at_weed)
        writer = place.begin(TENANT, KEY)
        for n in range(30):
            writer.write(bytes([n]) * CHUNK_BYTES)
        assert len(unfinished(at_weed)) == len(before) + 1
        writer.abort()
        assert unfinished(at_weed) == before
        assert listed(at_weed, prefix) == []

    def test_closed(self, place: Objects) -> None:
        put(place, KEY, b"x")
        place.close()
        with pytest.raises(StoreClosed):
            place.begin(TENANT, "new")
        with pytest.raises(StoreClosed):
            next(place.read(TENANT, KEY))

    def test_carried_over_a_fork(self, place: Objects) -> None:
        """The library's threads stay behind, so a child is told at once instead of waiting."""
        ears, mouth = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            try:
                place.delete(TENANT, KEY)
                os.write(mouth, b"deleted")
            except StoreClosed:
                os.write(mouth, b"refused")
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        assert os.read(ears, 20) == b"refused"
        os.close(ears)
        os.close(mouth)


def unfinished(server: Server) -> list[str]:
    """Uploads in parts that the server still keeps."""
    address = f"http://127.0.0.1:{server.admin_port}/buckets/{BUCKET}/.uploads/"
    request = urllib.request.Request(address, headers={"Accept": "application/json"})
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request) as answer:
            found = json.load(answer)["Entries"]
    except urllib.error.HTTPError:
        return []
    return [one["FullPath"] for one in found or []]


def test_a_large_blob_in_little_memory(place: Objects, tmp_path: Path) -> None:
    """40 MB up and down: what is held does not grow with them."""
    chunk = os.urandom(CHUNK_BYTES)
    put(place, "warm", chunk)
    before = resident_bytes()
    tracemalloc.start()
    try:
        put(place, KEY, *(chunk for _ in range(LARGE_BYTES // CHUNK_BYTES)))
        size = sum(len(piece) for piece in place.read(TENANT, KEY))
        held = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert size == LARGE_BYTES
    assert held < 3 * PART_BYTES
    assert resident_bytes() - before < MEMORY_BYTES


def resident_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
