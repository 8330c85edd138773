"""The operations of one batch, checked, and the texts that have to be embedded for them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from langgraph.store.base import (
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
    get_text_at_path,
    tokenize_path,
)

from ledgerstone.adapters.langgraph import store_filters
from ledgerstone.codec import decode_json, encode_json
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.memories import memory_key
from ledgerstone.rules import namespaces
from ledgerstone.rules.namespaces import SEGMENTS_MAX

WHOLE = "$"
DEPTH_MAX = SEGMENTS_MAX - 2
"""Segments of a namespace: one is the root of all items, and vectors are kept below the key."""
SECONDS = 60
PREFIX, SUFFIX = "prefix", "suffix"

Name: TypeAlias = tuple[tuple[str, ...], str]
"""The namespace and key of an item."""


class InvalidNamespace(InvalidValue, InvalidNamespaceError):
    """An invalid namespace: a ValueError too, as LangGraph's own stores raise it."""


class FieldText(NamedTuple):
    """A text of an item that has a vector: the field, its number among the texts there, itself."""

    path: str
    n: int
    text: str


class Put(NamedTuple):
    """What to store; `value` None deletes."""

    value: dict[str, Any] | None
    ttl_s: float | None = None
    texts: tuple[FieldText, ...] = ()


class Batch:
    """Checked operations: reads by their place in the batch, and the last put of every name.

    In a search the filter is a dict, and the query empty when nothing is to be embedded for it;
    the conditions of a list of namespaces are those that ask for a segment.
    """

    def __init__(self, ops: Iterable[Op], fields: Sequence[str] | None) -> None:
        """`fields`: what is embedded of an item; None when nothing ever is."""
        given = list(ops)
        self.count = len(given)
        self.gets: dict[int, GetOp] = {}
        self.searches: dict[int, SearchOp] = {}
        self.lists: dict[int, ListNamespacesOp] = {}
        self.puts: dict[Name, Put] = {}
        for n, op in enumerate(given):
            where = "" if len(given) == 1 else f"ops[{n}]."
            if isinstance(op, PutOp):
                self.puts[_name_of(op, where)] = _put(op, where, fields)
            elif isinstance(op, GetOp):
                namespace, key = _name_of(op, where)
                self.gets[n] = GetOp(namespace, key, op.refresh_ttl)
            elif isinstance(op, SearchOp):
                self.searches[n] = _search(op, where, fields)
            elif isinstance(op, ListNamespacesOp):
                self.lists[n] = _list(op, where)
            else:
                raise InvalidValue(f"ops[{n}]", f"not an operation: {type(op).__name__}")

    @property
    def texts(self) -> list[str]:
        """Texts of items to embed, each once."""
        return list(dict.fromkeys(one.text for put in self.puts.values() for one in put.texts))

    @property
    def queries(self) -> list[str]:
        """Texts of searches to embed, each once."""
        return list(dict.fromkeys(one.query for one in self.searches.values() if one.query))


def texts_of(value: Any, path: str) -> list[str]:
    """What a field of an item says, as LangGraph reads it: one text, or one for each element."""
    return get_text_at_path(value, WHOLE if path == WHOLE else tokenize_path(path))


def text_digest(text: str) -> str:
    """A short digest of a text, by which a vector is known to be of it."""
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def fields_of(value: object, field: str) -> list[str]:
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise InvalidValue(field, f"a list of paths expected, got {value!r:.60}")
    return list(value)


def _name_of(op: PutOp | GetOp, where: str) -> Name:
    segments = _segments_of(op.namespace, f"{where}namespace")
    if not segments:
        raise InvalidNamespace(f"{where}namespace", "must not be empty")
    return segments, memory_key(op.key)


def _segments_of(value: object, field: str) -> tuple[str, ...]:
    """Return the segments; InvalidNamespace for labels that LangGraph's own stores refuse."""
    if isinstance(value, str) or not isinstance(value, tuple | list):
        raise InvalidValue(field, f"a tuple of texts expected, got {type(value).__name__}")
    for n, label in enumerate(value):
        if not isinstance(label, str) or not label or "." in label or "\0" in label:
            raise InvalidNamespace(
                f"{field}[{n}]", f"text without '.' and NUL expected, not empty, got {label!r:.60}"
            )
    if len(value) > DEPTH_MAX:
        raise InvalidValue(field, f"{len(value)} segments, at most {DEPTH_MAX} allowed")
    return namespaces.split(namespaces.check(tuple(value), field))


def _put(op: PutOp, where: str, fields: Sequence[str] | None) -> Put:
    if op.value is None:
        return Put(None)
    if not isinstance(op.value, Mapping):
        raise InvalidValue(f"{where}value", f"an object expected, got {type(op.value).__name__}")
    # As it will be read again: the texts that are embedded must be those found there later.
    value = decode_json(encode_json(dict(op.value), f"{where}value"))
    paths: Sequence[str] = ()
    if fields is not None and op.index is not False:
        paths = fields if op.index is None else fields_of(op.index, f"{where}index")
    found = [
        FieldText(path, n, text)
        for path in dict.fromkeys(paths)
        for n, text in enumerate(texts_of(value, path))
    ]
    return Put(value, _ttl(op.ttl, f"{where}ttl"), tuple(found))


def _ttl(minutes: object, field: str) -> float | None:
    if minutes is None:
        return None
    if isinstance(minutes, bool) or not isinstance(minutes, int | float) or not minutes > 0:
        raise InvalidValue(field, f"minutes above 0 expected, got {minutes!r:.40}")
    return minutes * SECONDS


def _search(op: SearchOp, where: str, fields: Sequence[str] | None) -> SearchOp:
    if op.query is not None and not isinstance(op.query, str):
        raise InvalidValue(f"{where}query", f"text expected, got {type(op.query).__name__}")
    return SearchOp(
        _segments_of(op.namespace_prefix, f"{where}namespace_prefix"),
        store_filters.checked(op.filter),
        checks.whole(op.limit, f"{where}limit"),
        checks.whole(op.offset, f"{where}offset"),
        (op.query or "") if fields is not None else "",
        op.refresh_ttl,
    )


def _list(op: ListNamespacesOp, where: str) -> ListNamespacesOp:
    field = f"{where}match_conditions"
    conditions = tuple(_condition(one, field) for one in op.match_conditions or ())
    depth = op.max_depth
    return ListNamespacesOp(
        tuple(one for one in conditions if one.path),
        None if depth is None else checks.positive(depth, f"{where}max_depth"),
        checks.whole(op.limit, f"{where}limit"),
        checks.whole(op.offset, f"{where}offset"),
    )


def _condition(one: MatchCondition, field: str) -> MatchCondition:
    checks.one_of(one.match_type, (PREFIX, SUFFIX), f"{field}.match_type")
    return MatchCondition(one.match_type, _segments_of(one.path, f"{field}.path"))
