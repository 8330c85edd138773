"""The bytes of an artifact, piece by piece."""

from __future__ import annotations

from ledgerstone.api.blob_reading import AsyncBlobReader
from ledgerstone.api.handle import AsyncHandle
from ledgerstone.commands.artifacts import GetArtifact
from ledgerstone.errors import BlobNotFound
from ledgerstone.intake.artifacts import is_of
from ledgerstone.records.artifacts import Artifact

_HINT = "store.artifacts.list(session=..., newest=False) shows all versions of a session's"


class AsyncArtifactReader(AsyncBlobReader):
    """An artifact that is being read; `.artifact` is which one, once it was entered."""

    artifact: Artifact

    def __init__(self, handle: AsyncHandle, query: GetArtifact, first: int = 0) -> None:
        super().__init__(handle, "", first)
        self._query = query

    @property
    def media_type(self) -> str | None:
        """The artifact's own, otherwise what is known of its bytes."""
        return self.artifact.media_type or super().media_type

    async def __aenter__(self) -> AsyncArtifactReader:
        query = self._query
        found = await self._handle.ask(query)
        if found is None or not is_of(found, query):
            name = query.name or query.id or query.uri or ""
            raise BlobNotFound(name, noun="artifact", hint=_HINT)
        self.artifact, self.ref = found, found.ref
        await super().__aenter__()
        return self
