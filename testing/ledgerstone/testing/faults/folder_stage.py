"""The stage for stores in a directory: the loops of storage.py, on a disk below the journals."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ledgerstone.clock import ManualClock
from ledgerstone.engines.file.backend import FileBackend, open_file
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.disk import Fault
from ledgerstone.testing.faults.folder_disk import AnyDisk, FolderDisk
from ledgerstone.testing.faults.storage import Stage
from ledgerstone.testing.wrappers import Wrapper

STORE = "store"
SNAPSHOT_LINES = 5
SNAPSHOT_BYTES = 20_000


class FolderStage(Stage):
    """Copies of one small store in a directory; snapshots come often, so that faults hit them."""

    vital = ".jsonl"

    def make_disk(self, *faults: Fault, lying: bool = False) -> AnyDisk:
        return FolderDisk(*faults, lying=lying)

    def open(self, folder: Path, clock: ManualClock, disk: AnyDisk | None = None) -> Backend:
        return open_file(
            str(folder / STORE),
            durability=None if disk is None else self.durability,
            clock=clock,
            disk=disk if isinstance(disk, FolderDisk) else None,
            snapshot_lines=SNAPSHOT_LINES,
            snapshot_bytes=SNAPSHOT_BYTES,
        )

    def settle(self, backend: Backend) -> None:
        while isinstance(backend, Wrapper):
            backend = backend.inner
        assert isinstance(backend, FileBackend)
        with suppress(RuntimeError):  # It is closed, after all that it had to do.
            backend._thread.submit(int).result()

    def integrity(self, folder: Path) -> list[str]:
        """Nothing beyond `verify`, which every judgement asks for: it reads the whole journal."""
        return []
