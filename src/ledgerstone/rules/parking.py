"""Batches that wait for a decision about an execution."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from ledgerstone.rules.work import PARKED, PARKED_FENCE, PARKED_US, WorkRow, freed


def claim_of(execution: str) -> str:
    """What stands in the place of a claim while a batch waits for an execution."""
    return PARKED + execution


def parked(row: WorkRow, execution: str, now_us: int) -> WorkRow:
    """The batch while it waits for a decision about an execution; the attempt did not count."""
    return replace(
        freed(row),
        attempts=row.attempts - 1,
        available_us=PARKED_US,
        claim=claim_of(execution),
        claim_fence=PARKED_FENCE,
        claimed_us=now_us,
    )


def woken(row: WorkRow, now_us: int) -> WorkRow:
    """The batch after the decision: free again, in its old place."""
    return replace(freed(row), available_us=now_us)


def is_behind(row: WorkRow, parked: Iterable[WorkRow]) -> bool:
    """Whether a batch stands behind one that waits for a decision, and so waits with it."""
    return any(one.place < row.place for one in parked)
