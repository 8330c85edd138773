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
from ledgerstone.records.reports import Defect
from ledgerstone.rules.guard import check_alive
from ledgerstone.rules.vectors import KIND, added, check_dimension, dimension_of, left
from tests.oracle.model.standing import find
from tests.oracle.model.state import State, Tx


def put_embeddings(tx: Tx, command: PutEmbeddings) -> list[VectorRow]:
    """Insert or replace by id."""
    for session in {new.session for new in command.embeddings if new.session is not None}:
        found = find(tx, command.tenant, session)
        if found is not None:
            check_alive(session, found.head)
    return [put_vector(tx, command.tenant, KIND, new) for new in command.embeddings]


def put_vector(tx: Tx, tenant: str, kind: str, new: NewEmbedding) -> VectorRow:
    """Insert or replace a row; InvalidValue when its dimension is not the space's."""
    state, key = tx.state, (tenant, kind, new.id)
    old = state.embeddings.get(key)
    space = state.spaces.get((tenant, new.model))
    if space is not None:
        check_dimension(new.model, space.dimension, space.count, new.vector)
    same = old is not None and old.model == new.model
    space = added(space, new.model, new.vector, same)
    if old is not None:
        _forget(state, tenant, old)
        if not same:
            _leave(state, tenant, old.model)
    row = VectorRow(
        kind=kind,
        id=new.id,
        model=new.model,
        change=space.changes,
        vector=new.vector,
        session=new.session,
        namespace=new.namespace,
        metadata=new.metadata,
        created_us=tx.now_us if old is None else old.created_us,
    )
    state.embeddings.put(key, row)
    state.embedding_changes.insert((tenant, new.model, row.change), (kind, new.id))
    if new.session is not None:
        state.embedding_sessions.insert((tenant, new.session, kind, new.id), None)
    state.spaces.put((tenant, new.model), space)
    return row


def drop_vector(tx: Tx, tenant: str, kind: str, id: str) -> bool:
    """Remove a row; whether there was one."""
    old = tx.state.embeddings.get((tenant, kind, id))
    if old is None:
        return False
    tx.state.embeddings.delete((tenant, kind, id))
    _forget(tx.state, tenant, old)
    _leave(tx.state, tenant, old.model)
    return True


def _forget(state: State, tenant: str, row: VectorRow) -> None:
    state.embedding_changes.delete((tenant, row.model, row.change))
    if row.session is not None:
        state.embedding_sessions.delete((tenant, row.session, row.kind, row.id))


def _leave(state: State, tenant: str, model: str) -> None:
    state.spaces.update((tenant, model), left(state.spaces[(tenant, model)]))


def delete_embedding(tx: Tx, command: DeleteEmbedding) -> bool:
    """Remove one."""
    return drop_vector(tx, command.tenant, KIND, command.id)


def delete_embeddings(tx: Tx, command: DeleteEmbeddings) -> int:
    """Remove all of a session."""
    return drop_session_vectors(tx, command.tenant, command.session)


def drop_session_vectors(tx: Tx, tenant: str, session: str) -> int:
    """Remove all of a session, which may be on its way out; how many went."""
    names = [key for key, _ in tx.state.embedding_sessions.scan((tenant, session))]
    for _, _, kind, id in names:
        drop_vector(tx, tenant, kind, id)
    return len(names)


def get_embedding(tx: Tx, query: GetEmbedding) -> VectorRow | None:
    """One row."""
    return tx.state.embeddings.get((query.tenant, KIND, query.id))


def list_embeddings(tx: Tx, query: ListEmbeddings) -> list[VectorRow]:
    """Rows by id."""
    found: list[VectorRow] = []
    prefix = (query.tenant, KIND)
    for _, row in tx.state.embeddings.scan(prefix, since=(*prefix, query.after)):
        if len(found) == query.limit:
            break
        if (
            row.id > query.after
            and query.session in (None, row.session)
            and query.model in (None, row.model)
            and row.namespace.startswith(query.namespace)
        ):
            found.append(row)
    return found


def list_spaces(tx: Tx, query: ListSpaces) -> list[Space]:
    """The spaces of the tenant."""
    return [space for _, space in tx.state.spaces.scan((query.tenant,))]


def read_vectors(tx: Tx, query: ReadVectors) -> list[VectorRow]:
    """Rows in the order they changed."""
    prefix = (query.tenant, query.model)
    found: list[VectorRow] = []
    for _, name in tx.state.embedding_changes.scan(prefix, since=(*prefix, query.after + 1)):
        if len(found) == query.limit:
            break
        found.append(tx.state.embeddings[(query.tenant, *name)])
    return found


def list_vector_names(tx: Tx, query: ListVectorNames) -> list[tuple[str, str]]:
    """Kind and id of every row of a model."""
    prefix = (query.tenant, query.model)
    return sorted(name for _, name in tx.state.embedding_changes.scan(prefix))


def check_spaces(tx: Tx, tenant: str) -> list[Defect]:
    """What the rows say of their spaces, counted anew."""
    counted: dict[str, int] = {}
    defects = []
    for _, row in tx.state.embeddings.scan((tenant,)):
        counted[row.model] = counted.get(row.model, 0) + 1
        space = tx.state.spaces.get((tenant, row.model))
        if space is None or row.change > space.changes:
            defects.append(Defect("", "space", f"spaces {row.model}", "does not know its rows"))
        elif dimension_of(row.vector) != space.dimension:
            where = f"embeddings {row.kind}/{row.id}"
            defects.append(Defect("", "space", where, "of another dimension than its space"))
    for (_, model), space in tx.state.spaces.scan((tenant,)):
        there = counted.get(model, 0)
        if space.count != there:
            detail = f"{space.count} rows, there are {there}"
            defects.append(Defect("", "space", f"spaces {model}", detail))
    return defects


def rebuild(state: State) -> None:
    """The ways to the rows; and the spaces, where they were not kept themselves."""
    counts: dict[tuple[str, str], Space] = {}
    for (tenant, kind, id), row in state.embeddings.scan():
        state.embedding_changes.place((tenant, row.model, row.change), (kind, id))
        if row.session is not None:
            state.embedding_sessions.place((tenant, row.session, kind, id), None)
        key = (tenant, row.model)
        old = counts.get(key)
        counts[key] = Space(
            model=row.model,
            dimension=dimension_of(row.vector),
            count=1 if old is None else old.count + 1,
            changes=row.change if old is None else max(old.changes, row.change),
        )
    for key, space in counts.items():
        if key not in state.spaces:
            state.spaces.place(key, space)
