"""Artifacts, traces and reports on an event loop, and from many threads at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledgerstone import AsyncStore, Corrupt, Quota, Store, TraceEvent
from ledgerstone.clock import ManualClock
from ledgerstone.commands.artifacts import NewArtifact, Owner, PutArtifact
from ledgerstone.commands.blobs import BeginUpload, FinishUpload
from ledgerstone.engines.memory.backend import open_memory

LONG = bytes(range(256)) * 9000


async def pieces() -> AsyncIterator[bytes]:
    for at in range(0, len(LONG), 70_001):
        yield LONG[at : at + 70_001]


def test_the_async_face_does_the_same(tmp_path: Path) -> None:
    async def main() -> None:
        async with AsyncStore.open(tmp_path / "store.db") as store:
            made = await store.artifacts.put("long", pieces(), session="s", media_type="a/b")
            assert made.size_bytes == len(LONG)
            read = await store.artifacts.read("long", session="s")
            assert read is not None
            assert read.data == LONG
            async with store.artifacts.open(id=made) as reader:
                parts = [part async for part in reader]
            assert b"".join(parts) == LONG
            assert reader.artifact == made
            saved = await store.artifacts.save("s", [made, ("other", b"1")])
            assert await store.artifacts.load("s") == saved
            assert [one.name async for one in store.artifacts.iter(session="s")] == [
                "long",
                "other",
            ]
            async with store.turns.begin("s", create=True) as turn:
                turn.artifact("long", made)
                turn.trace(TraceEvent(kind="k", name="n"))
                turn.report({"subject": "x"})
            assert len(await store.artifacts.versions("long", session="s")) == 2
            assert [entry.n async for entry in store.traces.iter("s")] == [1]
            assert len(await store.reports.list("s")) == 1
            assert await store.artifacts.clear("s") == 3

    asyncio.run(main())


@pytest.mark.parametrize("url", ["store.db", "file:store", "memory://"])
def test_parallel_puts_are_different_versions(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with Store.open(url) as store, ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda n: store.artifacts.put("a", b"%d" % n, session="s"), range(40)))
        assert sorted(one.version for one in made) == list(range(1, 41))
        count = list(pool.map(lambda n: store.traces.append("s", {"kind": "k", "name": "n"}), made))
        assert sorted(count) == list(range(1, 41))
        keep = Quota(count=5, on_full="oldest_out")
        list(pool.map(lambda n: store.artifacts.put("b", b"x", session="t", quota=keep), made))
        assert len(store.artifacts.load("t") or []) == 5
        assert store.admin.verify().defects == []


def test_an_artifact_whose_bytes_are_lost_is_corrupt() -> None:
    clock = ManualClock()
    backend = open_memory(durability=None, clock=clock)
    ref = "ab" * 32
    backend.write(BeginUpload(tenant="default", key="k", place="database"))
    backend.write(FinishUpload(tenant="default", key="k", ref=ref, size_bytes=0, sums=b""))
    new = NewArtifact(id="x", name="a", ref=ref)
    backend.write(PutArtifact(tenant="default", owner=Owner("s"), artifact=new))
    store = Store(backend, clock=clock)
    with pytest.raises(Corrupt):
        store.artifacts.read("a", session="s")
