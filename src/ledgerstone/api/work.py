"""store.work: what a session has still to do, as far as a turn settles it."""

from __future__ import annotations

from typing import Any, TypeAlias

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.codec import encode_json
from ledgerstone.commands.work import ClaimWork, EnqueueWork, ListWork
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.leases import AnyLease
from ledgerstone.records.work import Batch, Claim

BatchList: TypeAlias = list[Batch]


class AsyncWork:
    """The queue of each session."""

    def __init__(self, handle: AsyncHandle) -> None:
        self._handle = handle

    async def enqueue(
        self, session: SessionRef, *payloads: Any, key: str | None = None, id: str | None = None
    ) -> Batch:
        """Durable before it answers; the same key while queued answers the existing batch.

        SessionNotFound, SessionDeleted.
        """
        if not payloads:
            raise InvalidValue("payloads", "at least one payload expected")
        return await self._handle.write(
            EnqueueWork(
                tenant=self._handle.tenant,
                session=checks.session_id(session),
                batch=ids.new_id() if id is None else ids.check_id(id, "id"),
                payloads=tuple(encode_json(payload, "payload") for payload in payloads),
                source_key=None if key is None else ids.check_name(key, "key"),
            )
        )

    async def claim(self, lease: AnyLease, *, id: str | None = None) -> Claim | None:
        """The oldest batch nobody works on, under a live lease; None when there is none.

        LeaseExpired, Fenced.
        """
        session, owned = checks.bound(lease, lease)
        return await self._handle.write(
            ClaimWork(
                tenant=self._handle.tenant,
                session=session,
                claim=ids.new_id() if id is None else ids.check_id(id, "id"),
                guard=checks.guard(owned, None),
            )
        )

    async def list(self, session: SessionRef) -> BatchList:
        """All queued batches in order, claimed ones included."""
        return await self._handle.ask(
            ListWork(tenant=self._handle.tenant, session=checks.session_id(session))
        )
