"""Entering and leaving a SQLite store: who else is there, and does the log belong to the file.

Whoever enters alone judges what lies there before SQLite touches it, and begins a new generation;
whoever leaves alone moves the log into the file and deletes it. Nobody else does either.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import apsw

from ledgerstone.engines.sqlite.lock import FileLock, refuse_links
from ledgerstone.engines.sqlite.marks import (
    CLOSED,
    ID_BYTES,
    LOGGED,
    OPEN,
    Log,
    LogMismatch,
    Mark,
    find_log_mismatch,
    new_mark,
    read_mark,
)
from ledgerstone.errors import Busy, Corrupt
from ledgerstone.sql.catalogue import load

ENTER_WAIT_S = 30.0
SCHEMA_MIN = 1 << 24
ACCEPT = (
    "to open it all the same and give up what is missing, run `ledgerstone restored --accept-loss` "
    "or open it once with accept_loss=True"
)
ASIDE = f"{ACCEPT}: the log is then kept under another name, unused"
RESTORE = "`ledgerstone restore BACKUP STORE` puts a backup in place"

LOG_MISMATCHES: dict[LogMismatch, str] = {
    "gone": "the store was not closed, and its log {path}-wal is missing or empty: it held the "
    f"last commits. Put it back if it was moved; otherwise {RESTORE}; {ACCEPT}",
    "foreign": "{path}-wal is the log of another file, or of another state of this one: the file "
    f"was replaced, or only one of the two was copied. {RESTORE}; {ASIDE}",
    "copy": "the file is a copy made while the store was open, and {path}-wal holds what was "
    f"committed around that time and later. {RESTORE}; {ASIDE}",
    "damaged": "{path}-wal is damaged at its beginning: its commits cannot be read. "
    f"{RESTORE}; {ASIDE}",
}


class Entry:
    """Our place among those who have a store open; `alone` until others may come in."""

    def __init__(self, path: str, vfs: str | None = None) -> None:
        """Wait until nobody is entering or leaving; Busy after a while."""
        self.path = path
        self.vfs = vfs
        self.alone = False
        self.unbegun = False
        self._turn: FileLock | None = None
        refuse_links(path)
        self._made = not os.path.lexists(path + "-lock")
        self._lock = FileLock(path + "-lock")
        try:
            self._come_in()
        except BaseException:
            self.refuse()
            raise

    def _come_in(self) -> None:
        self.alone = self._lock.acquire(0)
        if not self.alone and not self._lock.acquire(ENTER_WAIT_S, shared=True):
            raise Busy(f"another process has been opening {self.path} for long; try again")
        if not self._lock.is_current():
            raise Busy(f"{self.path}-lock was removed while it was opened; try again")
        # Not earlier: whoever leaves alone removes it.
        self._turn = FileLock(self.path + "-turn")

    @property
    def turn(self) -> FileLock:
        """The lock of who writes or makes a checkpoint."""
        assert self._turn is not None
        return self._turn

    def check(self, *, accept_loss: bool) -> None:
        """Corrupt when the file, or its log, is missing or does not belong to the other."""
        with self.taking_turns():
            problem = self._problem()
        if problem is None:
            return
        if not accept_loss:
            raise problem
        if not self.alone:
            raise Busy(f"{self.path} is open elsewhere; close it there first")
        set_log_aside(self.path)

    def _problem(self) -> Corrupt | None:
        path = self.path
        if not _bytes(path):
            if _bytes(path + "-wal"):
                said = f"it is missing or empty, but its log is there. Restore both; {ASIDE}"
                return corrupt(path, "file", said)
            if self._lock.is_stamped():
                said = f"a store was here and is missing or empty. {RESTORE}; {ACCEPT}"
                return corrupt(path, "file", f"{said}. For a new store remove {path}-lock")
            return None
        _, mismatch = self._look()
        if mismatch == "copy" and not self.alone:
            return None  # File and log give what the log ends with; somebody lives with it.
        return (
            None
            if mismatch is None
            else corrupt(path, "log", LOG_MISMATCHES[mismatch].format(path=path))
        )

    def _look(self) -> tuple[Mark | None, LogMismatch | None]:
        mark = read_mark(self.path, self.vfs)
        with Log(self.path + "-wal") as log:
            return mark, find_log_mismatch(mark, log)

    def begin(self, connection: apsw.Connection) -> None:
        """A new generation, when nobody has begun one; then the others may come in.

        Not only for who is alone: the last one may have left while we waited to come in, or
        another SQLite program may have taken the log away from those who are there.
        """
        with self.taking_turns():
            mark, mismatch = self._look()
            if self.alone or (mismatch is None and (mark is None or mark.state != OPEN)):
                self.unbegun = True
                with suppress(apsw.FullError):  # It can be read; the first commit tries again.
                    self.catch_up(connection)
        if self.alone:
            self._lock.stamp()
            self.alone = False
            self._lock.acquire(ENTER_WAIT_S, shared=True)

    def catch_up(self, connection: apsw.Connection) -> None:
        """Begin a generation, if the next commit would begin the log anew without one.

        There was no space for it before, whoever made the last checkpoint was stopped in the middle
        of it, or another program made it. For who has the turn.
        """
        if self.unbegun or is_moved(connection):
            renew(connection)
            self.unbegun = False

    @contextmanager
    def taking_turns(self, wait_s: float = ENTER_WAIT_S) -> Iterator[None]:
        """Nobody of ours writes or makes a checkpoint while this lasts; Busy after a while."""
        try:
            if not self.turn.acquire(wait_s):
                raise Busy(f"another process is writing to {self.path}; try again")
            yield
        finally:
            self.turn.release()

    def end(self, connection: apsw.Connection, *, tidy: bool) -> None:
        """Close the connection; who is alone, and sound, moves the log into the file for good."""
        try:
            if tidy and self._lock.acquire(0):
                # What fails here stays in the log, which is kept then; the next one has it all.
                with suppress(apsw.Error, Busy), self.taking_turns():
                    check_main(connection, self.path, self.vfs)
                    renew(connection, last=CLOSED)
                    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
                    connection.close()
                    os.unlink(self.turn.path)
        finally:
            connection.close()
            self.close()

    def refuse(self) -> None:
        """Leave as if nobody had come: lock files that were made for this opening go again."""
        for end in ("-turn", "-lock") if self._made else ("-turn",):
            with suppress(OSError):
                if self.alone:
                    os.unlink(self.path + end)
        self.close()

    def close(self) -> None:
        """Let go of both locks."""
        if self._turn is not None:
            self._turn.close()
        self._lock.close()


def corrupt(path: str, field: str, reason: str) -> Corrupt:
    return Corrupt("database", path, field, reason)


def _bytes(path: str) -> int:
    return os.path.getsize(path) if os.path.exists(path) else 0


def set_log_aside(path: str) -> str | None:
    """Give the log another name, so that nobody uses it and nothing in it is lost."""
    if not os.path.exists(path + "-wal"):
        return None
    aside = f"{path}-wal-unused-{new_mark(CLOSED).id.hex()[:8]}"
    os.rename(path + "-wal", aside)
    return aside


def write_mark(connection: apsw.Connection, mark: Mark) -> None:
    """One commit; the file alone says it after the next checkpoint."""
    connection.execute(load("sqlite")["write_mark"].text, (mark.stored(),))


def lift_schema_number(connection: apsw.Connection) -> None:
    """Small numbers are those that SQLite gives to copies: a store's is told from them.

    For who is alone with a file that has no log: it gets none by this.
    """
    if connection.execute("PRAGMA schema_version").get < SCHEMA_MIN:
        number = SCHEMA_MIN + int.from_bytes(new_mark(OPEN).id[:3], "big")
        connection.execute("PRAGMA journal_mode = DELETE").fetchall()
        connection.execute(f"PRAGMA schema_version = {number}")


def is_moved(connection: apsw.Connection) -> bool:
    """Whether all of the log is in the file, so that the next commit begins it anew."""
    frames, moved = connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    return frames == moved


def renew(
    connection: apsw.Connection, mode: int = apsw.SQLITE_CHECKPOINT_PASSIVE, last: int = LOGGED
) -> None:
    """A checkpoint with a new mark in it. For who enters alone, or has the turn.

    Two marks are written before: when the log begins anew, the next commit overwrites its
    first frame, and until that one is whole the second must still say what the file says.
    CLOSED comes last as well: while pages are moved, the file must not say that it is whole.
    When a reader kept some pages from being moved, the file may still say what it said: then the
    log goes on naming that.
    """
    level = connection.execute("PRAGMA synchronous").get
    schema = connection.execute("PRAGMA schema_version").get
    mark = new_mark(OPEN, schema)
    stored = connection.execute(load("sqlite")["read_mark"].text).get
    try:
        if stored[0] == OPEN or is_moved(connection):
            # The log may begin anew here, and names the file first. The other state, since SQLite
            # does not write what is there already. A file that was closed has no older log.
            other = LOGGED if stored[0] == OPEN else OPEN
            connection.execute(f"PRAGMA synchronous = {0 if stored[0] == CLOSED else 2}")
            write_mark(connection, (_on_file(connection) or mark)._replace(state=other))
        connection.execute("PRAGMA synchronous = 0")  # The checkpoint flushes the log first.
        write_mark(connection, new_mark(OPEN, schema))
        write_mark(connection, mark)
        connection.execute("PRAGMA synchronous = 2")
        if not _move_all(connection, mode):
            mark, last = _on_file(connection) or mark, LOGGED
        write_mark(connection, mark._replace(state=last, schema=schema))
    finally:
        connection.execute(f"PRAGMA synchronous = {level}")


def _move_all(connection: apsw.Connection, mode: int) -> bool:
    """A checkpoint; False when readers kept some of the log from being moved."""
    try:
        frames, moved = connection.wal_checkpoint(mode=mode)
    except apsw.BusyError:
        return False
    return frames == moved


def _on_file(connection: apsw.Connection) -> Mark | None:
    """What the file of a connection says without its log."""
    return read_mark(connection.filename, connection.open_vfs)


def check_main(connection: apsw.Connection, path: str, vfs: str | None = None) -> None:
    """Corrupt when the file was overwritten under its log: a checkpoint would mix the two."""
    mark = read_mark(path, vfs)
    stored = connection.execute(load("sqlite")["read_mark"].text).get
    if mark is not None and mark.id == stored[-ID_BYTES:]:
        return
    with Log(path + "-wal") as log:
        known = mark is not None and any(one.mark and one.mark.id == mark.id for one in log.live())
    if not known:
        raise corrupt(path, "file", f"it was overwritten while the store was open. {RESTORE}")
