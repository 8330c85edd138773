"""The backends that the conformance suite runs on here, and the ways it reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from zlib import crc32

import apsw
import pytest

from ledgerstone.clock import Clock, ManualClock
from ledgerstone.engines.file.backend import open_file as open_directory
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.wrappers import Peer, Reopening, TwoProcesses
from tests.postgres_beds import postgres_bed

# The backends in `make check`; in `make test` those on a server too, and how else a place can be
# reached. The ways of a pair take turns there, test by test; `make check-all` goes all of them.
VARIANTS = (
    "memory",
    "sqlite",
    "file",
    pytest.param("file-reopened", marks=pytest.mark.slow),
    pytest.param("sqlite-reopened", marks=pytest.mark.slow),
    pytest.param("sqlite-two-processes", marks=pytest.mark.slow),
    pytest.param("postgres", marks=pytest.mark.slow),
    pytest.param("postgres-async", marks=pytest.mark.slow),
    pytest.param("postgres-two-processes", marks=pytest.mark.slow),
)

TURNS = (
    ("sqlite-reopened", "sqlite-two-processes"),
    ("postgres-async", "postgres-two-processes"),
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Half of the tests go the first way of a pair, half the second, always the same ones."""
    ways = {way: n for pair in TURNS for n, way in enumerate(pair)}
    for item in items:
        spec = getattr(item, "callspec", None)
        way = ways.get(spec.params.get("backend", "")) if spec is not None else None
        name = item.nodeid.partition("[")[0]
        if way is not None and crc32(name.encode()) % 2 != way:
            item.add_marker(pytest.mark.nightly)


def open_file(path: str, clock: Clock) -> Backend:
    """A function of its own, since the peer process has to find it by name."""
    return open_sqlite(path, clock=clock)


@pytest.fixture(scope="session")
def peer() -> Iterator[Peer]:
    """The other process of the variants "two-processes"; one for all tests of this worker."""
    child = Peer()
    yield child
    child.close()


@pytest.fixture(params=VARIANTS)
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bed]:
    variant = str(request.param)
    clock = ManualClock()
    path = str(tmp_path / "store.db")
    with bed_of(variant, path, clock, request) as bed:
        yield bed


def bed_of(variant: str, path: str, clock: ManualClock, request: pytest.FixtureRequest) -> Bed:
    if variant == "memory":
        made = MemoryBackend(clock)
        return Bed("memory", lambda: made, clock=clock, persistent=False, url="memory://")
    if variant.startswith("file"):
        return directory_bed(variant, path, clock)
    if variant.startswith("postgres"):
        url: str = request.getfixturevalue("postgres_url")
        return postgres_bed(variant, url, clock, lambda: request.getfixturevalue("peer"))
    local = partial(open_file, path, clock)
    if variant == "sqlite":
        return file_bed(variant, local, path, clock)
    if variant == "sqlite-reopened":
        return file_bed(variant, lambda: Reopening(local), path, clock)
    peer: Peer = request.getfixturevalue("peer")

    def both() -> Backend:
        # The file is made here first, so that the two do not race for its schema.
        here = local()
        return TwoProcesses(here, peer.open(partial(open_file, path), clock))

    return file_bed(variant, both, path, clock)


def file_bed(variant: str, make: Callable[[], Backend], path: str, clock: ManualClock) -> Bed:
    return Bed(
        "sqlite",
        make,
        clock=clock,
        url=path,
        variant=variant,
        folder=Path(path).parent,
        edit=partial(edit_file, path),
        raw=partial(raw_files, Path(path).parent),
    )


def edit_file(path: str, statement: str) -> int:
    connection = apsw.Connection(path)
    try:
        connection.execute(statement)
        return connection.changes()
    finally:
        connection.close()


def raw_files(folder: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file())


def directory_bed(variant: str, path: str, clock: ManualClock) -> Bed:
    def make() -> Backend:
        return open_directory(path, clock=clock)

    def reopening() -> Backend:
        # A snapshot each time, so that the suite reads through those as well.
        return Reopening(lambda: open_directory(path, clock=clock, snapshot_lines=3))

    chosen = make if variant == "file" else reopening
    return Bed(
        "file",
        chosen,
        clock=clock,
        shared=True,
        url=f"file:///{path}",
        variant=variant,
        folder=Path(path).parent,
        raw=partial(raw_files, Path(path).parent),
    )
