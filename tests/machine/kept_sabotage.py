"""Backends that lie a little about what they keep: the machine has to notice each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from ledgerstone.commands import Command, Query
from ledgerstone.commands.artifacts import DeleteArtifacts, GetArtifact, PutArtifact
from ledgerstone.commands.blobs import DropBlob, TouchBlob
from ledgerstone.commands.memories import NAMESPACE_END, SearchMemories
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.usage import ListBudgets, SetBudget
from ledgerstone.ports.backend import Backend
from ledgerstone.records.stats import BudgetState
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")


class NeverRollsOver(Wrapper):
    """A budget per day or month goes on counting when the next one has begun."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._first: dict[tuple[str, str], BudgetState] = {}

    def write(self, command: Command[A]) -> A:
        if not isinstance(command, SetBudget):
            return self.inner.write(command)
        answer: Any = self.inner.write(command)
        self._first[command.tenant, command.budget.id] = answer
        whole = msgspec.structs.replace(command.budget, period="total")
        self.inner.write(msgspec.structs.replace(command, budget=whole))
        return answer

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        answers = self.inner.read(queries)
        for n, query in enumerate(queries):
            if isinstance(query, ListBudgets):
                answers[n] = [self._as_set(query.tenant, state) for state in answers[n]]
        return answers

    def _as_set(self, tenant: str, state: BudgetState) -> BudgetState:
        first = self._first[tenant, state.budget.id]
        return msgspec.structs.replace(state, budget=first.budget, since_us=first.since_us)


class ReusesAVersion(Wrapper):
    """The next artifact of a name takes the place of the newest one."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, PutArtifact):
            named: dict[str, Any] = {"owner": command.owner, "name": command.artifact.name}
            found = self.inner.read([GetArtifact(tenant=command.tenant, **named)])[0]
            if found is not None and found.id != command.artifact.id:
                which = {**named, "version": found.version}
                self.inner.write(DeleteArtifacts(tenant=command.tenant, **which))
        return self.inner.write(command)


class ComparesTexts(Wrapper):
    """Whatever begins with the letters of a namespace is taken to be below it."""

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return [self._answer(query) for query in queries]

    def _answer(self, query: Query[Any]) -> Any:
        if not isinstance(query, SearchMemories) or query.limit is not None or query.offset:
            return self.inner.read([query])[0]
        wider = msgspec.structs.replace(query, namespace="")
        letters = query.namespace.rstrip(NAMESPACE_END)
        found = self.inner.read([wider])[0]
        return [one for one in found if NAMESPACE_END.join(one.namespace).startswith(letters)]


class ForgetsToTouch(Wrapper):
    """Bytes that are put again look as old as they were: a collector would take them."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, TouchBlob | DropBlob):
            return None  # type: ignore[return-value]
        return self.inner.write(command)


class SpendsOverBudget(Wrapper):
    """Every commit passes, as if somebody had said that it must."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, CommitTurn) and command.usage:
            forced = msgspec.structs.replace(command, over_budget=True)
            return self.inner.write(forced)  # type: ignore[return-value]
        return self.inner.write(command)
