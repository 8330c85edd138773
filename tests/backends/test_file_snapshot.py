"""Snapshots: a cache that may be gone, old or broken, and a witness when it is whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone import user
from ledgerstone.clock import ManualClock
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.file.folder import Folder
from ledgerstone.errors import Corrupt
from ledgerstone.testing.bed import Bed
from tests.backends.journals import NEVER, Watching, bed, fill, journal_of, journals, lines
from tests.backends.places import quick_disk

SESSIONS = ("s", "other", "third")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """A store that was closed with a snapshot and then went on for some lines."""
    with quick_disk(tmp_path) as folder:
        place = folder / "store"
        with bed(place, snapshot_lines=1) as backend:
            fill(backend.store)
        with bed(place) as backend:
            backend.store.messages.append("s", user("after it"))
            backend.store.messages.append("fresh", user("new"), create=True)
            backend.store.attachments.intent("nobody", "a", "file:x")
        yield place


def everything(backend: Bed) -> list[object]:
    names = [*SESSIONS, "fresh"]
    rest = backend.store.attachments.uncommitted(before=2**60)
    return [backend.store.sessions.list(deleted=True), rest, *map(backend.snapshot, names)]


def used(path: Path) -> tuple[bool, list[object]]:
    """Whether a snapshot was used to open the store, and all that it shows."""
    with bed(path) as backend:
        seen = everything(backend)
        assert backend.store.admin.verify().ok
        assert backend.store.admin.health().ok
        warnings = backend.store.admin.health().warnings
        books = backend.port._books  # type: ignore[attr-defined]
        return books.snapshot_bytes > 0 and not warnings, seen


def test_with_it_and_without_it_the_store_is_the_same(path: Path) -> None:
    with_it, seen = used(path)
    assert with_it
    (path / "snapshot.jsonl").unlink()
    assert used(path) == (False, seen)


def cut(data: bytes) -> bytes:
    return data[:-30]


def flipped(data: bytes) -> bytes:
    changed = bytearray(data)
    changed[len(changed) // 2] ^= 1
    return bytes(changed)


def newer(data: bytes) -> bytes:
    return resealed(data.replace(b'"version":2', b'"version":3', 1))


def foreign(data: bytes) -> bytes:
    return resealed(data.replace(b"ledgerstone snapshot", b"somebody's snapshot", 1))


def without_a_line(data: bytes) -> bytes:
    found = data.splitlines(keepends=True)
    return resealed(b"".join([*found[:2], b"{}\n", *found[3:]]))


def resealed(data: bytes) -> bytes:
    from hashlib import blake2b

    found = data.splitlines(keepends=True)
    body = b"".join(found[:-1])
    end = {"lines": len(found) - 1, "digest": blake2b(body, digest_size=16).hexdigest()}
    return body + json.dumps(end).encode() + b"\n"


BROKEN = {
    "empty": lambda data: b"",
    "text": lambda data: b"Dear diary\n",
    "cut": cut,
    "without its end": lambda data: b"".join(data.splitlines(keepends=True)[:-1]),
    "flipped": flipped,
    "newer": newer,
    "foreign": foreign,
    "a line that does not decode": without_a_line,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_one_is_left_aside_with_a_warning(path: Path, name: str) -> None:
    seen = used(path)[1]
    file = path / "snapshot.jsonl"
    change: Callable[[bytes], bytes] = BROKEN[name]
    file.write_bytes(change(file.read_bytes()))
    with bed(path) as backend:
        assert everything(backend) == seen
        health = backend.store.admin.health()
        assert health.ok
        assert any("snapshot.jsonl was not used" in text for text in health.warnings)
        assert backend.store.admin.verify().ok


def test_one_that_does_not_fit_the_journals_is_left_aside(path: Path) -> None:
    """Somebody put an old snapshot back after the journal was written anew."""
    old = (path / "snapshot.jsonl").read_bytes()
    with bed(path) as backend:
        backend.store.nodes.tombstone("s", ["m2"])
        backend.store.admin.vacuum("s")
        seen = everything(backend)
    assert not (path / "snapshot.jsonl").exists(), "it held what was erased"
    (path / "snapshot.jsonl").write_bytes(old)
    with bed(path) as backend:
        assert everything(backend) == seen
        assert any("was not used" in text for text in backend.store.admin.health().warnings)


def test_one_that_is_older_than_a_purge_goes(path: Path) -> None:
    old = (path / "snapshot.jsonl").read_bytes()
    with bed(path) as backend:
        backend.store.sessions.purge("other")
    (path / "snapshot.jsonl").write_bytes(old)
    with bed(path) as backend:
        assert backend.store.sessions.get("other") is None
    assert not (path / "snapshot.jsonl").exists()


def test_a_whole_one_is_a_witness(path: Path) -> None:
    """The last line of all is cut off, but the snapshot has seen it: that is no crash."""
    with bed(path, snapshot_lines=1) as backend:
        backend.store.messages.append("s", user("seen"))
    (path / "closed.json").unlink()
    file = journal_of(path, "s")
    whole = file.read_bytes()
    for left in (whole[:-9], b"".join(lines(file)[:-1])):
        file.write_bytes(left)
        with bed(path) as backend:
            with pytest.raises(Corrupt, match=file.name):
                backend.store.messages.history("s")
            assert backend.store.admin.verify().defects
            assert backend.texts("other")


def test_one_that_was_made_while_nobody_flushed_is_no_witness(path: Path) -> None:
    """At durability "process" a power cut may take lines that such a snapshot has seen."""
    living = path.with_name("living")
    options = {"durability": "process", "snapshot_lines": NEVER, "snapshot_bytes": 1}
    with bed(living, **options) as backend:
        for n in range(20):
            backend.store.messages.append("s", user(f"{n}"), create=True)
        backend.port._thread.submit(int).result()  # type: ignore[attr-defined]
        shutil.copytree(living, path.with_name("crashed"))
    crashed = path.with_name("crashed")
    assert b'"vouches":false' in (crashed / "snapshot.jsonl").read_bytes()
    with bed(crashed) as backend:
        assert backend.store.messages.count("s") == 20
        assert backend.store.admin.health().warnings == []
    (crashed / "closed.json").unlink(missing_ok=True)
    file = journal_of(crashed, "s")
    file.write_bytes(lines(file)[0])
    with bed(crashed) as backend:
        assert backend.store.messages.count("s") == 1
        assert any("was not used" in text for text in backend.store.admin.health().warnings)


def test_a_closed_store_is_on_disk_whatever_it_was(path: Path) -> None:
    flushed: list[str] = []

    def fails(name: str, count: int) -> None:
        flushed.append(name)

    disk = Watching(fails)
    with bed(path, durability="process", disk=disk) as backend:
        backend.store.messages.append("s", user("one"))
        backend.store.messages.append("other", user("two"))
        assert flushed.count("sync") == 0
    assert flushed.count("sync") == 3, "two journals and closed.json"


def test_a_crash_before_the_new_one_is_in_place(path: Path) -> None:
    seen = used(path)[1]
    shutil.copy(path / "snapshot.jsonl", path / "snapshot.jsonl.tmp")
    (path / "snapshot.jsonl.tmp").write_bytes(b"half of")
    assert used(path) == (True, seen)
    assert not (path / "snapshot.jsonl.tmp").exists()


@pytest.mark.parametrize("call", ["create", "append", "sync", "rename"])
def test_a_disk_that_refuses_it_breaks_nothing(path: Path, call: str) -> None:
    armed = False

    def fails(name: str, count: int) -> OSError | None:
        return OSError(28, "No space left on device") if armed and name == call else None

    backend = open_file(str(path), clock=ManualClock(), disk=Watching(fails), snapshot_lines=0)
    seen = backend.tenants()
    armed = True
    backend.close()
    with bed(path) as again:
        assert again.port.tenants() == seen
        assert again.store.admin.verify().ok
    assert not list(path.glob("*.tmp"))


def test_a_busy_store_writes_one_by_itself(path: Path) -> None:
    with bed(path, snapshot_bytes=20_000) as backend:
        (path / "snapshot.jsonl").unlink()
        for n in range(60):
            backend.store.messages.append("s", user(f"{n} " + "x" * 500))
        backend.close()
    assert (path / "snapshot.jsonl").exists()
    with bed(path) as backend:
        assert backend.port._books.snapshot_bytes > 0  # type: ignore[attr-defined]
        assert backend.store.messages.count("s") > 60
        assert backend.store.admin.verify().ok


def test_opening_with_it_reads_little(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not a replay of everything: of a journal only what came after it."""
    with bed(path, snapshot_lines=1) as backend:
        for n in range(100):
            backend.store.messages.append("s", user(f"{n} " + "x" * 500))
    read = 0
    real = Folder.read

    def counting(folder: Folder, number: int, start: int = 0) -> bytes:
        nonlocal read
        data = real(folder, number, start)
        read += len(data) if number else 0
        return data

    monkeypatch.setattr(Folder, "read", counting)
    with bed(path) as backend:
        assert backend.store.messages.count("s") > 100
    sizes = sum(file.stat().st_size for file in journals(path))
    assert read < sizes / 20
