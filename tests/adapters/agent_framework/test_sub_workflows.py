"""Workflows inside workflows: checkpointed, and resumed by another process with another handle."""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import subprocess
import sys
from enum import Enum
from typing import Any, Never

import agent_framework as af
import pytest
from agent_framework import (
    Executor,
    Workflow,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowContext,
    WorkflowExecutor,
    handler,
    response_handler,
)
from pydantic import BaseModel

from ledgerstone import Store
from ledgerstone.adapters.agent_framework import LedgerCheckpointStorage
from ledgerstone.adapters.agent_framework.values import Types, decode, encode
from tests.adapters.conftest import opened

LIVE = {
    *("Agent", "AgentExecutor", "BaseAgent", "BaseChatClient", "Case", "Default", "Edge"),
    *("Executor", "FanInEdgeGroup", "FanOutEdgeGroup", "FunctionExecutor", "FunctionTool"),
    *("FunctionalWorkflowAgent", "RawAgent", "SingleEdgeGroup", "SwitchCaseEdgeGroup"),
    *("SwitchCaseEdgeGroupCase", "SwitchCaseEdgeGroupDefault", "Workflow", "WorkflowAgent"),
    *("WorkflowExecutor", "WorkflowEvent", "ExperimentalFeature", "ValidationTypeEnum"),
    *("BaseEmbeddingClient", "MiddlewareType", "ReleaseCandidateFeature", "SkillsSourceContext"),
    *("VectorStoreCollectionDefinition", "VectorStoreField"),
}
"""Parts of a program, which no checkpoint contains; a WorkflowEvent has a form of its own."""


class Asker(Executor):
    """The workflow inside: asks for an approval."""

    @handler
    async def check(self, item: str, ctx: WorkflowContext[Never, str]) -> None:
        ctx.set_state("item", item)
        await ctx.request_info(item, bool)

    @response_handler
    async def decided(self, asked: str, answer: bool, ctx: WorkflowContext[Never, str]) -> None:
        await ctx.yield_output(f"{ctx.get_state('item')}: {'bought' if answer else 'left'}")


class Buyer(Executor):
    """The workflow around it: tells what the inner one decided."""

    @handler
    async def start(self, item: list[str], ctx: WorkflowContext[str]) -> None:
        await ctx.send_message(item[0])

    @handler
    async def finish(self, decided: str, ctx: WorkflowContext[Never, str]) -> None:
        await ctx.yield_output(f"done, {decided}")


def shop(storage: Any) -> Workflow:
    asker, buyer = Asker(id="asker"), Buyer(id="buyer")
    inner = WorkflowBuilder(name="approval", start_executor=asker, output_from=[asker]).build()
    wrapped = WorkflowExecutor(inner, id="approval", propagate_request=True)
    builder = WorkflowBuilder(
        name="shop", start_executor=buyer, checkpoint_storage=storage, output_from=[buyer]
    )
    return builder.add_edge(buyer, wrapped).add_edge(wrapped, buyer).build()


async def begin(url: str, colour: str = "blocking") -> None:
    """Run until the inner workflow asks."""
    async with opened(url, colour) as store:
        events = await shop(LedgerCheckpointStorage(store)).run(["lamp"])
        assert len(events.get_request_info_events()) == 1


async def resume(url: str, colour: str = "blocking") -> list[Any]:
    """Answer, knowing nothing but the store."""
    async with opened(url, colour) as store:
        storage = LedgerCheckpointStorage(store)
        latest = await storage.get_latest(workflow_name="shop")
        assert latest is not None, "there is a checkpoint"
        workflow = shop(storage)
        events = await workflow.run(checkpoint_id=latest.checkpoint_id)
        [request] = events.get_request_info_events()
        done = await workflow.run(responses={request.request_id: True})
        return list(done.get_outputs())


def test_a_workflow_inside_is_resumed(lasting_url: str, colour: str) -> None:
    asyncio.run(begin(lasting_url, colour))
    assert asyncio.run(resume(lasting_url, colour)) == ["done, lamp: bought"]


def test_a_workflow_inside_is_resumed_by_another_process(lasting_url: str) -> None:
    code = (
        "import asyncio, sys; from tests.adapters.agent_framework import test_sub_workflows as t;"
        "asyncio.run(t.begin(sys.argv[1]))"
    )
    subprocess.run([sys.executable, "-c", code, lasting_url], check=True, timeout=120)
    assert asyncio.run(resume(lasting_url)) == ["done, lamp: bought"]


@pytest.mark.filterwarnings("ignore:`Runner` is deprecated:DeprecationWarning")
def test_every_type_of_the_framework_is_known_or_is_no_data() -> None:
    """A new version that has more of them is noticed here, not by a checkpoint that is missing."""
    types, unknown = Types(), []
    for name in af.__all__:
        cls = getattr(af, name)
        if not inspect.isclass(cls) or name in LIVE:
            continue
        is_data = dataclasses.is_dataclass(cls) or issubclass(cls, Enum | BaseModel)
        is_data = is_data or hasattr(cls, "from_dict")
        if is_data and types.name(cls) is None:
            unknown.append(name)
    assert unknown == []


SAMPLES: list[Any] = [
    WorkflowCheckpoint(workflow_name="w", graph_signature_hash="h", state={"a": (1, {2})}),
    af.WorkflowInvocationKwargs(global_kwargs={"a": 1}, executor_kwargs={"x": {"b": 2}}),
    af.WorkflowEventSource.FRAMEWORK,
    af.AgentResponseUpdate(contents=[af.Content.from_text("a")], role="assistant"),
    af.ChatResponse(messages=[af.Message("assistant", ["a"])]),
    af.TodoItem(id=1, title="a", description="b", is_complete=False),
    af.BackgroundTaskStatus.RUNNING,
    af.ChatResponseUpdate(contents=[af.Content.from_text("a")], role="assistant"),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: type(one).__name__)
def test_types_of_the_framework_come_back(sample: Any) -> None:
    types = Types()
    said = encode(types, sample, "x")
    back = decode(types, said)
    assert type(back) is type(sample)
    assert encode(types, back, "x") == said


def test_a_stored_class_name_is_looked_up_in_the_closed_list_only(adapter_store: Store) -> None:
    stored = {"$": "data", "n": "subprocess.Popen", "v": {"args": ["true"]}}
    with pytest.raises(Exception, match=r"subprocess\.Popen"):
        decode(Types(), stored)
