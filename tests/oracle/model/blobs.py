"""Blobs: bytes by their SHA-256, uploads on their way in or out."""

from __future__ import annotations

from msgspec.structs import replace

from ledgerstone.commands import blobs as commands
from ledgerstone.errors import BlobNotFound
from ledgerstone.records.blobs import Blob, BlobCounts, Upload
from tests.oracle.model.state import Tx


def begin_upload(tx: Tx, command: commands.BeginUpload) -> Upload:
    """Remember the key before there are bytes; the first row of a key stays."""
    key = (command.tenant, command.key)
    stored = tx.state.uploads.get(key)
    if stored is None:
        stored = Upload(key=command.key, place=command.place, created_us=tx.now_us)
        tx.state.uploads.insert(key, stored)
    return stored


def put_chunk(tx: Tx, command: commands.PutChunk) -> None:
    """One piece; only while its upload may still be finished."""
    upload = tx.state.uploads.get((command.tenant, command.key))
    if upload is None or upload.leaving:
        raise BlobNotFound(command.key)
    tx.state.chunks.put((command.tenant, command.key, command.n), command.data)


def finish_upload(tx: Tx, command: commands.FinishUpload) -> Blob:
    """The upload becomes the blob, unless there is one with the same content."""
    stored = _touch(tx, command.tenant, command.ref, command.media_type)
    if stored is not None and stored.key != command.instead_of:
        return stored
    upload = tx.state.uploads.get((command.tenant, command.key))
    if upload is None or upload.leaving:
        raise BlobNotFound(command.ref)
    tx.state.uploads.delete((command.tenant, command.key))
    if stored is not None:
        return _move(tx, command, stored, upload)
    blob = Blob(
        ref=command.ref,
        size_bytes=command.size_bytes,
        media_type=command.media_type,
        created_us=tx.now_us,
        place=upload.place,
        key=upload.key,
        sums=command.sums,
        touched_us=tx.now_us,
    )
    tx.state.blobs.insert((command.tenant, command.ref), blob)
    return blob


def _move(tx: Tx, command: commands.FinishUpload, stored: Blob, upload: Upload) -> Blob:
    """The same bytes are somewhere else from here on; the lost ones are on their way out."""
    moved = replace(
        stored,
        size_bytes=command.size_bytes,
        sums=command.sums,
        place=upload.place,
        key=upload.key,
    )
    tx.state.blobs.update((command.tenant, stored.ref), moved)
    _let_go(tx, command.tenant, stored)
    return moved


def _let_go(tx: Tx, tenant: str, blob: Blob) -> Upload:
    """The bytes of a blob that was are on their way out."""
    key = (tenant, blob.key)
    leaving = Upload(key=blob.key, place=blob.place, created_us=tx.now_us, leaving=True)
    there = tx.state.uploads.get(key)
    if there is not None:
        leaving = replace(there, leaving=True)
    tx.state.uploads.put(key, leaving)
    return leaving


def condemn_upload(tx: Tx, command: commands.CondemnUpload) -> Upload | None:
    """From here on nobody can finish it."""
    key = (command.tenant, command.key)
    upload = tx.state.uploads.get(key)
    if upload is None or upload.created_us > command.before_us:
        return None
    if not upload.leaving:
        upload = replace(upload, leaving=True, created_us=tx.now_us)
        tx.state.uploads.update(key, upload)
    return upload


def forget_upload(tx: Tx, command: commands.ForgetUpload) -> bool:
    """The row goes; chunks only with it, since without a row they are a blob's."""
    key = (command.tenant, command.key)
    if key not in tx.state.uploads:
        return False
    tx.state.uploads.delete(key)
    for chunk, _ in list(tx.state.chunks.scan(key)):
        tx.state.chunks.delete(chunk)
    return True


def touch_blob(tx: Tx, command: commands.TouchBlob) -> Blob | None:
    """The collector has to wait anew."""
    return _touch(tx, command.tenant, command.ref, command.media_type)


def drop_blob(tx: Tx, command: commands.DropBlob) -> Upload | None:
    """What nothing refers to becomes an upload on its way out."""
    key = (command.tenant, command.ref)
    blob = tx.state.blobs.get(key)
    if blob is None or blob.touched_us > command.before_us or _is_named(tx, *key):
        return None
    tx.state.blobs.delete(key)
    return _let_go(tx, command.tenant, blob)


def get_blob(tx: Tx, query: commands.GetBlob) -> Blob | None:
    """One blob, or None."""
    return tx.state.blobs.get((query.tenant, query.ref))


def read_chunk(tx: Tx, query: commands.ReadChunk) -> bytes | None:
    """One piece, or None."""
    return tx.state.chunks.get((query.tenant, query.key, query.n))


def list_blobs(tx: Tx, query: commands.ListBlobs) -> list[Blob]:
    """All of them, by ref."""
    tenant, found = query.tenant, list[Blob]()
    for (_, ref), blob in tx.state.blobs.scan((tenant,), since=(tenant, query.after)):
        if len(found) >= query.limit:
            break
        if ref != query.after:
            found.append(blob)
    return found


def list_unreferenced(tx: Tx, query: commands.ListUnreferenced) -> list[Blob]:
    """What a collector may drop, by ref."""
    tenant, found = query.tenant, list[Blob]()
    for (_, ref), blob in tx.state.blobs.scan((tenant,), since=(tenant, query.after)):
        if len(found) >= query.limit:
            break
        young = ref == query.after or blob.touched_us > query.before_us
        if not young and not _is_named(tx, tenant, ref, query.intents_before_us):
            found.append(blob)
    return found


def list_uploads(tx: Tx, query: commands.ListUploads) -> list[Upload]:
    """Old uploads, by key."""
    tenant, found = query.tenant, list[Upload]()
    for (_, key), upload in tx.state.uploads.scan((tenant,), since=(tenant, query.after)):
        if len(found) >= query.limit:
            break
        if key != query.after and upload.created_us <= query.before_us:
            found.append(upload)
    return found


def count_blobs(tx: Tx, query: commands.CountBlobs) -> BlobCounts:
    """How many there are."""
    rows = [row for _, row in tx.state.blobs.scan((query.tenant,))]
    return BlobCounts(
        blobs=len(rows),
        size_bytes=sum(row.size_bytes for row in rows),
        referenced=sum(_is_named(tx, query.tenant, row.ref) for row in rows),
        uploads=sum(1 for _ in tx.state.uploads.scan((query.tenant,))),
        roots=sum(1 for _ in tx.state.blob_uses.scan((query.tenant,))),
    )


def need_blob(tx: Tx, tenant: str, ref: str) -> Blob:
    """The blob; BlobNotFound when the tenant has no such bytes."""
    found = tx.state.blobs.get((tenant, ref))
    if found is None:
        raise BlobNotFound(ref)
    return found


def _touch(tx: Tx, tenant: str, ref: str, media_type: str | None) -> Blob | None:
    """The same content was put again; the first media type stays."""
    stored = tx.state.blobs.get((tenant, ref))
    if stored is None:
        return None
    if stored.media_type is not None:
        media_type = stored.media_type
    touched = replace(stored, touched_us=tx.now_us, media_type=media_type)
    tx.state.blobs.update((tenant, ref), touched)
    return touched


def _is_named(tx: Tx, tenant: str, ref: str, intents_before_us: int = -1) -> bool:
    """Whether anything refers to the bytes; old intents without a commit may count as nothing."""
    for (_, _, table, *key), _ in tx.state.blob_uses.scan((tenant, ref)):
        if table != "attachments":
            return True
        row = tx.state.attachments[(tenant, key[0], ref)]
        if row.committed_us is not None or row.intent_us > intents_before_us:
            return True
    return False
