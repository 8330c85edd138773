"""Blobs on an event loop: async sources, cancellation, and answers that got lost."""

from __future__ import annotations

import asyncio
import io
import threading
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import AsyncStore, Store, user
from ledgerstone.blobs.database import Database
from ledgerstone.clock import SystemClock
from ledgerstone.commands import Command
from ledgerstone.commands.blobs import (
    BeginUpload,
    CountBlobs,
    FinishUpload,
    ForgetUpload,
    PutChunk,
)
from ledgerstone.connect import Equipment
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import (
    BlobNotFound,
    InvalidValue,
    Misuse,
    OutcomeUnknown,
    StorageFull,
    StoreClosed,
    Timeout,
)
from ledgerstone.intake import blobs as intake
from ledgerstone.ports.backend import Backend
from ledgerstone.ports.blobs import BlobWriter
from ledgerstone.records.blobs import CHUNK_BYTES, BlobCounts
from ledgerstone.records.parts import Image
from ledgerstone.testing.wrappers import Wrapper

LONG = bytes(range(251)) * 10_500


class Watched(Wrapper):
    """Calls `before(command)` and `after(command)` around every blocking write."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.before: Callable[[Command[Any]], object] = lambda command: None
        self.after: Callable[[Command[Any]], object] = lambda command: None

    def write(self, command: Command[Any]) -> Any:
        self.before(command)
        answer = self.inner.write(command)
        self.after(command)
        return answer


@pytest.fixture(params=["memory", "sqlite"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Watched]:
    clock = SystemClock()
    made: Backend = open_memory(None, clock)
    if request.param == "sqlite":
        made = open_sqlite(str(tmp_path / "store.db"), clock=clock)
    yield Watched(made)
    made.close()


def counts(backend: Watched) -> BlobCounts:
    found: BlobCounts = backend.inner.read([CountBlobs(tenant="default")])[0]
    return found


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(asyncio.wait_for(work, 30))


async def stream(data: bytes, size: int = 70_001) -> AsyncIterator[bytes]:
    for at in range(0, len(data), size):
        await asyncio.sleep(0)
        yield data[at : at + size]


class AsyncFile:
    """What an async file library gives."""

    def __init__(self, data: bytes) -> None:
        self._file = io.BytesIO(data)

    async def read(self, n: int, /) -> bytes:
        await asyncio.sleep(0)
        return self._file.read(n)


class TestAsyncSources:
    @pytest.mark.parametrize("data", [b"", b"x", LONG], ids=["empty", "short", "long"])
    @pytest.mark.parametrize("source", [stream, AsyncFile, bytes, io.BytesIO])
    def test_bytes_come_back(self, backend: Watched, source: Any, data: bytes) -> None:
        async def work() -> None:
            store = AsyncStore(backend)
            made = await store.blobs.put(source(data))
            assert made.ref == sha256(data).hexdigest()
            assert await store.blobs.get(made) == data
            async with store.blobs.open(made) as reader:
                assert b"".join([piece async for piece in reader]) == data
            async with store.blobs.open(made, first=1) as reader:
                assert await reader.read() == data[1:]

        run(work())
        assert counts(backend).uploads == 0

    def test_an_async_source_needs_an_async_store(self, backend: Watched) -> None:
        store = Store(backend)
        for source in (stream(b"x"), AsyncFile(b"x")):
            with pytest.raises(InvalidValue) as caught:
                store.blobs.put(source)  # type: ignore[arg-type]
            assert caught.value.field == "data"
        assert counts(backend) == BlobCounts()

    def test_text_from_a_stream_is_refused(self, backend: Watched) -> None:
        async def texts() -> AsyncIterator[Any]:
            yield "text"

        async def work() -> None:
            with pytest.raises(InvalidValue):
                await AsyncStore(backend).blobs.put(texts())

        run(work())
        assert counts(backend) == BlobCounts()

    def test_an_attachment_of_a_stream(self, backend: Watched) -> None:
        async def work() -> None:
            store = AsyncStore(backend)
            made = await store.attachments.put("s", stream(LONG))
            assert await store.blobs.get(made) == LONG
            await store.messages.append("s", user([Image(blob=made.id)]), create=True)
            assert (await store.admin.gc(older_than_s=0)).deleted == 0

        run(work())


class TestCancelling:
    def test_a_stream_that_is_cancelled_leaves_nothing(self, backend: Watched) -> None:
        async def work() -> None:
            store, waiting = AsyncStore(backend), asyncio.Event()

            async def endless() -> AsyncIterator[bytes]:
                yield LONG
                waiting.set()
                await asyncio.sleep(60)
                yield b""

            task = asyncio.create_task(store.blobs.put(endless()))
            await waiting.wait()
            assert counts(backend).uploads == 1
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert counts(backend) == BlobCounts()

        run(work())

    @pytest.mark.parametrize("kind", [BeginUpload, PutChunk, FinishUpload])
    @pytest.mark.parametrize("source", [stream, bytes, io.BytesIO])
    def test_a_cancelled_put_is_whole_or_nothing(
        self, backend: Watched, kind: type, source: Any
    ) -> None:
        """Cancelled while a thread is inside one of the steps."""
        inside, go_on = threading.Event(), threading.Event()

        def before(command: Command[Any]) -> None:
            if isinstance(command, kind):
                inside.set()
                assert go_on.wait(10)

        async def work() -> None:
            store = AsyncStore(backend)
            task = asyncio.create_task(store.blobs.put(source(LONG)))
            await asyncio.to_thread(inside.wait)
            backend.before = lambda command: None
            task.cancel()
            await asyncio.sleep(0)
            go_on.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            whole = BlobCounts(blobs=1, size_bytes=len(LONG))
            assert counts(backend) == (whole if kind is FinishUpload else BlobCounts())
            assert (await store.blobs.put(LONG)).size_bytes == len(LONG)

        backend.before = before
        run(work())
        assert counts(backend).uploads == 0

    def test_a_reader_whose_read_was_cancelled_gives_no_later_piece(self, backend: Watched) -> None:
        async def work() -> None:
            store = AsyncStore(backend)
            made = await store.blobs.put(LONG)
            async with store.blobs.open(made) as reader:
                task = asyncio.create_task(reader.read())
                await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                with pytest.raises(Misuse):
                    await reader.read()
            assert await store.blobs.get(made) == LONG

        run(work())


class TestLostAnswers:
    def test_a_finish_of_unknown_outcome_is_repeated(self, backend: Watched) -> None:
        lost: list[Command[Any]] = []

        def after(command: Command[Any]) -> None:
            if isinstance(command, FinishUpload) and not lost:
                lost.append(command)
                raise OutcomeUnknown("the answer is lost")

        backend.after = after
        store = Store(backend)
        made = store.blobs.put([LONG])
        assert lost
        assert store.blobs.get(made) == LONG
        assert counts(backend) == BlobCounts(blobs=1, size_bytes=len(LONG))

    def test_bytes_of_an_unknown_outcome_are_not_deleted(self, backend: Watched) -> None:
        """They may be a blob's by now."""

        def after(command: Command[Any]) -> None:
            if isinstance(command, FinishUpload):
                raise OutcomeUnknown("the answer is lost")

        backend.after = after
        store = Store(backend)
        with pytest.raises(OutcomeUnknown):
            store.blobs.put([LONG])
        assert store.blobs.get(sha256(LONG).hexdigest()) == LONG

    def test_who_comes_second_leaves_no_spare_bytes(self, backend: Watched) -> None:
        store, other = Store(backend), Store(backend.inner)

        def before(command: Command[Any]) -> None:
            if isinstance(command, FinishUpload):
                other.blobs.put([LONG])

        backend.before = before
        made = store.blobs.put([LONG])
        assert store.blobs.get(made) == LONG
        assert counts(backend) == BlobCounts(blobs=1, size_bytes=len(LONG))

    def test_an_upload_that_a_collector_took_fails(self, backend: Watched) -> None:
        other = Store(backend.inner)

        def before(command: Command[Any]) -> None:
            if isinstance(command, FinishUpload):
                other.admin.gc(older_than_s=0)

        backend.before = before
        with pytest.raises(BlobNotFound):
            Store(backend).blobs.put([LONG])
        assert counts(backend) == BlobCounts()

    @pytest.mark.parametrize(("error", "rows"), [(Timeout, 1), (StorageFull, 0)])
    def test_a_place_that_gave_no_answer_is_looked_at_again(
        self, backend: Watched, error: type[Exception], rows: int
    ) -> None:
        """Its bytes may still arrive, so the upload row stays for the collector."""
        place = Failing(backend, error)
        equipment = Equipment(backend)
        equipment.__dict__["place"] = place
        with pytest.raises(error):
            Store(backend, equipment=equipment).blobs.put([LONG])
        assert counts(backend) == BlobCounts(uploads=rows)
        Store(backend.inner).admin.gc(older_than_s=0)
        assert counts(backend) == BlobCounts()

    def test_a_closed_store_takes_no_bytes(self, backend: Watched) -> None:
        store = Store(backend)
        store.close()
        with pytest.raises(StoreClosed):
            store.blobs.put(b"x")

    def test_a_failing_forget_is_no_failure_of_the_put(self, backend: Watched) -> None:
        store, other = Store(backend), Store(backend.inner)

        def before(command: Command[Any]) -> None:
            if isinstance(command, FinishUpload):
                other.blobs.put([b"x"])
            if isinstance(command, ForgetUpload):
                raise OutcomeUnknown("the answer is lost")

        backend.before = before
        assert store.blobs.get(store.blobs.put([b"x"])) == b"x"
        assert counts(backend).uploads == 1


class Failing(Database):
    """A place whose second piece meets an error."""

    def __init__(self, backend: Backend, error: type[Exception]) -> None:
        super().__init__(backend)
        self._error = error

    def begin(self, tenant: str, key: str) -> BlobWriter:
        writer, error = super().begin(tenant, key), self._error

        class Writer:
            pieces = 0

            def write(self, data: bytes) -> None:
                self.pieces += 1
                if self.pieces == 2:
                    raise error("no answer")
                writer.write(data)

            def finish(self) -> None:
                writer.finish()

            def abort(self) -> None:
                writer.abort()

        return Writer()


class TestSources:
    @pytest.mark.parametrize("data", [b"y" * len(LONG), LONG + b"y", LONG[:-1]])
    def test_a_file_that_changes_while_it_is_read(self, tmp_path: Path, data: bytes) -> None:
        path = tmp_path / "file"
        path.write_bytes(LONG)
        pieces = intake.pieces(path)
        next(pieces)
        path.write_bytes(data)
        with pytest.raises(InvalidValue, match="changed while it was read"):
            list(pieces)

    def test_memory_is_one_piece(self) -> None:
        source = (b"x" * 10 for _ in range(CHUNK_BYTES))
        pieces = intake.pieces(source)
        assert next(pieces) == b"x" * 10
        assert next(source) == b"x" * 10

    def test_what_can_be_read_twice_is_measured(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(LONG)
        wanted = sha256(LONG).hexdigest()
        file = io.BytesIO(b"before" + LONG)
        file.seek(6)
        for source in (LONG, tmp_path / "file", file, file):
            assert intake.measure(source) == wanted
        assert intake.measure(iter([LONG])) is None
