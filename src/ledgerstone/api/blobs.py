"""store.blobs: bytes kept once per tenant, by their SHA-256."""

from __future__ import annotations

from ledgerstone.api.blob_reading import AsyncBlobReader, is_sound, read_whole
from ledgerstone.api.blob_writing_async import Data, measure, write_all
from ledgerstone.api.handle import AsyncHandle, AsyncResource
from ledgerstone.blobs.uploading import Uploading
from ledgerstone.commands.blobs import GetBlob, TouchBlob
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import blobs as intake
from ledgerstone.intake import checks
from ledgerstone.intake.blobs import Ref
from ledgerstone.records.blobs import Blob, BlobRef


class AsyncBlobs(AsyncResource):
    """Content-addressed bytes. What nothing refers to goes with `admin.gc`, an hour later or so."""

    async def put(
        self, data: Data, *, media_type: str | None = None, size_bytes: int | None = None
    ) -> BlobRef:
        """Keep bytes: in memory, a Path, an open file or a stream, of which one piece is held.

        The same content again is the same blob; its first media type stays. `size_bytes` is
        checked. InvalidValue("data") also for a file that changes while it is read: then nothing
        is stored. StorageFull, ReadOnly, Unavailable.
        """
        blob = await put_blob(self._handle, data, media_type=media_type, size_bytes=size_bytes)
        return to_ref(blob)

    async def get(self, ref: Ref) -> bytes | None:
        """All bytes, or None; Corrupt when they are not what was put."""
        return await read_whole(self._handle, intake.ref_of(ref))

    def open(self, ref: Ref, *, first: int = 0) -> AsyncBlobReader:
        """A reader to enter with `async with` and iterate over; BlobNotFound on entry.

        `first` is where it starts. Every piece is proved before it is handed out: Corrupt.
        """
        return AsyncBlobReader(self._handle, intake.ref_of(ref), checks.whole(first, "first"))

    async def stat(self, ref: Ref) -> BlobRef | None:
        """Size, media type and age, or None."""
        query = GetBlob(tenant=self._tenant, ref=intake.ref_of(ref))
        found = await self._ask(query)
        return None if found is None else to_ref(found)

    async def exists(self, ref: Ref) -> bool:
        """Whether the tenant has these bytes."""
        return await self.stat(ref) is not None


def to_ref(blob: Blob) -> BlobRef:
    """What a caller gets to see of a blob."""
    return BlobRef(
        ref=blob.ref,
        size_bytes=blob.size_bytes,
        media_type=blob.media_type,
        created_us=blob.created_us,
    )


async def put_blob(
    handle: AsyncHandle,
    data: Data,
    *,
    media_type: str | None = None,
    size_bytes: int | None = None,
    expected: str | None = None,
) -> Blob:
    """Keep bytes; those whose SHA-256 is known are not written when they are there already."""
    media_type = intake.media_type(media_type)
    if size_bytes is not None:
        checks.whole(size_bytes, "size_bytes")
    if expected is None and intake.in_memory(data):
        expected = await measure(data)
    if expected is not None:
        touch = TouchBlob(tenant=handle.tenant, ref=expected, media_type=media_type)
        found = await handle.write(touch)
        if found is not None and await is_sound(handle, found):
            if size_bytes not in (None, found.size_bytes):
                said = f"{size_bytes} bytes were announced, {found.size_bytes} came"
                raise InvalidValue("data", said)
            return found
    return await upload(
        handle, data, media_type=media_type, size_bytes=size_bytes, expected=expected
    )


async def upload(
    handle: AsyncHandle,
    data: Data,
    *,
    media_type: str | None,
    size_bytes: int | None,
    expected: str | None,
) -> Blob:
    """Write bytes that are not there yet: all of them, or nothing."""
    uploading = Uploading(
        handle.backend,
        lambda: handle.equipment.place,
        handle.tenant,
        media_type=media_type,
        size_bytes=size_bytes,
        expected=expected,
    )
    return await write_all(uploading, data)
