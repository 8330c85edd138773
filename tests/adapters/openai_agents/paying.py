"""An agent that pays only when somebody says so."""

from __future__ import annotations

from typing import Any

from agents import Agent, Runner, function_tool

from ledgerstone.adapters.openai_agents import LedgerSession
from tests.adapters.openai_agents.scripted import Scripted, call, say


class Desk:
    """An agent that pays only when somebody says so; every call is counted."""

    def __init__(self, session: LedgerSession, *answers: list[Any], once: bool = True) -> None:
        self.paid: list[int] = []

        @function_tool(needs_approval=True)
        def pay(eur: int) -> str:
            """Pay."""
            self.paid.append(eur)
            return f"paid {eur}"

        tool = session.once(pay) if once else pay
        self.agent = Agent(name="desk", model=Scripted(*answers), tools=[tool])
        self.session = session

    async def start(self, given: str = "Pay") -> Any:
        return await Runner.run(self.agent, given, session=self.session)

    async def resume(self, **how: Any) -> Any:
        state = await self.session.load_state(self.agent, **how)
        assert state is not None
        return await Runner.run(self.agent, state, session=self.session)

    def outputs(self) -> list[Any]:
        """What the model was told about its calls, in its last question."""
        model = self.agent.model
        assert isinstance(model, Scripted)
        return [one["output"] for one in model.asked[-1] if "output" in one]


PAY = [call("pay", {"eur": 120}, "c1")]
PAY_TWO = [call("pay", {"eur": 120}, "c1"), call("pay", {"eur": 7}, "c2")]
DONE = [say("Done.")]
