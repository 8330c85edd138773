"""What budgets cost those who have none: one look per tenant, then nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ledgerstone import BudgetExceeded, ManualClock, Store, Usage
from ledgerstone.commands import Query
from ledgerstone.commands.usage import FindBudgets
from ledgerstone.engines.memory.backend import MemoryBackend
from ledgerstone.testing.wrappers import Wrapper


class Counting(Wrapper):
    """Keeps every look at the budgets."""

    looks = 0

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        self.looks += sum(isinstance(one, FindBudgets) for one in queries)
        return self.inner.read(queries)


def turns(store: Store, count: int) -> None:
    for _ in range(count):
        with store.turns.begin("s", create=True) as turn:
            turn.assistant("hello")
            turn.use("m", Usage(1))


def test_turns_of_a_tenant_without_a_budget_begin_without_a_read() -> None:
    clock = ManualClock()
    backend = Counting(MemoryBackend(clock))
    with Store(backend, clock=clock) as store:
        turns(store, 20)
        assert backend.looks == 1
        turns(store.for_tenant("red"), 20)
        assert backend.looks == 2
        store.usage.budget(session="elsewhere", tokens=1, id="cap")
        turns(store, 20)
        assert backend.looks == 22
        turns(store.for_tenant("red"), 20)
        store.usage.drop_budget("cap")
        turns(store, 20)
        assert backend.looks == 23


def test_a_turn_without_its_block_is_kept_and_marked() -> None:
    clock = ManualClock()
    with Store(MemoryBackend(clock), clock=clock) as store:
        store.usage.budget(tokens=0, id="cap")
        turn = store.turns.begin("s", create=True)
        turn.assistant("hello")
        turn.use("m", Usage(1))
        assert turn.commit().over_budget == ("cap",)
        with pytest.raises(BudgetExceeded):
            store.usage.check()
