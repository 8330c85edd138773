"""PostgreSQL for tests: one server for each worker, and an empty store for each test."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from pathlib import Path

import pytest

from ledgerstone.clock import Clock, ManualClock
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.on_loop import OnLoop
from ledgerstone.testing.servers.databases import DatabaseServer
from ledgerstone.testing.servers.places import Places
from ledgerstone.testing.servers.postgres import shared_server
from ledgerstone.testing.servers.rows import edit_rows, raw_rows
from ledgerstone.testing.wrappers import Peer, Reopening, TwoProcesses


def open_store(url: str, clock: Clock | None = None) -> Backend:
    """A function of its own, since a child process has to find it by name."""
    from ledgerstone.engines.postgres.backend import open_postgres

    return open_postgres(url, clock=clock)


def prepare(url: str) -> None:
    open_store(url).close()


@cache
def places() -> Places:
    """The databases of this process; they go with the run, as does a server started for them."""
    return Places(shared_server(), prepare)


def pytest_unconfigure() -> None:
    """The end of a run, also of a worker: those do not come to their atexit."""
    if places.cache_info().currsize:
        places().close()
        places().server.close()
        places.cache_clear()


def store_in(folder: Path | str) -> str:
    """The url of the store that stands for a folder: the same folder, the same store."""
    return places().named(str(folder))


@pytest.fixture(scope="session")
def postgres_server() -> DatabaseServer:
    """The server of this worker: named by LEDGERSTONE_TEST_POSTGRES, or a throwaway one."""
    return places().server


@pytest.fixture(scope="session")
def postgres_places() -> Places:
    """Databases there, for tests that need one of their own: fresh() and blank()."""
    return places()


@pytest.fixture
def postgres_url(postgres_places: Places) -> str:
    """The url of an empty store."""
    return postgres_places.emptied()


def postgres_bed(variant: str, url: str, clock: ManualClock, peer: Callable[[], Peer]) -> Bed:
    """The store at that url, reached in one of the ways of the conformance suite."""
    local = partial(open_store, url, clock)

    def both() -> Backend:
        return TwoProcesses(local(), peer().open(partial(open_store, url), clock))

    ways: dict[str, Callable[[], Backend]] = {
        "postgres": local,
        "postgres-async": lambda: OnLoop(local()),
        "postgres-reopened": lambda: Reopening(local),
        "postgres-two-processes": both,
    }
    return Bed(
        "postgres",
        ways[variant],
        clock=clock,
        url=url,
        variant=variant,
        edit=partial(edit_rows, url),
        raw=partial(raw_rows, url),
        dialect="postgres",
    )
