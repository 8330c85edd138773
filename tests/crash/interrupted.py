"""What the tests of interrupts share: a call that may hang, a commit that is hit, what is left."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from ledgerstone.commands.turns import CommitTurn
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import read_back

WAIT_S = 5.0


class Hung(AssertionError):
    """A call did not come back."""


def within(call: Callable[[], Any]) -> Any:
    """The outcome of a call in a thread of its own; Hung when it does not come back."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(call())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(WAIT_S)
    if not found:
        raise Hung("a call never came back")
    return found[0]


def victim(n: int, session: str = "s") -> CommitTurn:
    return commit_of(session, f"victim {n}", "half", "of", "it")


def turns_of(backend: Backend, session: str = "s") -> list[str]:
    found = read_back(backend, TENANT, session)
    assert found.defects == []
    assert [turn.revision for turn in found.turns] == list(range(1, found.revision + 1))
    return [turn.turn for turn in found.turns]
