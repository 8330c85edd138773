"""What is read to talk to a model, and to compact what was said."""

from __future__ import annotations

from ledgerstone.commands import SessionQuery
from ledgerstone.records.context import CompactionPoint, ContextRows


class ReadContext(SessionQuery[ContextRows], frozen=True, kw_only=True):
    """The newest compaction of a path that has its summary, the tail since, and the systems.

    The path ends at `at`, or at the leaf of `branch`. Without a compaction the tail is all of it.
    """

    branch: str = "main"
    at: str | None = None


class FindCompaction(SessionQuery[CompactionPoint | None], frozen=True, kw_only=True):
    """The newest compaction request of a branch (None: of the session), summary or not.

    And, with a branch, whether `tail_start` is a live message of its path. None: no such session
    or branch.
    """

    branch: str | None = None
    tail_start: str | None = None
