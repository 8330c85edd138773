"""Bytes out of the store: piece by piece, each proved before it is handed out."""

from __future__ import annotations

from functools import partial

from ledgerstone.api.handle import AsyncHandle
from ledgerstone.api.loop_async import offload
from ledgerstone.blobs.database import NAME, Database
from ledgerstone.blobs.reading import Reading, is_there
from ledgerstone.commands.blobs import GetBlob, ListBlobs
from ledgerstone.errors import BlobNotFound, Corrupt, Misuse, NotSupported
from ledgerstone.intake import checks
from ledgerstone.ports.blobs import BlobPlace
from ledgerstone.records.blobs import Blob
from ledgerstone.records.reports import Defect, Verified

PAGE = 200


def place_named(handle: AsyncHandle, name: str) -> BlobPlace:
    """The place that a blob's row names; NotSupported when another one is open. May block."""
    if name == NAME:
        return Database(handle.backend)
    place = handle.equipment.place
    if place.name != name:
        hint = f"open the store with blobs= the {name} they were put into"
        raise NotSupported(f"reading blobs of the place {name!r}", hint=hint)
    return place


async def read_whole(handle: AsyncHandle, ref: str) -> bytes | None:
    """All bytes of a blob, or None; NotSupported, Corrupt."""
    blob = await handle.ask(GetBlob(tenant=handle.tenant, ref=ref))
    if blob is None:
        return None

    def work() -> bytes:
        return _reading(handle, blob, 0).rest()

    try:
        return await offload(work)
    except BlobNotFound:
        return None


async def is_sound(handle: AsyncHandle, blob: Blob) -> bool:
    """Whether bytes that were put before are still there; unknown is yes."""

    def work() -> bool:
        try:
            place = place_named(handle, blob.place)
        except NotSupported:
            return True
        return is_there(place, handle.tenant, blob)

    return await offload(work)


async def verify_blobs(handle: AsyncHandle) -> Verified:
    """Read every blob of the tenant; bytes that are lost, damaged or out of reach are defects."""
    count, after, defects = 0, "", list[Defect]()
    while True:
        page = await handle.ask(ListBlobs(tenant=handle.tenant, after=after, limit=PAGE))
        if not page:
            return Verified(blobs=count, defects=defects)
        for blob in page:
            reason = await offload(partial(_fault, handle, blob))
            if reason:
                defects.append(Defect("", "blob", blob.ref, reason))
        count, after = count + len(page), page[-1].ref


def _fault(handle: AsyncHandle, blob: Blob) -> str:
    """What is wrong with the bytes of a blob; one that was collected meanwhile is not."""
    try:
        reading = _reading(handle, blob, 0)
        while reading.next() is not None:
            pass
    except BlobNotFound:
        return ""
    except Corrupt as error:
        return error.reason
    except NotSupported as error:
        return str(error)
    return ""


def _reading(handle: AsyncHandle, blob: Blob, first: int) -> Reading:
    place = place_named(handle, blob.place)
    return Reading(handle.backend, place, handle.tenant, blob, first)


class AsyncBlobReader:
    """A blob that is being read: enter it, then iterate over it or call `read`.

    Memory stays at one piece. What was handed out is proved; from the beginning to the end, the
    whole is.
    """

    def __init__(self, handle: AsyncHandle, ref: str, first: int = 0) -> None:
        self._handle = handle
        self._first = first
        self._blob: Blob | None = None
        self._reading: Reading | None = None
        self._held = b""
        self._busy = False
        self.ref = ref

    @property
    def size_bytes(self) -> int:
        """Of the whole blob."""
        return self._entered().size_bytes

    @property
    def media_type(self) -> str | None:
        return self._entered().media_type

    async def read(self, n: int = -1) -> bytes:
        """The next n bytes, fewer at the end; everything that is left without n."""
        pieces, left = [], n if n == -1 else checks.whole(n, "n")
        while left:
            if not self._held:
                self._held = await self._piece() or b""
                if not self._held:
                    break
            taken = self._held if left < 0 else self._held[:left]
            self._held = self._held[len(taken) :]
            left -= len(taken) if left > 0 else 0
            pieces.append(taken)
        return b"".join(pieces)

    def __aiter__(self) -> AsyncBlobReader:
        return self

    async def __anext__(self) -> bytes:
        held, self._held = self._held, b""
        piece = held or await self._piece()
        if piece is None:
            raise StopAsyncIteration
        return piece

    async def __aenter__(self) -> AsyncBlobReader:
        handle = self._handle
        blob = await handle.ask(GetBlob(tenant=handle.tenant, ref=self.ref))
        if blob is None:
            raise BlobNotFound(self.ref)
        self._reading = await offload(lambda: _reading(handle, blob, self._first))
        self._blob = blob
        return self

    async def __aexit__(self, *error: object) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            await offload(reading.close)

    async def _piece(self) -> bytes | None:
        if self._reading is None:
            raise Misuse("a reader is entered first: `with` it")
        if self._busy:
            # The piece of that call is lost, and the next one would not follow what was read.
            raise Misuse("a read of this reader was cancelled or is going on: open another one")
        self._busy = True
        piece = await offload(self._reading.next)
        self._busy = False
        return piece

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.ref}>"

    def _entered(self) -> Blob:
        if self._blob is None:
            raise Misuse("a reader is entered first: `with` it")
        return self._blob
