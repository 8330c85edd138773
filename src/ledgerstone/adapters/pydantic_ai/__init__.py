"""Pydantic AI on a ledger: conversations, steps, media and durable execution.

    conversations = LedgerConversationStore(store)      # instead of SqliteConversationStore(...)
    steps = LedgerStepStore(store)                      # StepPersistence(store=steps)
    media = LedgerMediaStore(store)                     # wherever a MediaStore is asked for
    durability = LedgerDurability(store)                # Agent(..., capabilities=[durability])

The store is open and of either colour. Needs the extra: pip install "ledgerstone[pydantic-ai]".
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ledgerstone.adapters.versions import require

if TYPE_CHECKING:
    from ledgerstone.adapters.pydantic_ai.conversations import LedgerConversationStore
    from ledgerstone.adapters.pydantic_ai.durable import LedgerDurability
    from ledgerstone.adapters.pydantic_ai.heads import StoredConversation
    from ledgerstone.adapters.pydantic_ai.media import LedgerMediaStore
    from ledgerstone.adapters.pydantic_ai.steps import LedgerStepStore

__all__ = [
    "LedgerConversationStore",
    "LedgerDurability",
    "LedgerMediaStore",
    "LedgerStepStore",
    "StoredConversation",
]

EXTRA = "pydantic-ai"
require("pydantic-ai-slim", (2, 62), (3,), EXTRA)

# Durable execution needs no harness, so each name is imported when it is asked for.
_HOMES = {
    "LedgerConversationStore": "conversations",
    "LedgerDurability": "durable",
    "LedgerMediaStore": "media",
    "LedgerStepStore": "steps",
    "StoredConversation": "heads",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name != "LedgerDurability":
        require("pydantic-ai-harness", (0, 62), (1,), EXTRA)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
