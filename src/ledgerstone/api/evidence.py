"""The frame of traces and reports: a list of documents beside a session."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle, AsyncResource
from ledgerstone.api.pages import CHUNK
from ledgerstone.commands import evidence as commands
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.intake.evidence import Form

T = TypeVar("T", bound=msgspec.Struct)


class AsyncEvidence(AsyncResource, Generic[T]):
    """What both lists can do. The session need not exist; one that is deleted takes no writes."""

    def __init__(self, handle: AsyncHandle, form: Form[T]) -> None:
        super().__init__(handle)
        self._form = form

    async def append(
        self, session: SessionRef, *documents: T | Mapping[str, Any], key: str | None = None
    ) -> int:
        """Add at the end; answers how many there are now. SessionDeleted.

        With a `key` the same append may be repeated: as long as it was the last one, nothing is
        added twice.
        """
        return await self._write(
            commands.AppendEvidence(
                tenant=self._tenant,
                session=checks.session_id(session),
                kind=self._form.kind,
                bodies=self._form.bodies(documents),
                key=None if key is None else ids.check_id(key, "key"),
            )
        )

    async def save(self, session: SessionRef, documents: Iterable[T | Mapping[str, Any]]) -> int:
        """Make the list exactly these, all or nothing; answers how many. SessionDeleted."""
        return await self._write(
            commands.SaveEvidence(
                tenant=self._tenant,
                session=checks.session_id(session),
                kind=self._form.kind,
                bodies=self._form.bodies(documents),
            )
        )

    async def load(self, session: SessionRef) -> list[T] | None:
        """The whole list as it was saved; None when there never was one."""
        name = checks.session_id(session)
        rows = await self._rows(name, 0, None)
        return None if rows is None else [self._form.read(name, row) for row in rows]

    async def delete(self, session: SessionRef) -> int:
        """Remove the list, as if none had been saved; how many went. SessionDeleted."""
        return await self._write(
            commands.DeleteEvidence(
                tenant=self._tenant, session=checks.session_id(session), kind=self._form.kind
            )
        )

    async def _rows(
        self, session: str, after: int, limit: int | None = CHUNK
    ) -> list[commands.EvidenceRow] | None:
        return await self._ask(
            commands.LoadEvidence(
                tenant=self._tenant, session=session, kind=self._form.kind, after=after, limit=limit
            )
        )

    async def _fitting(
        self, session: str, after: int, fits: Callable[[T], bool]
    ) -> list[tuple[commands.EvidenceRow, T]]:
        """The next documents that fit, from the first chunk that has any; none at the end."""
        while rows := await self._rows(session, after):
            pairs = [(row, self._form.read(session, row)) for row in rows]
            found = [(row, document) for row, document in pairs if fits(document)]
            if found:
                return found
            after = rows[-1].n
        return []
