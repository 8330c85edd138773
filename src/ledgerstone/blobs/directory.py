"""Bytes in a directory: one file per key, written once, durable when its name is there.

    <root>/<2 hex>/<tenant hash>/<2 hex>/<key hash>        the bytes
    <root>/<2 hex>/<tenant hash>/<2 hex>/<key hash>.tmp    bytes on their way in

Every step goes by descriptor and follows no link, so nothing that is planted inside leads out.
All calls of the operating system are those of `Disk`, where tests let them fail.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ledgerstone.blobs.names import key_name, tenant_name
from ledgerstone.engines.file.disk import Disk, append_all, enter, let_go, mapped
from ledgerstone.errors import (
    AlreadyExists,
    BlobNotFound,
    Corrupt,
    NotADatabase,
    ReadOnly,
    StoreClosed,
    Unavailable,
)

TEMP_END = ".tmp"
KEPT_MAX = 10_000
_NO_FOLDER = (errno.ENOTDIR, errno.ELOOP)


class Directory:
    """A place for bytes below one directory."""

    name = "directory"
    _root = -1

    def __init__(self, path: str, disk: Disk | None = None, *, read_only: bool = False) -> None:
        """Enter it, or make it: InvalidValue, ReadOnly, StorageFull.

        `read_only`: one that is not there holds nothing, and is not made.
        """
        self.path = path
        self._disk = disk or Disk()
        self._closing = threading.Lock()
        self._kept: set[str] = set()
        self._missing = read_only and not os.path.lexists(path)
        if self._missing:
            return
        self._root = enter(path, self._disk, "blobs")
        if not read_only and not self._disk.may_write(self._root):
            self.close()
            raise ReadOnly(f"{path} cannot be written; change its permissions, then open again")

    def begin(self, tenant: str, key: str) -> DirectoryWriter:
        """Write bytes under a new key; AlreadyExists when it has some."""
        with mapped(self.path):
            folder = self._enter(tenant, key, make=True)
            assert folder is not None
            return DirectoryWriter(self.path, self._disk, folder, key)

    def read(self, tenant: str, key: str, first: int = 0) -> Iterator[bytes]:
        """The bytes from `first` on. They stay readable while somebody deletes them."""
        file = self._open(tenant, key)
        try:
            while piece := self._piece(file, first):
                yield piece
                first += len(piece)
        finally:
            let_go(self._disk, file)

    def delete(self, tenant: str, key: str) -> None:
        """Remove the bytes, finished or not; durable when this returns."""
        name = key_name(key)
        with mapped(self.path):
            folder = self._enter(tenant, key, make=False)
            if folder is None:
                return
            try:
                for one in (name, name + TEMP_END):
                    with suppress(FileNotFoundError):
                        self._disk.unlink(folder, one)
                # Without this a power cut could bring back bytes whose row is gone already.
                self._disk.sync_folder(folder)
            finally:
                let_go(self._disk, folder)

    def close(self) -> None:
        """Let go; closing twice is fine."""
        with self._closing:
            root, self._root = self._root, -1
            if root >= 0:
                let_go(self._disk, root)

    def __del__(self) -> None:
        if self._root >= 0:
            self.close()

    # --- inside

    def _enter(self, tenant: str, key: str, *, make: bool) -> int | None:
        """The folder of a key; None when there is none and none shall be made."""
        owner, name = tenant_name(tenant), key_name(key)
        way = f"/{owner[:2]}"
        # Whoever closes the root meanwhile would give its number to some other file.
        with self._closing:
            if self._missing and not make:
                return None
            if self._root < 0:
                raise StoreClosed("the store is closed: open it again")
            folder = self._step(self._root, owner[:2], way, make=make)
        for step in (owner, name[:2]):
            if folder is None:
                return None
            above, way = folder, f"{way}/{step}"
            try:
                folder = self._step(above, step, way, make=make)
            finally:
                let_go(self._disk, above)
        return folder

    def _step(self, folder: int, name: str, way: str, *, make: bool) -> int | None:
        disk = self._disk
        try:
            if make and not disk.is_there(folder, name):
                _make(disk, folder, name)
            below = disk.open_folder(name, folder)
        except FileNotFoundError:
            if make:
                raise
            return None
        except OSError as error:
            if error.errno in _NO_FOLDER:
                said = "is a link or no directory, and was not touched"
                raise NotADatabase(f"{self.path}{way} {said}") from None
            raise
        if make and way not in self._kept:
            # Whoever made it may not have come to this yet, and bytes below it rely on it.
            disk.sync_folder(folder)
            if len(self._kept) >= KEPT_MAX:
                self._kept.clear()
            self._kept.add(way)
        return below

    def _open(self, tenant: str, key: str) -> int:
        disk, name = self._disk, key_name(key)
        with self._reading(key):
            folder = self._enter(tenant, key, make=False)
            if folder is None:
                raise BlobNotFound(key)
            try:
                file = disk.open_to_read(folder, name)
            finally:
                let_go(disk, folder)
            if disk.is_file(file):
                return file
            let_go(disk, file)
            raise Corrupt("blobs", key, "data", "what lies there is no file")

    def _piece(self, file: int, first: int) -> bytes:
        with mapped(self.path):
            return self._disk.read_some(file, first)

    @contextmanager
    def _reading(self, key: str) -> Iterator[None]:
        try:
            with mapped(self.path):
                yield
        except (ReadOnly, Unavailable) as error:
            cause = error.__cause__
            if isinstance(cause, FileNotFoundError):
                raise BlobNotFound(key) from None
            if isinstance(cause, OSError) and cause.errno == errno.ELOOP:
                raise Corrupt("blobs", key, "data", "a link lies in its place") from None
            if isinstance(cause, PermissionError):
                raise Unavailable(f"{self.path} cannot be read: {cause.strerror}") from cause
            raise


class DirectoryWriter:
    """Bytes on their way into a directory; a failure of any kind takes them away again."""

    def __init__(self, path: str, disk: Disk, folder: int, key: str) -> None:
        self._path = path
        self._disk = disk
        self._key = key
        self._folder = folder
        self._file = -1
        self._made: str | None = None
        name = key_name(key)
        try:
            self._file = disk.create(folder, name + TEMP_END)
            self._made = name + TEMP_END
            disk.close_to_others(self._file)
            # After the temporary file, which keeps others out: so two cannot both find it free.
            if disk.is_there(folder, name):
                raise FileExistsError
        except FileExistsError:
            self.abort()
            raise AlreadyExists(key) from None
        except BaseException:
            self.abort()
            raise

    def write(self, data: bytes) -> None:
        """The next piece; StorageFull, ReadOnly, Unavailable."""
        with self._or_abort():
            append_all(self._disk, self._file, data)

    def finish(self) -> None:
        """Durable when this returns; BlobNotFound when the key was deleted meanwhile."""
        disk, name = self._disk, key_name(self._key)
        with self._or_abort():
            disk.sync(self._file)
            try:
                disk.rename(self._folder, name + TEMP_END, name)
            except FileNotFoundError:
                raise BlobNotFound(self._key) from None
            self._made = name
            disk.sync_folder(self._folder)
        self._made = None
        self._let_go()

    def abort(self) -> None:
        """Forget what was written; what cannot be removed is left to the collector."""
        if self._made is not None and self._folder >= 0:
            with suppress(OSError):
                self._disk.unlink(self._folder, self._made)
        self._made = None
        self._let_go()

    @contextmanager
    def _or_abort(self) -> Iterator[None]:
        try:
            with mapped(self._path):
                yield
        except BaseException:
            self.abort()
            raise

    def _let_go(self) -> None:
        for descriptor in (self._file, self._folder):
            if descriptor >= 0:
                let_go(self._disk, descriptor)
        self._file = self._folder = -1


def _make(disk: Disk, folder: int, name: str) -> None:
    try:
        disk.make_folder(name, folder)
    except FileExistsError:
        return  # Another upload made it at this moment.
    below = disk.open_folder(name, folder)
    try:
        disk.close_to_others(below)
    finally:
        let_go(disk, below)
