"""One agent of every framework, to speak in turn in one session of a store.

Each answers a question with `re: <question>` and keeps what its model was shown.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, TypedDict

from agent_framework import Agent as FrameworkAgent
from agents import Agent as OpenAIAgent
from agents import Runner as OpenAIRunner
from google.adk.agents import LlmAgent
from google.adk.runners import Runner as AdkRunner
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.conversation import Conversation
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.adk import LedgerSessionService, store_id
from ledgerstone.adapters.agent_framework import LedgerHistoryProvider
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.adapters.pydantic_ai import LedgerConversationStore, LedgerSavedConversations
from tests.adapters.adk.scripted import KEY, Scripted, asks, says
from tests.adapters.agent_framework.scripted import ScriptedClient
from tests.adapters.openai_agents.scripted import Scripted as ScriptedModel
from tests.adapters.openai_agents.scripted import say

AnyStore = Store | AsyncStore
ADK_NAME = "talk"


class Speaker:
    """An agent of one framework; `seen` counts the messages of each request to its model."""

    def __init__(self, store: AnyStore, session: str) -> None:
        self.store = store
        self.session = session
        self.seen: list[int] = []

    async def ask(self, question: str) -> None:
        """Say a question, and let the model answer it."""
        raise AssertionError(question)


class State(TypedDict):
    """The state of the graph."""

    messages: Annotated[list[AnyMessage], add_messages]


class LangGraphSpeaker(Speaker):
    """A graph, run by `ainvoke`."""

    def __init__(self, store: AnyStore, session: str) -> None:
        super().__init__(store, session)
        builder = StateGraph(State)
        builder.add_node("bot", self._answer)
        builder.add_edge(START, "bot")
        self.saver = LedgerSaver(store)
        self.graph: Any = builder.compile(checkpointer=self.saver)
        self.config = {"configurable": {"thread_id": session}}

    def _answer(self, state: State) -> dict[str, Any]:
        self.seen.append(len(state["messages"]))
        return {"messages": [AIMessage(f"re: {state['messages'][-1].text}")]}

    async def ask(self, question: str) -> None:
        await self.graph.ainvoke({"messages": [("user", question)]}, self.config)


class BlockingLangGraphSpeaker(LangGraphSpeaker):
    """A graph, run by `invoke` in a thread of its own."""

    async def ask(self, question: str) -> None:
        given = {"messages": [("user", question)]}
        await asyncio.to_thread(self.graph.invoke, given, self.config)


class OpenAISpeaker(Speaker):
    """An agent of the OpenAI Agents SDK."""

    def __init__(self, store: AnyStore, session: str) -> None:
        super().__init__(store, session)
        self.kept = LedgerSession(store, session)

    async def ask(self, question: str) -> None:
        model = ScriptedModel([say(f"re: {question}")])
        await OpenAIRunner.run(OpenAIAgent("desk", model=model), question, session=self.kept)
        self.seen.append(len(model.asked[0]))


class AdkSpeaker(Speaker):
    """An agent of Google ADK; the session is its own when it comes first."""

    def __init__(self, store: AnyStore, session: str) -> None:
        super().__init__(store, session)
        self.service = LedgerSessionService(store, unowned=True)
        own = store_id(KEY["app_name"], KEY["user_id"], ADK_NAME)
        self.name = ADK_NAME if session == own else session

    async def ask(self, question: str) -> None:
        if await self.service.get_session(**KEY, session_id=self.name) is None:
            await self.service.create_session(**KEY, session_id=self.name)
        model = Scripted(script=[says(f"re: {question}")])
        agent = LlmAgent(name="desk", model=model)
        runner = AdkRunner(app_name=KEY["app_name"], agent=agent, session_service=self.service)
        loop = runner.run_async(
            user_id=KEY["user_id"], session_id=self.name, new_message=asks(question)
        )
        async for _ in loop:
            pass
        self.seen.append(len(model.seen[0]))


class PydanticSpeaker(Speaker):
    """An agent of Pydantic AI with a ConversationStore."""

    def __init__(self, store: AnyStore, session: str) -> None:
        super().__init__(store, session)
        self.kept = LedgerConversationStore(store)
        self.agent = PydanticAgent(FunctionModel(self._answer))

    def _answer(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        self.seen.append(len(messages))
        return ModelResponse(parts=[TextPart(f"re: {self.question}")])

    async def ask(self, question: str) -> None:
        self.question = question
        talk = await self.kept.load(self.session) or Conversation(conversation_id=self.session)
        await self.kept.save(await self.agent.run(question, conversation=talk))


class HarnessSpeaker(PydanticSpeaker):
    """An agent of Pydantic AI with the conversations of its harness."""

    def __init__(self, store: AnyStore, session: str) -> None:
        super().__init__(store, session)
        self.saved = LedgerSavedConversations(store)

    async def ask(self, question: str) -> None:
        self.question = question
        read = await self.saved.read(self.session)
        talk = Conversation(conversation_id=self.session) if read is None else read.conversation
        result = await self.agent.run(question, conversation=talk)
        expected = None if read is None else read.revision
        await self.saved.write(result.conversation, expected_revision=expected)


class AgentFrameworkSpeaker(Speaker):
    """An agent of Microsoft's Agent Framework."""

    def __init__(self, store: AnyStore, session: str) -> None:
        super().__init__(store, session)
        self.history = LedgerHistoryProvider(store)

    async def ask(self, question: str) -> None:
        client = ScriptedClient([f"re: {question}"])
        agent = FrameworkAgent(client, context_providers=[self.history])
        await agent.run(question, session=agent.create_session(session_id=self.session))
        self.seen.append(len(client.asked[0]))


SPEAKERS: dict[str, type[Speaker]] = {
    "langgraph": LangGraphSpeaker,
    "openai": OpenAISpeaker,
    "adk": AdkSpeaker,
    "pydantic-ai": PydanticSpeaker,
    "agent-framework": AgentFrameworkSpeaker,
}
MORE: dict[str, type[Speaker]] = {
    "langgraph-blocking": BlockingLangGraphSpeaker,
    "harness": HarnessSpeaker,
}


def session_for(first: str) -> str:
    """The id of a session that this framework begins."""
    if first == "adk":
        return store_id(KEY["app_name"], KEY["user_id"], ADK_NAME)
    return "talk"
