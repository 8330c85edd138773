"""The backends that the conformance suite runs on here, and the ways it reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import apsw
import pytest

from ledgerstone.clock import Clock, ManualClock
from ledgerstone.engines.file.backend import open_file as open_directory
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.promises import promise_numbers
from ledgerstone.testing.wrappers import Peer, Reopening, TwoProcesses
from tests.conformance.ways import WAYS, ways_of
from tests.postgres_beds import postgres_bed

VARIANTS = (
    "memory",
    "sqlite",
    "file",
    *(pytest.param(name, marks=pytest.mark.slow) for name in ("postgres", *WAYS)),
)
"""The backends in `make check`; in `make test` also those on a server, and the ways above."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave to the nightly run what would prove the same promise on the same way again."""
    tests: dict[str, list[tuple[str, pytest.Item]]] = {}
    for item in items:
        spec = getattr(item, "callspec", None)
        way = spec.params.get("backend") if spec is not None else None
        if way in WAYS:
            tests.setdefault(item.nodeid.partition("[")[0], []).append((str(way), item))
    chosen = ways_of({name: promise_numbers(found[0][1]) for name, found in tests.items()})
    for name, found in tests.items():
        for way, item in found:
            if way not in chosen[name]:
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
