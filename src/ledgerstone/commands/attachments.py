"""Attachments: an intent before the bytes, stamped by the commit that uses them."""

from __future__ import annotations

from ledgerstone.commands import Command, Query
from ledgerstone.records.attachments import Attachment


class RecordIntent(Command[Attachment], frozen=True, kw_only=True):
    """Remember that bytes will come; a repeated intent keeps the earliest one and any stamp."""

    session: str
    id: str
    uri: str


class CommitAttachments(Command[list[Attachment]], frozen=True, kw_only=True):
    """Stamp attachments as used, outside of a turn; the first stamp of each stays.

    Answers those that are known, as they are now; unknown ones are left out.
    """

    session: str
    ids: tuple[str, ...]


class ForgetAttachment(Command[bool], frozen=True, kw_only=True):
    """Remove the row; False when there was none.

    `before_us`: only an intent that no commit used, made at or before that time.
    """

    session: str
    id: str
    before_us: int | None = None


class ListUncommitted(Query[list[Attachment]], frozen=True, kw_only=True):
    """Never committed and intended at or before `cutoff_us`, oldest first."""

    cutoff_us: int


class GetAttachment(Query[Attachment | None], frozen=True, kw_only=True):
    """One row, or None."""

    session: str
    id: str


class ListAttachments(Query[list[Attachment]], frozen=True, kw_only=True):
    """All of a session, in the order of their intents."""

    session: str
