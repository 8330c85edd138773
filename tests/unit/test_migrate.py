"""Schema steps: numbered without gaps, each in one transaction with its version."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from ledgerstone.engines.sqlite import backend as sqlite
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.engines.sqlite.connection import connect, setting
from ledgerstone.engines.sqlite.marks import APPLICATION_ID
from ledgerstone.errors import BackendError
from ledgerstone.sql.migrate import Migration, migrations, newest


def versions(path: Path) -> tuple[int, int, list[str]]:
    """Version, owner and tables of a file."""
    with closing(apsw.Connection(str(path))) as connection:
        version = setting(connection, "PRAGMA user_version")
        owner = setting(connection, "PRAGMA application_id")
        rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return version, owner, sorted(str(name) for (name,) in rows)


def with_steps(monkeypatch: pytest.MonkeyPatch, *texts: str) -> None:
    """Pretend that these steps follow the real ones."""
    real = migrations("sqlite")
    made = [Migration(len(real) + n, f"step{n}", text) for n, text in enumerate(texts, start=1)]
    steps = (*real, *made)
    monkeypatch.setattr(sqlite, "migrations", lambda dialect: steps)
    monkeypatch.setattr(sqlite, "newest", lambda dialect: len(steps))


def test_the_steps_are_numbered_from_one() -> None:
    steps = migrations("sqlite")
    assert [step.version for step in steps] == list(range(1, newest("sqlite") + 1))
    assert all(step.text.strip() and step.name for step in steps)


def test_a_gap_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "migrations" / "sqlite"
    folder.mkdir(parents=True)
    (folder / "0001_one.sql").write_text("create table one (x)")
    (folder / "0003_three.sql").write_text("create table three (x)")
    (folder / "README.md").write_text("not a step")
    monkeypatch.setattr("ledgerstone.sql.texts._HERE", str(tmp_path))
    migrations.cache_clear()
    try:
        with pytest.raises(ValueError, match="not numbered"):
            migrations("sqlite")
        (folder / "0003_three.sql").rename(folder / "0002_two.sql")
        assert [step.name for step in migrations("sqlite")] == ["one", "two"]
    finally:
        migrations.cache_clear()


def test_a_new_file_gets_the_newest_schema(tmp_path: Path) -> None:
    open_sqlite(str(tmp_path / "store.db")).close()
    version, owner, tables = versions(tmp_path / "store.db")
    assert (version, owner) == (newest("sqlite"), APPLICATION_ID)
    assert {"sessions", "heads", "nodes", "turns"} <= set(tables)


def test_an_older_file_is_brought_forward(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store.db"
    open_sqlite(str(path)).close()
    with_steps(monkeypatch, "create table extra (x)", "alter table extra add column y")
    with closing(open_sqlite(str(path))) as backend:
        assert backend.health().schema == newest("sqlite") + 2
    assert versions(path)[0] == newest("sqlite") + 2
    assert "extra" in versions(path)[2]


def test_a_step_that_fails_leaves_the_version_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Good steps before it stay, nothing of it does, and the next try goes on from there."""
    path = tmp_path / "store.db"
    open_sqlite(str(path)).close()
    first = newest("sqlite")
    with monkeypatch.context() as patch:
        with_steps(patch, "create table good (x)", "create table half (x); select nonsense(1)")
        with pytest.raises(BackendError):
            open_sqlite(str(path))
    version, _, tables = versions(path)
    assert version == first + 1
    assert "good" in tables
    assert "half" not in tables
    with_steps(monkeypatch, "create table good (x)", "create table half (x)")
    open_sqlite(str(path)).close()
    assert versions(path)[0] == first + 2


def test_a_step_that_another_process_took_is_not_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between our look at the version and the lock somebody else migrated."""
    path = tmp_path / "store.db"
    open_sqlite(str(path)).close()
    with_steps(monkeypatch, "create table extra (x)")
    looks: list[Any] = []

    def racing(connection: apsw.Connection, pragma: str) -> Any:
        answer = setting(connection, pragma)
        if "user_version" in pragma:
            looks.append(answer)
            if len(looks) == 2:
                monkeypatch.setattr(sqlite, "setting", setting)
                other = connect(str(path))
                sqlite.migrate(other)
                other.close()
        return answer

    monkeypatch.setattr(sqlite, "setting", racing)
    with closing(open_sqlite(str(path))) as backend:
        assert backend.health().schema == newest("sqlite") + 1
    assert len(looks) == 2
