"""Backups: a whole, verified store that appears under its name at once, or not at all."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial

from ledgerstone.api_sync.store import Store
from ledgerstone.blobs.database import NAME as DATABASE
from ledgerstone.blobs.directory import Directory
from ledgerstone.commands.blobs import ListBlobs
from ledgerstone.connect import Equipment, open_backend
from ledgerstone.engines.file.urls import is_folder
from ledgerstone.engines.sqlite.read_only import ReadOnlySqlite
from ledgerstone.engines.store_paths import (
    StorePaths,
    paths_of,
    put_in_place,
    remove_path,
)
from ledgerstone.errors import (
    AlreadyExists,
    BlobNotFound,
    Corrupt,
    InvalidValue,
    NotADatabase,
    NotSupported,
)
from ledgerstone.ports.backend import Backend
from ledgerstone.ports.blobs import BlobPlace
from ledgerstone.records.backups import BackedUp, Restored
from ledgerstone.records.blobs import Blob
from ledgerstone.records.reports import Verified

ROUNDS_MAX = 5
"""Maximum copies of the database in one backup, while garbage collection removes blobs of each."""
PAGE = 200
TENANT = "default"

Progress = Callable[[str, int, int], object]


def silent(phase: str, done: int, total: int) -> None:
    """Report no progress."""


def back_up(
    backend: Backend,
    equipment: Equipment,
    path: str | os.PathLike[str],
    *,
    force: bool = False,
    progress: Progress = silent,
) -> BackedUp:
    """Copy a store that may be in use to a new one at `path`, verify that, then give it its name.

    InvalidValue when something is there, or with `force` when that is no store; NotSupported for
    a store in memory or on a server; Corrupt when the copy has a defect; StorageFull.
    """
    target = paths_of(path, is_directory=backend.capabilities.name == "file", field="path")
    _check_free(target, force=force)
    if isinstance(backend, ReadOnlySqlite) and os.path.realpath(target.main) == backend.path:
        raise InvalidValue("path", "it is the store itself; choose another path")
    temp = target.partial()
    blobs = BlobCopies(lambda: equipment.place, temp.main + ".blobs", progress)
    try:
        _fill(backend, temp, blobs, progress)
        found = verify_whole(temp, progress, blobs=not blobs.elsewhere)
        size_bytes = sum(map(_size, {temp.main, temp.blobs}))
        with target.alone():
            replaced = put_in_place(temp, target)
        for name in replaced:
            remove_path(name)
    except BaseException:
        blobs.close()
        remove_path(blobs.path)
        temp.remove()
        raise
    return BackedUp(
        path=target.main,
        blobs_path=target.blobs if blobs.copied and not target.is_directory else None,
        tenants=found[0],
        sessions=found[1].sessions,
        turns=found[1].turns,
        nodes=found[1].nodes,
        blobs=found[1].blobs,
        elsewhere=blobs.elsewhere,
        size_bytes=size_bytes,
    )


def restore(
    backup: str | os.PathLike[str],
    store: str | os.PathLike[str],
    *,
    blobs: str | os.PathLike[str] | None = None,
    keep: bool = True,
    progress: Progress = silent,
) -> Restored:
    """Put a backup in the place of a store, with all leases ended and all fences raised.

    The backup is copied beside the store and verified before anything of the store is touched;
    the backup itself stays. What was replaced is kept under another name, unless `keep` is False.
    `blobs` is the directory in which the store keeps its bytes, by default the store's path with
    "-blobs"; bytes are added there and none is removed. Busy when anybody has the store open;
    InvalidValue, NotADatabase, Corrupt, StorageFull; NotSupported for a server.
    """
    source, final = _ends(backup, store)
    temp = final.partial()
    place = str(blobs) if blobs is not None else final.blobs
    stored = partial(Directory, source.blobs, read_only=True)
    copies = BlobCopies(stored, place, progress, repair=True)
    with final.alone():
        try:
            with closing(open_backend(source.url, read_only=True)) as opened:
                opened.backup(temp.main, partial(progress, "copying"))
            if not final.is_directory:
                lost = copies.copy_from(temp)
                if lost is not None:
                    raise Corrupt("blobs", lost, "data", f"its bytes are not in {source.blobs}")
            elif os.path.isdir(source.blobs):
                shutil.copytree(source.blobs, temp.blobs)
            where = place if copies.copied else None
            verify_whole(temp, progress, blobs=not copies.elsewhere, place=where)
            tenants, sessions = _raise_fences(temp)
            kept = final.take_over(temp)
        finally:
            copies.close()
            temp.remove()
    if not keep:
        for name in kept:
            remove_path(name)
    return Restored(
        path=final.main,
        blobs_path=place if copies.copied else None,
        kept=kept if keep else [],
        tenants=tenants,
        sessions=sessions,
    )


def _ends(
    backup: str | os.PathLike[str], store: str | os.PathLike[str]
) -> tuple[StorePaths, StorePaths]:
    for given in (backup, store):
        if str(given).startswith(("postgresql:", "postgres:")):
            hint = (
                "restore with the server's own tools, then run `ledgerstone restored`; or "
                "`ledgerstone copy` a file into an empty schema"
            )
            raise NotSupported("restore", "postgres", hint)
    text = os.fspath(backup)
    is_directory = is_folder(text) or os.path.isdir(text)
    source = paths_of(backup, is_directory=is_directory, field="backup")
    final = paths_of(store, is_directory=is_directory, field="store").resolved()
    if not source.is_store():
        raise NotADatabase(f"{source.main} is no Ledgerstone store; give a backup")
    if os.path.lexists(final.main) and final == source.resolved():
        raise InvalidValue("store", "it is the backup itself; give the store to be replaced")
    if os.path.lexists(final.main) and is_directory and not final.is_store():
        raise InvalidValue("store", f"{final.main} is no Ledgerstone store, and is not replaced")
    return source, final


def _raise_fences(paths: StorePaths) -> tuple[int, int]:
    """End all leases of a store that nobody uses yet; how many tenants and sessions."""
    with Store.open(paths.url, tenant=None) as store:
        tenants = store.admin.tenants()
        sessions = sum(store.for_tenant(name).admin.after_restore() for name in tenants)
    return len(tenants), sessions


def _check_free(target: StorePaths, *, force: bool) -> None:
    """InvalidValue unless nothing is there, or with `force` a store."""
    found = target.existing()
    if found and not force:
        raise InvalidValue("path", f"{found[0]} exists already; choose another path, or force it")
    if os.path.lexists(target.main) and not target.is_store():
        raise InvalidValue("path", f"{target.main} is no Ledgerstone store, and is not replaced")
    if not os.path.isdir(os.path.dirname(target.main)):
        raise InvalidValue("path", f"{os.path.dirname(target.main)} is no directory; make it first")


def _fill(backend: Backend, temp: StorePaths, blobs: BlobCopies, progress: Progress) -> None:
    """Make the copy. Blobs come first, so that few can be collected after the database's turn."""
    lost = blobs.copy(backend)
    for _ in range(ROUNDS_MAX):
        backend.backup(temp.main, partial(progress, "copying"))
        lost = blobs.copy_from(temp)
        if lost is None:
            break
        # Collected since: a newer copy of the database does not refer to it any more.
        temp.remove()
    else:
        reason = "its bytes are missing; `ledgerstone verify --bytes` lists every blob like this"
        raise Corrupt("blobs", lost or "", "data", reason)
    blobs.close()
    if blobs.copied:
        os.rename(blobs.path, temp.blobs)


class BlobCopies:
    """The blobs of a store that lie in a directory, copied into another one."""

    def __init__(
        self,
        source: Callable[[], BlobPlace],
        path: str,
        progress: Progress,
        *,
        repair: bool = False,
    ) -> None:
        """`repair`: what is in the target already is compared, and replaced if it differs."""
        self.path = path
        self.elsewhere = 0
        self._repair = repair
        self._source = source
        self._progress = progress
        self._target: Directory | None = None
        self._done: set[tuple[str, str]] = set()

    @property
    def copied(self) -> int:
        return len(self._done)

    def copy(self, store: Backend) -> str | None:
        """Copy what a store's rows name and is not copied yet; the id of one that is gone."""
        lost, self.elsewhere = None, 0
        for tenant in store.tenants():
            for blob in _blobs(store, tenant):
                if blob.place == DATABASE or (tenant, blob.key) in self._done:
                    continue
                if blob.place != Directory.name:
                    self.elsewhere += 1
                elif self._copy_one(tenant, blob):
                    self._done.add((tenant, blob.key))
                    self._progress("blobs", self.copied, self.copied)
                else:
                    lost = blob.ref
        return lost

    def copy_from(self, paths: StorePaths) -> str | None:
        """The same for the rows of a store that is not open."""
        with closing(open_backend(paths.url, read_only=True)) as store:
            return self.copy(store)

    def close(self) -> None:
        """Let go of the target."""
        if self._target is not None:
            self._target.close()

    def _copy_one(self, tenant: str, blob: Blob) -> bool:
        source = self._source()
        if source.name != blob.place:
            hint = f"open the store with blobs= the {blob.place} they were put into"
            raise NotSupported("a backup without the store's blobs", hint=hint)
        if self._target is None:
            self._target = Directory(self.path)
        try:
            writer = self._target.begin(tenant, blob.key)
        except AlreadyExists:
            if not self._repair:
                raise
            if _is_equal(source, self._target, tenant, blob.key):
                return True
            self._target.delete(tenant, blob.key)
            writer = self._target.begin(tenant, blob.key)
        try:
            for piece in source.read(tenant, blob.key):
                writer.write(piece)
        except BlobNotFound:
            writer.abort()
            return False
        except BaseException:
            writer.abort()
            raise
        writer.finish()
        return True


def _is_equal(source: BlobPlace, target: BlobPlace, tenant: str, key: str) -> bool:
    try:
        pieces = zip(source.read(tenant, key), target.read(tenant, key), strict=True)
        return all(one == other for one, other in pieces)
    except (BlobNotFound, ValueError):
        return False


def _blobs(store: Backend, tenant: str) -> Iterator[Blob]:
    after = ""
    while True:
        (page,) = store.read([ListBlobs(tenant=tenant, after=after, limit=PAGE)])
        if not page:
            return
        yield from page
        after = page[-1].ref


def verify_whole(
    paths: StorePaths, progress: Progress, *, blobs: bool, place: str | None = None
) -> tuple[int, Verified]:
    """Check a whole store as `ledgerstone verify --bytes` does; Corrupt names the first defect."""
    if place is None and os.path.isdir(paths.blobs):
        place = paths.blobs
    with Store.open(paths.url, tenant=None, blobs=place, read_only=True) as store:
        tenants = store.admin.tenants()
        found = [
            store.for_tenant(name).admin.verify(
                whole=n == 0, blobs=blobs, progress=partial(progress, "verifying")
            )
            for n, name in enumerate(tenants or [TENANT])
        ]
    for defect in (defect for one in found for defect in one.defects):
        where = f"{defect.session} {defect.where}".strip()
        raise Corrupt("backup", paths.main, defect.kind, f"{where} {defect.detail}".strip())
    names = ("sessions", "turns", "nodes", "blobs")
    sums = {name: sum(getattr(one, name) for one in found) for name in names}
    return len(tenants), Verified(**sums)


def _size(path: str) -> int:
    """The bytes of a file, or of all files in a directory."""
    if not os.path.isdir(path):
        return os.path.getsize(path) if os.path.exists(path) else 0
    return sum(
        os.path.getsize(os.path.join(folder, name))
        for folder, _, names in os.walk(path)
        for name in names
    )
