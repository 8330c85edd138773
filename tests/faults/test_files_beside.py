"""Files that were put in place, taken away or planted by hand: refused with the next step.

Kills are real. A refusal touches nothing; what is opened is exactly what its file and log say.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path

import apsw
import pytest

from ledgerstone import Store, user
from ledgerstone.commands.turns import ListTurns
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.engines.sqlite.backup import alone_with, put_in_place, stamp
from ledgerstone.engines.sqlite.marks import (
    CLOSED,
    FRAME_HEADER_BYTES,
    LOG_HEADER_BYTES,
    LOGGED,
    MARK_PAGE,
    OPEN,
    PAGE_BYTES,
    Log,
    read_mark,
)
from ledgerstone.errors import (
    Busy,
    Corrupt,
    Damaged,
    InvalidValue,
    LedgerstoneError,
    NotSupported,
    Unavailable,
)
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.disk import Disk, Fault
from ledgerstone.testing.faults.processes import Child, Say
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.killed_stores import (
    BAD,
    WAIT_S,
    by_cat,
    commit_and_wait,
    killed,
    online_copy,
    texts,
    write,
)

pytestmark = [pytest.mark.faults, pytest.mark.crash]

GOOD = 5
THREADS = 8


def kept(folder: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in folder.iterdir()
        if path.is_file() and not path.name.endswith(("-shm", "-lock", "-turn"))
    }


def only_marks(log: str) -> bool:
    with Log(log) as opened:
        return all(frame.page == MARK_PAGE for frame in opened.live())


# --- restoring by hand over a store that was killed


def in_place(source: Path, target: Path) -> None:
    with target.open("r+b") as opened:
        opened.write(source.read_bytes())
        opened.truncate()


def removed_first(source: Path, target: Path) -> None:
    target.unlink()
    shutil.copy(source, target)


WAYS: dict[str, Callable[[Path, Path], object]] = {
    "cp": shutil.copyfile,
    "cat": by_cat,
    "in place": in_place,
    "remove, then cp": removed_first,
    "mv": lambda source, target: source.replace(target),
    "cp -p": shutil.copy2,
}


def closed_backup(path: Path, backup: Path, pages: int) -> None:
    shutil.copy2(write(path, *(f"good {n}" for n in range(GOOD))), backup)
    killed(path, pages=pages)


def live_backup(path: Path, backup: Path, pages: int) -> None:
    write(path, *(f"good {n}" for n in range(GOOD)))
    killed(path, copy_to=backup, pages=pages)


def others_file(path: Path, backup: Path, pages: int) -> None:
    write(path, *(f"good {n}" for n in range(GOOD)))
    write(backup, "of another store")
    killed(path, pages=pages)


BACKUPS = {
    "after a clean close": closed_backup,
    "online, while open": live_backup,
    "another store's": others_file,
}


@pytest.mark.promise(221)
@pytest.mark.parametrize("pages", [4000, 20], ids=["one log", "many checkpoints"])
@pytest.mark.parametrize("backup", BACKUPS)
@pytest.mark.parametrize("way", WAYS)
def test_a_backup_put_over_a_killed_store_is_refused_until_it_is_said_what_is_given_up(
    way: str, backup: str, pages: int, tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line(f"restore by hand: {way}, {backup}", "sqlite") as line,
        quick_disk(tmp_path) as folder,
    ):
        path, saved = folder / "store.db", folder / "backup.db"
        BACKUPS[backup](path, saved, pages)
        expected = texts(Path(shutil.copy(saved, folder / "looked at.db")))
        WAYS[way](saved, path)
        before = kept(folder)
        line.n = 1
        if pages < BAD and only_marks(f"{path}-wal"):
            # Killed right after a checkpoint: nothing was in the log that could come back.
            assert texts(path) == expected
            return
        with pytest.raises(Corrupt) as caught:
            Store.open(path)
        for said in (str(path), "ledgerstone restore", "--accept-loss", "accept_loss=True"):
            if said not in str(caught.value):
                line.violations.append(f"{said} is not named")
        if kept(folder) != before:
            line.violations.append("something was touched")
        if texts(path, accept_loss=True) != expected:
            line.violations.append("what was restored is not what the backup says")
        if not list(folder.glob("store.db-wal-unused-*")):
            line.violations.append("the log was not kept")


@pytest.mark.promise(221)
def test_a_backup_is_put_in_place_by_name(tmp_path: Path) -> None:
    """What `ledgerstone restore` is made of."""
    path, saved = tmp_path / "store.db", tmp_path / "backup.db"
    live_backup(path, saved, 4000)
    with closing(apsw.Connection(str(saved))) as connection:
        stamp(connection)
    with alone_with(str(path)), pytest.raises(Busy):
        Store.open(path)
    with alone_with(str(path)):
        aside = put_in_place(str(saved), str(path))
    assert aside is not None
    assert texts(path) == [f"good {n}" for n in range(GOOD)]
    with Store.open(path), pytest.raises(Busy), alone_with(str(path)):
        pass


@pytest.mark.promise(221)
def test_files_that_were_copied_together_are_opened(tmp_path: Path) -> None:
    """With or without the lock file: the two know each other by content."""
    path = tmp_path / "store.db"
    killed(path)
    (tmp_path / "copy").mkdir()
    for end in ("", "-wal"):
        shutil.copy(f"{path}{end}", tmp_path / "copy" / f"other.db{end}")
    assert texts(tmp_path / "copy" / "other.db") == [f"bad {n}" for n in range(BAD)]
    assert texts(path) == [f"bad {n}" for n in range(BAD)]


# --- what is missing


def closing_until(path: Path, at: int) -> int:
    """Commit, then lose power at the n-th write of closing; how many writes closing has made."""
    disk = Disk()
    disk.watch(path.parent)
    backend = open_sqlite(str(path), vfs=disk.name)
    for n in range(GOOD):
        backend.write(commit_of("s", f"t{n}", f"good {n}"))
    before = disk.counts["write"]
    disk.faults = (Fault("write", before + at, "power"),)
    with suppress(LedgerstoneError):
        backend.close()
    return disk.counts["write"] - before


@pytest.mark.promise(222)
def test_a_file_says_that_it_was_closed_when_all_of_it_is_there(tmp_path: Path) -> None:
    """Killed at any write of closing, and the log lost: refused, unless nothing is missing."""
    at, writes = 0, GOOD
    while at <= writes:
        at += 1
        path = write(tmp_path / f"{at}.db", "first")
        writes = closing_until(path, at)
        Path(f"{path}-wal").unlink(missing_ok=True)
        with suppress(Damaged), closing(open_sqlite(str(path))) as backend:
            (turns,) = backend.read([ListTurns(tenant=TENANT, session="s")])
            assert len(turns) == GOOD + 1, at
    assert at > GOOD


@pytest.mark.promise(222)
@pytest.mark.parametrize("how", ["deleted", "emptied", "copied alone"])
def test_a_log_that_is_gone_is_missed(how: str, tmp_path: Path) -> None:
    path = write(tmp_path / "store.db", "good")
    killed(path)
    if how == "copied alone":
        path = Path(shutil.copy(path, tmp_path / "alone.db"))
    elif how == "deleted":
        (tmp_path / "store.db-wal").unlink()
    else:
        os.truncate(tmp_path / "store.db-wal", 0)
    before = kept(tmp_path)
    with pytest.raises(Damaged, match="--accept-loss"):
        Store.open(path)
    assert kept(tmp_path) == before
    assert texts(path, accept_loss=True) == ["good"]
    assert texts(path) == ["good"]


@pytest.mark.promise(222)
def test_another_program_that_tidies_up_after_a_kill_loses_nothing(tmp_path: Path) -> None:
    """It moves all of the log into the file, which says so itself."""
    path = tmp_path / "store.db"
    killed(path)
    with closing(sqlite3.connect(path)) as theirs:
        theirs.execute("select count(*) from nodes").fetchone()
    assert not (tmp_path / "store.db-wal").exists()
    assert texts(path) == [f"bad {n}" for n in range(BAD)]


@pytest.mark.promise(222)
def test_a_power_cut_that_left_zeros_in_a_new_log_is_no_damage(tmp_path: Path) -> None:
    path = write(tmp_path / "store.db", "kept")
    Path(f"{path}-wal").write_bytes(bytes(LOG_HEADER_BYTES + FRAME_HEADER_BYTES + PAGE_BYTES))
    assert texts(path) == ["kept"]


def test_a_store_that_was_killed_before_its_first_commit_opens(tmp_path: Path) -> None:
    path = write(tmp_path / "store.db", "good")
    child = Child(commit_and_wait, str(path), 4000)
    assert next(child.hear(WAIT_S)) == b"open"
    child.kill()
    assert texts(path)[0] == "good"


@pytest.mark.promise(223)
@pytest.mark.parametrize("how", ["emptied", "missing"])
def test_a_store_that_is_missing_is_missed(how: str, tmp_path: Path) -> None:
    path = write(tmp_path / "store.db", "good")
    path.unlink()
    if how == "emptied":
        path.touch()
    with pytest.raises(Damaged, match="a store was here"):
        Store.open(path)
    assert not path.exists() or path.stat().st_size == 0
    assert texts(path, accept_loss=True) == []
    assert texts(path) == []


def test_only_sqlite_has_a_loss_to_accept(tmp_path: Path) -> None:
    with pytest.raises(NotSupported):
        Store.open("memory://", accept_loss=True)


def test_what_the_file_says_of_itself(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with Store.open(path) as store:
        store.messages.append("s", user("x"), create=True)
        online_copy(path, tmp_path / "copy.db")
        live = read_mark(str(path))
        copied = read_mark(str(tmp_path / "copy.db"))
    closed = read_mark(str(path))
    assert live is not None
    assert copied is not None
    assert closed is not None
    assert (live.state, copied.state, closed.state) == (OPEN, LOGGED, CLOSED)
    assert live.id == copied.id != closed.id


# --- another library in the process


def peeked_at(say: Say, path: str) -> None:
    """Write all the time, while the standard library opens and closes the file."""
    store = Store.open(path)
    done = threading.Event()

    def peek() -> None:
        while not done.is_set():
            with closing(sqlite3.connect(path)) as theirs:
                theirs.execute("select count(*) from nodes").fetchone()

    thread = threading.Thread(target=peek)
    thread.start()
    say(b"open")
    for n in range(BAD):
        try:
            store.messages.append("s", user(f"here {n}"), create=True)
        except Exception:
            break
        say(f"here {n}".encode())
    done.set()
    thread.join()
    say(b"done")
    threading.Event().wait(WAIT_S)


def neighbour(say: Say, path: str) -> None:
    """Stays open, so that the other library never believes to be the last."""
    store = Store.open(path)
    say(b"open")
    for n in range(BAD):
        store.messages.append("n", user(f"there {n}"), create=True)
        say(f"there {n}".encode())
    say(b"done")
    threading.Event().wait(WAIT_S)


@pytest.mark.promise(224)
def test_our_own_processes_never_take_a_log_away_that_is_in_use(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line("sqlite3 in the process, our CLI comes and goes", "sqlite") as line,
        quick_disk(tmp_path) as folder,
    ):
        for n in range(scale(6, 500)):
            path = folder / f"{n}.db"
            line.violations += peeked_round(path)
            line.n += 1


def peeked_round(path: Path) -> list[str]:
    other = Child(neighbour, str(path))
    assert next(other.hear(WAIT_S)) == b"open"
    child = Child(peeked_at, str(path))
    said: list[str] = []
    try:
        for data in child.hear(WAIT_S):
            if data == b"done":
                break
            said.append(data.decode())
            with Store.open(path) as visitor:
                visitor.sessions.get("s")
        for data in other.hear(WAIT_S):
            if data == b"done":
                break
            said.append(data.decode())
    finally:
        child.kill()
        other.kill()
    with Store.open(path) as store:
        found = {m.text for s in ("s", "n") for m in store.messages.history(s)}
        defects = [str(one) for one in store.admin.verify().defects]
    return [f"{one} is lost" for one in said if one != "open" and one not in found] + defects


# --- planted links


@pytest.mark.promise(226)
@pytest.mark.parametrize("end", ["-lock", "-turn", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("kind", ["symlink", "dangling", "hard link", "fifo", "directory"])
def test_nothing_beside_a_store_is_followed(kind: str, end: str, tmp_path: Path) -> None:
    path = write(tmp_path / "store.db", "good")
    target, planted = tmp_path / "precious", Path(f"{path}{end}")
    target.write_bytes(b"p" * 200)
    planted.unlink(missing_ok=True)
    if kind == "symlink":
        planted.symlink_to(target)
    elif kind == "dangling":
        planted.symlink_to(tmp_path / "nowhere")
    elif kind == "hard link":
        os.link(target, planted)
    elif kind == "fifo":
        os.mkfifo(planted)
    else:
        planted.mkdir()
    with pytest.raises(InvalidValue, match="was not touched"):
        Store.open(path)
    assert target.read_bytes() == b"p" * 200
    assert not (tmp_path / "nowhere").exists()
    if kind == "directory":
        planted.rmdir()
    else:
        planted.unlink()
    if end == "-lock":
        assert texts(path) == ["good"]


# --- a file that is replaced under an open store


@pytest.mark.promise(227)
def test_reads_notice_a_replaced_file(tmp_path: Path, scoreboard: Scoreboard) -> None:
    with scoreboard.line("file replaced under 8 reading threads", "sqlite") as line:
        path = write(tmp_path / "store.db", "old")
        new = write(tmp_path / "new.db", "new")
        answers: list[list[str]] = [[] for _ in range(THREADS)]
        with Store.open(path) as store:
            replaced, done = threading.Event(), threading.Event()

            def read(n: int) -> None:
                while not done.is_set():
                    after = replaced.is_set()
                    try:
                        found = store.messages.history("s")[0].text
                    except Unavailable:
                        found = "error"
                    answers[n].append(f"{found} after" if after else found)

            threads = [threading.Thread(target=read, args=(n,)) for n in range(THREADS)]
            for thread in threads:
                thread.start()
            while min(map(len, answers)) < 20:
                threading.Event().wait(0.001)
            new.replace(path)
            replaced.set()
            threading.Event().wait(0.2)
            done.set()
            for thread in threads:
                thread.join()
        for one in answers:
            line.n += len(one)
            first = one.index("error") if "error" in one else len(one)
            line.violations += [text for text in one if text.startswith("new")]
            line.violations += [text for text in one if text == "old after"]
            line.violations += [text for text in one[first:] if not text.startswith("error")]
