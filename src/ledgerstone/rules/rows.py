"""The head row: everything that every commit checks and moves, one narrow row per session."""

from __future__ import annotations

from functools import cache
from typing import Any, TypeVar

import msgspec

from ledgerstone.records.leases import Lease

R = TypeVar("R", bound=msgspec.Struct)

GENESIS = bytes(32)
"""What the first turn of a session is linked to."""
RECENCY_SHIFT = 17
"""Lists are ordered through an index over updated_us >> 17 (131 ms): a busy session moves in that
index at most once per bucket, and rows of one bucket are sorted by the exact time."""


class HeadRow(msgspec.Struct, gc=False):
    """One session's head. Ords are positions in commit order, 0 means none.

    leaf     where `main` stands as stored     tip   its nearest live ancestor, or itself
    ord      the last ord given out            live  nodes that are not tombstoned
    messages, users, first_user                of main's path: counts, and the first user message
    branched 1 once a node's parent was not its predecessor (then paths are walked, not ranged)
    named    how many branches besides main    amended  how many amendments exist
    runs     how many runs the session knows   enqueued the last queue position given out
    """

    number: int
    incarnation: int = 1
    deleted_us: int | None = None
    revision: int = 0
    ord: int = 0
    leaf: int = 0
    tip: int = 0
    tip_seq: int = 0
    messages: int = 0
    users: int = 0
    first_user: int = 0
    live: int = 0
    branched: int = 0
    named: int = 0
    amended: int = 0
    fence: int = 0
    owner: str | None = None
    token: str | None = None
    claimed_us: int = 0
    expires_us: int = 0
    updated_us: int = 0
    link: bytes = GENESIS
    active_run: str | None = None
    open_run: str | None = None
    latest_run: str | None = None
    ledger: bytes | None = None
    checkpoint: str | None = None
    runs: int = 0
    enqueued: int = 0

    def lease(self, session: str) -> Lease | None:
        """The lease in the row, live or not; None when nobody holds it."""
        if self.owner is None or self.token is None:
            return None
        return Lease(session, self.owner, self.token, self.fence, self.claimed_us, self.expires_us)

    def moment(self, now_us: int) -> int:
        """The time of the next change: now, but always later than the one before."""
        return max(now_us, self.updated_us + 1)


class UsageDay(msgspec.Struct, frozen=True, gc=False):
    """What was used on one day, under one key of `usage_days`; its fields in column order."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cached_input: int = 0
    cache_write: int = 0
    reasoning: int = 0
    total: int = 0
    cost_nano: int = 0

    def __add__(self, other: UsageDay) -> UsageDay:
        mine, theirs = msgspec.structs.astuple(self), msgspec.structs.astuple(other)
        return UsageDay(*(a + b for a, b in zip(mine, theirs, strict=True)))


def record_of(kind: type[R], source: msgspec.Struct, /, **others: Any) -> R:
    """A record of this kind: `others`, and what the source has under the same names."""
    names = _shared_names(kind, type(source))
    return kind(**{name: getattr(source, name) for name in names} | others)


@cache
def _shared_names(kind: type[msgspec.Struct], other: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name in other.__struct_fields__)
