"""A draft: an answer that is still being streamed, kept while it grows."""

from __future__ import annotations

from typing import Any

import msgspec

DRAFT_PREFIX = "ledger.draft/"


class DraftRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of an unfinished message after its writer died."""

    session: str
    id: str
    text: str
    role: str = "assistant"
    owner: str = ""
    fields: dict[str, Any] = {}
    chunks: int = 0
    created_us: int = 0
    updated_us: int = 0

    def __repr__(self) -> str:
        return f"<Draft {self.id}, {len(self.text)} characters>"
