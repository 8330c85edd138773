"""Media: content-addressed, kept, and with the metadata of the first put."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai_harness.media import (
    MediaContext,
    MediaStore,
    SqliteMediaStore,
    externalize_media,
    make_static_public_url,
    media_uri_for,
    restore_media,
)

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerMediaStore
from tests.adapters.pydantic_ai.samples import PNG, dumped, on_store, some_messages

AnyStore = Store | AsyncStore


def test_put_and_get(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        media = LedgerMediaStore(store, public_url=make_static_public_url("https://cdn.example"))
        assert isinstance(media, MediaStore)
        uri = await media.put(PNG, context=MediaContext(media_type="image/png"))
        assert uri == media_uri_for(PNG)
        assert await media.get(uri) == PNG
        assert await media.exists(uri)
        assert await media.public_url(uri) == f"https://cdn.example/{uri[15:]}.bin"
        assert await LedgerMediaStore(store).public_url(uri) is None
        assert not await media.exists(media_uri_for(b"other"))
        for lost in (media.get, media.get_metadata):
            with pytest.raises(FileNotFoundError):
                await lost(media_uri_for(b"other"))
            with pytest.raises(ValueError, match="media URI"):
                await lost("file:///etc/passwd")
        other = LedgerMediaStore(store.for_tenant("other"))
        assert not await other.exists(uri)

    on_store(store_url, colour, work)


def test_nothing_is_collected(adapter_store: Store) -> None:
    media = LedgerMediaStore(adapter_store)
    uri = asyncio.run(media.put(PNG))
    adapter_store.admin.gc(older_than_s=0)
    assert asyncio.run(media.get(uri)) == PNG


def test_many_puts_of_the_same(adapter_store: Store) -> None:
    """Whose metadata is first stays, and nobody gets an error."""
    media = LedgerMediaStore(adapter_store)

    async def go() -> None:
        contexts = [MediaContext(metadata={"n": str(n)}) for n in range(6)]
        uris = await asyncio.gather(*(media.put(PNG, context=one) for one in contexts))
        assert set(uris) == {media_uri_for(PNG)}
        first = await media.get_metadata(uris[0])
        await media.put(PNG, context=MediaContext(metadata={"n": "later"}))
        assert await media.get_metadata(uris[0]) == first

    asyncio.run(go())


def test_an_async_resolver_and_odd_types(adapter_store: Store) -> None:
    async def where(uri: str, context: MediaContext) -> str | None:
        return f"https://x/{context.filename}"

    async def go() -> None:
        media = LedgerMediaStore(adapter_store, public_url=where)
        uri = await media.put(b"odd", context=MediaContext(media_type="no type at all"))
        assert await media.get(uri) == b"odd"
        assert await media.public_url(uri, context=MediaContext(filename="f")) == "https://x/f"
        assert await media.get(await media.put(b"")) == b""

    asyncio.run(go())


@pytest.mark.parametrize("seed", range(3))
def test_equal_to_the_library(store_url: str, tmp_path: Path, seed: int) -> None:
    async def work(store: AnyStore) -> None:
        rng = random.Random(seed)
        ours, theirs = LedgerMediaStore(store), SqliteMediaStore(database=tmp_path / "m.db")
        datas = [bytes(rng.randrange(256) for _ in range(rng.randrange(1, 50))) for _ in range(4)]
        for _ in range(30):
            data = rng.choice(datas)
            context = MediaContext(metadata={"n": str(rng.randrange(9))})
            word = rng.choice(("put", "get", "exists", "get_metadata"))
            answers: list[Any] = []
            for media in (ours, theirs):
                try:
                    if word == "put":
                        answers.append(await media.put(data, context=context))
                    else:
                        answers.append(await getattr(media, word)(media_uri_for(data)))
                except FileNotFoundError as error:
                    answers.append(type(error))
            assert answers[0] == answers[1]

    on_store(store_url, "blocking", work)


def test_messages_through_the_walker(store_url: str, colour: str) -> None:
    """What the harness itself does with a media store."""

    async def work(store: AnyStore) -> None:
        media = LedgerMediaStore(store)
        natives = dumped(some_messages(random.Random(3), 8))
        out = await externalize_media(natives, media_store=media, threshold_bytes=64)
        assert out != natives
        assert await restore_media(out, media_store=media) == natives

    on_store(store_url, colour, work)
