"""What is stored: frozen records, one file per noun."""

from __future__ import annotations

from datetime import datetime

from ledgerstone.clock import to_datetime


class Created:
    """A record with a time at which it was made."""

    __slots__ = ()
    created_us: int

    @property
    def created_at(self) -> datetime:
        return to_datetime(self.created_us)
