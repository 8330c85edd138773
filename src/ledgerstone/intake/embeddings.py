"""Embeddings as callers may give them, and as they get them back."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Mapping, Sequence
from struct import error as StructError
from typing import Any

from ledgerstone import ids
from ledgerstone.codec import decode_json, encode_json
from ledgerstone.commands.embeddings import NewEmbedding
from ledgerstone.errors import Corrupt, InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.embeddings import Embedding, VectorRow
from ledgerstone.records.memories import Namespace
from ledgerstone.rules import namespaces
from ledgerstone.rules.matching import Condition, matches
from ledgerstone.rules.vectors import DIMENSIONS_MAX, pack, unpack

Vector = Sequence[float]
"""A list, tuple, array.array or one-dimensional numpy array."""

_VECTOR = "vector"
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
        session=checks.maybe_session(session),
        namespace=namespaces.check(namespace, "namespace"),
        metadata=None if metadata is None else encode_json(metadata, "metadata"),
    )


def new_embeddings(records: Iterable[object]) -> tuple[NewEmbedding, ...]:
    given = checks.items(records, "records")
    return tuple(_given(one, f"records[{n}]") for n, one in enumerate(given))


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
    return ids.check_id(value.id if isinstance(value, Embedding) else value, "id")


def embedding_of(row: VectorRow) -> Embedding:
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


def packed(value: Any) -> bytes:
    values = _listed(value)
    if not values:
        raise InvalidValue(_VECTOR, "must not be empty")
    if len(values) > DIMENSIONS_MAX:
        raise InvalidValue(_VECTOR, f"{len(values)} numbers, at most {DIMENSIONS_MAX} allowed")
    for n, one in enumerate(values):
        if type(one) is not float and (type(one) is bool or not isinstance(one, int | float)):
            raise InvalidValue(f"{_VECTOR}[{n}]", f"a number expected, got {type(one).__name__}")
    try:
        data = pack(values)
        total = math.fsum(values)
    except (OverflowError, StructError):
        raise InvalidValue(_VECTOR, "a number is beyond the range of a 32-bit float") from None
    except ValueError:
        total = math.nan  # Infinities of both signs.
    if not math.isfinite(total):
        raise InvalidValue(_VECTOR, "NaN and Infinity are not allowed")
    return data


def rounded(value: Any) -> tuple[float, ...]:
    """The numbers of a vector as they would be stored: what a search compares with."""
    return unpack(packed(value))


def _listed(value: Any) -> list[Any]:
    """The numbers as Python has them; of numpy nothing is needed but `tolist`."""
    if isinstance(value, str | bytes | bytearray | memoryview | dict | set):
        raise InvalidValue(_VECTOR, f"a sequence of numbers expected, got {type(value).__name__}")
    if isinstance(value, list | tuple):
        return [one.item() if hasattr(one, "dtype") else one for one in value]
    if isinstance(value, array) or hasattr(value, "tolist"):
        found = value.tolist()
        if isinstance(found, list):
            return found
    raise InvalidValue(_VECTOR, f"a sequence of numbers expected, got {type(value).__name__}")
