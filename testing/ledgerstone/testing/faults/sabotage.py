"""Backends that break one promise each. A harness that does not notice them proves nothing."""

from __future__ import annotations

from typing import TypeVar

import msgspec

from ledgerstone.commands import Command, Guard
from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.ports.backend import Backend
from ledgerstone.records.turns import Placed, TurnCommitted
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")


class AcknowledgesEarly(Wrapper):
    """Answers a commit first and carries it out when the next call comes."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self._owed: CommitTurn | None = None

    def write(self, command: Command[A]) -> A:
        owed, self._owed = self._owed, None
        if owed is not None:
            self.inner.write(owed)
        if not isinstance(command, CommitTurn):
            return self.inner.write(command)
        self._owed = command
        return self._promise(command)  # type: ignore[return-value]

    def _promise(self, command: CommitTurn) -> TurnCommitted:
        head = self.inner.read([GetHead(tenant=command.tenant, id=command.session)])[0]
        return TurnCommitted(
            session=command.session,
            turn=command.turn,
            revision=1 if head is None else head.revision + 1,
            leaf=None,
            placed=tuple(Placed(node.id, 0, 0, None, 0) for node in command.nodes),
        )


class CommitsInHalves(Wrapper):
    """Two transactions for what should be one."""

    def write(self, command: Command[A]) -> A:
        if not isinstance(command, CommitTurn) or len(command.nodes) < 2:
            return self.inner.write(command)
        half = len(command.nodes) // 2
        kept = Guard(command.guard.fence, command.guard.token)
        first = msgspec.structs.replace(
            command, nodes=command.nodes[:half], release=False, drop_drafts=()
        )
        second = msgspec.structs.replace(
            command, turn=command.turn + "/2", nodes=command.nodes[half:], guard=kept
        )
        begun = self.inner.write(first)
        ended = self.inner.write(second)
        placed = begun.placed + ended.placed
        return msgspec.structs.replace(begun, placed=placed)  # type: ignore[return-value]
