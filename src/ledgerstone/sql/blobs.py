"""Blobs: bytes by their SHA-256, uploads on their way in or out."""

from __future__ import annotations

from typing import Any

from ledgerstone.commands import blobs as commands
from ledgerstone.errors import BlobNotFound
from ledgerstone.records.blobs import Blob, BlobCounts, Upload
from ledgerstone.sql.tx import Row, Tx


async def begin_upload(tx: Tx, command: commands.BeginUpload) -> Upload:
    """Remember the key before there are bytes."""
    key = (command.tenant, command.key)
    await tx.run("insert_upload", *key, command.place, tx.now_us, 0)
    found = await _find_upload(tx, *key)
    assert found is not None
    return found


async def put_chunk(tx: Tx, command: commands.PutChunk) -> None:
    """One piece; only while its upload may still be finished."""
    upload = await _find_upload(tx, command.tenant, command.key)
    if upload is None or upload.leaving:
        raise BlobNotFound(command.key)
    await tx.run("put_chunk", command.tenant, command.key, command.n, command.data)


async def finish_upload(tx: Tx, command: commands.FinishUpload) -> Blob:
    """The upload becomes the blob, unless there is one with the same content."""
    tenant, ref = command.tenant, command.ref
    stored = await _touch(tx, tenant, ref, command.media_type)
    if stored is not None and stored.key != command.instead_of:
        return stored
    upload = await _find_upload(tx, tenant, command.key)
    if upload is None or upload.leaving:
        raise BlobNotFound(ref)
    await tx.run("drop_upload", tenant, command.key)
    if stored is not None:
        found = (command.size_bytes, command.sums, upload.place, upload.key)
        await tx.run("move_blob", tenant, ref, *found)
        await tx.run("insert_upload", tenant, stored.key, stored.place, tx.now_us, 1)
        return await need_blob(tx, tenant, ref)
    where = (upload.place, upload.key, command.sums, tx.now_us)
    await tx.run("insert_blob", tenant, ref, command.size_bytes, command.media_type, *where)
    return await need_blob(tx, tenant, ref)


async def condemn_upload(tx: Tx, command: commands.CondemnUpload) -> Upload | None:
    """From here on nobody can finish it."""
    upload = await _find_upload(tx, command.tenant, command.key)
    if upload is None or upload.created_us > command.before_us:
        return None
    await tx.run("condemn_upload", command.tenant, command.key, tx.now_us)
    return await _find_upload(tx, command.tenant, command.key)


async def forget_upload(tx: Tx, command: commands.ForgetUpload) -> bool:
    """The row goes; chunks only with it, since without a row they are a blob's."""
    key = (command.tenant, command.key)
    if not await tx.run("drop_upload", *key):
        return False
    await tx.run("drop_chunks", *key)
    return True


async def touch_blob(tx: Tx, command: commands.TouchBlob) -> Blob | None:
    """The collector has to wait anew."""
    return await _touch(tx, command.tenant, command.ref, command.media_type)


async def drop_blob(tx: Tx, command: commands.DropBlob) -> Upload | None:
    """What nothing refers to becomes an upload on its way out."""
    tenant, ref = command.tenant, command.ref
    blob = await find_blob(tx, tenant, ref)
    if blob is None or blob.touched_us > command.before_us:
        return None
    named = await tx.one("is_referenced", tenant, ref)
    if named is None or named[0]:
        return None
    await tx.run("drop_blob", tenant, ref)
    await tx.run("insert_upload", tenant, blob.key, blob.place, tx.now_us, 1)
    return await _find_upload(tx, tenant, blob.key)


async def get_blob(tx: Tx, query: commands.GetBlob) -> Blob | None:
    """One blob."""
    return await find_blob(tx, query.tenant, query.ref)


async def read_chunk(tx: Tx, query: commands.ReadChunk) -> bytes | None:
    """One piece."""
    row = await tx.one("read_chunk", query.tenant, query.key, query.n)
    return None if row is None else bytes(row[0])


async def list_blobs(tx: Tx, query: commands.ListBlobs) -> list[Blob]:
    """All of them."""
    rows = await tx.all("list_blobs", query.tenant, query.after, query.limit)
    return [_blob(row) for row in rows]


async def list_unreferenced(tx: Tx, query: commands.ListUnreferenced) -> list[Blob]:
    """What a collector may drop."""
    cutoffs = (query.before_us, query.intents_before_us)
    page = (query.after, query.limit)
    return [_blob(row) for row in await tx.all("list_unreferenced", query.tenant, *cutoffs, *page)]


async def list_uploads(tx: Tx, query: commands.ListUploads) -> list[Upload]:
    """Old uploads."""
    page = (query.before_us, query.after, query.limit)
    return [_upload(row) for row in await tx.all("list_uploads", query.tenant, *page)]


async def count_blobs(tx: Tx, query: commands.CountBlobs) -> BlobCounts:
    """How many there are."""
    row = await tx.one("count_blobs", query.tenant)
    assert row is not None
    blobs, size_bytes, referenced, uploads, roots = row
    return BlobCounts(
        blobs=blobs, size_bytes=size_bytes, referenced=referenced, uploads=uploads, roots=roots
    )


async def find_blob(tx: Tx, tenant: str, ref: str) -> Blob | None:
    """The blob, or None."""
    row = await tx.one("get_blob", tenant, ref)
    return None if row is None else _blob(row)


async def need_blob(tx: Tx, tenant: str, ref: str) -> Blob:
    """The blob; BlobNotFound when the tenant has no such bytes."""
    found = await find_blob(tx, tenant, ref)
    if found is None:
        raise BlobNotFound(ref)
    return found


async def _touch(tx: Tx, tenant: str, ref: str, media_type: str | None) -> Blob | None:
    if not await tx.run("touch_blob", tenant, ref, media_type, tx.now_us):
        return None
    return await find_blob(tx, tenant, ref)


async def _find_upload(tx: Tx, tenant: str, key: str) -> Upload | None:
    row = await tx.one("get_upload", tenant, key)
    return None if row is None else _upload(row)


def _blob(row: Row) -> Blob:
    ref, size_bytes, media_type, created_us, place, key, sums, touched_us = row
    return Blob(
        ref=ref,
        size_bytes=size_bytes,
        media_type=media_type,
        created_us=created_us,
        place=place,
        key=key,
        sums=bytes(sums),
        touched_us=touched_us,
    )


def _upload(row: Row) -> Upload:
    key, place, created_us, leaving = row
    fields: dict[str, Any] = {"key": key, "place": place, "created_us": created_us}
    return Upload(leaving=bool(leaving), **fields)
