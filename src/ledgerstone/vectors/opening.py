"""From a name to an engine; what is not installed is only missed when it is asked for."""

from __future__ import annotations

from collections.abc import Callable

from ledgerstone.errors import InvalidValue, NotSupported
from ledgerstone.ports.vectors import NearStore, VectorEngine
from ledgerstone.vectors.pgvector import PgvectorEngine

PGVECTOR = PgvectorEngine.name


def open_engine(name: object, store: object = None) -> VectorEngine:
    """The engine of this name; None: the fastest that is installed, in the store if it has one.

    NotSupported for one that is not installed, InvalidValue for one that nobody knows.
    """
    if name == PGVECTOR:
        if not isinstance(store, NearStore):
            raise NotSupported("vectors='pgvector'", hint="only a postgresql:// store has it")
        store.prepare_near(True)
        return PgvectorEngine(_fastest())
    if name is None:
        exact = _fastest()
        there = isinstance(store, NearStore) and store.prepare_near(False)
        return PgvectorEngine(exact) if there else exact
    if not isinstance(name, str) or name not in _ENGINES:
        raise InvalidValue("vectors", f"{name!r:.40} is none of {', '.join(_NAMES)}")
    return _ENGINES[name]()


def _fastest() -> VectorEngine:
    for opener in _ENGINES.values():
        try:
            return opener()
        except NotSupported:
            continue
    raise AssertionError("plain Python is always there")


def _numpy() -> VectorEngine:
    try:
        from ledgerstone.vectors.numpy_index import NumpyEngine
    except ImportError:
        raise NotSupported("vectors='numpy'", hint="pip install ledgerstone[vectors]") from None
    return NumpyEngine()


def _sqlite_vec() -> VectorEngine:
    try:
        from ledgerstone.vectors.sqlite_vec_index import SqliteVecEngine
    except ImportError:
        hint = "pip install ledgerstone[vectors]"
        raise NotSupported("vectors='sqlite-vec'", hint=hint) from None
    return SqliteVecEngine()


def _python() -> VectorEngine:
    from ledgerstone.vectors.python_index import PythonEngine

    return PythonEngine()


_ENGINES: dict[str, Callable[[], VectorEngine]] = {
    "numpy": _numpy,
    "sqlite-vec": _sqlite_vec,
    "python": _python,
}
_NAMES = (*_ENGINES, PGVECTOR)
