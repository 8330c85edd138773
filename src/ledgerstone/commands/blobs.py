"""Blobs: where bytes are, in which order they come and go. The bytes travel by another port.

A key names bytes in their place and is never used twice, so what is deleted by its key cannot be
what somebody else has just put. Before bytes are written there is an upload row with their key; it
becomes the blob's row when they are complete, and an upload row again before they are deleted.
"""

from __future__ import annotations

from ledgerstone.commands import Command, Query, SessionCommand, SessionQuery
from ledgerstone.records.blobs import Attachment, Blob, BlobCounts, Upload


class BeginUpload(Command[Upload], frozen=True, kw_only=True):
    """Remember that bytes will come under this key; repeating it is fine."""

    key: str
    place: str


class PutChunk(Command[None], frozen=True, kw_only=True):
    """One piece of bytes that live in the database; BlobNotFound when their upload row is gone
    or on its way out.
    """

    key: str
    n: int
    data: bytes


class FinishUpload(Command[Blob], frozen=True, kw_only=True):
    """The bytes are complete: their upload row becomes the blob.

    When the tenant has the content already that blob is answered, touched, and the upload row
    stays: its bytes are spare, to be deleted by whoever put them. Repeating it is fine.
    A media type is kept when the blob had none. BlobNotFound when a collector took the upload.
    `instead_of`: the bytes under that key of the same blob are lost, and these take their place.
    """

    key: str
    ref: str
    size_bytes: int
    sums: bytes
    media_type: str | None = None
    instead_of: str | None = None


class CondemnUpload(Command[Upload | None], frozen=True, kw_only=True):
    """Before the bytes of an old upload are deleted: from here on it cannot be finished.

    Its row is as young as new then: who wrote the bytes may still be alive, and write more of
    them. None when it is gone, or was made (or condemned) after `before_us`.
    """

    key: str
    before_us: int


class ForgetUpload(Command[bool], frozen=True, kw_only=True):
    """The bytes of an upload are gone: its row goes, and chunks in the database with it."""

    key: str


class TouchBlob(Command[Blob | None], frozen=True, kw_only=True):
    """The content was put again: the collector has to wait anew. None when there is none."""

    ref: str
    media_type: str | None = None


class DropBlob(Command[Upload | None], frozen=True, kw_only=True):
    """Turn a blob into an upload row, if nothing refers to it and it was not put since.

    None when it is gone or may not go (any more).
    """

    ref: str
    before_us: int


class GetBlob(Query[Blob | None], frozen=True, kw_only=True):
    """One blob, or None."""

    ref: str


class ReadChunk(Query[bytes | None], frozen=True, kw_only=True):
    """One piece of bytes that live in the database."""

    key: str
    n: int


class ListBlobs(Query[list[Blob]], frozen=True, kw_only=True):
    """All of them, by ref."""

    after: str = ""
    limit: int = 200


class ListUnreferenced(Query[list[Blob]], frozen=True, kw_only=True):
    """Blobs that nothing refers to and that were last put at or before `before_us`, by ref.

    Intents without a commit, made at or before `intents_before_us`, count as nothing.
    """

    before_us: int
    intents_before_us: int = -1
    after: str = ""
    limit: int = 200


class ListUploads(Query[list[Upload]], frozen=True, kw_only=True):
    """Upload rows made at or before `before_us`, by key."""

    before_us: int
    after: str = ""
    limit: int = 200


class CountBlobs(Query[BlobCounts], frozen=True, kw_only=True):
    """How many there are."""


class CheckRoots(SessionQuery[int], frozen=True, kw_only=True):
    """How many references a session's live checkpoint has; Corrupt when it cannot be read."""


class RecordIntent(SessionCommand[Attachment], frozen=True, kw_only=True):
    """Remember that bytes will come; a repeated intent keeps the earliest one and any stamp."""

    id: str
    uri: str


class CommitAttachments(SessionCommand[list[Attachment]], frozen=True, kw_only=True):
    """Stamp attachments as used, outside of a turn; the first stamp of each stays.

    Answers those that are known, as they are now; unknown ones are left out.
    """

    ids: tuple[str, ...]


class ForgetAttachment(SessionCommand[bool], frozen=True, kw_only=True):
    """Remove the row; False when there was none.

    `before_us`: only an intent that no commit used, made at or before that time.
    """

    id: str
    before_us: int | None = None


class ListUncommitted(Query[list[Attachment]], frozen=True, kw_only=True):
    """Never committed and intended at or before `cutoff_us`, oldest first."""

    cutoff_us: int


class GetAttachment(SessionQuery[Attachment | None], frozen=True, kw_only=True):
    """One row, or None."""

    id: str


class ListAttachments(SessionQuery[list[Attachment]], frozen=True, kw_only=True):
    """All of a session, in the order of their intents."""
