"""Bytes that are collected while others put, name and attach them, with a death at every step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import apsw
import pytest

from ledgerstone.blobs.opening import open_place
from ledgerstone.clock import ManualClock
from ledgerstone.commands import Command, Query
from ledgerstone.commands.blobs import (
    CondemnUpload,
    DropBlob,
    ForgetAttachment,
    ListAttachments,
    ListUnreferenced,
    ListUploads,
    RecordIntent,
)
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.ports.backend import Backend
from ledgerstone.ports.blobs import BlobPlace
from ledgerstone.tables.blobs import CHUNKS
from ledgerstone.testing.faults.collection import FAR_US, SESSIONS, Fight, Stage
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from ledgerstone.testing.wrappers import Wrapper
from tests.backends.places import quick_disk
from tests.faults.openers import FOLDERS

pytestmark = [pytest.mark.faults, pytest.mark.timeout(1800)]

A = TypeVar("A")
KINDS = ("memory", "sqlite", "sqlite, directory", "file")


@contextmanager
def stage_of(kind: str, folder: Path) -> Iterator[Stage]:
    """A backend with the bytes in it, or in a directory beside it."""
    clock, name = ManualClock(), kind.partition(",")[0]
    with quick_disk(folder) as home:
        (home / "store").mkdir()
        if name == "memory":
            backend: Backend = MemoryBackend(clock)
        else:
            backend = FOLDERS[name](str(home / "store"), clock)
        beside = home / "bytes" if kind.endswith("directory") else None
        place = open_place(backend, beside)
        try:
            yield Stage(backend, place, clock, _counter(backend, place, home))
        finally:
            place.close()
            backend.close()


def _counter(backend: Backend, place: BlobPlace, home: Path) -> Callable[[], int]:
    """How many keys have bytes: what no command can tell, since none should need to know."""
    if place.name == "directory":
        root = Path(place.path)  # type: ignore[attr-defined]
        return lambda: sum(1 for one in root.rglob("*") if one.is_file())
    if isinstance(backend, MemoryBackend):
        engine: Any = backend._engine
        return lambda: len({key[:2] for key in engine.rows.tables[CHUNKS]})
    return lambda: _keys_in(str(home / "store" / "store.db"))


def _keys_in(path: str) -> int:
    connection = apsw.Connection(path, flags=apsw.SQLITE_OPEN_READONLY)
    try:
        (row,) = connection.execute(
            "select count(*) from (select distinct tenant, key from chunks)"
        )
        return int(row[0])
    finally:
        connection.close()


def fight(line: Line, stage: Stage, seed: int, steps: int) -> None:
    contest = Fight(stage, seed)
    line.violations += contest.run(steps)
    line.n = steps
    line.note = (
        f"{contest.acts:,} acts, {contest.crew.kills} kills, {contest.collections} collections of "
        f"{contest.collected} blobs and {contest.uploads} uploads"
    )
    print(dict(contest.refused))
    assert contest.acts
    assert contest.collected


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_that_is_needed_is_collected(
    kind: str, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    title = "collection of bytes against everybody else, dying anywhere"
    with scoreboard.line(title, kind, seed) as line, stage_of(kind, tmp_path) as stage:
        fight(line, stage, seed, scale(1_500, 10_000))


# --- negative controls


class DeletesBytesFirst(Wrapper):
    """Bytes go as soon as nothing seems to refer to them; the row is asked afterwards."""

    def __init__(self, inner: Backend, place: BlobPlace) -> None:
        super().__init__(inner)
        self._place = place

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        answers = self.inner.read(queries)
        for query, answer in zip(queries, answers, strict=True):
            if isinstance(query, ListUnreferenced):
                for blob in answer:
                    self._place.delete(query.tenant, blob.key)
        return answers


class IgnoresIntents(Wrapper):
    """What was only announced protects nothing."""

    def __init__(self, inner: Backend, place: BlobPlace) -> None:
        super().__init__(inner)

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        asked = [
            ListUnreferenced(
                tenant=one.tenant, before_us=one.before_us, intents_before_us=FAR_US, limit=500
            )
            if isinstance(one, ListUnreferenced)
            else one
            for one in queries
        ]
        return self.inner.read(asked)

    def write(self, command: Command[A]) -> A:
        if not isinstance(command, DropBlob):
            return self.inner.write(command)
        listed = self.inner.read(
            [ListAttachments(tenant=command.tenant, session=id) for id in SESSIONS]
        )
        intents = [
            row
            for found in listed
            for row in found
            if row.id == command.ref and row.committed_us is None
        ]
        for row in intents:
            place: dict[str, Any] = {"tenant": command.tenant, "session": row.session}
            self.inner.write(ForgetAttachment(id=row.id, **place))
        answer: Any = self.inner.write(command)
        for row in intents:
            place = {"tenant": command.tenant, "session": row.session}
            self.inner.write(RecordIntent(id=row.id, uri=row.uri, **place))
        return answer


class CondemnsNobody(Wrapper):
    """An upload that is being collected can still be finished."""

    def __init__(self, inner: Backend, place: BlobPlace) -> None:
        super().__init__(inner)

    def write(self, command: Command[A]) -> A:
        if not isinstance(command, CondemnUpload):
            return self.inner.write(command)
        query = ListUploads(tenant=command.tenant, before_us=command.before_us)
        found = [one for one in self.inner.read([query])[0] if one.key == command.key]
        return found[0] if found else None  # type: ignore[return-value]


# What nobody condemned is seen when all is over: it is never forgotten.
@pytest.mark.parametrize(
    ("lie", "steps"),
    [(DeletesBytesFirst, 20_000), (IgnoresIntents, 20_000), (CondemnsNobody, 1_500)],
)
def test_control_a_careless_collector_is_found(
    lie: Callable[[Backend, BlobPlace], Wrapper],
    steps: int,
    tmp_path: Path,
    seed: int,
    scoreboard: Scoreboard,
) -> None:
    title = f"collection of bytes, {lie.__name__}"
    with (
        scoreboard.line(title, "sqlite, directory", seed, control=True) as line,
        stage_of("sqlite, directory", tmp_path) as stage,
    ):
        stage.backend = lie(stage.backend, stage.place)
        # Who puts the same bytes again heals the damage, so it has to be seen soon.
        contest = Fight(stage, seed, look_every=3)
        found = contest.run(steps)
        line.violations += itertools.islice(found, 1)
        found.close()
        line.n = contest.steps
