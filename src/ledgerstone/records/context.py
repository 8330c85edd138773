"""The context: what of a conversation is sent to the model now."""

from __future__ import annotations

import msgspec

from ledgerstone.records.messages import Message


class Prune(msgspec.Struct, frozen=True, kw_only=True):
    """How old tool outputs are left out of what is sent; what is stored stays as it is.

    Outputs older than the newest `protect_tokens` become the placeholder, unless that saves less
    than `min_saved_tokens` in all. Outputs of `keep_tools` are never touched.
    """

    protect_tokens: int = 40_000
    min_saved_tokens: int = 20_000
    keep_tools: tuple[str, ...] = ("skill",)
    placeholder: str = "[removed to save context]"


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """Leading system messages, the summary of what was compacted, and the messages since.

    `compaction` is the request that the summary answers. `pruned` are the ids of messages whose
    tool outputs were replaced, `dropped` is how many messages did not fit, and `complete` says
    that neither happened.
    """

    messages: list[Message] = []
    summary: Message | None = None
    compaction: Message | None = None
    tokens: int = 0
    pruned: list[str] = []
    dropped: int = 0
    complete: bool = True

    @property
    def snapshot(self) -> str | None:
        """The summary's id: what the input of a run calls its `compacted_snapshot`."""
        return None if self.summary is None else self.summary.id


class ContextRows(msgspec.Struct, frozen=True, kw_only=True):
    """What a backend reads for a context: `system` stands before the tail, if anything does."""

    system: list[Message] = []
    request: Message | None = None
    summary: Message | None = None
    tail: list[Message] = []


class CompactionPoint(msgspec.Struct, frozen=True, kw_only=True):
    """Where a compaction goes on: the request before it, and whether its tail is on the path."""

    newest: Message | None = None
    on_path: bool = True
