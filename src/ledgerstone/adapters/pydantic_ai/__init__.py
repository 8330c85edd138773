"""Pydantic AI on a ledger: conversations, steps, media and durable execution.

    conversations = LedgerConversationStore(store)      # a pydantic_ai ConversationStore
    durability = LedgerDurability(store)                # Agent(..., capabilities=[durability])

    talks = LedgerSavedConversations(store)             # instead of SqliteConversationStore(...)
    steps = LedgerStepStore(store)                      # StepPersistence(store=steps)
    media = LedgerMediaStore(store)                     # wherever a MediaStore is asked for

The store is open, sync or async. Needs the extra: pip install "ledgerstone[pydantic-ai]", for
the second three "ledgerstone[pydantic-ai-harness]".
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ledgerstone.adapters.versions import require

if TYPE_CHECKING:
    from ledgerstone.adapters.pydantic_ai.conversation_store import LedgerConversationStore
    from ledgerstone.adapters.pydantic_ai.durable import LedgerDurability
    from ledgerstone.adapters.pydantic_ai.heads import StoredConversation
    from ledgerstone.adapters.pydantic_ai.media import LedgerMediaStore
    from ledgerstone.adapters.pydantic_ai.saved_conversations import LedgerSavedConversations
    from ledgerstone.adapters.pydantic_ai.steps import LedgerStepStore

__all__ = [
    "LedgerConversationStore",
    "LedgerDurability",
    "LedgerMediaStore",
    "LedgerSavedConversations",
    "LedgerStepStore",
    "StoredConversation",
]

EXTRA = "pydantic-ai"
HARNESS_EXTRA = "pydantic-ai-harness"
require("pydantic-ai-slim", (2, 62), (3,), EXTRA)

# The harness asks for a version of its own, so each name is imported when it is asked for.
_HOMES = {
    "LedgerConversationStore": "conversation_store",
    "LedgerDurability": "durable",
    "LedgerMediaStore": "media",
    "LedgerSavedConversations": "saved_conversations",
    "LedgerStepStore": "steps",
    "StoredConversation": "heads",
}
_WITHOUT_HARNESS = ("LedgerConversationStore", "LedgerDurability")


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if name not in _WITHOUT_HARNESS:
        require("pydantic-ai-harness", (0, 62), (1,), HARNESS_EXTRA)
    if name == "LedgerConversationStore":
        require("pydantic-ai-slim", (2, 66), (3,), EXTRA)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
