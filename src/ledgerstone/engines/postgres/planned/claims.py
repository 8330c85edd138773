"""Which batches this process claimed, so that completing them needs no question beforehand.

Nothing here is trusted: the server counts the batches of a claim before it completes it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

import msgspec

from ledgerstone.records.work import Claim

CLAIMS_MAX = 4096
BATCHES_MAX = 256
"""Claims of more batches are looked up when they are completed."""

ClaimKey = tuple[str, str, str]
"""Tenant, session and claim."""


class ClaimedBatch(msgspec.Struct, frozen=True, gc=False):
    """What is known of a batch in a claim: what it is found by."""

    seq: int
    queue: str
    priority: int
    claim: str
    claim_fence: int
    claim_token: str


class Claims:
    """The claims that were made last; any thread may ask."""

    def __init__(self, claims_max: int = CLAIMS_MAX) -> None:
        self._lock = threading.Lock()
        self._batches: OrderedDict[ClaimKey, list[ClaimedBatch]] = OrderedDict()
        self._claims_max = claims_max

    def note(self, tenant: str, claim: Claim) -> None:
        """A claim as the server just answered it."""
        if len(claim.batches) > BATCHES_MAX:
            return
        batches = [
            ClaimedBatch(
                one.enqueue_seq, one.queue, one.priority, claim.id, one.claim_fence, claim.token
            )
            for one in claim.batches
        ]
        with self._lock:
            self._batches[tenant, claim.session, claim.id] = batches
            if len(self._batches) > self._claims_max:
                self._batches.popitem(last=False)

    def batches(self, key: ClaimKey) -> list[ClaimedBatch] | None:
        """The batches of a claim; None when it is not known."""
        return self._batches.get(key)
