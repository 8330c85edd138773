"""The one rule of ownership that every session write obeys (contract D9)."""

from __future__ import annotations

from ledgerstone.commands import Guard
from ledgerstone.errors import (
    Fenced,
    IncarnationMoved,
    LeaseExpired,
    LeaseHeld,
    RevisionMoved,
    SessionDeleted,
)
from ledgerstone.rules.rows import HeadRow


def is_live(head: HeadRow, now_us: int) -> bool:
    """Whether somebody holds the session now."""
    return head.owner is not None and head.expires_us > now_us


def check_alive(session: str, head: HeadRow) -> None:
    """A soft-deleted session takes no writes."""
    if head.deleted_us is not None:
        raise SessionDeleted(session)


def check_guard(
    session: str, head: HeadRow, guard: Guard, now_us: int, *, made: bool = False
) -> None:
    """Fence first, then incarnation and revision; raises what the caller must react to.

    `made`: the write itself made the session, so that none was there before.
    """
    check_fence(session, head, guard, now_us)
    if guard.incarnation is not None:
        check_incarnation(session, 0 if made else head.incarnation, guard.incarnation)
    if guard.revision is not None and guard.revision != head.revision:
        raise RevisionMoved(guard.revision, head.revision, session)


def check_incarnation(session: str, actual: int, expected: int) -> None:
    """The session of this id must be the one that the caller saw."""
    if actual != expected:
        raise IncarnationMoved(expected, actual, session)


def check_fence(session: str, head: HeadRow, guard: Guard, now_us: int) -> None:
    """With a fence it must be the current, live one; without, nobody may hold the session."""
    if guard.fence is None:
        if is_live(head, now_us):
            raise LeaseHeld(session, head.owner or "", head.expires_us)
        return
    if guard.fence != head.fence or (head.owner is not None and guard.token != head.token):
        raise Fenced(session, guard.fence, head.fence)
    if not is_live(head, now_us):
        raise LeaseExpired(session, guard.fence)
