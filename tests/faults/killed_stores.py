"""Stores that were killed, and copies of them made by hand: what the tests of their files share."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import apsw

from ledgerstone import Store, user
from ledgerstone.engines.sqlite import writer as sqlite_writer
from ledgerstone.testing.faults.processes import Child, Say

WAIT_S = 60.0
BAD = 50
"""Commits of a process that is killed."""


def texts(path: Path, *, accept_loss: bool = False) -> list[str]:
    with Store.open(path, accept_loss=accept_loss) as store:
        assert store.admin.verify().ok
        if store.sessions.get("s") is None:
            return []
        return [message.text for message in store.messages.history("s")]


def write(path: Path, *said: str) -> Path:
    with Store.open(path) as store:
        for text in said:
            store.messages.append("s", user(text), create=True)
    return path


def commit_and_wait(say: Say, path: str, pages: int) -> None:
    """Make bad commits, never close; the log is moved into the file every few pages."""
    sqlite_writer.CHECKPOINT_PAGES = pages
    store = Store.open(path)
    say(b"open")
    for n in range(BAD):
        store.messages.append("s", user(f"bad {n}"), create=True)
        say(b"committed")
    say(b"done")
    threading.Event().wait(WAIT_S)


def killed(path: Path, *, copy_to: Path | None = None, pages: int = 4000) -> None:
    """Another process commits and is killed; an online copy is made once it is open."""
    child = Child(commit_and_wait, str(path), pages)
    try:
        for data in child.hear(WAIT_S):
            if data == b"open" and copy_to is not None:
                online_copy(path, copy_to)
            if data == b"done":
                break
    finally:
        child.kill()


def online_copy(source: Path, target: Path) -> None:
    """As `.backup` of the sqlite3 shell, in another process than the store's."""
    with (
        closing(apsw.Connection(str(source))) as theirs,
        closing(apsw.Connection(str(target))) as ours,
    ):
        theirs.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
        with ours.backup("main", theirs, "main") as backup:
            backup.step(-1)


def by_cat(source: Path, target: Path) -> None:
    with target.open("wb") as opened:
        opened.write(source.read_bytes())
