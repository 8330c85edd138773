"""The engine of docs/engines.md keeps promises and answers random commands as the oracle does."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from ledgerstone.clock import Clock, ManualClock
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.conformance.graph import *  # noqa: F403
from ledgerstone.testing.conformance.leases import *  # noqa: F403
from ledgerstone.testing.conformance.turns import *  # noqa: F403
from ledgerstone.testing.conformance.work_claims import *  # noqa: F403
from tests.docs.test_pages import DOCS
from tests.machine.machine import Differs
from tests.machine.sabotage import DropsANode
from tests.machine.test_machine import CONTROL_EXAMPLES, EXAMPLES, run

LINES_MAX = 100


@cache
def program() -> str:
    found = re.search(r"```python\n(.*?)```", (DOCS / "engines.md").read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


@cache
def plain_engine() -> Any:
    """The class of the page; its last lines open a store, which is closed again."""
    names: dict[str, Any] = {"__name__": "plain"}
    exec(compile(program(), "engines.md", "exec"), names)
    return names["PlainEngine"]


def open_plain(clock: Clock) -> MemoryBackend:
    return MemoryBackend(clock, plain_engine()(clock))


@pytest.fixture
def backend() -> Iterator[Bed]:
    clock = ManualClock()
    made = open_plain(clock)
    with Bed("plain", lambda: made, clock=clock, persistent=False, url="memory://") as bed:
        yield bed


def test_it_is_as_short_as_the_page_says() -> None:
    assert len(program().splitlines()) <= LINES_MAX + 15  # The imports and the example.


@pytest.mark.slow
def test_it_answers_like_the_oracle(seed: int) -> None:
    run(open_plain, seed, EXAMPLES)


@pytest.mark.slow
def test_control_one_that_drops_a_node_is_caught(seed: int) -> None:
    with pytest.raises(Differs):
        run(lambda clock: DropsANode(open_plain(clock)), seed, CONTROL_EXAMPLES, shrink=False)
