"""The store that the tests of interrupts hit; it must still close when they are done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ledgerstone.engines.sqlite.backend import SqliteBackend, open_sqlite
from ledgerstone.testing.faults.commits import commit_of
from tests.crash.interrupted import within


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[SqliteBackend]:
    opened = open_sqlite(str(tmp_path / "store.db"))
    opened.write(commit_of("s", "first", "one", "two"))
    yield opened
    closed = within(opened.close)
    assert closed is None, closed
