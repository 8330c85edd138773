"""Backends that forget one rule of the queue each; see `sabotage_rules` for other rules."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from ledgerstone.commands import Command, Guard
from ledgerstone.commands.leases import GetLease
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.commands.work import AbandonClaim, CancelWork, FailClaim, ListWork
from ledgerstone.errors import ClaimLost, Fenced, LeaseExpired, LeaseHeld
from ledgerstone.testing.wrappers import Wrapper

A = TypeVar("A")


class CompletesLate(Wrapper):
    """Takes what a worker has done, whoever has been given it since: no fence is looked at."""

    def write(self, command: Command[A]) -> A:
        try:
            return self.inner.write(command)
        except (Fenced, LeaseExpired, ClaimLost) as error:
            if not isinstance(command, CommitTurn) or not command.complete:
                raise
            sent: Any = replace(command, guard=self._guard(command), complete=(), release=False)
            try:
                answer: A = self.inner.write(sent)
            except LeaseHeld:
                raise error from None
            return answer

    def _guard(self, command: CommitTurn) -> Guard:
        query = GetLease(tenant=command.tenant, session=command.session)
        lease = self.inner.read([query])[0]
        return Guard() if lease is None else Guard(lease.fence, lease.token)


class DropsWhatIsHandedBack(Wrapper):
    """Forgets batches that a worker hands back."""

    def write(self, command: Command[A]) -> A:
        owned: list[str] = []
        if isinstance(command, AbandonClaim):
            asked = ListWork(tenant=command.tenant, session=command.session)
            queued = self.inner.read([asked])[0]
            owned = [batch.id for batch in queued if batch.claim == command.claim]
        answer = self.inner.write(command)
        if isinstance(command, AbandonClaim) and answer is True:
            for id in owned:
                self.inner.write(
                    CancelWork(tenant=command.tenant, session=command.session, batch=id)
                )
        return answer


class CountsNoFailures(Wrapper):
    """What failed is handed back at once, as if nobody had tried."""

    def write(self, command: Command[A]) -> A:
        if isinstance(command, FailClaim):
            back = AbandonClaim(
                tenant=command.tenant,
                session=command.session,
                claim=command.claim,
                token=command.token,
            )
            self.inner.write(back)
            none: Any = []
            answer: A = none
            return answer
        return self.inner.write(command)
