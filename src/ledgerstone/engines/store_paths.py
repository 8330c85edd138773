"""The files of a whole store on disk, and putting another one in their place."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from urllib.parse import quote

import apsw
import msgspec

from ledgerstone.engines.file.disk import mapped
from ledgerstone.engines.file.folder import ABOUT, BLOBS, LOCK
from ledgerstone.engines.file.urls import folder_path, is_folder
from ledgerstone.engines.sqlite.backup import alone_with
from ledgerstone.engines.sqlite.backup import put_in_place as put_file_in_place
from ledgerstone.engines.sqlite.connection import flush
from ledgerstone.engines.sqlite.marks import APPLICATION_ID, HEADER_BYTES
from ledgerstone.errors import Busy, InvalidValue

PARTIAL_END = ".partial"
BLOBS_END = "-blobs"
BESIDE = ("-wal", "-shm", "-lock", "-turn")
REPLACED_END = ".replaced"
_APPLICATION_AT = slice(68, 72)


class StorePaths(msgspec.Struct, frozen=True):
    """Where a store lies: `main` is its file or directory, `blobs` the directory of its bytes."""

    main: str
    is_directory: bool

    @property
    def blobs(self) -> str:
        return os.path.join(self.main, BLOBS) if self.is_directory else self.main + BLOBS_END

    @property
    def url(self) -> str:
        scheme = "file://" if self.is_directory else "sqlite:///"
        return scheme + quote(self.main)

    def resolved(self) -> StorePaths:
        """The same without links: what is renamed, linked or copied beside it stays on its disk."""
        return StorePaths(os.path.realpath(self.main), self.is_directory)

    def partial(self) -> StorePaths:
        """A free name beside it, for a store that is being made."""
        return StorePaths(f"{self.main}.{secrets.token_hex(4)}{PARTIAL_END}", self.is_directory)

    def existing(self) -> list[str]:
        """What is there of it: the file or directory first, then what belongs to it."""
        names = [self.main]
        if not self.is_directory:
            names += [self.main + end for end in (*BESIDE, BLOBS_END)]
        return [name for name in names if os.path.lexists(name)]

    def is_store(self) -> bool:
        """Whether a Ledgerstone store is there, by its name tag."""
        if self.is_directory:
            return os.path.isfile(os.path.join(self.main, ABOUT))
        if os.path.islink(self.main) or not os.path.isfile(self.main):
            return False
        # Through SQLite's file layer: closing a descriptor of ours would drop SQLite's locks.
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB
        file = apsw.VFSFile("", self.main, [flags, 0])
        try:
            header = file.xRead(HEADER_BYTES, 0)
        finally:
            file.xClose()
        return int.from_bytes(header[_APPLICATION_AT], "big") == APPLICATION_ID

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Nobody has the store open while this lasts; Busy otherwise. Fine when there is none."""
        if not self.existing():
            yield
        elif not self.is_directory:
            with alone_with(self.main):
                yield
        else:
            with _locked(os.path.join(self.main, LOCK)):
                yield

    def take_over(self, new: StorePaths) -> list[str]:
        """Put a finished store in the place of this one; what was replaced, under its new name."""
        if self.is_directory:
            return put_in_place(new, self)
        kept, aside = [], f"{self.main}.{secrets.token_hex(4)}{REPLACED_END}"
        with mapped(self.main):
            if os.path.exists(self.main):
                # A second name, not a new one: without a file somebody could create a store here.
                os.link(self.main, aside)
                kept.append(aside)
            log = put_file_in_place(new.main, self.main)
            if log is not None:
                os.rename(log, f"{aside}-wal")
                kept.append(f"{aside}-wal")
        return kept

    def remove(self) -> None:
        """Take away all that is there of it."""
        for name in self.existing():
            remove_path(name)


@contextmanager
def _locked(lock: str) -> Iterator[None]:
    if not os.path.exists(lock):
        yield
        return
    file = os.open(lock, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        said = "is open; stop whoever uses it, then try again"
        raise Busy(f"{os.path.dirname(lock)} {said}") from None
    finally:
        os.close(file)


def paths_of(path: str | os.PathLike[str], *, is_directory: bool, field: str) -> StorePaths:
    """The paths of a store of one kind; InvalidValue for a url of another kind."""
    text = os.fspath(path)
    if not text or "\0" in text:
        raise InvalidValue(field, "a path expected")
    if is_folder(text) and is_directory:
        text = folder_path(text, field)
    elif text.startswith("sqlite:///") and not is_directory:
        text = text.removeprefix("sqlite:///")
    elif "://" in text or is_folder(text):
        kind = "directory" if is_directory else "file"
        raise InvalidValue(field, f"the path of a {kind} expected")
    main = os.path.abspath(text)
    if not is_directory and os.path.isdir(main):
        raise InvalidValue(field, f"{main} is a directory; name a file in it")
    return StorePaths(main, is_directory)


def remove_path(name: str) -> None:
    """Take a file or a whole directory away."""
    with mapped(name):
        if os.path.isdir(name) and not os.path.islink(name):
            shutil.rmtree(name)
            return
        with suppress(FileNotFoundError):
            os.unlink(name)


def put_in_place(new: StorePaths, final: StorePaths) -> list[str]:
    """Rename a finished store to its final name; what was there is kept under a new one.

    Answers the names of what was kept. The old main file goes first and the new one comes last:
    whoever looks meanwhile, or after a kill, finds a whole store or none. After an error
    everything is as before.
    """
    mark = f".{secrets.token_hex(4)}{REPLACED_END}"
    moves = [(name, _aside(name, final, mark)) for name in final.existing()]
    kept = [aside for _, aside in moves]
    blobs = [] if new.is_directory or not os.path.lexists(new.blobs) else [new]
    moves += [(each.blobs, final.blobs) for each in blobs]
    moves.append((new.main, final.main))
    done: list[tuple[str, str]] = []
    try:
        with mapped(final.main):
            for old, name in moves:
                os.rename(old, name)
                done.append((old, name))
            flush(os.path.dirname(final.main))
    except BaseException:
        _undo(done)
        raise
    return kept


def _aside(name: str, final: StorePaths, mark: str) -> str:
    """A log keeps its relation to its file: agent.db-wal becomes agent.db.<mark>-wal."""
    return final.main + mark + name.removeprefix(final.main)


def _undo(done: Iterable[tuple[str, str]]) -> None:
    for old, name in reversed(list(done)):
        with suppress(OSError):
            os.rename(name, old)
