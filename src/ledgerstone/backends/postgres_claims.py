"""Which batches this process claimed, so that completing them needs no question beforehand.

Nothing here is trusted: the server counts the batches of a claim before it completes it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from ledgerstone.records.work import Claim
from ledgerstone.sql.tx import Row

CLAIMS_MAX = 4096
PLACES_MAX = 256
"""Claims of more batches are looked up when they are completed."""

ClaimKey = tuple[str, str, str]
"""Tenant, session and claim."""


class Claims:
    """The claims that were made last; any thread may ask."""

    def __init__(self, claims_max: int = CLAIMS_MAX) -> None:
        self._lock = threading.Lock()
        self._places: OrderedDict[ClaimKey, list[Row]] = OrderedDict()
        self._claims_max = claims_max

    def note(self, tenant: str, claim: Claim) -> None:
        """A claim as the server just answered it."""
        if len(claim.batches) > PLACES_MAX:
            return
        places: list[Row] = [
            (batch.claim_fence, batch.queue, claim.token) for batch in claim.batches
        ]
        with self._lock:
            self._places[tenant, claim.session, claim.id] = places
            if len(self._places) > self._claims_max:
                self._places.popitem(last=False)

    def places(self, key: ClaimKey) -> list[Row] | None:
        """Fence, queue and token of each batch, as `claim_places` has them; None when not known."""
        return self._places.get(key)

    def forget(self, key: ClaimKey) -> None:
        with self._lock:
            self._places.pop(key, None)
