"""Places that change while a store is open there: each scene yields what went wrong."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from ledgerstone import Store, user
from ledgerstone.clock import ManualClock
from ledgerstone.errors import Damaged, LedgerstoneError
from ledgerstone.testing.faults.processes import Child, Say
from tests.faults.wrong_places import closed_store

WAIT_S = 60.0
COMMITS = 50

Scene = Callable[[Path], Iterator[str]]
Make = Callable[[Path], Store]


def opened(path: Path, make: Make = Store.open) -> Store:
    store = make(path)
    store.messages.append("s", user("one"), create=True)
    return store


def texts(path: Path) -> list[str]:
    """What the session says; what verify says when it has something to say."""
    with Store.open(path) as store:
        defects = store.admin.verify().defects
        return [message.text for message in store.messages.history("s")] + [
            f"{defect}" for defect in defects
        ]


def commit(store: Store, text: str) -> bool:
    """Whether it was acknowledged; an error of ours is fine, and any other is not."""
    try:
        store.messages.append("s", user(text))
    except LedgerstoneError:
        return False
    return True


def as_after_a_kill(path: Path, folder: Path) -> list[str]:
    """What a new process would find, had this one died now."""
    folder.mkdir()
    for one in path.parent.glob(path.name + "*"):
        if one.is_file() and not one.name.endswith("-shm"):
            shutil.copy(one, folder / one.name)
    try:
        return texts(folder / path.name)
    except LedgerstoneError as error:
        return [f"{type(error).__name__}: {error}"]


def deleted(folder: Path) -> Iterator[str]:
    path = folder / "store.db"
    store = opened(path)
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (folder / name).unlink()
    if commit(store, "two"):
        yield "a turn was acknowledged into a deleted file"
    yield from tells(store, path)
    store.close()


def replaced(folder: Path) -> Iterator[str]:
    """Somebody puts a backup in place while a process still has the old file open."""
    path = folder / "store.db"
    store = opened(path)
    closed_store(folder / "backup.db", "s", "from the backup").replace(path)
    if commit(store, "two"):
        yield "a turn was acknowledged into a file that has no name any more"
    yield from tells(store, path)
    store.close()
    try:
        found = texts(path)
    except Damaged:
        # The old log still lies there and fits the old file only: somebody has to decide.
        (folder / "store.db-wal").rename(folder / "away")
        found = texts(path)
    if found != ["from the backup"]:
        yield f"the backup now says {found}"


def log_deleted(folder: Path) -> Iterator[str]:
    """What was in it is gone; nothing more may be acknowledged into it."""
    path = folder / "store.db"
    store = opened(path)
    (folder / "store.db-wal").unlink()
    if commit(store, "two") and "two" not in as_after_a_kill(path, folder / "copy"):
        yield "a turn was acknowledged into a deleted log"
    yield from tells(store, path)
    store.close()


def cut_to_nothing(folder: Path) -> Iterator[str]:
    path = folder / "store.db"
    store = opened(path)
    os.truncate(path, 0)
    if commit(store, "two"):
        yield "a turn was acknowledged into a file that was cut off"
    yield from tells(store, path)
    store.close()
    try:
        yield f"it was opened, and says {texts(path)}"
    except Damaged:
        return


def index_deleted(folder: Path) -> Iterator[str]:
    """The index of the log: nothing in it that could be lost."""
    path = folder / "store.db"
    store = opened(path)
    (folder / "store.db-shm").unlink()
    wanted = ["one"]
    with Store.open(path) as second:
        for n in range(COMMITS):
            if commit((store, second)[n % 2], f"{n}"):
                wanted.append(f"{n}")
    store.close()
    if texts(path) != wanted:
        yield f"acknowledged {len(wanted)}, there are {len(texts(path))}"


def folder_renamed(folder: Path, make: Make = Store.open) -> Iterator[str]:
    (folder / "before").mkdir()
    store = opened(folder / "before" / "store.db", make)
    (folder / "before").rename(folder / "after")
    wanted = ["one", "two"] if commit(store, "two") else ["one"]
    store.close()
    if texts(folder / "after" / "store.db") != wanted:
        yield f"acknowledged {wanted}, there is {texts(folder / 'after' / 'store.db')}"


def two_in_one_process(folder: Path) -> Iterator[str]:
    """Both see each other's commits, and closing one does not break the other."""
    path = folder / "store.db"
    first = opened(path)
    second = Store.open(path)
    wanted = ["one"]
    for n in range(COMMITS):
        (first, second)[n % 2].messages.append("s", user(f"{n}"))
        wanted.append(f"{n}")
        for store in (first, second):
            if [message.text for message in store.messages.history("s")] != wanted:
                yield f"commit {n} is not seen by both"
    second.close()
    first.messages.append("s", user("alone"))
    if not first.admin.health().ok or not first.admin.verify().ok:
        yield "the one that stayed is not well"
    kept = as_after_a_kill(path, folder / "copy")
    if kept != [*wanted, "alone"]:
        yield f"after a kill there are {len(kept)} of {len(wanted) + 1}"
    first.close()
    if texts(path) != [*wanted, "alone"]:
        yield "closing both lost something"


def linked_folder(folder: Path) -> Iterator[str]:
    """Two names of one folder are one store with one log and one lock."""
    (folder / "real").mkdir()
    (folder / "link").symlink_to(folder / "real", target_is_directory=True)
    with opened(folder / "link" / "store.db") as one, Store.open(folder / "real/store.db") as two:
        two.messages.append("s", user("two"))
        if one.messages.count("s") != 2:
            yield "two names are two stores"
        names = sorted(path.name for path in (folder / "real").iterdir())
        if names != [f"store.db{end}" for end in ("", "-lock", "-shm", "-turn", "-wal")]:
            yield f"there are {names}"
    if not (folder / "link").is_symlink():
        yield "the link is gone"


def link_to_nothing(folder: Path) -> Iterator[str]:
    """A link whose target is not there yet: the store is made where it points."""
    (folder / "link.db").symlink_to(folder / "deep" / "store.db")
    opened(folder / "link.db").close()
    if texts(folder / "deep" / "store.db") != ["one"]:
        yield "the store was made somewhere else"
    if not (folder / "link.db").is_symlink():
        yield "the link is gone"


def clock_jumps(folder: Path) -> Iterator[str]:
    """A day back, a year forward: the order of commits is the order of commits."""
    clock = ManualClock()
    with Store.open(folder / "store.db", clock=clock) as store:
        wanted = []
        for n, jump in enumerate((0, -86_400, 365 * 86_400, -400 * 86_400, 0, 1)):
            clock.advance(jump)
            for id in ("s", f"only {n}"):
                store.messages.append(id, user(f"{n}"), create=True)
                wanted.append(id)
        history = [message.text for message in store.messages.history("s")]
        if history != [f"{n}" for n in range(6)]:
            yield f"the history of a session is {history}"
        turns = store.turns.list("s")
        if [turn.revision for turn in turns] != [1, 2, 3, 4, 5, 6]:
            yield "the revisions are not in order"
        if not store.admin.verify().ok:
            yield "verify does not like the clock"
        listed = store.sessions.list(order="-updated").items
        if [one.id for one in store.sessions.iter(order="-updated")] != [one.id for one in listed]:
            yield "pages and list differ"
        if sorted(one.id for one in listed) != sorted({*wanted}):
            yield f"a list skips or repeats: {listed}"
        times = [one.updated_us for one in listed]
        if times != sorted(times, reverse=True):
            yield f"not in the order of the times it shows: {times}"


def standard_library(folder: Path) -> Iterator[str]:
    """sqlite3 looks at the file in this very process while this one and another one write.

    Closing its connection lets go of the locks that ours holds, and it may take the log away: it
    does not know that anybody else is there.
    """
    path = folder / "store.db"
    store = opened(path)
    child = Child(_commit_many, str(path))
    here = []
    try:
        for n in range(COMMITS):
            foreign = sqlite3.connect(path)
            foreign.execute("select count(*) from nodes").fetchone()
            foreign.close()
            if commit(store, f"here {n}"):
                here.append(f"here {n}")
        there = [data.decode() for data in child.hear(WAIT_S)]
    finally:
        child.kill()
    store.close()
    found = texts(path)
    for who, acknowledged in (("here", here), ("there", there)):
        kept = [text for text in found if text.startswith(who)]
        if kept != acknowledged:
            yield f"{len(acknowledged)} acknowledged {who}, kept are {len(kept)}"
    others = [text for text in found if not text.startswith(("here", "there", "one"))]
    if others:
        yield f"verify says {others[:3]}"


def _commit_many(say: Say, path: str) -> None:
    with Store.open(path) as store:
        for n in range(COMMITS):
            if commit(store, f"there {n}"):
                say(f"there {n}".encode())


def tells(store: Store, path: Path) -> Iterator[str]:
    """Health says that something is wrong with the file, by name."""
    try:
        health = store.admin.health()
    except LedgerstoneError as error:
        if path.name not in str(error):
            yield f"health does not name the file: {error}"
        return
    if health.ok and not health.warnings:
        yield "health says that all is well"


SCENES: dict[str, Scene] = {
    "the file is deleted": deleted,
    "the file is replaced": replaced,
    "the log is deleted": log_deleted,
    "the file is cut to nothing": cut_to_nothing,
    "the index is deleted": index_deleted,
    "the folder is renamed": folder_renamed,
    "two stores in one process": two_in_one_process,
    "a linked folder": linked_folder,
    "a link to nothing": link_to_nothing,
    "the clock jumps": clock_jumps,
    "the standard library beside it": standard_library,
}
