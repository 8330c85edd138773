"""store.embeddings: vectors by id, and the nearest of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.api.handle import AsyncHandle, AsyncResource
from ledgerstone.api.nearest import AsyncNearest
from ledgerstone.api.pages import CHUNK, AsyncPages
from ledgerstone.commands import embeddings as commands
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.intake.embeddings import (
    Vector,
    accepts,
    embedding_id,
    embedding_of,
    new_embedding,
    new_embeddings,
    rounded,
)
from ledgerstone.records.embeddings import Embedding, Match
from ledgerstone.records.memories import Namespace
from ledgerstone.rules import namespaces
from ledgerstone.rules.matching import parse_filter
from ledgerstone.rules.vectors import KIND


class AsyncEmbeddings(AsyncResource):
    """Vectors with metadata. All vectors of one model have one dimension."""

    def __init__(self, handle: AsyncHandle) -> None:
        super().__init__(handle)
        self._nearest = AsyncNearest(handle)

    async def put(
        self,
        vector: Vector,
        *,
        id: str | None = None,
        model: str = "",
        session: SessionRef | None = None,
        namespace: Namespace = (),
        metadata: Any = None,
    ) -> Embedding:
        """Keep a vector; one with the same id is replaced.

        InvalidValue when the model's vectors have another dimension; SessionDeleted.
        """
        new = new_embedding(
            vector, id=id, model=model, session=session, namespace=namespace, metadata=metadata
        )
        return (await self._put((new,)))[0]

    async def put_many(self, records: Iterable[Embedding | Mapping[str, Any]]) -> list[Embedding]:
        """Keep several at once, all of them or none: records, or dictionaries of `put`'s fields."""
        new = new_embeddings(records)
        return await self._put(new) if new else []

    async def _put(self, new: tuple[commands.NewEmbedding, ...]) -> list[Embedding]:
        rows = await self._write(commands.PutEmbeddings(tenant=self._tenant, embeddings=new))
        return [embedding_of(row) for row in rows]

    async def get(self, id: str | Embedding) -> Embedding | None:
        """One, or None."""
        row = await self._ask(commands.GetEmbedding(tenant=self._tenant, id=embedding_id(id)))
        return None if row is None else embedding_of(row)

    async def delete(self, id: str | Embedding) -> bool:
        """Remove one; False when there was none."""
        return await self._write(commands.DeleteEmbedding(tenant=self._tenant, id=embedding_id(id)))

    async def delete_session(self, session: SessionRef) -> int:
        """Remove all of a session; how many went."""
        return await self._write(
            commands.DeleteEmbeddings(tenant=self._tenant, session=checks.session_id(session))
        )

    async def search(
        self,
        vector: Vector,
        *,
        limit: int = 10,
        model: str | None = None,
        session: SessionRef | None = None,
        namespace: Namespace = (),
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - the word of the field
        strict: bool = False,
    ) -> list[Match]:
        """The nearest, best first, ties by id; the score is the cosine.

        Zero vectors and those of another dimension score 0; `strict`: InvalidValue for a vector
        of another dimension than those of a model that is searched. `filter` is about metadata.
        """
        accept = partial(
            accepts,
            session=checks.maybe_session(session),
            namespace=namespaces.check(namespace, "namespace"),
            conditions=parse_filter(filter),
        )
        found = await self._nearest.search(
            KIND,
            rounded(vector),
            checks.positive(limit, "limit"),
            model=None if model is None else ids.check_label(model, "model"),
            accept=accept,
            strict=checks.flag(strict, "strict"),
        )
        return [Match(embedding_of(row), score) for score, row in found]

    def iter(
        self,
        *,
        session: SessionRef | None = None,
        model: str | None = None,
        namespace: Namespace = (),
    ) -> AsyncPages[Embedding]:
        """All of them by id, complete, in chunks."""
        query = commands.ListEmbeddings(
            tenant=self._tenant,
            session=checks.maybe_session(session),
            model=None if model is None else ids.check_label(model, "model"),
            namespace=namespaces.check(namespace, "namespace"),
            limit=CHUNK,
        )
        return AsyncPages(partial(self._fetch, query))

    async def _fetch(
        self, query: commands.ListEmbeddings, last: Embedding | None
    ) -> list[Embedding]:
        after = query if last is None else replace(query, after=last.id)
        return [embedding_of(row) for row in await self._ask(after)]
