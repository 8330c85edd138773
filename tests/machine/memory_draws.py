"""Random memories and embeddings, with namespaces that nearly contain each other."""

from __future__ import annotations

from array import array
from typing import Any

from hypothesis import strategies as st

from ledgerstone.codec import encode_json
from ledgerstone.commands import Command, Query
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
from ledgerstone.commands.memories import (
    NAMESPACE_END,
    ChangeMemories,
    DeleteMemory,
    GetMemories,
    ListNamespaces,
    MemoryName,
    NewMemory,
    PutMemory,
    SearchMemories,
    SweepMemories,
    TouchMemory,
)
from ledgerstone.rules.matching import encode_filter, parse_filter
from tests.machine import draws

US = 1_000_000


def joined(*segments: str) -> str:
    """A namespace as it is stored."""
    return "".join(segment + NAMESPACE_END for segment in segments)


def floats(*numbers: float) -> bytes:
    """A vector as it is stored; the machines this runs on are little-endian."""
    return array("f", numbers).tobytes()


# One begins like the other without being above it, and some sort around the separator.
NAMESPACES = (
    joined("a"), joined("a"), joined("a", "b"), joined("a", "b", "c"), joined("ab"),
    joined("a "), joined("a\u00e9"), joined("b"), "",
)  # fmt: skip
VECTORS = (floats(1, 0), floats(0, 1), floats(0.5, -2), floats(1, 2, 3))

namespaces = st.sampled_from(NAMESPACES)
keys = st.sampled_from(("k1", "k1", "k2", "K1"))
models = st.sampled_from(("", "", "m"))
vectors = st.sampled_from((*VECTORS[:3] * 4, VECTORS[3]))
embedding_ids = st.sampled_from(("e1", "e2", "e3", "e4"))
values = draws.small_json.map(lambda value: encode_json({"v": value}, "value"))
memory_names = st.builds(MemoryName, namespaces, keys)


filters = st.sampled_from(
    (
        None,
        None,
        {"v": 1},
        {"v": {"$ne": 1}},
        {"v": {"$gte": 0, "$lt": 2}},
        {"v": {"$in": ["x", True, None]}},
        {"v.a": {"$exists": False}},
        {"v.a.b": [1, None]},
        {"v": {"a": 1}},
    )
).map(lambda given: encode_filter(parse_filter(given)))


@st.composite
def new_memories(draw: st.DrawFn) -> NewMemory:
    vector = draw(st.one_of(st.none(), vectors))
    return NewMemory(
        namespace=draw(namespaces),
        key=draw(keys),
        value=draw(values),
        ttl_us=draw(st.sampled_from((None, None, 1, 30 * US, 90 * US))),
        model="" if vector is None else draw(models),
        vector=vector,
        if_absent=draw(st.integers(0, 4)) == 0,
    )


@st.composite
def new_embeddings(draw: st.DrawFn) -> NewEmbedding:
    metadata = draw(st.one_of(st.none(), draws.objects))
    return NewEmbedding(
        id=draw(embedding_ids),
        model=draw(models),
        vector=draw(vectors),
        session=draw(st.one_of(st.none(), draws.sessions)),
        namespace=draw(namespaces),
        metadata=None if metadata is None else encode_json(metadata, "metadata"),
    )


@st.composite
def memory_writes(draw: st.DrawFn, tenant: str) -> Command[Any]:
    name = draw(memory_names)
    kind = draw(st.integers(0, 11))
    if kind < 5:
        return PutMemory(tenant=tenant, memory=draw(new_memories()))
    if kind < 7:
        changes = st.lists(st.one_of(new_memories(), memory_names), min_size=1, max_size=3)
        return ChangeMemories(tenant=tenant, changes=tuple(draw(changes)))
    if kind < 9:
        return TouchMemory(tenant=tenant, namespace=name.namespace, key=name.key)
    if kind < 11:
        return DeleteMemory(tenant=tenant, namespace=name.namespace, key=name.key)
    return SweepMemories(tenant=tenant, limit=draw(draws.limits))


@st.composite
def embedding_writes(draw: st.DrawFn, tenant: str) -> Command[Any]:
    kind = draw(st.integers(0, 5))
    if kind < 4:
        made = draw(st.lists(new_embeddings(), min_size=1, max_size=3))
        return PutEmbeddings(tenant=tenant, embeddings=tuple(made))
    if kind < 5:
        return DeleteEmbedding(tenant=tenant, id=draw(embedding_ids))
    return DeleteEmbeddings(tenant=tenant, session=draw(draws.sessions))


@st.composite
def questions(draw: st.DrawFn) -> Query[Any]:
    return draw(st.one_of(memory_questions(), embedding_questions()))


@st.composite
def memory_questions(draw: st.DrawFn) -> Query[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    limit = draw(st.one_of(st.none(), draws.limits))
    return draw(
        st.sampled_from(
            (
                GetMemories(names=draw(draws.once(memory_names, 3)), **common),
                SearchMemories(
                    namespace=draw(namespaces),
                    filter=draw(filters),
                    after=draw(st.one_of(st.none(), memory_names)),
                    limit=limit,
                    offset=draw(st.integers(0, 2)),
                    **common,
                ),
                ListNamespaces(
                    prefix=draw(namespaces),
                    suffix=draw(st.sampled_from(((), (), ("b",), ("a", "b")))),
                    max_depth=draw(st.sampled_from((None, None, 1, 2))),
                    limit=draw(draws.limits),
                    offset=draw(st.integers(0, 2)),
                    **common,
                ),
            )
        )
    )


@st.composite
def embedding_questions(draw: st.DrawFn) -> Query[Any]:
    common: dict[str, Any] = {"tenant": draw(draws.tenants)}
    return draw(
        st.sampled_from(
            (
                GetEmbedding(id=draw(embedding_ids), **common),
                ListEmbeddings(
                    session=draw(st.one_of(st.none(), draws.sessions)),
                    model=draw(st.one_of(st.none(), models)),
                    namespace=draw(namespaces),
                    after=draw(st.sampled_from(("", "", "e2"))),
                    limit=draw(st.one_of(st.none(), draws.limits)),
                    **common,
                ),
                ListSpaces(**common),
                ReadVectors(
                    model=draw(models),
                    after=draw(draws.offsets),
                    limit=draw(draws.limits),
                    **common,
                ),
                ListVectorNames(model=draw(models), **common),
            )
        )
    )
