"""What a commit keeps besides its messages: bytes, evidence and memories."""

from __future__ import annotations

from tests.oracle.model.artifacts import put_in_commit
from tests.oracle.model.attachments import attach_blobs
from tests.oracle.model.commits import Commit
from tests.oracle.model.evidence import append_in_commit
from tests.oracle.model.memories import remember_in_commit


def keep(commit: Commit) -> None:
    """In the order that lets each refer to the one before."""
    command = commit.command
    if command.blobs:
        attach_blobs(commit)
    if command.artifacts:
        put_in_commit(commit)
    if command.traces or command.reports:
        append_in_commit(commit)
    if command.memories:
        remember_in_commit(commit)
