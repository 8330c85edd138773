"""A session that makes its own history shorter when the SDK says it is time to look."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeAlias

from ledgerstone.adapters.faces import AnyStore
from ledgerstone.adapters.openai_agents.history import LIMIT_MAX
from ledgerstone.adapters.openai_agents.session import LedgerSession
from ledgerstone.adapters.openai_agents_items import Item

Compact: TypeAlias = Callable[[list[Item]], Awaitable[list[Item] | None] | list[Item] | None]


class CompactingLedgerSession(LedgerSession):
    """A LedgerSession with a summariser of your own, of any model.

    `compact(items)` is asked after a run's answer was stored, unless a call waits for its result.
    It returns the items that shall stand for the history from then on, or None to leave it. To
    have OpenAI do it, wrap a plain LedgerSession in the SDK's OpenAIResponsesCompactionSession
    instead.
    """

    def __init__(
        self, store: AnyStore, session_id: str, *, compact: Compact, **options: Any
    ) -> None:
        super().__init__(store, session_id, **options)
        self._compact = compact

    async def run_compaction(self, args: Any = None, *, wrapper: object = None) -> None:
        """Ask for shorter items and put them in place; what was written meanwhile wins."""
        snapshot = await self._get_compaction_snapshot(LIMIT_MAX)
        if not snapshot.items or _waits(snapshot.items):
            return
        answer = self._compact([dict(item) for item in snapshot.items])
        shorter = await answer if isawaitable(answer) else answer
        if shorter is not None:
            await snapshot.replace_suffix(0, shorter)


def _waits(items: list[Item]) -> bool:
    """Whether a call since the last input has no result yet, as when somebody is asked about it.

    Its result will be told, and means nothing without the call.
    """
    told: set[object] = {None}
    for item in reversed(items):
        kind = str(item.get("type"))
        if item.get("role") == "user":
            break
        if kind.endswith(("_output", "_response")):
            told.update((item.get("call_id"), item.get("approval_request_id")))
        elif item.get("id" if kind == "mcp_approval_request" else "call_id") not in told:
            return True
    return False
