"""Imports on first use, for which a fork waits.

The child of a fork would wait forever for a module that another thread of its parent was importing:
that thread holds the module's lock, and does not exist in the child.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from threading import Condition, Lock, get_ident
from types import ModuleType

WAIT_S = 0.1
WAITS_MAX = 100
"""How often a fork waits for imports of other threads before it goes on all the same."""

_changed = Condition(Lock())
_importing: dict[int, int] = {}
"""How many imports of a thread are under way, one within another."""


def lazy_import(name: str) -> ModuleType:
    """A module, imported if this is its first use."""
    with importing():
        return import_module(name)


@contextmanager
def importing() -> Iterator[None]:
    """Around an import statement in a function."""
    me = get_ident()
    with _changed:
        _importing[me] = _importing.get(me, 0) + 1
    try:
        yield
    finally:
        with _changed:
            _importing[me] -= 1
            if not _importing[me]:
                del _importing[me]
            _changed.notify_all()


def _wait_for_others() -> None:
    """Before a fork: nobody begins an import until it is done."""
    _changed.acquire()
    for _ in range(WAITS_MAX):
        if not _importing.keys() - {get_ident()}:
            return
        _changed.wait(WAIT_S)


def _go_on() -> None:
    _changed.release()


def _begin_anew() -> None:
    """In the child, whose only thread is the one that forked."""
    me = get_ident()
    for other in _importing.keys() - {me}:
        del _importing[other]
    _changed.release()


os.register_at_fork(before=_wait_for_others, after_in_parent=_go_on, after_in_child=_begin_anew)
