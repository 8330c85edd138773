"""After a backup was restored: fences that were granted since must not be granted again."""

from __future__ import annotations

from ledgerstone.commands import Command


class RaiseFences(Command[int], frozen=True, kw_only=True):
    """End every lease of the tenant and raise every fence; answers how many sessions there are.

    Sessions that are gone or to come are raised too. With a session, only that one; with "", only
    those that are gone or to come: a backend with a file per session takes it in such pieces.
    """

    jump: int
    session: str | None = None
