"""Rows that a session and the store's own journal may both hold: runs, attachments, stubs."""

from __future__ import annotations

from msgspec import UNSET

from ledgerstone.backends.file_wire import Blob, Json, Mention, SharedWire, required, split
from ledgerstone.model.rows import RunRow, StubRow
from ledgerstone.records.attachments import Attachment


class RunWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """A run with its whole key: one that outlived its session stands in the store's journal."""

    tenant: str
    id: str
    session: str
    number: int
    data: Json = UNSET
    data64: Blob = UNSET

    @classmethod
    def of(cls, key: tuple[str, str], row: RunRow) -> RunWire:
        data, data64 = split(row.data)
        return cls(
            tenant=key[0],
            id=key[1],
            session=row.session,
            number=row.number,
            data=data,
            data64=data64,
        )

    def key(self) -> tuple[str, str]:
        return self.tenant, self.id

    def row(self) -> RunRow:
        return RunRow(self.number, self.session, required(self.data, self.data64))

    def mention(self) -> Mention | None:
        return "runs", (self.tenant, self.id)


class AttachmentWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """An attachment with its whole key: there may be one before there is a session."""

    tenant: str
    session: str
    id: str
    uri: str
    intent_us: int
    committed_us: int | None = None

    @classmethod
    def of(cls, key: tuple[str, str, str], row: Attachment) -> AttachmentWire:
        return cls(
            tenant=key[0],
            session=row.session,
            id=row.id,
            uri=row.uri,
            intent_us=row.intent_us,
            committed_us=row.committed_us,
        )

    def key(self) -> tuple[str, str, str]:
        return self.tenant, self.session, self.id

    def row(self) -> Attachment:
        return Attachment(self.session, self.id, self.uri, self.intent_us, self.committed_us)

    def mention(self) -> Mention | None:
        return "attachments", (self.tenant, self.session)


class StubWire(SharedWire, frozen=True, kw_only=True, omit_defaults=True):
    """What stays of a purged id."""

    tenant: str
    session: str
    incarnation: int
    fence: int
    link: str
    retired: bool

    @classmethod
    def of(cls, key: tuple[str, str], row: StubRow) -> StubWire:
        return cls(
            tenant=key[0],
            session=key[1],
            incarnation=row.incarnation,
            fence=row.fence,
            link=row.link,
            retired=row.retired,
        )

    def key(self) -> tuple[str, str]:
        return self.tenant, self.session

    def row(self) -> StubRow:
        return StubRow(self.incarnation, self.fence, self.link, self.retired)
