"""What the tests of the file backend share: stores to look into, and crashes without a process."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ledgerstone import Node, Opaque, Store, Usage, assistant, user
from ledgerstone.clock import ManualClock
from ledgerstone.engines.file.backend import open_file
from ledgerstone.engines.file.disk import Disk
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.bed import Bed

NEVER = 1_000_000
"""So many lines that no snapshot is written."""


def fill(store: Store) -> None:
    """Three sessions with something of everything, and lines in the store's own journal."""
    store.messages.append("s", user("one", id="m1"), assistant("two", id="m2"), create=True)
    store.messages.append("other", user("innocent", id="i1"), create=True)
    store.branches.create("s", "side", at="m1")
    store.messages.amend("m1", session="s", metadata={"v": 1})
    with store.turns.begin("s", run_id="r1") as turn:
        turn.user("three", id="m3")
        digest = turn.value(b"\x00\xffbytes")
        turn.node("plugin", {"n": 1}, id="p", label="l", meta={"k": 1}, values=[digest])
        turn.run("running")
        turn.use("m", Usage(input=5, output=1))
        turn.state(mood="good")
        turn.head(config={"model": "m"})
    store.attachments.intent("nobody yet", "a0", "file:early")
    store.nodes.append("s", Node(id="o", kind="blob", body=Opaque("bin", b"\x00\xff")))
    store.messages.append("other", assistant("still innocent", id="i2"))
    store.nodes.annotate("s", "m1", {"note": {"deep": [1, 2, 3]}})
    store.work.enqueue("s", {"job": 1})
    store.attachments.intent("s", "a1", "file:later")
    store.sessions.create(id="gone")
    store.sessions.purge("gone")
    store.messages.append("third", user("bystander", id="b1"), create=True)
    store.messages.append("s", user("last", id="m4"))


def filled(path: Path, work: Callable[[Store], None] = fill) -> Path:
    """A directory as a crash would leave it right after the last answer: nobody closed it."""
    living = path.with_name(path.name + ".living")
    backend = open_file(str(living), clock=ManualClock(), snapshot_lines=NEVER)
    work(Store(backend, clock=ManualClock()))
    shutil.copytree(living, path)
    backend.close()
    shutil.rmtree(living)
    return path


def bed(path: Path, **options: Any) -> Bed:
    """The directory as a bed; each opening is a new one."""
    clock = ManualClock()
    options = {"snapshot_lines": NEVER, **options}

    def make() -> Backend:
        return open_file(str(path), clock=clock, **options)

    return Bed("file", make, clock=clock, shared=True)


def journals(path: Path) -> list[Path]:
    """All journals, the store's own first."""
    return [path / "store.jsonl", *sorted((path / "sessions").glob("*.jsonl"))]


def journal_of(path: Path, session: str) -> Path:
    """Found as a person would: the first line says whose it is."""
    (found,) = (
        file
        for file in sorted((path / "sessions").glob("*.jsonl"))
        if f'"session":{json.dumps(session)}' in file.read_text().partition("\n")[0]
    )
    return found


def lines(file: Path) -> list[bytes]:
    """The lines of a journal with their ends."""
    return file.read_bytes().splitlines(keepends=True)


def last_journal(path: Path) -> Path:
    """The journal with the last line of the whole store."""
    return max(journals(path), key=lambda file: int(json.loads(lines(file)[-1])["pos"]))


def holders(folder: Path, data: bytes) -> Iterator[str]:
    """The names of all files that hold these bytes, in plain or base64."""
    for file in sorted(folder.rglob("*")):
        if file.is_file() and data in file.read_bytes():
            yield str(file.relative_to(folder))


class Watching(Disk):
    """A disk that fails where it is told to: `fails` is asked before every call."""

    def __init__(self, fails: Callable[[str, int], OSError | None]) -> None:
        self._fails = fails
        self.counts: dict[str, int] = {}

    def _met(self, name: str) -> None:
        self.counts[name] = self.counts.get(name, 0) + 1
        error = self._fails(name, self.counts[name])
        if error is not None:
            raise error

    def create(self, folder: int, name: str) -> int:
        self._met("create")
        return super().create(folder, name)

    def append(self, file: int, data: bytes) -> int:
        self._met("append")
        return super().append(file, data)

    def sync(self, file: int) -> None:
        self._met("sync")
        super().sync(file)

    def sync_folder(self, folder: int) -> None:
        self._met("sync_folder")
        super().sync_folder(folder)

    def truncate(self, file: int, size: int) -> None:
        self._met("truncate")
        super().truncate(file, size)

    def rename(self, folder: int, old: str, new: str) -> None:
        self._met("rename")
        super().rename(folder, old, new)

    def unlink(self, folder: int, name: str) -> None:
        self._met("unlink")
        super().unlink(folder, name)
