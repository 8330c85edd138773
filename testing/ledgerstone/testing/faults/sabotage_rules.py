"""Backends that forget one rule of ownership or idempotency each; see `sabotage` for the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from msgspec.structs import replace

from ledgerstone import ids
from ledgerstone.commands import Command, Guard, Query
from ledgerstone.commands.leases import GetLease, ReleaseLease, RenewLease
from ledgerstone.commands.sessions import PurgeSession
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import ClaimWork
from ledgerstone.errors import Fenced
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import Lease
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")
TRIES = 8


class ForgetsTurns(Wrapper):
    """Does not know a turn again: everybody who repeats one writes it once more."""

    def write(self, command: Command[A]) -> A:
        sent: Any = command
        if isinstance(command, CommitTurn):
            nodes = tuple(replace(node, id=ids.new_id()) for node in command.nodes)
            sent = replace(command, turn=ids.new_id(), nodes=nodes)
        answer: A = self.inner.write(sent)
        return answer


class IgnoresRevision(Wrapper):
    """Commits on whatever stands there, not on what the writer has seen."""

    def write(self, command: Command[A]) -> A:
        sent: Any = command
        if isinstance(command, CommitTurn):
            kept = Guard(command.guard.fence, command.guard.token)
            sent = replace(command, guard=kept)
        answer: A = self.inner.write(sent)
        return answer


class IgnoresFence(Wrapper):
    """Takes whoever asks for the holder of the lease."""

    def write(self, command: Command[A]) -> A:
        for _ in range(TRIES):
            try:
                return self._write(command)
            except Fenced:
                continue  # It changed hands between the look and the write.
        return self._write(command)

    def _write(self, command: Command[A]) -> A:
        sent: Any = command
        if isinstance(command, CommitTurn | ClaimWork) and command.guard.fence is not None:
            lease = self._lease(command.tenant, command.session)
            held = Guard(revision=command.guard.revision)
            if lease is not None:
                held = Guard(lease.fence, lease.token, command.guard.revision)
            sent = replace(command, guard=held)
        elif isinstance(command, RenewLease | ReleaseLease):
            lease = self._lease(command.tenant, command.session)
            if lease is not None:
                sent = replace(command, owner=lease.owner, token=lease.token, fence=lease.fence)
        answer: A = self.inner.write(sent)
        return answer

    def _lease(self, tenant: str, session: str) -> Lease | None:
        lease: Lease | None = self.inner.read([GetLease(tenant=tenant, session=session)])[0]
        return lease


class ForgetsFences(Wrapper):
    """A purged id begins anew with the first fence, as if it had never been used."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._lives: dict[str, int] = {}

    def write(self, command: Command[A]) -> A:
        answer = self.inner.write(self._renamed(command))
        if isinstance(command, PurgeSession):
            self._lives[command.id] = self._lives.get(command.id, 0) + 1
        if isinstance(answer, Lease):
            return replace(answer, session=answer.session.rpartition("/")[0])
        return answer

    def read(self, queries: Sequence[Query[Any]]) -> list[Any]:
        return self.inner.read([self._renamed(query) for query in queries])

    def _renamed(self, asked: A) -> A:
        """The same question about another session: the id, and how often it was purged."""
        field = "session" if hasattr(asked, "session") else "id"
        named = getattr(asked, field, None)
        if named is None:
            return asked
        if isinstance(named, str):
            return replace(asked, **{field: self._name(named)})  # type: ignore[type-var]
        moved = replace(named, id=self._name(named.id))
        return replace(asked, **{field: moved})  # type: ignore[type-var]

    def _name(self, session: str) -> str:
        return f"{session}/{self._lives.get(session, 0)}"
