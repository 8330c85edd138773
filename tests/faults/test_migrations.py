"""A migration killed at each of its statements: the old schema or the new one, wholly."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.errors import SchemaTooNew
from ledgerstone.testing.faults.specimen import Reading, fill, read_all
from ledgerstone.testing.scoreboard import Scoreboard
from tests.backends.places import quick_disk
from tests.faults.migrating import (
    Found,
    killed_at,
    open_current,
    open_newer,
    open_sabotaged,
)

pytestmark = [pytest.mark.faults, pytest.mark.crash]

STATEMENTS_MAX = 300


def reading(path: Path) -> Reading:
    backend = open_sqlite(str(path), clock=ManualClock())
    answers = read_all(backend)
    backend.close()
    return answers


def filled(path: Path) -> Reading:
    """A store of this version with a history, closed."""
    clock = ManualClock()
    backend = open_sqlite(str(path), clock=clock)
    fill(backend, clock)
    backend.close()
    return reading(path)


def test_a_new_store_killed_at_each_statement(tmp_path: Path, scoreboard: Scoreboard) -> None:
    with (
        quick_disk(tmp_path) as folder,
        scoreboard.line("first migration killed at each statement", "sqlite") as line,
    ):
        open_current(str(folder / "fresh.db"))
        fresh = Found(folder / "fresh.db")
        while killed_at(line.n + 1, open_current, folder / "store.db"):
            line.n += 1
            assert line.n < STATEMENTS_MAX
            left = Found(folder / "store.db")
            if left.schema and (left.schema, left.version) != (fresh.schema, fresh.version):
                line.violations.append(f"killed at {line.n}: half a schema, {left.version}")
            if not left.sound:
                line.violations.append(f"killed at {line.n}: the file is damaged")
            open_current(str(folder / "store.db"))
            again = Found(folder / "store.db")
            if (again.schema, again.version, again.owner) != (
                fresh.schema,
                fresh.version,
                fresh.owner,
            ):
                line.violations.append(f"killed at {line.n}: the next one made another schema")
            remove(folder / "store.db")
    assert line.n > len(fresh.schema)


def half_done(folder: Path, opener: Callable[[str], None]) -> tuple[int, list[str]]:
    """Kill a second migration at each statement; what was found in between versions."""
    before = filled(folder / "old.db")
    old = Found(folder / "old.db")
    shutil.copy(folder / "old.db", folder / "new.db")
    open_newer(str(folder / "new.db"))
    new = Found(folder / "new.db")
    assert (old.version, new.version) == (1, 2)
    assert new.colours == new.columns
    assert len(new.colours) > 5
    killed = 0
    violations: list[str] = []
    path = folder / "store.db"
    while True:
        remove(path)
        shutil.copy(folder / "old.db", path)
        if not killed_at(killed + 1, opener, path):
            return killed, violations
        killed += 1
        assert killed < STATEMENTS_MAX
        left = Found(path)
        if (left.version, left.schema) not in ((1, old.schema), (2, new.schema)):
            violations.append(f"killed at {killed}: between versions, {left.version}")
            continue
        if left.version == 1 and reading(path) != before:
            violations.append(f"killed at {killed}: other answers than before")
        open_newer(str(path))
        done = Found(path)
        if (done.version, done.schema, done.colours, done.columns) != (
            2,
            new.schema,
            new.colours,
            new.columns,
        ):
            violations.append(f"killed at {killed}: the next one did not finish it")


def test_a_second_migration_killed_at_each_statement(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with (
        quick_disk(tmp_path) as folder,
        scoreboard.line("second migration killed at each statement", "sqlite") as line,
    ):
        line.n, found = half_done(folder, open_newer)
        line.violations += found
    assert line.n > 10


def test_a_migration_without_a_transaction_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with (
        quick_disk(tmp_path) as folder,
        scoreboard.line("second migration without a transaction", "sqlite", control=True) as line,
    ):
        line.n, found = half_done(folder, open_sabotaged)
        line.violations += found


def test_an_older_version_refuses_a_newer_schema_and_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    filled(path)
    open_newer(str(path))
    (tmp_path / "store.db-lock").unlink()
    before = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    with pytest.raises(SchemaTooNew) as caught:
        open_sqlite(str(path))
    assert (caught.value.actual, caught.value.expected) == (2, 1)
    assert {one.name: one.read_bytes() for one in tmp_path.iterdir()} == before


def remove(path: Path) -> None:
    for one in path.parent.glob(path.name + "*"):
        one.unlink()
