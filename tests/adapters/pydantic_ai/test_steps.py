"""Steps: equal to the stores of the harness, and what a crash leaves is known."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    InMemoryStepStore,
    RunRecord,
    StepEvent,
    StepPersistence,
    StepStore,
    ToolEffectRecord,
    continue_run,
)

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerSavedConversations, LedgerStepStore
from ledgerstone.errors import InvalidValue
from tests.adapters.pydantic_ai.samples import dumped, on_store, same, some_messages

AnyStore = Store | AsyncStore
START = datetime(2026, 1, 1, tzinfo=UTC)


def test_it_is_a_step_store(adapter_store: Store) -> None:
    assert isinstance(LedgerStepStore(adapter_store), StepStore)
    with pytest.raises(InvalidValue, match="max_snapshots_per_run"):
        LedgerStepStore(adapter_store, max_snapshots_per_run=0)


def test_a_real_loop_and_going_on(store_url: str, colour: str) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) < 4:
            call = ToolCallPart("add", {"n": len(messages)}, tool_call_id=f"c{len(messages)}")
            return ModelResponse(parts=[call])
        return ModelResponse(parts=[TextPart("done")])

    async def work(store: AnyStore) -> None:
        steps, memory = LedgerStepStore(store), InMemoryStepStore()
        for kept in (steps, memory):
            agent = Agent(
                FunctionModel(answer), capabilities=[StepPersistence(store=kept, run_id="run-1")]
            )
            agent.tool_plain(add)
            result = await agent.run("count", conversation_id="talk")
            assert result.output == "done"
        ours = await steps.list_events(run_id="run-1")
        theirs = await memory.list_events(run_id="run-1")
        assert [one.kind for one in ours] == [one.kind for one in theirs]
        assert await steps.list_unresolved_tool_effects(run_id="run-1") == []
        effect = await steps.get_tool_effect(run_id="run-1", tool_call_id="c1")
        assert effect is not None
        assert effect.status == "completed"
        # Another process goes on from there.
        history = await continue_run(LedgerStepStore(store), run_id="run-1")
        assert history is not None
        again = await Agent(TestModel()).run("more", message_history=history)
        assert len(again.all_messages()) == len(history) + 2

    on_store(store_url, colour, work)


def add(n: int) -> int:
    """Add one."""
    return n + 1


def test_the_conversation_is_in_the_session(adapter_store: Store) -> None:
    steps = LedgerStepStore(adapter_store)

    async def go() -> None:
        agent = Agent(TestModel(), capabilities=[StepPersistence(store=steps)])
        first = await agent.run("hello", conversation_id="talk")
        await agent.run("and on", message_history=first.all_messages(), conversation_id="talk")

    asyncio.run(go())
    texts = [one.text for one in adapter_store.messages.history("talk")]
    assert [texts[0], texts[2]] == ["hello", "and on"]
    assert len(texts) == 4
    assert len(list(adapter_store.runs.iter(session="talk"))) == 2


def test_beside_a_conversation_store(adapter_store: Store) -> None:
    """Both write to one session, and neither is a conflict for the other."""
    steps, talks = LedgerStepStore(adapter_store), LedgerSavedConversations(adapter_store)

    async def go() -> None:
        agent = Agent(TestModel(), capabilities=[StepPersistence(store=steps)])
        result = await agent.run("hello", conversation_id="talk")
        read = await talks.read("talk")
        assert read is not None
        stored = await talks.write(result.conversation, expected_revision=read.revision)
        lost = await agent.run("lost", conversation=result.conversation)
        assert len(lost.all_messages()) == 4
        # The turn above was never saved as such, and the next one does not contain it.
        result = await agent.run("kept", conversation=result.conversation)
        stored = await talks.write(result.conversation, expected_revision=stored.revision)
        found = await talks.read("talk")
        assert found is not None
        assert found.conversation == stored.conversation

    asyncio.run(go())
    assert len(adapter_store.messages.history("talk")) == 4


def test_a_tool_that_was_under_way(store_url: str, colour: str) -> None:
    """A run that ends without a word leaves its call unresolved, for the store too."""

    async def work(store: AnyStore) -> None:
        steps = LedgerStepStore(store)
        await steps.register_run(RunRecord(run_id="r", conversation_id="talk"))
        begun = ToolEffectRecord(tool_call_id="c", tool_name="pay", run_id="r", status="started")
        await steps.record_tool_effect(begun)
        assert await LedgerStepStore(store).list_unresolved_tool_effects(run_id="r") == [begun]
        answer = store.executions.unresolved(session="talk")
        (known,) = answer if isinstance(answer, list) else await answer
        assert (known.tool, known.run_id) == ("pay", "r")

    on_store(store_url, colour, work)


def test_growth_is_linear(adapter_store: Store) -> None:
    """A snapshot at every step, and each message is written once."""
    steps = LedgerStepStore(adapter_store)
    messages = some_messages(random.Random(1), 40)

    async def go() -> None:
        for n in range(2, 41, 2):
            await steps.save_snapshot(
                ContinuableSnapshot(
                    run_id="r", step_index=n, messages=messages[:n], conversation_id="talk"
                )
            )
        found = await LedgerStepStore(adapter_store).latest_snapshot(run_id="r")
        assert found is not None
        assert same(found.messages, messages)

    asyncio.run(go())
    head = adapter_store.sessions.head("talk")
    assert head is not None
    assert head.nodes == 1 + 40 + 20


def test_bad_ids_and_tenants(adapter_store: Store) -> None:
    steps = LedgerStepStore(adapter_store)

    async def go() -> None:
        with pytest.raises(InvalidValue, match="run_id"):
            await steps.register_run(RunRecord(run_id=""))
        await steps.register_run(RunRecord(run_id="r", conversation_id="talk"))
        with pytest.raises(InvalidValue, match="conversation_id"):
            await steps.register_run(RunRecord(run_id="r", conversation_id="other"))
        message = ModelRequest(parts=[UserPromptPart("x")], metadata={"a": object()})
        with pytest.raises(InvalidValue, match=r"messages\[0\]\.metadata\.a"):
            await steps.save_snapshot(
                ContinuableSnapshot(run_id="r", step_index=0, messages=[message])
            )
        other = LedgerStepStore(adapter_store.for_tenant("other"))
        assert await other.get_run(run_id="r") is None
        assert await other.list_runs() == []
        assert await other.list_events(run_id="r") == []
        assert await other.latest_snapshot(run_id="r") is None
        assert await other.list_unresolved_tool_effects(run_id="r") == []

    asyncio.run(go())


@pytest.mark.parametrize("seed", range(8))
def test_equal_to_the_library_over_random_programs(store_url: str, seed: int) -> None:
    async def work(store: AnyStore) -> None:
        rng = random.Random(seed)
        keep = rng.choice((None, 1, 2, 3))
        branch = rng.choice(("main", None))
        ours = LedgerStepStore(store, max_snapshots_per_run=keep, branch=branch)
        theirs = InMemoryStepStore(max_snapshots_per_run=keep)
        program = _Program(rng)
        for n in range(4):
            # A run is registered before anything is told of it.
            for kept in (ours, theirs):
                await kept.register_run(program.run(f"r{n}", n))
        for n in range(60):
            name, how = program.step(n)
            for kept in (ours, theirs):
                await getattr(kept, name)(**how) if isinstance(how, dict) else await getattr(
                    kept, name
                )(how)
            if n % 10 == 9:
                # Nothing may depend on what one object remembers.
                ours = LedgerStepStore(store, max_snapshots_per_run=keep, branch=branch)
            if n % 6 == 5:
                await _compare(ours, theirs)
        await _compare(ours, theirs)

    on_store(store_url, "blocking" if seed % 2 else "async", work)


class _Program:
    """Random calls, as they could come from several runs of two conversations."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.history: list[ModelMessage] = []

    def step(self, n: int) -> tuple[str, Any]:
        rng, run = self.rng, f"r{self.rng.randrange(4)}"
        talk = None if run == "r3" else f"talk-{int(run[1]) % 2}"
        at = START + timedelta(seconds=n)
        word = rng.choice(("run", "event", "snapshot", "snapshot", "effect", "effect"))
        if word == "run":
            return "register_run", self.run(run, n)
        if word == "event":
            return "append_event", StepEvent(
                run_id=run,
                kind=rng.choice(("run_started", "tool_call_failed", "run_completed")),
                step_index=n,
                timestamp=at,
                conversation_id=talk,
                error=rng.choice((None, "boom")),
                metadata={"n": str(n)},
                idempotency_key=rng.choice((None, f"{rng.randrange(5)}:e")),
            )
        if word == "snapshot":
            return "save_snapshot", self._snapshot(run, talk, n, at)
        status: Any = rng.choice(("started", "started", "completed", "failed"))
        return "record_tool_effect", ToolEffectRecord(
            tool_call_id=f"c{rng.randrange(3)}",
            tool_name=rng.choice(("pay", "pay", "look")),
            run_id=run,
            status=status,
            started_at=at,
            ended_at=None if status == "started" else at,
            idempotency_key=rng.choice((None, "k")),
            effect_summary=rng.choice((None, "sum")),
        )

    def run(self, run: str, n: int) -> RunRecord:
        rng = random.Random(f"{run}/{n}")
        return RunRecord(
            run_id=run,
            conversation_id=None if run == "r3" else f"talk-{int(run[1]) % 2}",
            parent_run_id=rng.choice((None, "r0")),
            agent_name=rng.choice((None, "a")),
            metadata={"k": str(n)},
            started_at=START + timedelta(seconds=n),
            registration_id=rng.choice((None, "x")),
        )

    def _snapshot(self, run: str, talk: str | None, n: int, at: datetime) -> ContinuableSnapshot:
        rng = self.rng
        kept = len(self.history) if rng.random() < 0.7 else rng.randint(0, len(self.history))
        self.history = [*self.history[:kept], *some_messages(rng, rng.randint(0, 3))]
        return ContinuableSnapshot(
            run_id=run,
            step_index=n,
            messages=list(self.history),
            conversation_id=talk,
            timestamp=at,
            state=rng.choice(("complete", "complete", "interrupted")),
            idempotency_key=rng.choice((None, f"{rng.randrange(n + 1)}:x", "plain")),
        )


async def _compare(ours: LedgerStepStore, theirs: InMemoryStepStore) -> None:
    for parent in (None, "r0"):
        for talk in (None, "talk-0", "talk-1"):
            asked = {"parent_run_id": parent, "conversation_id": talk}
            assert await ours.list_runs(**asked) == await theirs.list_runs(**asked)
    for run in ("r0", "r1", "r2", "r3", "nobody"):
        assert await ours.get_run(run_id=run) == await theirs.get_run(run_id=run)
        assert await ours.list_events(run_id=run) == await theirs.list_events(run_id=run)
        for every in (True, False):
            asked2: dict[str, Any] = {"run_id": run, "include_interrupted": every}
            pair = [await s.list_snapshots(**asked2) for s in (ours, theirs)]
            assert [_plain(one) for one in pair[0]] == [_plain(one) for one in pair[1]]
            newest = [await s.latest_snapshot(**asked2) for s in (ours, theirs)]
            assert _plain(newest[0]) == _plain(newest[1])
        lists = [await s.list_unresolved_tool_effects(run_id=run) for s in (ours, theirs)]
        assert lists[0] == lists[1]
        for n in range(3):
            which = {"run_id": run, "tool_call_id": f"c{n}"}
            assert await ours.get_tool_effect(**which) == await theirs.get_tool_effect(**which)


def _plain(snapshot: ContinuableSnapshot | None) -> Any:
    if snapshot is None:
        return None
    said = {name: value for name, value in vars(snapshot).items() if name != "messages"}
    return said, dumped(snapshot.messages)
