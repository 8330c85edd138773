"""The places that the tests run on, each opened as a store would open it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from uuid import uuid4

from ledgerstone.blobs.opening import open_place
from ledgerstone.clock import SystemClock
from ledgerstone.commands.blobs import BeginUpload, ForgetUpload
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.ports.backend import Backend
from ledgerstone.ports.blobs import BlobPlace
from tests.blobs.servers import BUCKET

TENANT = "acme"


class PlaceBed:
    """A place, and what its user does around it: a row before the bytes, none after them."""

    def __init__(self, backend: Backend, place: BlobPlace) -> None:
        self.backend = backend
        self.place = place

    def put(self, key: str, *pieces: bytes, tenant: str = TENANT) -> None:
        self.announce(key, tenant)
        writer = self.place.begin(tenant, key)
        for piece in pieces:
            writer.write(piece)
        writer.finish()

    def announce(self, key: str, tenant: str = TENANT) -> None:
        self.backend.write(BeginUpload(tenant=tenant, key=key, place=self.place.name))

    def get(self, key: str, first: int = 0, tenant: str = TENANT) -> bytes:
        return b"".join(self.place.read(tenant, key, first))

    def remove(self, key: str, tenant: str = TENANT) -> None:
        self.place.delete(tenant, key)
        self.backend.write(ForgetUpload(tenant=tenant, key=key))


@contextmanager
def directory(folder: Path) -> Iterator[PlaceBed]:
    with closing(open_memory(durability=None, clock=SystemClock())) as backend:
        place = open_place(backend, folder / "bytes")
        with closing(place):
            yield PlaceBed(backend, place)


@contextmanager
def database(folder: Path) -> Iterator[PlaceBed]:
    with closing(open_sqlite(str(folder / "store.db"))) as backend:
        place = open_place(backend, None)
        with closing(place):
            yield PlaceBed(backend, place)


@contextmanager
def objects(folder: Path) -> Iterator[PlaceBed]:
    """A prefix of its own in the bucket of the server that the environment names."""
    with closing(open_memory(durability=None, clock=SystemClock())) as backend:
        place = open_place(backend, f"s3://{BUCKET}/{uuid4().hex}/blobs")
        with closing(place):
            yield PlaceBed(backend, place)


BEDS: dict[str, Callable[[Path], object]] = {
    "directory": directory,
    "database": database,
    "objects": objects,
}
