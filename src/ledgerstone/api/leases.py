"""store.leases: who may write to a session."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from ledgerstone import ids
from ledgerstone.api.grants import release, renewal
from ledgerstone.api.handle import AsyncResource
from ledgerstone.api.holds import AsyncLeaseHold
from ledgerstone.commands.leases import BreakLease, GetLease, TakeLease
from ledgerstone.errors import InvalidValue
from ledgerstone.intake import checks
from ledgerstone.intake.checks import SessionRef
from ledgerstone.records.leases import TTL_S, AnyLease, Held, Lease


class AsyncLeases(AsyncResource):
    """Ownership of sessions, proved by a fence that only rises."""

    async def take(
        self,
        session: SessionRef,
        *,
        owner: str | None = None,
        ttl_s: float = TTL_S,
        reenter: bool = False,
    ) -> Lease | None:
        """A lease without a heartbeat; None while another owner's lease lives.

        Every grant is a new fence and token, the same owner's too: what it held before is fenced
        off. `reenter`: the same owner gets the fence and token of its live lease again, with a
        later end. Errors: SessionNotFound, SessionDeleted.
        """
        return await self._write(
            TakeLease(
                tenant=self._tenant,
                session=checks.session_id(session),
                owner=checks.owner_id(owner),
                token=ids.new_id(),
                ttl_us=checks.span_us(ttl_s, "ttl_s"),
                reenter=checks.flag(reenter, "reenter"),
            )
        )

    def hold(
        self,
        session: SessionRef,
        *,
        owner: str | None = None,
        ttl_s: float = TTL_S,
        wait_s: float = 0,
        heartbeat: bool = True,
    ) -> AbstractAsyncContextManager[Held]:
        """A lease for the length of a block: fresh fence, kept alive, given back at the end.

        After the block every write with it raises LeaseExpired. LeaseHeld when another owner still
        lives after `wait_s`. When the lease is lost, the async block is cancelled and ends with
        Fenced; the blocking one meets Fenced at its next commit.
        """
        ttl_us = checks.span_us(ttl_s, "ttl_s")
        if ttl_us == 0:
            raise InvalidValue("ttl_s", "must be greater than 0")
        return AsyncLeaseHold(
            self._handle,
            TakeLease(
                tenant=self._tenant,
                session=checks.session_id(session),
                owner=checks.owner_id(owner),
                token=ids.new_id(),
                ttl_us=ttl_us,
            ),
            wait_s=checks.seconds(wait_s, "wait_s"),
            heartbeat=checks.flag(heartbeat, "heartbeat"),
        )

    async def renew(self, lease: AnyLease, *, ttl_s: float | None = None) -> Lease:
        """The same lease with a later end, by default as long as it was granted for.

        LeaseExpired when it ran out or its block has ended, Fenced when somebody else has the
        session.
        """
        given = _lease(lease)
        checks.not_ended(lease)
        ttl_us = given.expires_us - given.claimed_us
        if ttl_s is not None:
            ttl_us = checks.span_us(ttl_s, "ttl_s")
        renewed = await self._write(renewal(self._tenant, given, ttl_us))
        if isinstance(lease, Held):
            lease.lease = renewed
        return renewed

    async def release(self, lease: AnyLease) -> bool:
        """Give it back; False, and no harm to a successor, when it is not ours any more."""
        given = _lease(lease)
        if isinstance(lease, Held):
            lease.released = True
        return await release(self._handle, given)

    async def get(self, session: SessionRef) -> Lease | None:
        """The live lease of a session, or None."""
        return await self._ask(GetLease(tenant=self._tenant, session=checks.session_id(session)))

    async def break_(
        self, session: SessionRef, *, by: str, reason: str, fence: int | None = None
    ) -> Lease | None:
        """End a live lease by force, as an operator; who, why and which is kept with the session.

        Answers the lease that was broken, None when none lived. `fence`: only the lease with that
        fence; LeaseMoved, and nothing happens, when another one lives. SessionNotFound.
        """
        return await self._write(
            BreakLease(
                tenant=self._tenant,
                session=checks.session_id(session),
                by=checks.text(by, "by"),
                reason=checks.text(reason, "reason"),
                fence=None if fence is None else checks.whole(fence, "fence"),
            )
        )


def _lease(lease: AnyLease) -> Lease:
    if isinstance(lease, Held):
        return lease.lease
    if not isinstance(lease, Lease):
        raise InvalidValue("lease", f"a Lease expected, got {type(lease).__name__}")
    return lease
