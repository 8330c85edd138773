"""The database's time, as this process knows it between two answers of the server."""

from __future__ import annotations

from ledgerstone.clock import US_PER_S, Clock, SystemClock, monotonic_s


class ServerClock:
    """Follows what the server said last by the local clock that never jumps.

    It plans and reads by this time; leases and claims are judged by the server itself. A clock
    that was handed in stands in for the server's: tests do that.
    """

    def __init__(self, stand_in: Clock | None) -> None:
        self.stand_in = stand_in
        self._offset_us: int | None = None

    def now_us(self) -> int:
        if self.stand_in is not None:
            return self.stand_in.now_us()
        if self._offset_us is None:
            return SystemClock().now_us()
        return round(monotonic_s() * US_PER_S) + self._offset_us

    def given_us(self) -> int | None:
        """What a statement is told: None where the server asks its own clock."""
        return None if self.stand_in is None else self.stand_in.now_us()

    def seen(self, server_us: int) -> None:
        """An answer of the server told its time, a moment ago."""
        self._offset_us = server_us - round(monotonic_s() * US_PER_S)
