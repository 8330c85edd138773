"""Stores of every kind, for what has to come back from a real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone import Store

KINDS = ("memory", "sqlite", "file", pytest.param("postgres", marks=pytest.mark.slow))


@pytest.fixture(params=KINDS)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where an empty store is, one of each kind."""
    urls = {
        "memory": "memory://",
        "sqlite": f"sqlite:///{tmp_path}/s.db",
        "file": f"file:///{tmp_path}/s",
    }
    return urls.get(request.param) or request.getfixturevalue("postgres_url")


@pytest.fixture
def any_store(store_url: str) -> Iterator[Store]:
    """An open store of each kind."""
    with Store.open(store_url) as opened:
        yield opened
