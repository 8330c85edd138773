"""Embeddings as callers may give them, and as they get them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ledgerstone import ids
from ledgerstone.codec import decode_json, encode_json
from ledgerstone.commands.embeddings import NewEmbedding
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.intake.vectors import Vector, packed
from ledgerstone.records.embeddings import Embedding, VectorRow
from ledgerstone.records.memories import Namespace
from ledgerstone.rules import namespaces
from ledgerstone.rules.matching import Condition, matches
from ledgerstone.rules.vectors import unpack

_FIELDS = ("vector", "id", "model", "session", "namespace", "metadata")


def new_embedding(
    vector: Vector,
    *,
    id: object = None,
    model: str = "",
    session: SessionRef | None = None,
    namespace: Namespace = (),
    metadata: Any = None,
) -> NewEmbedding:
    """A vector to keep, checked and encoded; without an id it gets a new one."""
    return NewEmbedding(
        id=ids.new_id() if id is None else embedding_id(id),
        model=ids.check_label(model, "model"),
        vector=packed(vector),
        session=None if session is None else checks.session_id(session),
        namespace=namespaces.check(namespace, "namespace"),
        metadata=None if metadata is None else encode_json(metadata, "metadata"),
    )


def new_embeddings(records: Iterable[object]) -> tuple[NewEmbedding, ...]:
    """Several: records, or dictionaries with the fields of one."""
    if isinstance(records, str | bytes | Mapping) or not isinstance(records, Iterable):
        raise InvalidValue("records", f"a list expected, got {type(records).__name__}")
    return tuple(_given(one, f"records[{n}]") for n, one in enumerate(records))


def _given(one: object, field: str) -> NewEmbedding:
    if isinstance(one, Embedding):
        return new_embedding(**{name: getattr(one, name) for name in _FIELDS})
    if not isinstance(one, Mapping):
        raise InvalidValue(field, f"an Embedding or a dict expected, got {type(one).__name__}")
    odd = [name for name in one if name not in _FIELDS]
    if odd or "vector" not in one:
        raise InvalidValue(field, f"fields are {', '.join(_FIELDS)}, and vector is needed")
    return new_embedding(**one)


def embedding_id(value: object) -> str:
    """An id, given by itself or by its embedding."""
    return ids.check_id(value.id if isinstance(value, Embedding) else value, "id")


def embedding_of(row: VectorRow) -> Embedding:
    """A row as callers see it."""
    return Embedding(
        id=row.id,
        model=row.model,
        vector=unpack(row.vector),
        session=row.session,
        namespace=namespaces.split(row.namespace),
        metadata=_metadata(row),
        created_us=row.created_us,
    )


def accepts(
    row: VectorRow, session: str | None, namespace: str, conditions: tuple[Condition, ...]
) -> bool:
    """Whether a row is of the session, at or below the namespace, and passes the filter."""
    return (
        (session is None or row.session == session)
        and row.namespace.startswith(namespace)
        and (not conditions or matches(conditions, _metadata(row)))
    )


def _metadata(row: VectorRow) -> Any:
    if row.metadata is None:
        return None
    try:
        return decode_json(row.metadata)
    except ValueError as error:
        raise Corrupt("embeddings", row.id, "metadata", str(error)) from None
