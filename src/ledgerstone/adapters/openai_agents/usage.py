"""What model calls used, as entries of the store's ledger; LedgerHooks keeps it as they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agents import RunHooks
from agents.models.default_models import get_default_model

from ledgerstone import ids
from ledgerstone.adapters.openai_agents.history import BranchHistory
from ledgerstone.adapters.sync_async import of
from ledgerstone.errors import SessionNotFound, TurnConflict
from ledgerstone.records.usage import Usage

if TYPE_CHECKING:
    from ledgerstone.adapters.openai_agents.session import LedgerSession

SOURCE = "openai-agents"


@dataclass(frozen=True)
class Entry:
    """One model call; `response_id` makes recording it repeatable."""

    model: str
    usage: Usage
    response_id: str | None


def entries(result: Any, model: str | None) -> list[Entry]:
    """The calls of a run, each with the model of the agent that made it."""
    made_by = {id(item.raw_item): item.agent for item in result.new_items}
    found = []
    for response in result.raw_responses:
        agents = [made_by[id(one)] for one in response.output if id(one) in made_by]
        agent = agents[0] if agents else result.last_agent
        found.append(entry(response, model or model_name(agent)))
    return found


def entry(response: Any, model: str) -> Entry:
    """A response's usage in our words."""
    used = response.usage
    taken, given = used.input_tokens_details, used.output_tokens_details
    usage = Usage(
        input=used.input_tokens,
        output=used.output_tokens,
        cached_input=getattr(taken, "cached_tokens", 0) or 0,
        cache_write=getattr(taken, "cache_write_tokens", 0) or 0,
        reasoning=getattr(given, "reasoning_tokens", 0) or 0,
        total=used.total_tokens,
    )
    return Entry(model, usage, response.response_id)


def model_name(agent: Any) -> str:
    """The model that an agent names; the SDK's default when it names none."""
    model = getattr(agent, "model", None)
    if model is None:
        return get_default_model()
    if isinstance(model, str):
        return model
    name = getattr(model, "model", None)
    return name if isinstance(name, str) and name else type(model).__name__


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
        name = self._model or model_name(agent)
        await self._session.keep_usage(entry(response, name))


async def record(history: BranchHistory, given: Entry) -> None:
    """One commit; a call that was recorded before is not recorded again."""
    name = None
    if given.response_id:
        # With the numbers: a provider that gives all its responses one id must not lose calls.
        used = given.usage
        counts = f"{used.input} {used.output} {used.total_tokens}"
        name = ids.derive("openai.usage", history.session, given.response_id, counts)
    try:
        await _record(history, given, name)
    except SessionNotFound:
        await history.ensure()
        await _record(history, given, name)
    except TurnConflict:
        return  # The same response, under another name of its model.


async def _record(history: BranchHistory, given: Entry, name: str | None) -> None:
    await of(
        history.store.usage.record(
            history.session,
            given.model,
            given.usage,
            source=SOURCE,
            id=name,
            over_budget=True,
            lease=history.lease,
        )
    )
