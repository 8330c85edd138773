"""Leases: take, renew, release, break."""

from __future__ import annotations

from ledgerstone.commands import Command, Query
from ledgerstone.records.leases import Lease


class TakeLease(Command[Lease | None], frozen=True, kw_only=True):
    """None while another owner's lease lives.

    `fresh`: a new fence even for the same owner. `token` is made by the client.
    """

    session: str
    owner: str
    token: str
    ttl_us: int
    fresh: bool = False


class RenewLease(Command[Lease], frozen=True, kw_only=True):
    """Needs the exact, unexpired lease; else LeaseExpired or Fenced."""

    session: str
    owner: str
    token: str
    fence: int
    ttl_us: int


class ReleaseLease(Command[bool], frozen=True, kw_only=True):
    """Anything stale is a silent no-op."""

    session: str
    owner: str
    token: str
    fence: int


class BreakLease(Command[bool], frozen=True, kw_only=True):
    """An operator ends a lease by force; who and why is kept as a note of the session."""

    session: str
    by: str
    reason: str


class GetLease(Query[Lease | None], frozen=True, kw_only=True):
    """The live lease, or None."""

    session: str
