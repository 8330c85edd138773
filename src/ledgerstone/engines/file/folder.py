"""The directory of a store: whose it is, who has it open, and where its files lie.

store.json       what this directory is
lock             held by whoever has the store open
store.jsonl      the journal of what belongs to no session, or to several
sessions/        one journal per session
blobs/           bytes, one file each, unless the store was opened with another place for them;
                 whoever puts the first makes it, and nothing here looks into it
snapshot.jsonl   everything at one moment, so that opening reads less; may be deleted
*.torn           what a crash left of a last line, kept for whoever wants to look
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Sequence

import msgspec

from ledgerstone.engines.file.disk import Disk, enter, let_go, mapped, write_new
from ledgerstone.engines.file.journal import SESSIONS, STORE_JOURNAL, journal_name, journal_number
from ledgerstone.engines.file.lines import STORE, VERSION
from ledgerstone.errors import Busy, NotADatabase, ReadOnly, SchemaTooNew

ABOUT = "store.json"
LOCK = "lock"
BLOBS = "blobs"
SNAPSHOT = "snapshot.jsonl"
TORN_END = ".torn"
TEMP_END = ".tmp"
FORMAT = "ledgerstone store"
ABOUT_BYTES_MAX = 65_536
KEY_BYTES = 16
_UNFINISHED = {LOCK, SESSIONS, ABOUT + TEMP_END}


class About(msgspec.Struct):
    """The content of store.json."""

    format: str
    version: int
    created: str = ""
    cursor_key: str = ""


class Folder:
    """An open store directory; nobody else has it while this one is open."""

    def __init__(self, path: str, disk: Disk, created: str) -> None:
        """Open or make it; says what is wrong with the place before anything is written."""
        self.path = path
        self.disk = disk
        self._lock: int | None = None
        self.sessions = -1
        self.cursor_key = b""
        self.root = enter(path, disk)
        try:
            with mapped(path):
                self._check_names()
                self._take_lock()
                self._check_names()
                self._read_about(created)
                self.sessions = self._enter_sessions()
                self._check_rights()
                self._tidy()
        except BaseException:
            self.close()
            raise
        _opened.add(self)

    def folder_of(self, number: int) -> int:
        """The folder that a journal lies in."""
        return self.root if number == STORE else self.sessions

    def journals(self) -> list[int]:
        """The numbers of all journals that are there, the store's first."""
        found = [STORE] if STORE_JOURNAL in self.disk.names(self.root) else []
        numbers = map(journal_number, self.disk.names(self.sessions))
        return found + sorted(number for number in numbers if number is not None)

    def read(self, number: int, start: int = 0) -> bytes:
        """A journal from `start` on."""
        return self.disk.read(self.folder_of(number), journal_name(number), start)

    def stamp(self, number: int) -> tuple[int, ...]:
        """What changes when somebody writes to a journal, or puts another in its place."""
        try:
            name = journal_name(number)
            found = os.stat(name, dir_fd=self.folder_of(number), follow_symlinks=False)
        except FileNotFoundError:
            return ()
        return found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def prepare(self, folder: int, name: str, data: Sequence[bytes]) -> str:
        """Write a file beside the one it shall replace, and flush it; answers its name.

        OSError when it could not be written; then nothing of it is left.
        """
        temp = name + TEMP_END
        self.remove(folder, temp)
        try:
            write_new(self.disk, folder, temp, data)
        except BaseException:
            self.remove(folder, temp, quiet=True)
            raise
        return temp

    def replace(self, folder: int, name: str, data: Sequence[bytes]) -> None:
        """Put a new file in the place of an old one, all of it or nothing, and flush both."""
        temp = self.prepare(folder, name, data)
        self.disk.rename(folder, temp, name)
        self.disk.sync_folder(folder)

    def remove(self, folder: int, name: str, *, quiet: bool = False) -> bool:
        """Take a file away; whether it was there. `quiet`: what cannot be removed stays."""
        try:
            self.disk.unlink(folder, name)
        except FileNotFoundError:
            return False
        except OSError:
            if not quiet:
                raise
            return False
        return True

    def check_place(self) -> None:
        """ReadOnly when the directory is gone from its path or cannot be written."""
        try:
            here = os.stat(self.path, follow_symlinks=False)
        except OSError:
            raise ReadOnly(f"{self.path} is gone; restore it from a copy") from None
        ours = os.fstat(self.root)
        if (here.st_dev, here.st_ino) != (ours.st_dev, ours.st_ino):
            raise ReadOnly(f"{self.path} is another directory now; close the store")
        if not self.disk.may_write(self.root):
            raise ReadOnly(f"{self.path} cannot be written")

    def close(self) -> None:
        """Let the next one in; closing twice is fine."""
        for descriptor in (self.sessions, self.root, self._lock):
            if descriptor is not None and descriptor >= 0:
                let_go(self.disk, descriptor)
        self.sessions = self.root = -1
        self._lock = None
        _opened.discard(self)

    # --- opening

    def _check_names(self) -> None:
        """NotADatabase for what somebody else made, before anything is touched."""
        names = self.disk.names(self.root)
        for name in names:
            if self.disk.is_link(self.root, name):
                raise NotADatabase(f"{self.path}/{name} is a symbolic link, which is not followed")
        if ABOUT in names:
            return
        strangers = set(names) - _UNFINISHED
        if SESSIONS in names:
            strangers.update(self._names_in(SESSIONS))
        if strangers:
            raise NotADatabase(
                f"{self.path} has no {ABOUT} but {min(strangers)!r}: it is no Ledgerstone store; "
                "nothing was touched"
            )

    def _names_in(self, name: str) -> list[str]:
        folder = self.disk.open_folder(name, self.root)
        try:
            return self.disk.names(folder)
        finally:
            self.disk.close(folder)

    def _take_lock(self) -> None:
        disk = self.disk
        try:
            self._lock = disk.open(self.root, LOCK)
        except FileNotFoundError:
            try:
                self._lock = disk.create(self.root, LOCK)
                disk.close_to_others(self._lock)
            except FileExistsError:
                self._lock = disk.open(self.root, LOCK)
        if not disk.lock(self._lock):
            raise Busy(
                f"{self.path} is open already, in another process or in this one; a directory is "
                "for one at a time"
            )

    def _read_about(self, created: str) -> None:
        disk = self.disk
        if ABOUT not in disk.names(self.root):
            key = disk.random(KEY_BYTES)
            about = msgspec.json.encode(About(FORMAT, VERSION, created, key.hex()))
            disk.close_to_others(self.root)
            self.replace(self.root, ABOUT, [about + b"\n"])
            self.cursor_key = key
            return
        data = disk.read(self.root, ABOUT)[:ABOUT_BYTES_MAX]
        try:
            found = msgspec.json.decode(data, type=About)
            self.cursor_key = bytes.fromhex(found.cursor_key)
        except (msgspec.DecodeError, ValueError):
            said = f"{self.path}/{ABOUT} does not say that this is a store; nothing was touched"
            raise NotADatabase(said) from None
        if found.format != FORMAT:
            raise NotADatabase(f"{self.path}/{ABOUT} is of {found.format!r}; nothing was touched")
        if found.version > VERSION:
            raise SchemaTooNew("store", found.version, VERSION)
        if found.version < VERSION:
            raise NotADatabase(
                f"{self.path}/{ABOUT} is of format {found.version}, which was never released; "
                "nothing was touched"
            )
        if not self.cursor_key:
            raise NotADatabase(f"{self.path}/{ABOUT} lacks its cursor_key; restore it from a copy")

    def _enter_sessions(self) -> int:
        disk = self.disk
        if SESSIONS not in disk.names(self.root):
            disk.make_folder(SESSIONS, self.root)
            folder = disk.open_folder(SESSIONS, self.root)
            disk.close_to_others(folder)
            disk.sync_folder(self.root)
            return folder
        folder = disk.open_folder(SESSIONS, self.root)
        for name in disk.names(folder):
            if disk.is_link(folder, name):
                disk.close(folder)
                place = f"{self.path}/{SESSIONS}/{name}"
                raise NotADatabase(f"{place} is a symbolic link, which is not followed")
        return folder

    def _check_rights(self) -> None:
        """A store that can take some commands and not others is of no use to anybody."""
        for folder, name in ((self.root, self.path), (self.sessions, f"{self.path}/{SESSIONS}")):
            if not self.disk.may_write(folder):
                raise ReadOnly(f"{name} cannot be written; change its permissions, or copy it")

    def _tidy(self) -> None:
        """Remove what a crash left of files that were about to be put in place."""
        for folder in (self.root, self.sessions):
            for name in self.disk.names(folder):
                if name.endswith(TEMP_END):
                    self.remove(folder, name)


_opened: weakref.WeakSet[Folder] = weakref.WeakSet()


def _leave_to_parent() -> None:
    """A forked child lets go at once: it would keep the lock when its parent is gone."""
    for folder in list(_opened):
        folder.close()


os.register_at_fork(after_in_child=_leave_to_parent)
