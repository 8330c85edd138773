"""Blobs: bytes by their SHA-256, uploads on their way in or out, attachments of sessions."""

from __future__ import annotations

from itertools import takewhile, zip_longest
from operator import attrgetter

from msgspec.structs import replace

from ledgerstone.codec import is_sha256
from ledgerstone.commands import blobs as commands
from ledgerstone.commands.blobs import (
    CommitAttachments,
    ForgetAttachment,
    GetAttachment,
    ListAttachments,
    ListUncommitted,
    RecordIntent,
)
from ledgerstone.errors import BlobNotFound
from ledgerstone.handlers.commits import Commit
from ledgerstone.handlers.paging import first_fitting
from ledgerstone.handlers.registry import handles
from ledgerstone.records.blobs import Attachment, Blob, BlobCounts, Upload
from ledgerstone.rules.rows import record_of
from ledgerstone.tables import blobs as tables
from ledgerstone.tables.transaction import Tx


@handles(commands.BeginUpload)
async def begin_upload(tx: Tx, command: commands.BeginUpload) -> Upload:
    row = await tx.get(tables.UPLOADS, command.tenant, command.key)
    if row is None:
        row = tables.UploadRow(command.tenant, command.key, command.place, tx.now_us)
        tx.put(tables.UPLOADS, row)
    return _upload(row)


@handles(commands.PutChunk)
async def put_chunk(tx: Tx, command: commands.PutChunk) -> None:
    upload = await tx.get(tables.UPLOADS, command.tenant, command.key)
    if upload is None or upload.leaving:
        raise BlobNotFound(command.key)
    tx.put(tables.CHUNKS, tables.ChunkRow(command.tenant, command.key, command.n, command.data))


@handles(commands.FinishUpload)
async def finish_upload(tx: Tx, command: commands.FinishUpload) -> Blob:
    tenant, ref = command.tenant, command.ref
    stored = await _touch(tx, tenant, ref, command.media_type)
    if stored is not None and stored.key != command.instead_of:
        return record_of(Blob, stored)
    upload = await tx.get(tables.UPLOADS, tenant, command.key)
    if upload is None or upload.leaving:
        raise BlobNotFound(ref)
    tx.delete(tables.UPLOADS, tenant, command.key)
    row = tables.BlobRow(
        tenant,
        ref,
        command.size_bytes,
        command.media_type if stored is None else stored.media_type,
        upload.place,
        upload.key,
        command.sums,
        tx.now_us if stored is None else stored.created_us,
        tx.now_us,
    )
    tx.put(tables.BLOBS, row)
    if stored is not None:
        await _give_up_bytes(tx, stored)
    return record_of(Blob, row)


@handles(commands.CondemnUpload)
async def condemn_upload(tx: Tx, command: commands.CondemnUpload) -> Upload | None:
    row = await tx.get(tables.UPLOADS, command.tenant, command.key)
    if row is None or row.created_us > command.before_us:
        return None
    if not row.leaving:
        row = replace(row, leaving=1, created_us=tx.now_us)
        tx.put(tables.UPLOADS, row)
    return _upload(row)


@handles(commands.ForgetUpload)
async def forget_upload(tx: Tx, command: commands.ForgetUpload) -> bool:
    """The row goes; chunks only with it, since without a row they are a blob's."""
    key = (command.tenant, command.key)
    if await tx.get(tables.UPLOADS, *key) is None:
        return False
    tx.delete(tables.UPLOADS, *key)
    for (n,) in await tx.scan_columns(tables.CHUNKS.primary, ("n",), *key):
        tx.delete(tables.CHUNKS, *key, n)
    return True


@handles(commands.TouchBlob)
async def touch_blob(tx: Tx, command: commands.TouchBlob) -> Blob | None:
    row = await _touch(tx, command.tenant, command.ref, command.media_type)
    return None if row is None else record_of(Blob, row)


@handles(commands.DropBlob)
async def drop_blob(tx: Tx, command: commands.DropBlob) -> Upload | None:
    key = (command.tenant, command.ref)
    row = await tx.get(tables.BLOBS, *key)
    if row is None or row.touched_us > command.before_us:
        return None
    for index in (tables.ARTIFACTS_BY_BYTES, tables.ATTACHMENTS_BY_BYTES):
        if await tx.scan_columns(index, ("id",), *key, limit=1):
            return None
    tx.delete(tables.BLOBS, *key)
    return _upload(await _give_up_bytes(tx, row))


@handles(commands.GetBlob)
async def get_blob(tx: Tx, query: commands.GetBlob) -> Blob | None:
    row = await tx.get(tables.BLOBS, query.tenant, query.ref)
    return None if row is None else record_of(Blob, row)


@handles(commands.ReadChunk)
async def read_chunk(tx: Tx, query: commands.ReadChunk) -> bytes | None:
    row = await tx.get(tables.CHUNKS, query.tenant, query.key, query.n)
    return None if row is None else row.data


@handles(commands.ListBlobs)
async def list_blobs(tx: Tx, query: commands.ListBlobs) -> list[Blob]:
    rows = await tx.scan(
        tables.BLOBS.primary, query.tenant, after=(query.after,), limit=query.limit
    )
    return [record_of(Blob, row) for row in rows]


@handles(commands.ListUnreferenced)
async def list_unreferenced(tx: Tx, query: commands.ListUnreferenced) -> list[Blob]:

    async def fitting(rows: list[tables.BlobRow]) -> list[tables.BlobRow]:
        rows = [row for row in rows if row.touched_us <= query.before_us]
        named = await _named(tx, rows, query.intents_before_us)
        return [row for row in rows if row.ref not in named]

    place = (tables.BLOBS.primary, (query.tenant,))
    rows = await first_fitting(tx, *place, fitting, query.limit, after=(query.after,))
    return [record_of(Blob, row) for row in rows]


async def _named(tx: Tx, rows: list[tables.BlobRow], intents_before_us: int) -> set[str]:
    """What is named from the first to the last of some blobs; old unused intents do not count."""
    if not rows:
        return set()
    # Texts that are certainly below the first ref and above the last one.
    before_first, behind_last = rows[0].ref[:-1], rows[-1].ref + " "
    named: set[str] = set()
    for index, columns in (
        (tables.ARTIFACTS_BY_BYTES, ("ref",)),
        (tables.ATTACHMENTS_BY_BYTES, ("id", "committed_us", "intent_us")),
    ):
        uses = await tx.scan_columns(
            index, columns, rows[0].tenant, after=(before_first,), before=(behind_last,)
        )
        named.update(
            ref
            for ref, *intent in uses
            if not intent or intent[0] is not None or intent[1] > intents_before_us
        )
    return named


@handles(commands.ListUploads)
async def list_uploads(tx: Tx, query: commands.ListUploads) -> list[Upload]:

    async def fitting(rows: list[tables.UploadRow]) -> list[tables.UploadRow]:
        return [row for row in rows if row.created_us <= query.before_us]

    place = (tables.UPLOADS.primary, (query.tenant,))
    rows = await first_fitting(tx, *place, fitting, query.limit, after=(query.after,))
    return [_upload(row) for row in rows]


@handles(commands.CountBlobs)
async def count_blobs(tx: Tx, query: commands.CountBlobs) -> BlobCounts:
    tenant = query.tenant
    blobs = await tx.scan_columns(tables.BLOBS.primary, ("ref", "size_bytes"), tenant)
    uploads = await tx.scan_columns(tables.UPLOADS.primary, ("key",), tenant)
    roots = await tx.scan_columns(tables.ARTIFACTS_BY_BYTES, ("ref",), tenant)
    roots += await tx.scan_columns(tables.ATTACHMENTS_BY_BYTES, ("id",), tenant)
    named = {ref for (ref,) in roots}
    return BlobCounts(
        blobs=len(blobs),
        size_bytes=sum(size_bytes for _, size_bytes in blobs),
        referenced=sum(ref in named for ref, _ in blobs),
        uploads=len(uploads),
        roots=len(roots),
    )


async def need_blob(tx: Tx, tenant: str, ref: str) -> tables.BlobRow:
    """The blob; BlobNotFound when the tenant has no such bytes."""
    found = await tx.get(tables.BLOBS, tenant, ref)
    if found is None:
        raise BlobNotFound(ref)
    return found


async def _touch(tx: Tx, tenant: str, ref: str, media_type: str | None) -> tables.BlobRow | None:
    """The same content was put again; the first media type stays."""
    row = await tx.get(tables.BLOBS, tenant, ref)
    if row is None:
        return None
    if row.media_type is not None:
        media_type = row.media_type
    row = replace(row, touched_us=tx.now_us, media_type=media_type)
    tx.put(tables.BLOBS, row)
    return row


async def _give_up_bytes(tx: Tx, blob: tables.BlobRow) -> tables.UploadRow:
    """The bytes that a blob had are on their way out."""
    row = await tx.get(tables.UPLOADS, blob.tenant, blob.key)
    if row is None:
        row = tables.UploadRow(blob.tenant, blob.key, blob.place, tx.now_us)
    row = replace(row, leaving=1)
    tx.put(tables.UPLOADS, row)
    return row


def _upload(row: tables.UploadRow) -> Upload:
    return record_of(Upload, row, leaving=bool(row.leaving))


@handles(RecordIntent)
async def record_intent(tx: Tx, command: RecordIntent) -> Attachment:
    key = (command.tenant, command.session, command.id)
    row = await tx.get(tables.ATTACHMENTS, *key)
    if row is None:
        row = tables.AttachmentRow(*key, command.uri, tx.now_us)
        tx.put(tables.ATTACHMENTS, row)
    return record_of(Attachment, row)


@handles(CommitAttachments)
async def commit_attachments(tx: Tx, command: CommitAttachments) -> list[Attachment]:
    rows = await stamp(tx, command.tenant, command.session, command.ids, tx.now_us)
    return [record_of(Attachment, row) for row in rows]


async def stamp(
    tx: Tx, tenant: str, session: str, ids: tuple[str, ...], moment_us: int
) -> list[tables.AttachmentRow]:
    """The known ones of these attachments, all used now: who used one first has stamped it."""
    found = []
    for id in dict.fromkeys(ids):
        row = await tx.get(tables.ATTACHMENTS, tenant, session, id)
        if row is not None and row.committed_us is None:
            row = replace(row, committed_us=moment_us)
            tx.put(tables.ATTACHMENTS, row)
        if row is not None:
            found.append(row)
    return found


@handles(ForgetAttachment)
async def forget_attachment(tx: Tx, command: ForgetAttachment) -> bool:
    key = (command.tenant, command.session, command.id)
    row = await tx.get(tables.ATTACHMENTS, *key)
    if row is None:
        return False
    before_us = command.before_us
    if before_us is not None and (row.committed_us is not None or row.intent_us > before_us):
        return False
    tx.delete(tables.ATTACHMENTS, *key)
    return True


@handles(GetAttachment)
async def get_attachment(tx: Tx, query: GetAttachment) -> Attachment | None:
    row = await tx.get(tables.ATTACHMENTS, query.tenant, query.session, query.id)
    return None if row is None else record_of(Attachment, row)


@handles(ListUncommitted)
async def list_uncommitted(tx: Tx, query: ListUncommitted) -> list[Attachment]:
    rows = await tx.scan(tables.ATTACHMENTS_OPEN, query.tenant, before=(query.cutoff_us + 1,))
    return [record_of(Attachment, row) for row in rows]


@handles(ListAttachments)
async def list_attachments(tx: Tx, query: ListAttachments) -> list[Attachment]:
    rows = await tx.scan(tables.ATTACHMENTS.primary, query.tenant, query.session)
    return [record_of(Attachment, row) for row in sorted(rows, key=attrgetter("intent_us", "id"))]


async def attach_blobs(tx: Tx, commit: Commit) -> None:
    """Blobs that messages name belong to the session from here on; BlobNotFound."""
    command, moment_us = commit.command, commit.moment_us
    # A database may not be able to compare what is no name of content.
    names = [(command.tenant, ref) for ref in takewhile(is_sha256, command.blobs)]
    for ref, blob in zip_longest(command.blobs, await tx.get_many(tables.BLOBS, names)):
        if blob is None:
            raise BlobNotFound(ref)
    keys = [(command.tenant, command.session, ref) for ref in command.blobs]
    for key, row in zip(keys, await tx.get_many(tables.ATTACHMENTS, keys), strict=True):
        intent = row or tables.AttachmentRow(*key, f"blob:{key[2]}", moment_us)
        if intent.committed_us is None:
            tx.put(tables.ATTACHMENTS, replace(intent, committed_us=moment_us))
    commit.effects["blobs"] = list(command.blobs)
