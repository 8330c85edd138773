"""Entering a directory that somebody named, whatever lies there: before anything is written."""

from __future__ import annotations

import errno
import os
import stat

from ledgerstone.engines.file.disk import Disk, from_os, mapped
from ledgerstone.errors import InvalidValue


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
