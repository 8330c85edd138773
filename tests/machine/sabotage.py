"""Backends that lie a little: the machine has to notice each of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import msgspec

from ledgerstone.commands import Command, Query
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.transfer import ExportTable
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import AbandonClaim, TakeWork
from ledgerstone.errors import Fenced, LeaseHeld
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Head
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")

EVERY = 7


class DropsANode(Wrapper):
    """Every seventh commit that has nodes loses its last one, and answers as if it had not."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._commits = 0

    def write(self, command: Command[A]) -> A:
        if isinstance(command, CommitTurn) and command.nodes:
            self._commits += 1
            if self._commits % EVERY == 0:
                shorter = msgspec.structs.replace(command, nodes=command.nodes[:-1])
                return self.inner.write(shorter)  # type: ignore[return-value]
        return self.inner.write(command)


class AnswersAnOldHead(Wrapper):
    """A cache that is not told about commits: each head is answered once more after it moved."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._heads: dict[tuple[str, str], Head] = {}

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        answers = self.inner.read(queries)
        for n, (query, answer) in enumerate(zip(queries, answers, strict=True)):
            if isinstance(query, GetHead) and answer is not None:
                answers[n] = self._heads.get((query.tenant, query.id), answer)
                self._heads[query.tenant, query.id] = answer
        return answers


class MovesAllButTheFirst(Wrapper):
    """Whoever copies the store gets every table without its first row."""

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        answers = self.inner.read(queries)
        for n, query in enumerate(queries):
            if isinstance(query, ExportTable) and query.after is None:
                answers[n] = msgspec.structs.replace(answers[n], rows=answers[n].rows[1:])
        return answers


class SaysTheWrongError(Wrapper):
    """A held session is reported as a lost one: callers would stop instead of waiting."""

    def write(self, command: Command[A]) -> A:
        try:
            return self.inner.write(command)
        except LeaseHeld as held:
            raise Fenced(held.session, 0, 1) from None


class AppliesRetriesTwice(Wrapper):
    """A repeated turn is taken for a new one: what a lost answer would then cost."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._seen: dict[tuple[str, str, str], int] = {}

    def write(self, command: Command[A]) -> A:
        if isinstance(command, CommitTurn):
            key = (command.tenant, command.session, command.turn)
            self._seen[key] = self._seen.get(key, 0) + 1
            if self._seen[key] > 1:
                again = msgspec.structs.replace(command, turn=f"{command.turn}/{self._seen[key]}")
                return self.inner.write(again)  # type: ignore[return-value]
        return self.inner.write(command)


class ReplacesWhatIsKept(Wrapper):
    """A note of a turn that should have kept the first body wins over it."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, CommitTurn) and command.kept_notes:
            notes = (*command.notes, *command.kept_notes)
            other = msgspec.structs.replace(command, notes=notes, kept_notes=())
            return self.inner.write(other)  # type: ignore[return-value]
        return self.inner.write(command)


class TakesAnyIncarnation(Wrapper):
    """A commit for a session that was purged goes to the one that was made in its place."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, CommitTurn) and command.guard.incarnation is not None:
            guard = msgspec.structs.replace(command.guard, incarnation=None)
            other = msgspec.structs.replace(command, guard=guard)
            return self.inner.write(other)  # type: ignore[return-value]
        return self.inner.write(command)


class KeepsWhatIsHandedBack(Wrapper):
    """An abandoned claim is acknowledged and forgotten: the work waits for the lease to end."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, AbandonClaim):
            return True  # type: ignore[return-value]
        return self.inner.write(command)


class LosesAWakeUp(Wrapper):
    """Work that a commit sends to another session never arrives there."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, CommitTurn) and command.enqueue:
            own = tuple(batch for batch in command.enqueue if batch.session == command.session)
            shorter = msgspec.structs.replace(command, enqueue=own)
            return self.inner.write(shorter)  # type: ignore[return-value]
        return self.inner.write(command)


class SkipsTheLine(Wrapper):
    """Every seventh worker finds nothing, though there is work."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._takes = 0

    def write(self, command: Command[A]) -> A:
        if isinstance(command, TakeWork):
            self._takes += 1
            if self._takes % EVERY == 0:
                return None  # type: ignore[return-value]
        return self.inner.write(command)
