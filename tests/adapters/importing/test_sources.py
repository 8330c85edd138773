"""What all importers do with a source: only read it, and refuse what they cannot trust."""

from __future__ import annotations

import asyncio
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from agents import SQLiteSession

from ledgerstone import Store
from ledgerstone.adapters.importing import sources
from ledgerstone.adapters.importing.importers import IMPORTERS, prepared
from ledgerstone.errors import Corrupt, InvalidValue, NotSupported, ReadOnly, Unavailable
from tests.adapters.adk.foreign import rows, write_file
from tests.adapters.adk.scripted import event
from tests.adapters.importing.origins import filled, sqlite_origin

# ADK warns of its own experiments when it is imported.
pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
ITEM: Any = {"role": "user", "content": "say"}


def langgraph_file(folder: Path) -> Path:
    origin = sqlite_origin(folder)
    with origin.opened() as saver:
        filled(saver)
    return Path(origin.source)


def openai_file(folder: Path) -> Path:
    path = folder / "conversations.db"

    async def go() -> None:
        for name in ("one", "two"):
            theirs = SQLiteSession(name, path)
            await theirs.add_items([ITEM])
            theirs.close()

    asyncio.run(go())
    return path


def adk_file(folder: Path) -> Path:
    path = folder / "adk.db"
    said = [event("said", at=100.0, id="e")]
    write_file(path, rows({("trips", user, "s"): ({}, said) for user in ("one", "two")}))
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma journal_mode = wal")
    return path


FILES: dict[str, Callable[[Path], Path]] = {
    "langgraph": langgraph_file,
    "openai-agents": openai_file,
    "adk": adk_file,
}
TEXTS = {
    "langgraph": ("writes", "channel"),
    "openai-agents": ("agent_messages", "message_data"),
    "adk": ("events", "event_data"),
}

LOCKED = """
import os, sys, warnings
warnings.simplefilter("ignore")
from ledgerstone import Store
from ledgerstone.adapters.importing.importers import prepared
from ledgerstone.errors import Unavailable

with Store.open("memory://") as store:
    for path in sys.argv[2:]:
        try:
            print(prepared(sys.argv[1], path)(store, None)["sessions"])
        except Unavailable as error:
            print(type(error).__name__)
        if os.geteuid() == 0:  # Nothing is ever closed to root. All modules are there by now.
            os.setuid(65534)
"""


def test_every_importer_has_a_file_here() -> None:
    assert FILES.keys() == TEXTS.keys() == IMPORTERS.keys()


@pytest.mark.parametrize("framework", FILES)
@pytest.mark.parametrize(
    ("log", "mode", "linked", "told"),
    [
        (None, 0o444, False, "2"),
        (b"", 0o444, False, "2"),
        (b"log", 0o444, False, "ReadOnly"),
        (b"log", 0o444, True, "ReadOnly"),
        (None, 0, False, "Unavailable"),
    ],
)
def test_where_nothing_can_be_written(
    framework: str, log: bytes | None, mode: int, linked: bool, told: str, tmp_path: Path
) -> None:
    with TemporaryDirectory() as name, TemporaryDirectory() as other:
        open_to_all = FILES[framework](tmp_path)
        path = FILES[framework](Path(name))
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink(missing_ok=True)
        if log is not None:
            path.with_name(path.name + "-wal").write_bytes(log)
        path.chmod(mode)
        if linked:
            path = Path(other, "link")
            path.symlink_to(Path(name, open_to_all.name))
        for folder in (name, other):
            Path(folder).chmod(0o555)
        try:
            done = subprocess.run(
                [sys.executable, "-c", LOCKED, framework, str(open_to_all), str(path)],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            )
        finally:
            for folder in (name, other):
                Path(folder).chmod(0o755)
    assert (done.stdout, done.stderr) == (f"2\n{told}\n", "")


@pytest.mark.parametrize("framework", FILES)
def test_a_transaction_that_was_broken_off(framework: str, tmp_path: Path) -> None:
    """The file then holds a half of it, and the journal what was there before."""
    path, torn = FILES[framework](tmp_path), tmp_path / "torn"
    torn.mkdir()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("pragma journal_mode = delete")
        db.execute("pragma cache_size = 1")
        db.execute("begin")
        db.execute("create table filler as select randomblob(3000) as x")
        for _ in range(8):
            db.execute("insert into filler select randomblob(3000) from filler")
        for end in ("", "-journal"):
            shutil.copy(path.with_name(path.name + end), torn / (path.name + end))
        db.execute("rollback")
    with pytest.raises(ReadOnly, match="journal"):
        prepared(framework, str(torn / path.name))


@pytest.mark.parametrize("framework", FILES)
@pytest.mark.parametrize("damage", ["cast(x'ff' as text)", f"'{'[' * 100_000}'"])
def test_text_that_is_none(framework: str, damage: str, tmp_path: Path) -> None:
    path = FILES[framework](tmp_path)
    table, column = TEXTS[framework]
    if framework == "langgraph" and not damage.startswith("cast"):
        table, column = "checkpoints", "metadata"
    with closing(sqlite3.connect(path)) as db, db:
        db.execute(f"update {table} set {column} = {damage}")
    with Store.open("memory://") as store, pytest.raises(Corrupt):
        prepared(framework, str(path))(store, None)


ENDLESS = "with recursive n(x) as (select 1 union all select x + 1 from n) select {} from n"
NO_TABLES = (
    "create view {table} as select * from theirs",
    "create view {table} as " + ENDLESS,
    "create virtual table {table} using fts5({columns})",
)


@pytest.mark.parametrize("framework", FILES)
@pytest.mark.parametrize("instead", NO_TABLES)
def test_what_is_no_table_is_refused(framework: str, instead: str, tmp_path: Path) -> None:
    path = FILES[framework](tmp_path)
    table, _ = TEXTS[framework]
    with closing(sqlite3.connect(path)) as db, db:
        names = [name for (name,) in db.execute(f"select name from pragma_table_info('{table}')")]
        db.execute("pragma legacy_alter_table = on")
        db.execute(f"alter table {table} rename to theirs")
        made = instead.format(", ".join(f"x as {name}" for name in names), table=table, columns="x")
        db.execute(made)
    with pytest.raises(NotSupported, match=f"{table} is a view or a virtual table"):
        prepared(framework, str(path))


@pytest.mark.parametrize("framework", FILES)
def test_a_statement_that_does_not_end_is_ended(
    framework: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = FILES[framework](tmp_path)
    monkeypatch.setattr(sources, "STEPS_COUNTED", 1)
    monkeypatch.setattr(sources, "STEPS_MAX", 10)
    with Store.open("memory://") as store, pytest.raises(Unavailable, match="no row came"):
        prepared(framework, str(path))(store, None)


@pytest.mark.parametrize("framework", FILES)
def test_told_about_each_session(framework: str, tmp_path: Path) -> None:
    path, seen = FILES[framework](tmp_path), []
    with Store.open("memory://") as store:
        prepared(framework, f"sqlite+aiosqlite:///{path}")(store, lambda *one: seen.append(one))
    names = ["s", "s"] if framework == "adk" else ["one", "two"]
    assert seen == [(name, n) for n, name in enumerate(names, start=1)]


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ada:12/secret@127.0.0.1:1/x",
        "postgresql://ada:12?secret@127.0.0.1:1/x",
        "postgresql://ada:%casecret@127.0.0.1:1/x",
        "postgresql://ada:secret%@127.0.0.1:1/x",
        "postgresql://ada:1 secret@127.0.0.1:1/x",
        "postgresql+asyncpg://127.0.0.1:1/x?password=1&secret",
        "postgresql://127.0.0.1:1/x?password=1&secret=2",
        "postgresql:ada:secret@127.0.0.1:1/x",
        "postgres//ada:secret@127.0.0.1:1/x",
    ],
)
def test_no_piece_of_a_password_is_shown(url: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        prepared("langgraph", url)
    error = caught.value
    assert "secret" not in f"{error!r} {error.__cause__!r} {error.__context__!r}"


def test_a_password_is_not_shown() -> None:
    with pytest.raises(NotSupported) as caught:
        prepared("openai-agents", "postgresql://ada:secret@127.0.0.1:1/none")
    assert "secret" not in str(caught.value)
