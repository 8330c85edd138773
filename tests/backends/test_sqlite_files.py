"""What may lie at the path of a store, and what opening it must and must not do to it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random

import apsw
import pytest

from ledgerstone import Store, user
from ledgerstone.engines.sqlite import backend as sqlite
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.engines.sqlite.connection import setting
from ledgerstone.engines.sqlite.marks import APPLICATION_ID
from ledgerstone.engines.sqlite.names import FileNames
from ledgerstone.errors import (
    Damaged,
    InvalidValue,
    LedgerstoneError,
    NotADatabase,
    SchemaTooNew,
    StoreClosed,
)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


def real_store(path: Path) -> bytes:
    """The bytes of a small, proper store."""
    with Store.open(path) as store:
        store.messages.append("s", user("hello"), create=True)
    return path.read_bytes()


def other_program(path: Path, *, wal: bool = False) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA application_id = 77")
    if wal:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT)")
    connection.execute("INSERT INTO notes (body) VALUES ('precious')")
    connection.close()


# --- what is not a database

NOT_DATABASES: dict[str, Callable[[Path], bytes]] = {
    "text": lambda path: b"Dear diary, this is not a database.\n" * 100,
    "short text": lambda path: b"hi",
    "random bytes": lambda path: Random(7).randbytes(20_000),
    "zeros": lambda path: bytes(4096),
    "the magic alone": lambda path: b"SQLite format 3\0",
    "half a header": lambda path: real_store(path.with_name("other.db"))[:50],
    "a header alone": lambda path: real_store(path.with_name("other.db"))[:100],
    "half a page": lambda path: real_store(path.with_name("other.db"))[:2048],
    "a garbled header": lambda path: b"SQLite format 9\0" + real_store(path.with_name("o.db"))[16:],
}


@pytest.mark.parametrize("kind", NOT_DATABASES)
def test_what_is_not_a_database_is_refused_and_untouched(tmp_path: Path, kind: str) -> None:
    place = tmp_path / "place"
    place.mkdir()
    (place / "store.db").write_bytes(NOT_DATABASES[kind](tmp_path / "store.db"))
    before = snapshot(place)
    with pytest.raises(Damaged) as caught:
        Store.open(place / "store.db")
    assert "store.db" in str(caught.value)
    assert snapshot(place) == before


@pytest.mark.parametrize("pages", [1, 2, 5])
def test_a_store_cut_short_is_not_taken_for_a_new_one(tmp_path: Path, pages: int) -> None:
    """Whole pages are missing: whatever it says, it must say so, and write nothing."""
    place = tmp_path / "place"
    place.mkdir()
    whole = real_store(tmp_path / "whole.db")
    (place / "store.db").write_bytes(whole[: 4096 * pages])
    before = snapshot(place)["store.db"]
    with pytest.raises(LedgerstoneError), Store.open(place / "store.db") as store:
        store.messages.append("s", user("more"), create=True)
    assert snapshot(place)["store.db"] == before


# --- databases that are not ours


@pytest.mark.parametrize("wal", [False, True], ids=["journal", "wal"])
def test_a_database_of_another_program_is_refused_and_untouched(tmp_path: Path, wal: bool) -> None:
    path = tmp_path / "theirs.db"
    other_program(path, wal=wal)
    before = snapshot(tmp_path)
    with pytest.raises(NotADatabase):
        Store.open(path)
    assert snapshot(tmp_path) == before


def test_a_log_of_another_program_is_not_moved_into_its_file(tmp_path: Path) -> None:
    """Their process was killed: what it wrote last is in the log, and stays there."""
    live = tmp_path / "live"
    live.mkdir()
    connection = apsw.Connection(str(live / "theirs.db"))
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE notes (body TEXT)")
    connection.execute("INSERT INTO notes VALUES ('precious')")
    place = tmp_path / "place"
    place.mkdir()
    for name in ("theirs.db", "theirs.db-wal"):
        (place / name).write_bytes((live / name).read_bytes())
    connection.close()
    before = snapshot(place)
    assert len(before["theirs.db-wal"]) > 0
    with pytest.raises(NotADatabase):
        Store.open(place / "theirs.db")
    after = snapshot(place)
    assert {name: after.get(name) for name in before} == before


def test_an_empty_database_of_another_program_is_refused(tmp_path: Path) -> None:
    """It has no table yet, but it says whose it is."""
    path = tmp_path / "theirs.db"
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA application_id = 77")
    connection.close()
    assert path.stat().st_size > 0
    before = snapshot(tmp_path)
    with pytest.raises(NotADatabase):
        Store.open(path)
    assert snapshot(tmp_path) == before


def test_a_newer_schema_is_refused_and_untouched(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    real_store(path)
    connection = apsw.Connection(str(path))
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    (tmp_path / "store.db-lock").unlink()
    before = snapshot(tmp_path)
    with pytest.raises(SchemaTooNew) as caught:
        Store.open(path)
    assert (caught.value.actual, caught.value.expected) == (99, 1)
    assert snapshot(tmp_path) == before


def test_a_file_that_another_process_just_made_is_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else makes the fresh file between two of our looks at it, or right after."""
    path = str(tmp_path / "store.db")
    other = threading.Thread(target=lambda: open_sqlite(path).close())

    def racing(connection: apsw.Connection, pragma: str) -> object:
        answer = setting(connection, pragma)
        if "application_id" in pragma and not other.ident:
            other.start()
            # It may have to wait until we have looked at everything: then it comes after us.
            other.join(0.5)
        return answer

    monkeypatch.setattr(sqlite, "setting", racing)
    with closing(open_sqlite(path)) as backend:
        assert backend.health().ok
    other.join()


def test_an_empty_file_becomes_a_store(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.touch()
    with Store.open(path) as store:
        assert store.admin.health().ok
    connection = apsw.Connection(str(path))
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    connection.close()


# --- paths


def test_a_directory_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(InvalidValue) as caught:
        Store.open(tmp_path)
    assert caught.value.field == "path"
    assert "directory" in str(caught.value)
    assert list(tmp_path.iterdir()) == []


def test_a_parent_that_is_a_file_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for path in (tmp_path / "file" / "store.db", tmp_path / "file" / "deeper" / "store.db"):
        with pytest.raises(InvalidValue) as caught:
            Store.open(path)
        assert caught.value.field == "path"
    assert (tmp_path / "file").read_text() == "x"


def test_a_symbolic_link_leads_to_one_store_and_one_lock(tmp_path: Path) -> None:
    """Both names must agree on the log and on the lock beside it."""
    (tmp_path / "real").mkdir()
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real" / "store.db")
    with Store.open(link) as through_link, Store.open(tmp_path / "real" / "store.db") as direct:
        through_link.messages.append("s", user("one"), create=True)
        direct.messages.append("s", user("two"))
        assert [one.text for one in through_link.messages.history("s")] == ["one", "two"]
    assert link.is_symlink()
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("link")] == ["link.db"]


def test_names_that_mean_something_to_sqlite_are_just_names(tmp_path: Path) -> None:
    """No URI, no memory database, no temporary one."""
    for name in ("file:x.db", ":memory:", "a b?mode=ro#.db", "dé☃.db"):
        path = tmp_path / name
        with Store.open(path) as store:
            store.sessions.create(id="s")
        assert path.stat().st_size > 0, name


# --- who may read it


def test_files_and_folders_are_the_owners_alone(tmp_path: Path) -> None:
    """Even when the process would let everybody in."""
    old = os.umask(0)
    try:
        path = tmp_path / "a" / "b" / "store.db"
        with Store.open(path) as store:
            store.messages.append("s", user("secret"), create=True)
            store.messages.last("s")
            files = {one.name: stat.S_IMODE(one.stat().st_mode) for one in path.parent.iterdir()}
    finally:
        os.umask(old)
    assert set(files) >= {"store.db", "store.db-wal", "store.db-lock"}
    assert {name: oct(mode) for name, mode in files.items()} == dict.fromkeys(files, "0o600")
    folders = [tmp_path / "a", tmp_path / "a" / "b"]
    assert [oct(stat.S_IMODE(one.stat().st_mode)) for one in folders] == ["0o700", "0o700"]


def test_an_existing_mode_is_left_alone(tmp_path: Path) -> None:
    """A team that shares a file by its group has chosen so."""
    path = tmp_path / "store.db"
    path.touch(mode=0o660)
    path.chmod(0o660)
    tmp_path.chmod(0o750)
    with Store.open(path) as store:
        store.sessions.create(id="s")
    assert stat.S_IMODE(path.stat().st_mode) == 0o660
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o750


# --- the end of a store


def test_closing_twice_is_fine_and_use_after_close_is_told(tmp_path: Path) -> None:
    store = Store.open(tmp_path / "store.db")
    store.sessions.create(id="s")
    turn = store.turns.begin("s")
    turn.user("x")
    tenant = store.for_tenant("other")
    store.close()
    store.close()
    for call in (
        lambda: store.sessions.get("s"),
        lambda: store.messages.append("s", user("x")),
        lambda: tenant.sessions.get("s"),
        turn.commit,
        store.admin.health,
    ):
        with pytest.raises(StoreClosed):
            call()


def test_closing_leaves_one_file_and_the_lock(tmp_path: Path) -> None:
    """Everything is in the file itself: it may be copied by hand."""
    with Store.open(tmp_path / "store.db") as store:
        store.messages.append("s", user("x"), create=True)
        store.messages.last("s")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store.db", "store.db-lock"]


def test_a_failed_open_leaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("not a database " * 100)
    other_program(tmp_path / "theirs.db")

    def descriptors() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = descriptors()
    for _ in range(20):
        for name in ("text.db", "theirs.db"):
            with pytest.raises(NotADatabase):
                Store.open(tmp_path / name)
    assert descriptors() == before


def test_a_read_during_which_the_store_closes_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing takes the log away: for a reader that looks just then, nobody else did."""
    backend = open_sqlite(str(tmp_path / "store.db"))
    Store(backend).messages.append("s", user("hello"), create=True)
    look = FileNames.gone

    def close_first(names: FileNames) -> str | None:
        backend.close()
        return look(names)

    monkeypatch.setattr(FileNames, "gone", close_first)
    with pytest.raises(StoreClosed):
        Store(backend).messages.last("s")
