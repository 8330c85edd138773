"""A lease: who owns a session until when, and the fence that proves it."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

from ledgerstone.clock import to_datetime

TTL_S = 60.0
"""Default time of a lease or a claim, in seconds; a heartbeat renews it every 20."""


class Lease(msgspec.Struct, frozen=True):
    """One grant; the fence rises with every grant and is checked by every write."""

    session: str
    owner: str
    token: str
    fence: int
    claimed_us: int
    expires_us: int

    @property
    def expires_at(self) -> datetime:
        return to_datetime(self.expires_us)

    def identity(self) -> tuple[str, str, str, int]:
        """The four fields that a fence or a release must equal."""
        return (self.session, self.owner, self.token, self.fence)

    def __repr__(self) -> str:
        return f"<Lease {self.session} fence {self.fence} of {self.owner}>"


class Held:
    """A lease that somebody keeps alive: `lease` is always its newest grant.

    Accepted wherever a Lease is, until its block ends (`ended`): from then on every write with it
    raises LeaseExpired. `lost` is the error that ended it early, None while it stands; `revision`
    is the last one its holder saw, which decides whether it may be taken again; `granted` is the
    highest fence its holder got, before `lease` is that grant.
    """

    __slots__ = ("ended", "granted", "lease", "lost", "released", "revision", "ttl_us")

    def __init__(self, lease: Lease, ttl_us: int, revision: int) -> None:
        self.lease = lease
        self.granted = lease.fence
        self.ttl_us = ttl_us
        self.revision = revision
        self.lost: Exception | None = None
        self.released = False
        self.ended = False

    @property
    def session(self) -> str:
        return self.lease.session

    @property
    def owner(self) -> str:
        return self.lease.owner

    @property
    def token(self) -> str:
        return self.lease.token

    @property
    def fence(self) -> int:
        return self.lease.fence

    @property
    def expires_us(self) -> int:
        return self.lease.expires_us

    def __repr__(self) -> str:
        return f"<Held {self.session} fence {self.fence}{' (lost)' if self.lost else ''}>"


AnyLease: TypeAlias = Lease | Held
