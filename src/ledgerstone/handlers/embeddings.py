"""Embeddings: vectors by kind and id, and the spaces they are counted in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from msgspec.structs import astuple

from ledgerstone.commands import embeddings as commands
from ledgerstone.commands.embeddings import NewEmbedding
from ledgerstone.handlers.heads import find_head
from ledgerstone.handlers.registry import handles
from ledgerstone.records.embeddings import Space, VectorRow
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.rows import record_of
from ledgerstone.rules.vectors import KIND, added, check_dimension, left
from ledgerstone.tables.memories import (
    EMBEDDINGS,
    EMBEDDINGS_BY_CHANGE,
    EMBEDDINGS_BY_SESSION,
    SPACES,
    EmbeddingRow,
    SpaceRow,
)
from ledgerstone.tables.transaction import Tx

_PAGE_NAMES = 500


@handles(commands.PutEmbeddings)
async def put_embeddings(tx: Tx, command: commands.PutEmbeddings) -> list[VectorRow]:
    sessions = {new.session for new in command.embeddings if new.session is not None}
    for session in sorted(sessions):
        head = await find_head(tx, command.tenant, session)
        if head is not None:
            check_alive(session, head)
    return await put_vectors(tx, command.tenant, KIND, command.embeddings)


async def put_vectors(
    tx: Tx, tenant: str, kind: str, given: Sequence[NewEmbedding]
) -> list[VectorRow]:
    """Insert or replace rows; InvalidValue when a dimension is not that of its space."""
    ids = list(dict.fromkeys(new.id for new in given))
    rows = await tx.get_many(EMBEDDINGS, [(tenant, kind, id) for id in ids])
    known = dict(zip(ids, rows, strict=True))
    made = []
    for new in given:
        row = known[new.id] = await _count_in(tx, tenant, kind, new, known[new.id])
        tx.put(EMBEDDINGS, row)
        made.append(record_of(VectorRow, row))
    return made


async def _count_in(
    tx: Tx, tenant: str, kind: str, new: NewEmbedding, old: EmbeddingRow | None
) -> EmbeddingRow:
    """The row as it will be; its space counts it, and the space it leaves no longer does."""
    space = await _find_space(tx, tenant, new.model)
    if space is not None:
        check_dimension(new.model, space.dimension, space.count, new.vector)
    same = old is not None and old.model == new.model
    space = added(space, new.model, new.vector, same)
    _save_space(tx, tenant, space)
    if old is not None and not same:
        await _leave_space(tx, tenant, old.model)
    created_us = tx.now_us if old is None else old.created_us
    others = {"tenant": tenant, "kind": kind, "change": space.changes, "created_us": created_us}
    return record_of(EmbeddingRow, new, **others)


async def drop_vector(tx: Tx, tenant: str, kind: str, id: str) -> bool:
    """Remove a row; whether there was one."""
    old = await tx.get(EMBEDDINGS, tenant, kind, id)
    if old is None:
        return False
    tx.delete(EMBEDDINGS, tenant, kind, id)
    await _leave_space(tx, tenant, old.model)
    return True


async def drop_session_vectors(tx: Tx, tenant: str, session: str) -> int:
    """Remove all of a session, which may be on its way out; how many went."""
    columns = ("kind", "id", "model")
    rows = await tx.scan_columns(EMBEDDINGS_BY_SESSION, columns, tenant, session)
    for kind, id, _ in rows:
        tx.delete(EMBEDDINGS, tenant, kind, id)
    for model, count in Counter(model for _, _, model in rows).items():
        await _leave_space(tx, tenant, model, count)
    return len(rows)


async def _find_space(tx: Tx, tenant: str, model: str) -> Space | None:
    row = await tx.get(SPACES, tenant, model)
    return None if row is None else record_of(Space, row)


def _save_space(tx: Tx, tenant: str, space: Space) -> None:
    tx.put(SPACES, SpaceRow(tenant, *astuple(space)))


async def _leave_space(tx: Tx, tenant: str, model: str, count: int = 1) -> None:
    space = await _find_space(tx, tenant, model)
    if space is not None:
        _save_space(tx, tenant, left(space, count))


@handles(commands.DeleteEmbedding)
async def delete_embedding(tx: Tx, command: commands.DeleteEmbedding) -> bool:
    return await drop_vector(tx, command.tenant, KIND, command.id)


@handles(commands.DeleteEmbeddings)
async def delete_embeddings(tx: Tx, command: commands.DeleteEmbeddings) -> int:
    return await drop_session_vectors(tx, command.tenant, command.session)


@handles(commands.GetEmbedding)
async def get_embedding(tx: Tx, query: commands.GetEmbedding) -> VectorRow | None:
    row = await tx.get(EMBEDDINGS, query.tenant, KIND, query.id)
    return None if row is None else record_of(VectorRow, row)


@handles(commands.ListEmbeddings)
async def list_embeddings(tx: Tx, query: commands.ListEmbeddings) -> list[VectorRow]:
    tenant = query.tenant
    if query.session is None and query.model is None and not query.namespace:
        rows = await tx.scan(
            EMBEDDINGS.primary, tenant, KIND, after=(query.after,), limit=query.limit
        )
        return [record_of(VectorRow, row) for row in rows]
    # Vectors are long, so it is seen from the other columns first which of them are wanted.
    find = _find_ids if query.session is None else _find_session_ids
    ids = (await find(tx, query))[: query.limit]
    found = await tx.get_many(EMBEDDINGS, [(tenant, KIND, id) for id in ids])
    return [record_of(VectorRow, row) for row in found if row is not None]


async def _find_ids(tx: Tx, query: commands.ListEmbeddings) -> list[str]:
    """At least as many ids as may be listed, or all."""
    found: list[str] = []
    after = query.after
    while query.limit is None or len(found) < query.limit:
        rows = await tx.scan_columns(
            EMBEDDINGS.primary, ("id", "model", "namespace"), query.tenant, KIND,
            after=(after,), limit=_PAGE_NAMES,
        )  # fmt: skip
        found += [id for id, *row in rows if _is_asked_for(query, *row)]
        if len(rows) < _PAGE_NAMES:
            break
        after = rows[-1][0]
    return found


async def _find_session_ids(tx: Tx, query: commands.ListEmbeddings) -> list[str]:
    rows = await tx.scan_columns(
        EMBEDDINGS_BY_SESSION, ("kind", "id", "model", "namespace"), query.tenant, query.session
    )
    return [
        id
        for kind, id, *row in rows
        if kind == KIND and id > query.after and _is_asked_for(query, *row)
    ]


def _is_asked_for(query: commands.ListEmbeddings, model: str, namespace: str) -> bool:
    return query.model in (None, model) and namespace.startswith(query.namespace)


@handles(commands.ListSpaces)
async def list_spaces(tx: Tx, query: commands.ListSpaces) -> list[Space]:
    return [record_of(Space, row) for row in await tx.scan(SPACES.primary, query.tenant)]


@handles(commands.ReadVectors)
async def read_vectors(tx: Tx, query: commands.ReadVectors) -> list[VectorRow]:
    rows = await tx.scan(
        EMBEDDINGS_BY_CHANGE, query.tenant, query.model, after=(query.after,), limit=query.limit
    )
    return [record_of(VectorRow, row) for row in rows]


@handles(commands.ListVectorNames)
async def list_vector_names(tx: Tx, query: commands.ListVectorNames) -> list[tuple[str, str]]:
    rows = await tx.scan_columns(EMBEDDINGS_BY_CHANGE, ("kind", "id"), query.tenant, query.model)
    return sorted((kind, id) for kind, id in rows)
