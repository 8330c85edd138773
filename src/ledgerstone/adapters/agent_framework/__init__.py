"""Microsoft Agent Framework on a ledger: the history of agents, and checkpoints of workflows.

    agent = Agent(client, context_providers=[LedgerHistoryProvider(store)],
                  middleware=[LedgerToolMiddleware(store)])
    workflow = WorkflowBuilder(..., checkpoint_storage=LedgerCheckpointStorage(store)).build()

The store is open, sync or async. Nothing is pickled: what is not JSON is stored by a name it
was registered with, or refused. Needs the extra: pip install "ledgerstone[agent-framework]".
"""

from __future__ import annotations

from ledgerstone.adapters.versions import require

require("agent-framework-core", (1, 23), (2,), "agent-framework")

from ledgerstone.adapters.agent_framework.checkpoints import LedgerCheckpointStorage  # noqa: E402
from ledgerstone.adapters.agent_framework.history import LedgerHistoryProvider  # noqa: E402
from ledgerstone.adapters.agent_framework.tools import LedgerToolMiddleware  # noqa: E402

__all__ = ["LedgerCheckpointStorage", "LedgerHistoryProvider", "LedgerToolMiddleware"]
