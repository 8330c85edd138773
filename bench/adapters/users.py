"""Who owns the sessions of a store in which sessions are listed."""

from __future__ import annotations

from typing import Final

EACH: Final = 50
"""Sessions of one user, however many users there are."""
FIRST: Final = "ada"


def user_of(number: int) -> str:
    """The first user has the first sessions."""
    return FIRST if number < EACH else f"user-{number // EACH:05d}"
