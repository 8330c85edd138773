"""LedgerHooks: what each model call used is kept as soon as it was used."""

from __future__ import annotations

from typing import Any

from agents import RunHooks

from ledgerstone.adapters.openai_agents import usage
from ledgerstone.adapters.openai_agents.session import LedgerSession


class LedgerHooks(RunHooks[Any]):
    """For `hooks=` of a Runner method: records usage response by response, per model.

    So a run that fails half way has its first half on the books. `model` names the model where
    the agents do not, as with RunConfig(model=...). Derive from it to add hooks of your own.
    """

    def __init__(self, session: LedgerSession, *, model: str | None = None) -> None:
        self._session = session
        self._model = model

    async def on_llm_end(self, context: Any, agent: Any, response: Any) -> None:
        """The SDK calls this after each answer of a model."""
        name = self._model or usage.model_name(agent)
        await self._session.keep_usage(usage.entry(response, name))
