"""Media in a ledger: content-addressed bytes, kept once per tenant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from inspect import isawaitable
from typing import Any

from pydantic_ai_harness.media import MediaContext, media_uri_for, parse_media_uri

from ledgerstone.adapters.faces import AnyStore, Faces, of
from ledgerstone.errors import InvalidValue
from ledgerstone.records.artifacts import Artifact

PREFIX = "pydantic-ai/media/"
EMPTY = MediaContext()

Resolver = Callable[[str, MediaContext], str | Awaitable[str | None] | None]


class LedgerMediaStore:
    """A MediaStore over blobs: each is held by an artifact of the tenant, so it is not collected.

    The metadata of the first put stays. `public_url` says where a model may fetch what is stored;
    without it there is no such place.
    """

    def __init__(self, store: AnyStore, *, public_url: Resolver | None = None) -> None:
        self._faces = Faces(store)
        self._store = store
        self._resolver = public_url

    async def put(self, data: bytes, *, context: MediaContext = EMPTY) -> str:
        """Keep bytes; answers media+sha256://<digest>."""
        return await self._faces.later(self._put(data, context))

    async def get(self, uri: str, *, context: MediaContext = EMPTY) -> bytes:
        """The bytes; FileNotFoundError when there are none."""
        return await self._faces.later(self._get(parse_media_uri(uri)))

    async def exists(self, uri: str, *, context: MediaContext = EMPTY) -> bool:
        return await self._faces.later(self._find(parse_media_uri(uri))) is not None

    async def public_url(self, uri: str, *, context: MediaContext = EMPTY) -> str | None:
        """What the resolver says, if there is one."""
        if self._resolver is None:
            return None
        found = self._resolver(uri, context)
        return await found if isawaitable(found) else found

    async def get_metadata(self, uri: str, *, context: MediaContext = EMPTY) -> Mapping[str, str]:
        """The metadata of the first put; FileNotFoundError when there was none."""
        found = await self._faces.later(self._find(parse_media_uri(uri)))
        if found is None:
            raise FileNotFoundError(f"media not found: {uri}")
        said: dict[str, str] = (found.metadata or {}).get("metadata", {})
        return said

    async def _put(self, data: bytes, context: MediaContext) -> str:
        uri = media_uri_for(data)
        digest = parse_media_uri(uri)
        if await self._find(digest) is not None:
            return uri
        said = {"metadata": dict(context.metadata), "filename": context.filename}
        fields: dict[str, Any] = {"id": PREFIX + digest, "metadata": said}
        try:
            await of(
                self._store.artifacts.put(
                    PREFIX + digest, data, media_type=context.media_type, **fields
                )
            )
        except InvalidValue as error:
            if error.field != "media_type":
                raise
            await of(self._store.artifacts.put(PREFIX + digest, data, **fields))
        return uri

    async def _get(self, digest: str) -> bytes:
        if await self._find(digest) is not None:
            data = await of(self._store.blobs.get(digest))
            if data is not None:
                return data
        raise FileNotFoundError(f"media not found: media+sha256://{digest}")

    async def _find(self, digest: str) -> Artifact | None:
        found: Artifact | None = await of(self._store.artifacts.get(id=PREFIX + digest))
        return found
