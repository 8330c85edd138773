"""Two backends on one database: they stand for two processes, each knows only what it was told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ledgerstone.engines.postgres.backend import PostgresBackend
from tests.backends.planned import opened


@pytest.fixture
def here(postgres_url: str) -> Iterator[PostgresBackend]:
    with opened(postgres_url) as backend:
        yield backend


@pytest.fixture
def there(postgres_url: str, here: PostgresBackend) -> Iterator[PostgresBackend]:
    with opened(postgres_url) as backend:
        yield backend
