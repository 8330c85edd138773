"""Embeddings: vectors by kind and id, and the spaces they are counted in."""

from __future__ import annotations

from ledgerstone.commands.embeddings import (
    DeleteEmbedding,
    DeleteEmbeddings,
    GetEmbedding,
    ListEmbeddings,
    ListSpaces,
    ListVectorNames,
    NewEmbedding,
    PutEmbeddings,
    ReadVectors,
)
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.rules import namespaces
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.spaces import KIND, added, left
from ledgerstone.rules.vectors import check_dimension
from ledgerstone.sql.heads import find_head
from ledgerstone.sql.tx import Row, Tx


class Spaces:
    """The spaces that one command changes: each is read once, and written once by `save`."""

    def __init__(self, tx: Tx, tenant: str) -> None:
        self.tenant = tenant
        self._tx = tx
        self._read: dict[str, Space | None] = {}
        self._changed: set[str] = set()

    async def put(self, kind: str, *given: NewEmbedding) -> list[VectorRow]:
        """Insert or replace rows; InvalidValue when a dimension is not that of its space."""
        ids = list({new.id: None for new in given})
        found = await self._tx.among("get_vector_models", ids, self.tenant, kind)
        known = {id: (model, created_us) for id, model, created_us in found}
        rows = []
        for new in given:
            row = await self._place(kind, new, known.get(new.id))
            known[new.id] = (row.model, row.created_us)
            rows.append(row)
        # An id that was given twice is written once, as it was given last.
        last = {row.id: (self.tenant, *_columns(row)) for row in rows}
        await self._tx.many("put_vector", list(last.values()))
        return rows

    async def _place(self, kind: str, new: NewEmbedding, old: tuple[str, int] | None) -> VectorRow:
        """The row as it will be, and its space with it."""
        space = await self._get(new.model)
        if space is not None:
            check_dimension(new.model, space.dimension, space.count, new.vector)
        same = old is not None and old[0] == new.model
        space = self._set(added(space, new.model, new.vector, same))
        if old is not None and not same:
            await self._leave(old[0])
        return VectorRow(
            kind=kind,
            id=new.id,
            model=new.model,
            change=space.changes,
            vector=new.vector,
            session=new.session,
            namespace=new.namespace,
            metadata=new.metadata,
            created_us=self._tx.now_us if old is None else old[1],
        )

    async def drop(self, kind: str, id: str) -> bool:
        """Remove a row; whether there was one."""
        old = await self._tx.one("get_vector_model", self.tenant, kind, id)
        if old is None:
            return False
        await self._tx.run("delete_vector", self.tenant, kind, id)
        await self._leave(old[0])
        return True

    async def drop_session(self, session: str) -> int:
        """Remove the rows of a session; how many there were."""
        counts = await self._tx.all("count_session_vectors", self.tenant, session)
        for model, count in counts:
            await self._leave(model, count)
        return await self._tx.run("delete_session_vectors", self.tenant, session)

    async def save(self) -> None:
        """Write what changed."""
        for model in sorted(self._changed):
            space = await self._get(model)
            assert space is not None
            values = (space.dimension, space.count, space.changes, space.drops)
            await self._tx.run("put_space", self.tenant, model, *values)
        self._changed.clear()

    async def _get(self, model: str) -> Space | None:
        if model not in self._read:
            row = await self._tx.one("get_space", self.tenant, model)
            self._read[model] = None if row is None else _space(row)
        return self._read[model]

    def _set(self, space: Space) -> Space:
        self._read[space.model] = space
        self._changed.add(space.model)
        return space

    async def _leave(self, model: str, count: int = 1) -> None:
        space = await self._get(model)
        if space is not None:
            self._set(left(space, count))


async def put_embeddings(tx: Tx, command: PutEmbeddings) -> list[VectorRow]:
    """Insert or replace by id."""
    for session in {new.session for new in command.embeddings if new.session is not None}:
        head = await find_head(tx, command.tenant, session)
        if head is not None:
            check_alive(session, head)
    spaces = Spaces(tx, command.tenant)
    rows = await spaces.put(KIND, *command.embeddings)
    await spaces.save()
    return rows


async def delete_embedding(tx: Tx, command: DeleteEmbedding) -> bool:
    """Remove one."""
    spaces = Spaces(tx, command.tenant)
    found = await spaces.drop(KIND, command.id)
    await spaces.save()
    return found


async def delete_embeddings(tx: Tx, command: DeleteEmbeddings) -> int:
    """Remove all of a session."""
    return await drop_session_vectors(tx, command.tenant, command.session)


async def drop_session_vectors(tx: Tx, tenant: str, session: str) -> int:
    """Remove all of a session, which may be on its way out; how many went."""
    spaces = Spaces(tx, tenant)
    dropped = await spaces.drop_session(session)
    await spaces.save()
    return dropped


async def get_embedding(tx: Tx, query: GetEmbedding) -> VectorRow | None:
    """One row."""
    row = await tx.one("get_vector", query.tenant, KIND, query.id)
    return None if row is None else vector_of(row)


async def list_embeddings(tx: Tx, query: ListEmbeddings) -> list[VectorRow]:
    """Rows by id."""
    rows = await tx.pick(
        "list_vectors" if query.session is None else "list_session_vectors",
        tenant=query.tenant,
        kind=KIND,
        after=query.after,
        session=query.session,
        model=query.model,
        first=query.namespace or None,
        last=namespaces.end_of(query.namespace),
        limit=query.limit,
    )
    return [vector_of(row) for row in rows]


async def list_spaces(tx: Tx, query: ListSpaces) -> list[Space]:
    """The spaces of the tenant."""
    return [_space(row) for row in await tx.all("list_spaces", query.tenant)]


async def read_vectors(tx: Tx, query: ReadVectors) -> list[VectorRow]:
    """Rows in the order they changed."""
    bounds = (query.tenant, query.model, query.after, query.limit)
    return [vector_of(row) for row in await tx.all("changed_vectors", *bounds)]


async def list_vector_names(tx: Tx, query: ListVectorNames) -> list[tuple[str, str]]:
    """Kind and id of every row of a model."""
    rows = await tx.all("vector_names", query.tenant, query.model)
    return [(kind, id) for kind, id in rows]


def _space(row: Row) -> Space:
    model, dimension, count, changes, drops = row
    return Space(model=model, dimension=dimension, count=count, changes=changes, drops=drops)


def vector_of(row: Row) -> VectorRow:
    """A row as it is handed out."""
    kind, id, model, change, vector, session, namespace, metadata, created_us = row
    return VectorRow(
        kind=kind,
        id=id,
        model=model,
        change=change,
        vector=vector,
        session=session,
        namespace=namespace,
        metadata=metadata,
        created_us=created_us,
    )


def _columns(row: VectorRow) -> Row:
    named = (row.kind, row.id, row.model, row.change, row.vector)
    return (*named, row.session, row.namespace, row.metadata, row.created_us)
