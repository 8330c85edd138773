"""After a backup was restored: fences that were granted since must not be granted again."""

from __future__ import annotations

from ledgerstone.commands import Command


class RaiseFence(Command[int], frozen=True, kw_only=True):
    """End the lease of a session and lift its fence; answers the new one. SessionNotFound."""

    session: str
    jump: int


class RaiseFloor(Command[int], frozen=True, kw_only=True):
    """The same for sessions that are gone or to come; answers where a new session begins."""

    jump: int
