"""Leases: take, renew, release, break; and raise fences after a restore."""

from __future__ import annotations

from ledgerstone.commands import Command, SessionCommand, SessionQuery
from ledgerstone.records.leases import Lease


class TakeLease(SessionCommand[Lease | None], frozen=True, kw_only=True):
    """None while another owner's lease lives; a grant is a new fence and `token`.

    `reenter`: the same owner keeps the fence and the token of a lease that lives, with a later end.
    The same `token` again answers the grant it got. The client makes `token`.
    """

    owner: str
    token: str
    ttl_us: int
    reenter: bool = False


class RenewLease(SessionCommand[Lease], frozen=True, kw_only=True):
    """Needs the exact, unexpired lease; else LeaseExpired or Fenced."""

    owner: str
    token: str
    fence: int
    ttl_us: int


class ReleaseLease(SessionCommand[bool], frozen=True, kw_only=True):
    """Anything stale is a silent no-op."""

    owner: str
    token: str
    fence: int


class BreakLease(SessionCommand[Lease | None], frozen=True, kw_only=True):
    """An operator ends a lease by force; who, why and which is kept as a note of the session.

    `fence`: only the lease with that fence; Conflict when another one lives. Answers the lease that
    was broken, None when none lived.
    """

    by: str
    reason: str
    fence: int | None = None


class GetLease(SessionQuery[Lease | None], frozen=True, kw_only=True):
    """The live lease, or None."""


class RaiseFences(Command[int], frozen=True, kw_only=True):
    """End every lease of the tenant and raise every fence; answers how many sessions there are.

    Sessions that are gone or to come are raised too. With a session, only that one; with "", only
    those that are gone or to come: a backend with a file per session takes it in such pieces.
    """

    jump: int
    session: str | None = None
