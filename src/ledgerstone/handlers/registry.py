"""Which function carries out which command and answers which query."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from ledgerstone.tables.transaction import Tx

C = TypeVar("C")
A = TypeVar("A")
Handler = Callable[[Tx, C], Coroutine[Any, Any, A]]

HANDLERS: dict[type, Handler[Any, Any]] = {}


def handles(type_: type[C]) -> Callable[[Handler[C, A]], Handler[C, A]]:
    """Enter the decorated function as the handler of a type of command or query."""

    def enter(handler: Handler[C, A]) -> Handler[C, A]:
        if type_ in HANDLERS:
            raise ValueError(f"{type_.__name__} has two handlers")
        HANDLERS[type_] = handler
        return handler

    return enter
