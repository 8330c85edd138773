"""Media in a ledger: content-addressed bytes, kept once per tenant."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from inspect import isawaitable

from pydantic_ai_harness.media import MediaContext, media_uri_for, parse_media_uri

from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of, runs_async
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
        self._runner = StoreRunner(store)
        self._store = store
        self._resolver = public_url

    @runs_async
    async def put(self, data: bytes, *, context: MediaContext = EMPTY) -> str:
        """Keep bytes; answers media+sha256://<digest>."""
        uri = media_uri_for(data)
        if await self._find(uri) is not None:
            return uri
        name = PREFIX + parse_media_uri(uri)
        said = {"metadata": dict(context.metadata), "filename": context.filename}
        put = partial(self._store.artifacts.put, name, data, id=name, metadata=said)
        try:
            await of(put(media_type=context.media_type))
        except InvalidValue as error:
            if error.field != "media_type":
                raise
            await of(put())
        return uri

    @runs_async
    async def get(self, uri: str, *, context: MediaContext = EMPTY) -> bytes:
        """The bytes; FileNotFoundError when there are none."""
        if await self._find(uri) is not None:
            data = await of(self._store.blobs.get(parse_media_uri(uri)))
            if data is not None:
                return data
        raise FileNotFoundError(f"media not found: {uri}")

    @runs_async
    async def exists(self, uri: str, *, context: MediaContext = EMPTY) -> bool:
        return await self._find(uri) is not None

    async def public_url(self, uri: str, *, context: MediaContext = EMPTY) -> str | None:
        """What the resolver says, if there is one."""
        if self._resolver is None:
            return None
        found = self._resolver(uri, context)
        return await found if isawaitable(found) else found

    @runs_async
    async def get_metadata(self, uri: str, *, context: MediaContext = EMPTY) -> Mapping[str, str]:
        """The metadata of the first put; FileNotFoundError when there was none."""
        found = await self._find(uri)
        if found is None:
            raise FileNotFoundError(f"media not found: {uri}")
        said: dict[str, str] = (found.metadata or {}).get("metadata", {})
        return said

    async def _find(self, uri: str) -> Artifact | None:
        artifact_id = PREFIX + parse_media_uri(uri)
        found: Artifact | None = await of(self._store.artifacts.get(id=artifact_id))
        return found
