"""Sessions of the OpenAI Agents SDK, kept in a store.

    session = LedgerSession(store, "trip-1")
    result = await Runner.run(agent, "Book Oslo", session=session)

Needs the extra: pip install "ledgerstone[openai-agents]".
"""

from __future__ import annotations

from ledgerstone.adapters.versions import require

require("openai-agents", (0, 20), (0, 25), "openai-agents")

from ledgerstone.adapters.openai_agents.session import (  # noqa: E402
    CompactingLedgerSession,
    LedgerSession,
)
from ledgerstone.adapters.openai_agents.usage import LedgerHooks  # noqa: E402

__all__ = ["CompactingLedgerSession", "LedgerHooks", "LedgerSession"]
