"""Who may take, renew and release a session (contract D15)."""

from __future__ import annotations

from ledgerstone.codec import encode_json
from ledgerstone.commands.leases import BreakLease, ReleaseLease, RenewLease, TakeLease
from ledgerstone.errors import Fenced, LeaseExpired, LeaseMoved
from ledgerstone.records.leases import Lease
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.rows import HeadRow

FLOOR_STUB = ""
"""The stub of no session: after a restore it says which fence new sessions begin with."""


def take(head: HeadRow, command: TakeLease, now_us: int) -> bool:
    """Grant the lease in the row; False while another owner's lease lives.

    The same owner gets a new fence too, unless it asks to re-enter: a restarted worker must not
    share a fence with its former self.
    """
    if is_live(head, now_us):
        if head.token == command.token:
            return True
        if head.owner != command.owner:
            return False
        if command.reenter:
            head.expires_us = max(head.expires_us, now_us + command.ttl_us)
            return True
    head.fence += 1
    head.owner, head.token = command.owner, command.token
    head.claimed_us, head.expires_us = now_us, now_us + command.ttl_us
    return True


def renew(head: HeadRow, command: RenewLease, now_us: int) -> None:
    """Extend the exact, unexpired lease."""
    if command.fence != head.fence:
        raise Fenced(command.session, command.fence, head.fence)
    if not holds(head, command) or not is_live(head, now_us):
        raise LeaseExpired(command.session, command.fence)
    head.expires_us = max(head.expires_us, now_us + command.ttl_us)


def holds(head: HeadRow, command: RenewLease | ReleaseLease) -> bool:
    """Whether this very grant stands in the row, expired or not."""
    return (head.owner, head.token, head.fence) == (command.owner, command.token, command.fence)


def break_(head: HeadRow, command: BreakLease, now_us: int) -> Lease | None:
    """End the lease that lives and fence its holder off; answers which one it was.

    Conflict when the caller means an older one, or a fence that was never given.
    """
    if not is_live(head, now_us):
        return None
    if command.fence is not None and command.fence != head.fence:
        raise LeaseMoved(command.session, command.fence, head.fence)
    broken = head.lease(command.session)
    head.fence += 1
    clear(head)
    return broken


def break_note(command: BreakLease, broken: Lease) -> bytes:
    """What is kept of a broken lease."""
    said = {"by": command.by, "reason": command.reason}
    return encode_json({**said, "owner": broken.owner, "fence": broken.fence}, "reason")


def clear(head: HeadRow) -> None:
    """Nobody holds the session; the fence stays, so that it can only rise."""
    head.owner = head.token = None
    head.claimed_us = head.expires_us = 0
