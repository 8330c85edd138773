"""From a name to an engine; what is not installed is only missed when it is asked for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from ledgerstone.errors import InvalidValue, NotSupported
from ledgerstone.ports.vectors import NearStore, VectorEngine, VectorIndex

PGVECTOR = "pgvector"
"""The engine in the database, which finds candidates for spaces that are worth it.

A small space, a filter that leaves too little, a vector of more than 4000 dimensions: all of these
are answered exactly, by the best engine of this process.
"""

MakeIndex: TypeAlias = Callable[[int], VectorIndex]


@dataclass(frozen=True)
class Engine:
    """An engine by its name; `index(dimension)` makes an index in this process."""

    name: str
    index: MakeIndex


def open_engine(name: object, store: object = None) -> VectorEngine:
    """The engine of this name; None: the fastest that is installed, in the store if it has one.

    NotSupported for one that is not installed, InvalidValue for one that nobody knows.
    """
    if name == PGVECTOR:
        if not isinstance(store, NearStore):
            raise NotSupported("vectors='pgvector'", hint="only a postgresql:// store has it")
        store.prepare_near(True)
        return Engine(PGVECTOR, _fastest().index)
    if name is None:
        exact = _fastest()
        there = isinstance(store, NearStore) and store.prepare_near(False)
        return Engine(PGVECTOR, exact.index) if there else exact
    if not isinstance(name, str) or name not in _ENGINES:
        known = ", ".join((*_ENGINES, PGVECTOR))
        raise InvalidValue("vectors", f"{name!r:.40} is none of {known}")
    return _open(name)


def _fastest() -> Engine:
    for name in _ENGINES:
        try:
            return _open(name)
        except NotSupported:
            continue
    raise AssertionError("plain Python is always there")


def _open(name: str) -> Engine:
    try:
        return Engine(name, _ENGINES[name]())
    except ImportError:
        hint = "pip install ledgerstone[vectors]"
        raise NotSupported(f"vectors={name!r}", hint=hint) from None


def _numpy() -> MakeIndex:
    from ledgerstone.vectors.numpy_index import NumpyIndex

    return NumpyIndex


def _sqlite_vec() -> MakeIndex:
    from ledgerstone.vectors.sqlite_vec_index import SqliteVecIndex

    return SqliteVecIndex


def _python() -> MakeIndex:
    from ledgerstone.vectors.python_index import PythonIndex

    return PythonIndex


_ENGINES: dict[str, Callable[[], MakeIndex]] = {
    "numpy": _numpy,
    "sqlite-vec": _sqlite_vec,
    "python": _python,
}
"""The fastest first."""
