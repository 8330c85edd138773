"""Google ADK on Ledgerstone: sessions, artifacts and memory of agents.

    store = Store.open("agent.db")
    runner = Runner(
        agent=agent,
        app_name="trips",
        session_service=LedgerSessionService(store),
        artifact_service=LedgerArtifactService(store),
        memory_service=LedgerMemoryService(store),
    )

For the `adk` command, `register()` in services.py makes ledgerstone:///agent.db a service uri.
Needs the extra: pip install "ledgerstone[adk]".
"""

from __future__ import annotations

from ledgerstone.adapters.versions import require

try:
    import google.adk  # noqa: F401 - asked for here, so that the error can say what is missing
except ImportError as error:
    raise ImportError(
        'ledgerstone.adapters.adk needs google-adk: pip install "ledgerstone[adk]"'
    ) from error

require("google-adk", (2, 13), (3,), "adk")

from ledgerstone.adapters.adk.artifacts import LedgerArtifactService  # noqa: E402
from ledgerstone.adapters.adk.keys import store_id  # noqa: E402
from ledgerstone.adapters.adk.memory import LedgerMemoryService  # noqa: E402
from ledgerstone.adapters.adk.registry import register  # noqa: E402
from ledgerstone.adapters.adk.sessions import LedgerSessionService  # noqa: E402

__all__ = [
    "LedgerArtifactService",
    "LedgerMemoryService",
    "LedgerSessionService",
    "register",
    "store_id",
]
