"""Bytes into the store, blocking: the twin of blob_writing_async.py."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ledgerstone.blobs.uploading import Uploading
from ledgerstone.intake import blobs as intake
from ledgerstone.records.blobs import Blob

if TYPE_CHECKING:
    from ledgerstone.api_sync.handle import Handle

Data = intake.Data


def upload(
    handle: Handle,
    data: Data,
    *,
    media_type: str | None,
    size_bytes: int | None,
    expected: str | None,
) -> Blob:
    """All of the bytes, or nothing of them."""
    uploading = Uploading(
        handle.backend,
        lambda: handle.equipment.place,
        handle.tenant,
        media_type=media_type,
        size_bytes=size_bytes,
        expected=expected,
    )
    try:
        return uploading.run(intake.pieces(data))
    except BaseException:
        uploading.abort()
        raise


def measure(data: Data) -> str | None:
    """The SHA-256 of what can be read twice; None for other streams."""
    return intake.measure(data)
