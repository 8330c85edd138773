"""Every adapter runs on every kind of store, in both colours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ledgerstone import AsyncStore, Store

# As everywhere, a server takes part in `make test` and not in `make check`.
KINDS = ("memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow))


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store is, one of each kind."""
    return _url(request, tmp_path)


decided_by_the_adapter = pytest.mark.parametrize(
    "store_url",
    [
        "memory",
        pytest.param("sqlite", marks=pytest.mark.nightly),
        pytest.param("postgres", marks=[pytest.mark.slow, pytest.mark.nightly]),
    ],
    indirect=True,
)
"""For what an adapter decides by itself, before or beside its store, wherever that is."""


def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        url: str = request.getfixturevalue("postgres_url")
        return url
    return "memory://" if request.param == "memory" else f"sqlite:///{tmp_path / 'store.db'}"


@pytest.fixture(params=KINDS[1:])
def lasting_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a store outlives its process."""
    return _url(request, tmp_path)


@pytest.fixture
def adapter_store(store_url: str) -> Iterator[Store]:
    """An open, blocking store of each kind."""
    with Store.open(store_url) as store:
        yield store


@pytest.fixture(params=("blocking", "async"))
def colour(request: pytest.FixtureRequest) -> str:
    """Which colour of store an adapter is given."""
    colour: str = request.param
    return colour


@asynccontextmanager
async def opened(url: str, colour: str) -> AsyncIterator[Store | AsyncStore]:
    """A store of that colour, for an adapter that is called from a loop."""
    if colour == "async":
        async with AsyncStore.open(url) as store:
            yield store
        return
    blocking = await asyncio.to_thread(Store.open, url)
    try:
        yield blocking
    finally:
        await asyncio.to_thread(blocking.close)
