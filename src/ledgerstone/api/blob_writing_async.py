"""Bytes into the store from an event loop; what blocks runs in threads."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, AsyncIterator
from functools import partial
from typing import Any, Protocol, TypeAlias, cast

from ledgerstone.api.loop_async import finished, offload
from ledgerstone.blobs.uploading import Uploading
from ledgerstone.intake import blobs as intake
from ledgerstone.records.blobs import CHUNK_BYTES, Blob


class AsyncReadable(Protocol):
    """What an async file has."""

    async def read(self, n: int, /) -> bytes: ...


Data: TypeAlias = intake.Data | AsyncIterable[bytes] | AsyncReadable


async def write_all(uploading: Uploading, data: Data) -> Blob:
    """All of the bytes, or nothing of them, also when the caller is cancelled."""
    try:
        stream = _stream(data)
        if stream is None:
            source = intake.pieces(cast("intake.Data", data))
            return await offload(partial(uploading.run, source))
        await offload(uploading.begin)
        async for chunk in _chunked(stream):
            await offload(partial(uploading.write, chunk))
        return await offload(uploading.finish)
    except BaseException:
        # A thread may still be at a piece of it: it ends with that one, then all goes.
        uploading.stop()
        await finished(partial(offload, uploading.abort))
        raise


async def measure(data: Data) -> str | None:
    """The SHA-256 of what can be read twice; None for other streams."""
    if _stream(data) is not None:
        return None
    return await offload(partial(intake.measure, data))


def _stream(data: Any) -> AsyncIterator[bytes] | None:
    """An async source as an iterator; None for the others."""
    if isinstance(data, AsyncIterable):
        return aiter(data)
    read = getattr(data, "read", None)
    if read is not None and inspect.iscoroutinefunction(read):
        return _of_file(data)
    return None


async def _of_file(file: AsyncReadable) -> AsyncIterator[bytes]:
    while piece := await file.read(CHUNK_BYTES):
        yield piece


async def _chunked(stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The bytes of an async stream in chunks of CHUNK_BYTES, the last one shorter."""
    held = bytearray()
    async for given in stream:
        view = memoryview(intake.check_piece(given))
        while view:
            taken = view[: CHUNK_BYTES - len(held)]
            held += taken
            view = view[len(taken) :]
            if len(held) == CHUNK_BYTES:
                yield bytes(held)
                held.clear()
    if held:
        yield bytes(held)
