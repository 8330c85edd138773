"""Random lives of one SQLite file, drawn from a seed.

A store of ours commits, checkpoints, closes or is killed, while another SQLite program reads, makes
checkpoints and copies. Then each copy is put over what the last kill left: it is refused, or the
store is exactly that copy. The store itself, opened again, has all that it acknowledged.
"""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from typing import NamedTuple

from ledgerstone import Store, user
from ledgerstone.engines.sqlite import writer as sqlite_writer
from ledgerstone.engines.sqlite.marks import Log, read_mark
from ledgerstone.errors import Damaged, LedgerstoneError
from ledgerstone.testing.faults.processes import server

WAIT_S = 60.0
READERS_MAX = 2
BODY_CHARS = (10, 10, 9000)
CHECKPOINT_PAGES = (8, 20, 4000)
MODES = ("passive", "full", "restart", "truncate")
ACTIONS = (
    *("open", "commit", "commit", "commit", "commit", "kill", "kill all", "close", "look"),
    *("read", "stop reading", "leave", "checkpoint", "backup", "vacuum into", "cp"),
)


class Servant:
    """A process that answers every text it is asked, until it is told to end, or killed."""

    def __init__(self, role: Callable[..., None], *arguments: object) -> None:
        self._pipe, theirs = server().Pipe()
        self._process = server().Process(target=role, args=(theirs, *arguments), daemon=True)
        self._process.start()
        theirs.close()

    def ask(self, *words: object) -> str:
        self._pipe.send(tuple(map(str, words)))
        assert self._pipe.poll(WAIT_S), f"no answer to {words}"
        return str(self._pipe.recv())

    def end(self) -> None:
        self._pipe.close()
        self._join()

    def kill(self) -> None:
        self._process.kill()
        self._pipe.close()
        self._join()

    def _join(self) -> None:
        self._process.join(WAIT_S)
        self._process.close()


def serve(pipe: Connection, answer: Callable[[list[str]], None]) -> None:
    """Carry out what is asked, and say how it went, until the other end is closed."""
    while True:
        try:
            words = pipe.recv()
        except EOFError:
            return
        try:
            answer(list(words))
            pipe.send("")
        except (LedgerstoneError, sqlite3.Error) as error:
            pipe.send(f"{type(error).__name__}: {error}")


def our_store(pipe: Connection, path: str, pages: int) -> None:
    """A process of ours; it never closes the store unless asked."""
    sqlite_writer.CHECKPOINT_PAGES = pages
    opened: list[Store] = []

    def answer(words: list[str]) -> None:
        if words == ["open"]:
            opened.append(Store.open(path))
        elif words == ["close"]:
            opened.pop().close()
        else:
            opened[0].messages.append("s", user(words[0] + " " + "x" * int(words[1])))

    serve(pipe, answer)


def other_program(pipe: Connection, path: str) -> None:
    """As the sqlite3 shell; closing it tidies up if nobody else is there."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=0.2)) as connection:

        def answer(words: list[str]) -> None:
            if words == ["read"]:
                connection.execute("begin")
                connection.execute("select count(*) from nodes").fetchone()
            elif words == ["stop reading"]:
                connection.rollback()
            elif words[0] == "checkpoint":
                connection.execute(f"pragma wal_checkpoint({words[1]})").fetchall()
            elif words[0] == "backup":
                with closing(sqlite3.connect(words[1])) as target:
                    connection.backup(target)
            else:
                connection.execute("vacuum into ?", (words[1],))

        serve(pipe, answer)


class Copy(NamedTuple):
    """A copy that somebody made, and what had been acknowledged then."""

    kind: str
    path: Path
    said: list[str]


class Life:
    """One store from its making to its end."""

    def __init__(self, folder: Path, seed: int, tally: Counter[str]) -> None:
        folder.mkdir()
        self._folder = folder
        self._path = folder / "store.db"
        self._random = Random(seed)
        self._tally = tally
        self._said: list[str] = []
        self._copies: list[Copy] = []
        self._store: Servant | None = None
        self._readers: list[Servant] = []

    def run(self) -> Iterator[str]:
        """What is wrong with it."""
        with Store.open(self._path) as store:
            store.messages.append("s", user("m0"), create=True)
        self._said.append("m0")
        try:
            for _ in range(self._random.randint(10, 40)):
                yield from self._act(self._random.choice(ACTIONS))
        finally:
            self._kill_all()
        for copy in self._copies:
            yield from self._put_over(copy)
        yield from self._look("reopened")

    def _act(self, action: str) -> Iterator[str]:
        random, store = self._random, self._store
        if action == "open" and store is None:
            self._store = Servant(our_store, str(self._path), random.choice(CHECKPOINT_PAGES))
            yield from refused(action, self._store.ask(action))
        elif action == "commit" and store is not None:
            for _ in range(random.choice((1, 3, 10))):
                text = f"m{len(self._said)}"
                yield from refused(action, store.ask(text, random.choice(BODY_CHARS)))
                self._said.append(text)
        elif action == "close" and store is not None:
            yield from refused(action, store.ask(action))
            store.end()
            self._store = None
        elif action == "kill" and store is not None:
            store.kill()
            self._store = None
        elif action == "kill all":
            self._kill_all()
        elif action == "look" and store is None:
            yield from self._look(action, read_only=True)
        else:
            self._act_as_other(action)

    def _act_as_other(self, action: str) -> None:
        random, readers = self._random, self._readers
        if action == "read" and len(readers) < READERS_MAX:
            readers.append(Servant(other_program, str(self._path)))
            readers[-1].ask(action)
        elif action == "stop reading" and readers:
            readers[0].ask(action)
        elif action == "leave" and readers:
            readers.pop().end()
        elif action == "checkpoint":
            self._once(action, random.choice(MODES))
        elif action in ("backup", "vacuum into"):
            target = self._folder / f"copy {len(self._copies)}.db"
            if not self._once(action, target):
                self._copies.append(Copy(action, target, list(self._said)))
        elif action == "cp" and self._store is None and not self._beside("-wal").exists():
            target = self._folder / f"copy {len(self._copies)}.db"
            shutil.copy(self._path, target)
            self._copies.append(Copy(action, target, list(self._said)))

    def _once(self, *words: object) -> str:
        """Let another program do one thing; it ends properly, or not."""
        program = Servant(other_program, str(self._path))
        answer = program.ask(*words)
        if self._random.random() < 0.5:
            program.kill()
        else:
            program.end()
        return answer

    def _kill_all(self) -> None:
        for process in (*self._readers, *([self._store] if self._store else [])):
            process.kill()
        self._readers.clear()
        self._store = None

    def _put_over(self, copy: Copy) -> Iterator[str]:
        """In place, or under the same name with another inode: both are done by hand."""
        place = self._folder / "put over"
        place.mkdir()
        for end in ("", "-wal", "-shm", "-lock"):
            if self._beside(end).exists():
                shutil.copy(self._beside(end), place)
        path = place / self._path.name
        if self._random.random() < 0.5:
            path.unlink()
        path.write_bytes(copy.path.read_bytes())
        try:
            found: object = texts(path)
        except Damaged:
            found = "refused"
        except LedgerstoneError as error:
            found = type(error).__name__
        self._tally["refused" if found == "refused" else "as the copy"] += 1
        allowed = [copy.said, "refused", *([self._said] if self._is_of_the_log(copy) else [])]
        if found not in allowed:
            yield f"{copy.kind} put over the store: {found} in place of {copy.said[-3:]}"
        shutil.rmtree(place)

    def _is_of_the_log(self, copy: Copy) -> bool:
        """Whether a file copied by `cp` is to its log the file itself: docs/adr/0007.

        A reader of another program can keep a store that was opened again from beginning anew.
        """
        mark = read_mark(str(copy.path))
        with Log(f"{self._path}-wal") as log:
            named = [one.mark.id for one in log.live() if one.mark]
        return copy.kind == "cp" and mark is not None and named[-1:] == [mark.id]

    def _look(self, what: str, *, read_only: bool = False) -> Iterator[str]:
        self._tally[what] += 1
        try:
            found = texts(self._path, read_only=read_only)
        except LedgerstoneError as error:
            yield f"{what}: {type(error).__name__}: {error}"
            return
        if found != self._said:
            yield f"{what}: {len(found)} of {len(self._said)} messages"

    def _beside(self, end: str) -> Path:
        return Path(f"{self._path}{end}")


def texts(path: Path, *, read_only: bool = False) -> list[str]:
    """The first word of every message; what verify says first, if it has something to say."""
    with Store.open(path, read_only=read_only) as store:
        found = store.admin.verify()
        words = [message.text.split()[0] for message in store.messages.history("s")]
        return words if found.ok else [f"{found.defects[0]}"]


def refused(what: str, answer: str) -> Iterator[str]:
    if answer:
        yield f"{what}: {answer}"
