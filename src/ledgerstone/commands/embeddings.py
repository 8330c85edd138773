"""Embeddings: rows with vectors, and what an index needs to follow them."""

from __future__ import annotations

import msgspec

from ledgerstone.commands import Command, Query, SessionCommand
from ledgerstone.records.embeddings import Space, VectorRow


class NewEmbedding(msgspec.Struct, frozen=True, kw_only=True):
    """A vector to keep: little-endian 32-bit floats; metadata is canonical JSON."""

    id: str
    model: str
    vector: bytes
    session: str | None = None
    namespace: str = ""
    metadata: bytes | None = None


class PutEmbeddings(Command[list[VectorRow]], frozen=True, kw_only=True):
    """Insert or replace by id, all of them or none.

    InvalidValue when the model's vectors have another dimension; SessionDeleted.
    """

    embeddings: tuple[NewEmbedding, ...]


class DeleteEmbedding(Command[bool], frozen=True, kw_only=True):
    """Remove; False when there was none."""

    id: str


class DeleteEmbeddings(SessionCommand[int], frozen=True, kw_only=True):
    """Remove all of a session; how many went."""


class GetEmbedding(Query[VectorRow | None], frozen=True, kw_only=True):
    """One row, or None."""

    id: str


class ListEmbeddings(Query[list[VectorRow]], frozen=True, kw_only=True):
    """Rows by id, after one, of a session, a model, at or below a namespace."""

    session: str | None = None
    model: str | None = None
    namespace: str = ""
    after: str = ""
    limit: int | None = None


class ListSpaces(Query[list[Space]], frozen=True, kw_only=True):
    """The models of the tenant that ever had vectors, by name."""


class ReadVectors(Query[list[VectorRow]], frozen=True, kw_only=True):
    """Rows of a model that changed after `after`, in the order they changed; of both kinds."""

    model: str
    after: int = 0
    limit: int = 4096


class ListVectorNames(Query[list[tuple[str, str]]], frozen=True, kw_only=True):
    """Kind and id of every row of a model: what an index compares after something was dropped."""

    model: str
