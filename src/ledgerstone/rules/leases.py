"""Who may take, renew and release a session (contract D15)."""

from __future__ import annotations

from ledgerstone.commands.leases import ReleaseLease, RenewLease, TakeLease
from ledgerstone.errors import Fenced, LeaseExpired
from ledgerstone.rules.guard import is_live
from ledgerstone.rules.rows import HeadRow

FLOOR_STUB = ""
"""The stub of no session: after a restore it says which fence new sessions begin with."""


def take(head: HeadRow, command: TakeLease, now_us: int) -> bool:
    """Grant the lease in the row; False while another owner's lease lives."""
    if is_live(head, now_us):
        if head.token == command.token:
            return True
        if head.owner != command.owner:
            return False
        if not command.fresh:
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


def clear(head: HeadRow) -> None:
    """Nobody holds the session; the fence stays, so that it can only rise."""
    head.owner = head.token = None
    head.claimed_us = head.expires_us = 0
