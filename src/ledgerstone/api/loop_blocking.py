"""The blocking twin of loop_async.py: the caller waits, and a thread runs beside a block."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Annotated, TypeAlias, TypeVar

from ledgerstone.errors import LedgerstoneError
from ledgerstone.records.work import Taken

T = TypeVar("T")
S = TypeVar("S")

Soon = Annotated[T, "now"]
Opening = Annotated[S, "opened at once"]
Taking: TypeAlias = Taken | None
INTERRUPTED = KeyboardInterrupt


def pause(seconds: float) -> None:
    time.sleep(seconds)


def offload(work: Callable[[], T]) -> T:
    """Just do it: the caller waits anyway."""
    return work()


def each(call: Callable[[S], T], given: Sequence[S]) -> list[T | LedgerstoneError]:
    """One after the other: what each answers, or its error in its place."""
    found: list[T | LedgerstoneError] = []
    for one in given:
        try:
            found.append(call(one))
        except LedgerstoneError as error:
            found.append(error)
    return found


def finish(work: Callable[[], None]) -> None:
    """Just do it."""
    work()


finished = finish


def answer_or_undo(answer: T, undo: Callable[[T], None]) -> T:
    """The answer: nobody can stop waiting half-way. After Ctrl-C a lease runs out by itself."""
    return answer


class Signal(threading.Event):
    """Ends a sleep early, once it is set."""


class Background:
    """A thread beside a block, which it cannot interrupt."""

    def __init__(self, work: Callable[[], bool], name: str) -> None:
        self._thread = threading.Thread(target=work, name=name, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def ends_block(self, error: BaseException | None) -> bool:
        """Never: the next commit of the block is refused instead."""
        return False


def taking(take: Callable[[], Taking], hold: object) -> Taking:
    return take()


def opening(make: Callable[[], S]) -> Opening[S]:
    return make()
