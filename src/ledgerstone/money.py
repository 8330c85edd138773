"""Money as people read it."""

from __future__ import annotations

NANO = 10**9


def in_units(nano: int) -> str:
    """Nano-units as decimals of the whole unit, exact, with at least two: 0.0013."""
    whole, rest = divmod(abs(nano), NANO)
    decimals = f"{rest:09d}".rstrip("0")
    return f"{'-' if nano < 0 else ''}{whole}.{decimals:0<2}"
