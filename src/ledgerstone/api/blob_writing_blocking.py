"""Bytes into the store, blocking: the twin of blob_writing_async.py."""

from __future__ import annotations

from ledgerstone.blobs.uploading import Uploading
from ledgerstone.intake.blobs import Data, measure, pieces
from ledgerstone.records.blobs import Blob

__all__ = ["Data", "measure", "write_all"]


def write_all(uploading: Uploading, data: Data) -> Blob:
    """All of the bytes, or nothing of them."""
    try:
        return uploading.run(pieces(data))
    except BaseException:
        uploading.abort()
        raise
