"""A worker: finds sessions that have work, and calls your handler for each.

    async def handler(context):
        for payload in context.payloads:
            context.turn.assistant(f"did {payload}")

    await Worker(store, handler).run()

What the handler adds to `context.turn` is committed when it returns, in one transaction with the
end of the work: both happen or neither does. See docs/runs-and-work.md.
"""

from __future__ import annotations

from ledgerstone.worker.context import BlockingContext, Bury, Context, Later
from ledgerstone.worker.worker import Worker

__all__ = ["BlockingContext", "Bury", "Context", "Later", "Worker"]
