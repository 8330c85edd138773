"""Every call of the operating system that a store in a directory makes, in one small class.

Nothing else under `file*.py` writes, renames or removes. A test that wants to know what a power
cut or a failing disk does hands in a `Disk` of its own: each method is one call, or the few calls
that only make sense together. Folders and files are descriptors, names are relative to a folder,
and no symbolic link is ever followed.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

from ledgerstone.errors import InvalidValue, LedgerstoneError, ReadOnly, StorageFull, Unavailable

FILE_MODE = 0o600
FOLDER_MODE = 0o700
READ_BYTES = 1 << 20
_COMMON = os.O_CLOEXEC | os.O_NOFOLLOW
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FORBIDDEN = (errno.EROFS, errno.EACCES, errno.EPERM)


class Disk:
    """The real one."""

    # --- folders

    def make_folder(self, name: str, parent: int | None = None) -> None:
        """A new folder for its owner alone, whatever the umask says."""
        os.mkdir(name, FOLDER_MODE, dir_fd=parent)

    def open_folder(self, name: str, parent: int | None = None) -> int:
        """The descriptor of a folder that is there and is no link."""
        return os.open(name, os.O_RDONLY | os.O_DIRECTORY | _COMMON, dir_fd=parent)

    def close_to_others(self, descriptor: int) -> None:
        """Exactly our mode: a umask can only take bits away, an old folder may have more."""
        folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        os.fchmod(descriptor, FOLDER_MODE if folder else FILE_MODE)

    def names(self, folder: int) -> list[str]:
        """What lies in a folder, sorted."""
        return sorted(os.listdir(folder))

    def is_link(self, folder: int, name: str) -> bool:
        """Whether a name in the folder is a symbolic link."""
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)

    def may_write(self, folder: int) -> bool:
        """Whether files may be made in the folder."""
        return os.access(".", os.W_OK | os.X_OK, dir_fd=folder)

    def sync_folder(self, folder: int) -> None:
        """The names in a folder survive a power cut from here on."""
        flush(folder)

    # --- files

    def create(self, folder: int, name: str) -> int:
        """A new file, open for appending; FileExistsError when the name is taken."""
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND | _COMMON
        return os.open(name, flags, FILE_MODE, dir_fd=folder)

    def open(self, folder: int, name: str) -> int:
        """An existing file, open for appending."""
        return os.open(name, os.O_RDWR | os.O_APPEND | _COMMON, dir_fd=folder)

    def size(self, file: int) -> int:
        """How long an open file is."""
        return os.fstat(file).st_size

    def append(self, file: int, data: bytes) -> int:
        """One write at the end; how many bytes of it were taken."""
        return os.write(file, data)

    def sync(self, file: int) -> None:
        """What the file holds, and how long it is, survives a power cut from here on."""
        flush(file)

    def truncate(self, file: int, size: int) -> None:
        """Cut the file off."""
        os.ftruncate(file, size)

    def close(self, descriptor: int) -> None:
        """Let go of a file or a folder."""
        os.close(descriptor)

    def rename(self, folder: int, old: str, new: str) -> None:
        """Put one file in the place of another."""
        os.rename(old, new, src_dir_fd=folder, dst_dir_fd=folder)

    def unlink(self, folder: int, name: str) -> None:
        """Take a file away; FileNotFoundError when it is gone already."""
        os.unlink(name, dir_fd=folder)

    def read(self, folder: int, name: str, start: int = 0) -> bytes:
        """A file from `start` to its end."""
        file = self.open_to_read(folder, name)
        try:
            pieces = []
            while piece := self.read_some(file, start):
                pieces.append(piece)
                start += len(piece)
            return b"".join(pieces)
        finally:
            os.close(file)

    def open_to_read(self, folder: int, name: str) -> int:
        """An existing file, for reading; what is no file is opened without waiting for anybody."""
        return os.open(name, os.O_RDONLY | os.O_NONBLOCK | _COMMON, dir_fd=folder)

    def read_some(self, file: int, start: int) -> bytes:
        """The next piece of a file; empty at its end."""
        return os.pread(file, READ_BYTES, start)

    def is_file(self, descriptor: int) -> bool:
        """Whether it is a plain file: no folder, pipe or device."""
        return stat.S_ISREG(os.fstat(descriptor).st_mode)

    def is_there(self, folder: int, name: str) -> bool:
        """Whether the folder has something of this name, be it a link."""
        try:
            os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return False
        return True

    def random(self, count: int) -> bytes:
        """Bytes that nobody can guess."""
        return os.urandom(count)

    def lock(self, file: int) -> bool:
        """Whether the file is ours alone from here on; the end of the process ends it."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def flush(descriptor: int) -> None:
    """All the way down to the platter."""
    if hasattr(fcntl, "F_FULLFSYNC"):  # macOS, where a plain fsync stops at the drive's cache.
        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fdatasync(descriptor)


def append_all(disk: Disk, file: int, data: bytes) -> None:
    """All of the data: a write that took less is followed by one that says why."""
    view = memoryview(data)
    while view:
        taken = disk.append(file, bytes(view) if len(view) < len(data) else data)
        if taken <= 0:
            raise OSError(errno.EIO, "nothing was written")
        view = view[taken:]


def write_new(disk: Disk, folder: int, name: str, data: Iterable[bytes]) -> None:
    """A new file for its owner alone, flushed; OSError, and perhaps a part of it, otherwise."""
    file = disk.create(folder, name)
    try:
        disk.close_to_others(file)
        for piece in data:
            append_all(disk, file, piece)
        disk.sync(file)
    finally:
        disk.close(file)


def let_go(disk: Disk, descriptor: int) -> None:
    """Close it. What was promised was flushed before, so a failure here changes nothing."""
    with suppress(OSError):
        disk.close(descriptor)


@contextmanager
def opened(disk: Disk, folder: int, name: str) -> Iterator[int]:
    """An existing file for a moment."""
    file = disk.open(folder, name)
    try:
        yield file
    finally:
        let_go(disk, file)


@contextmanager
def mapped(path: str) -> Iterator[None]:
    """What the operating system raises, as what the caller can react to."""
    try:
        yield
    except OSError as error:
        raise from_os(error, path) from error


def from_os(error: OSError, path: str) -> LedgerstoneError:
    """One error of the operating system as one of ours."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return StorageFull(f"no space left for {path}: {reason}")
    if error.errno in _FORBIDDEN:
        return ReadOnly(f"{path} cannot be written: {reason}")
    return Unavailable(f"input or output failed on {path}: {reason}")


def enter(path: str, disk: Disk, field: str = "path") -> int:
    """Its descriptor; it is made, with those above it, when it is not there.

    InvalidValue naming the field for a link, a file, or a path that leads nowhere.
    """
    try:
        found = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        _make(path, disk, field)
    except OSError as error:
        raise _refusal(error, path, field) from error
    else:
        if stat.S_ISLNK(found.st_mode):
            raise InvalidValue(field, f"{path} is a symbolic link; name the directory itself")
        if not stat.S_ISDIR(found.st_mode):
            raise InvalidValue(field, f"{path} is a file; a directory is needed")
    with mapped(path):
        return disk.open_folder(path)


def _make(path: str, disk: Disk, field: str) -> None:
    above = os.path.dirname(os.path.abspath(path))
    try:
        if not os.path.exists(above):
            _make(above, disk, field)
        disk.make_folder(path)
        folder = disk.open_folder(path)
        disk.close_to_others(folder)
        disk.close(folder)
        folder = os.open(above, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        disk.sync_folder(folder)
        disk.close(folder)
    except FileExistsError:
        return  # Somebody else is making it at this moment.
    except OSError as error:
        raise _refusal(error, path, field) from error


def _refusal(error: OSError, path: str, field: str) -> Exception:
    if error.errno == errno.ENOTDIR:
        return InvalidValue(field, f"a part of {path} is a file, not a directory")
    if error.errno in (errno.ELOOP, errno.ENAMETOOLONG):
        return InvalidValue(field, f"{path} leads nowhere: {error.strerror}")
    return from_os(error, path)
