"""Which batches this process claimed, so that completing them needs no question beforehand.

Nothing here is trusted: the server counts the batches of a claim before it completes it.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from ledgerstone.rules.work import WorkRow

CLAIMS_MAX = 4096
BYTES_MAX = 32 * 1024 * 1024
"""Of payloads; older claims are looked up when they are completed."""

ClaimKey = tuple[str, str, str]
"""Tenant, session and claim."""


class Claims:
    """The claims that were made last; any thread may ask."""

    def __init__(self, claims_max: int = CLAIMS_MAX, bytes_max: int = BYTES_MAX) -> None:
        self._lock = threading.Lock()
        self._batches: OrderedDict[ClaimKey, list[WorkRow]] = OrderedDict()
        self._bytes = 0
        self._claims_max = claims_max
        self._bytes_max = bytes_max

    def note(self, key: ClaimKey, batches: list[WorkRow]) -> None:
        """A claim as the server just answered it."""
        with self._lock:
            self._bytes -= _size(self._batches.pop(key, []))
            self._batches[key] = batches
            self._bytes += _size(batches)
            while self._bytes > self._bytes_max or len(self._batches) > self._claims_max:
                self._bytes -= _size(self._batches.popitem(last=False)[1])

    def batches(self, key: ClaimKey) -> list[WorkRow] | None:
        """The batches of a claim; None when it is not known."""
        return self._batches.get(key)


def _size(batches: list[WorkRow]) -> int:
    return sum([len(batch.payloads) for batch in batches])
