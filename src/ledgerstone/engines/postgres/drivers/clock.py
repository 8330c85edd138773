"""The database's time, as this process knows it between two answers of the server."""

from __future__ import annotations

from ledgerstone.clock import US_PER_S, Clock, SystemClock, monotonic_s

TRUSTED_S = 20.0
WINDOW_S = 5.0
"""A clock that is set back on the server is followed within two of these."""


class ServerClock:
    """Follows what the server said last by the local clock that never jumps.

    It plans and reads by this time; leases and claims are judged by the server itself. A clock
    that was handed in stands in for the server's: tests do that.
    """

    def __init__(self, stand_in: Clock | None) -> None:
        self.stand_in = stand_in
        self._offset_us: int | None = None
        self._best_us = self._before_us = -(2**62)
        self._began_s = self._heard_s = -TRUSTED_S

    def now_us(self) -> int:
        if self.stand_in is not None:
            return self.stand_in.now_us()
        if self._offset_us is None:
            return SystemClock().now_us()
        return round(monotonic_s() * US_PER_S) + self._offset_us

    def is_fresh(self) -> bool:
        """Whether the server told its time not long ago."""
        return self.stand_in is not None or monotonic_s() - self._heard_s < TRUSTED_S

    def given_us(self) -> int | None:
        """What a statement is told: None where the server asks its own clock."""
        return None if self.stand_in is None else self.stand_in.now_us()

    def seen(self, server_us: int) -> None:
        """An answer of the server told its time, a moment ago.

        How long ago nobody knows: an answer is a lower bound, and the greatest of the last few
        seconds is the best of them. So this time is never ahead of the server's.
        """
        now_s = self._heard_s = monotonic_s()
        offset_us = server_us - round(now_s * US_PER_S)
        if now_s - self._began_s > WINDOW_S:
            recent = now_s - self._began_s < 2 * WINDOW_S
            self._before_us = self._best_us if recent else offset_us
            self._best_us, self._began_s = offset_us, now_s
        self._best_us = max(self._best_us, offset_us)
        self._offset_us = max(self._best_us, self._before_us)
