"""Logs that somebody moved into their file, or was kept from moving: never taken for a stranger's.

Readers, checkpoints of other programs, and kills at the worst moment.
"""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import apsw
import pytest

from ledgerstone import Store, user
from ledgerstone.engines.sqlite import entry as sqlite_entry
from ledgerstone.engines.sqlite import writer as sqlite_writer
from ledgerstone.engines.sqlite.marks import LOGGED, Mark
from ledgerstone.errors import Damaged
from ledgerstone.testing.faults.processes import Child, Say
from tests.faults.killed_stores import BAD, WAIT_S, by_cat, killed, texts, write

pytestmark = [pytest.mark.faults, pytest.mark.crash]


def die_in_a_checkpoint(say: Say, path: str) -> None:
    """Move the log into the file, and die before the log can name it."""
    sqlite_writer.CHECKPOINT_PAGES = 5
    store, real = Store.open(path), sqlite_entry.write_mark

    def write_mark(connection: apsw.Connection, mark: Mark) -> None:
        if mark.state == LOGGED:
            os.kill(os.getpid(), signal.SIGKILL)
        real(connection, mark)

    sqlite_entry.write_mark = write_mark
    for n in range(BAD):
        store.messages.append("other", user(f"there {n}"), create=True)
    say(b"done")


def end_in_a_checkpoint(path: Path) -> None:
    child = Child(die_in_a_checkpoint, str(path))
    assert not list(child.hear(WAIT_S))
    child.kill()


def checkpoint(path: Path, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE) -> None:
    """As `pragma wal_checkpoint` of the sqlite3 shell."""
    with closing(apsw.Connection(str(path))) as theirs:
        theirs.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        theirs.execute("select count(*) from nodes").fetchall()
        theirs.wal_checkpoint(mode=mode)


MOVED: dict[str, Callable[[Path], None]] = {
    "killed in a checkpoint": end_in_a_checkpoint,
    "another program": checkpoint,
    "another program cut the log": partial(checkpoint, mode=apsw.SQLITE_CHECKPOINT_TRUNCATE),
}


def commit_when_asked(say: Say, path: str, go: str) -> None:
    store = Store.open(path)
    store.messages.append("s", user("one"), create=True)
    say(b"open")
    while not Path(go).exists():
        threading.Event().wait(0.01)
    store.messages.append("s", user("two"))
    say(b"done")
    threading.Event().wait(WAIT_S)


@pytest.mark.promise(221)
@pytest.mark.parametrize("how", MOVED)
def test_a_log_that_begins_anew_names_its_file_first(how: str, tmp_path: Path) -> None:
    """Whoever moved it: the store is opened beside the living process, and after its kill."""
    path, go = tmp_path / "store.db", tmp_path / "go"
    child = Child(commit_when_asked, str(path), str(go))
    said = child.hear(WAIT_S)
    assert next(said) == b"open"
    MOVED[how](path)
    go.touch()
    assert next(said) == b"done"
    assert texts(path) == ["one", "two"]
    child.kill()
    assert texts(path) == ["one", "two"]


@pytest.mark.promise(221)
@pytest.mark.parametrize("how", MOVED)
def test_a_log_that_somebody_moved_before_a_kill_is_no_damage(how: str, tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    child = Child(commit_when_asked, str(path), str(tmp_path / "never"))
    assert next(child.hear(WAIT_S)) == b"open"
    MOVED[how](path)
    child.kill()
    assert texts(path) == ["one"]


def garble_header(path: Path) -> None:
    """As when the power fails while the header of the log is written again."""
    with Path(f"{path}-wal").open("r+b") as log:
        log.write(bytes(range(7, 23)))


@pytest.mark.promise(221)
def test_a_log_that_was_moved_may_lose_its_header(tmp_path: Path) -> None:
    """SQLite writes it again only when all of the log is in the file."""
    path = write(tmp_path / "store.db", "one")
    end_in_a_checkpoint(path)
    garble_header(path)
    assert texts(path) == ["one"]


@pytest.mark.promise(221)
def test_control_a_log_with_commits_may_not(tmp_path: Path) -> None:
    path = write(tmp_path / "store.db", "one")
    killed(path)
    garble_header(path)
    with pytest.raises(Damaged, match="damaged at its beginning"):
        Store.open(path)


def read_for_long(say: Say, path: str) -> None:
    """As the sqlite3 shell between BEGIN and COMMIT."""
    theirs = sqlite3.connect(path)
    theirs.execute("begin")
    theirs.execute("select count(*) from nodes").fetchone()
    say(b"reading")
    threading.Event().wait(WAIT_S)


def leave_closed(path: Path) -> list[str]:
    write(path, "good")
    return ["good"]


def leave_killed(path: Path) -> list[str]:
    killed(path)
    return [f"bad {n}" for n in range(BAD)]


def leave_tidied(path: Path) -> list[str]:
    """Killed, and another program has moved the log into the file and deleted it."""
    said = leave_killed(path)
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("select count(*) from nodes").fetchone()
    return said


BEFORE = {"closed": leave_closed, "killed": leave_killed, "tidied": leave_tidied}


@pytest.mark.promise(221)
@pytest.mark.parametrize("pages", [4000, 20], ids=["one log", "many checkpoints"])
@pytest.mark.parametrize("before", BEFORE)
def test_a_reader_that_keeps_a_log_from_being_moved_is_no_damage(
    before: str, pages: int, tmp_path: Path
) -> None:
    """Another program reads while a store is opened; both are killed, twice. A copy is a copy."""
    path, copy = write(tmp_path / "store.db"), tmp_path / "copy.db"
    said = BEFORE[before](path)
    for _ in range(2):
        reader = Child(read_for_long, str(path))
        assert next(reader.hear(WAIT_S)) == b"reading"
        killed(path, copy_to=copy, pages=pages)
        reader.kill()
        said += [f"bad {n}" for n in range(BAD)]
        with Store.open(path, read_only=True) as store:
            assert [message.text for message in store.messages.history("s")] == said
    beside = shutil.copytree(tmp_path, tmp_path / "beside")
    by_cat(copy, beside / "store.db")
    with pytest.raises(Damaged, match="ledgerstone restore"):
        Store.open(beside / "store.db")
    assert texts(path) == said


@pytest.mark.promise(221)
def test_a_header_cut_off_when_its_log_began_anew_is_no_damage(tmp_path: Path) -> None:
    """Half of the new header is there: another sequence number and the old salts."""
    path = tmp_path / "store.db"
    end_in_a_checkpoint(path)
    with Store.open(path, read_only=True) as store:
        said = store.messages.count("other")
    with Path(f"{path}-wal").open("r+b") as log:
        log.seek(12)
        number = int.from_bytes(log.read(4), "big")
        log.seek(12)
        log.write((number + 1).to_bytes(4, "big"))
    with Store.open(path) as store:
        assert store.messages.count("other") == said > 0
        assert store.admin.verify().ok
