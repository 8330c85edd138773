"""ADK's workflows live by their events: they stop for a person and go on from the store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from google.adk.events.event import Event
from google.adk.events.event_actions import EventActions
from google.adk.events.request_input import RequestInput
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.workflow import START, Workflow
from google.genai import types

from ledgerstone.adapters.adk import LedgerSessionService
from tests.adapters.adk.scripted import KEY, asks, on


async def play(service: Any, renewed: Any) -> list[Any]:
    """A workflow that asks for a word, and goes on with it, maybe in another process."""
    ran: list[str] = []

    def first(node_input: Any) -> Event:
        ran.append("first")
        actions = EventActions(state_delta={"seen": "first"})
        return Event(output={"sum": 2.5, "list": [1, None]}, actions=actions)

    async def ask(node_input: Any) -> AsyncIterator[Any]:
        ran.append("ask")
        yield RequestInput.model_validate({"interrupt_id": "word", "message": "Which word?"})

    def last(node_input: Any) -> str:
        ran.append("last")
        return f"got {node_input}"

    flow = Workflow(name="flow", edges=[(START, first, ask, last)])

    async def go(sessions: Any, message: types.Content) -> list[Any]:
        runner = Runner(app_name=KEY["app_name"], node=flow, session_service=sessions)
        loop = runner.run_async(user_id=KEY["user_id"], session_id="s", new_message=message)
        return [(one.author, one.node_info.path, one.output) async for one in loop]

    await service.create_session(**KEY, session_id="s")
    log: list[Any] = [await go(service, asks("go"))]
    kept = await renewed.get_session(**KEY, session_id="s")
    call = next(call for one in kept.events for call in one.get_function_calls())
    assert call.id == "word"
    answer = types.FunctionResponse(id=call.id, name=call.name, response={"result": "fjord"})
    said = types.Content(role="user", parts=[types.Part(function_response=answer)])
    log.append(await go(renewed, said))
    kept = await renewed.get_session(**KEY, session_id="s")
    return [*log, ran, kept.state, [(one.author, one.output) for one in kept.events]]


def test_stopped_and_continued(store_url: str, colour: str) -> None:
    stock = InMemorySessionService()
    expected = asyncio.run(play(stock, stock))

    async def work(store: Any) -> list[Any]:
        return await play(LedgerSessionService(store), LedgerSessionService(store))

    found = on(store_url, colour, work)
    assert found == expected
    assert found[2] == ["first", "ask", "last"]
    assert found[3] == {"seen": "first"}
