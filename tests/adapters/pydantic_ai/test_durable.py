"""Durable execution: what finished is not done again, what was under way is reported."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, DeferredToolRequests, DeferredToolResults
from pydantic_ai.exceptions import UserError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai_harness.step_persistence import continue_run
from pydantic_ai_harness.step_persistence.recovery import inspect_recovery

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.pydantic_ai import LedgerDurability, LedgerStepStore
from ledgerstone.adapters.pydantic_ai.durable import current_execution
from ledgerstone.errors import ExecutionUnresolved, InvalidValue
from tests.adapters.pydantic_ai import dying
from tests.adapters.pydantic_ai.samples import on_store

AnyStore = Store | AsyncStore
WHOLE = ["model 1", "first", "model 3", "second", "model 5"]


def test_a_task_is_replayed(store_url: str, colour: str, tmp_path: Path) -> None:
    log = tmp_path / "log"

    async def work(store: AnyStore) -> None:
        assert await dying.durable(store, log, "") == "done"
        assert log.read_text().split("\n")[:-1] == WHOLE
        assert await dying.durable(store, log, "") == "done"
        assert log.read_text().split("\n")[:-1] == WHOLE

    on_store(store_url, colour, work)


@pytest.mark.crash
@pytest.mark.parametrize("where", ["model.request", ":first", ":second"])
def test_killed_between_operations(lasting_url: str, tmp_path: Path, where: str) -> None:
    """What finished is not done again, and nothing is unknown."""
    log = tmp_path / "log"
    _die(lasting_url, log, f"after {where}", "durable")
    with Store.open(lasting_url) as store:
        assert asyncio.run(LedgerDurability(store).unknown(dying.TASK)) == []
        assert asyncio.run(dying.durable(store, log, "")) == "done"
    assert log.read_text().split("\n")[:-1] == WHOLE


@pytest.mark.crash
@pytest.mark.parametrize("where", WHOLE)
def test_killed_inside_operations(lasting_url: str, tmp_path: Path, where: str) -> None:
    log = tmp_path / "log"
    _die(lasting_url, log, where, "durable")
    before = log.read_text().split()
    with Store.open(lasting_url) as store:
        under_way = asyncio.run(LedgerDurability(store).unknown(dying.TASK))
        assert len(under_way) == 1
        if where in ("first", "second"):
            # A tool acts on the world, and nobody knows whether it did.
            assert where in under_way[0].tool
            with pytest.raises(ExecutionUnresolved):
                asyncio.run(dying.durable(store, log, ""))
            assert log.read_text().split() == before
        decided = where in ("first", "second")
        assert asyncio.run(dying.durable(store, log, "", repeat=decided)) == "done"
        assert asyncio.run(LedgerDurability(store).unknown(dying.TASK)) == []
    told = log.read_text().split("\n")[:-1]
    # Once each, but what was under way twice: a request of itself, a tool as it was decided.
    at = WHOLE.index(where)
    assert told == [*WHOLE[: at + 1], *WHOLE[at:]]


@pytest.mark.crash
@pytest.mark.parametrize("where", ["first", "second", "model 5"])
def test_killed_with_steps_kept(lasting_url: str, tmp_path: Path, where: str) -> None:
    log = tmp_path / "log"
    _die(lasting_url, log, where, "stepwise")

    async def after(store: Store) -> None:
        steps = LedgerStepStore(store)
        left = await steps.list_unresolved_tool_effects(run_id="run-1")
        assert [one.tool_name for one in left] == ([where] if where != "model 5" else [])
        found = await inspect_recovery(store=steps, run_id="run-1")
        assert list(found.unresolved) == left
        done = {"first": (), "second": ("first",), "model 5": ("first", "second")}
        assert found.completed_tools == done[where]
        events = [one.kind for one in await steps.list_events(run_id="run-1")]
        assert events[-1] == ("model_request_started" if not left else "tool_call_started")
        lost = store.runs.recover()
        assert [one.session for one in lost] == [dying.TASK]
        if where == "first":
            return
        history = await continue_run(steps, run_id="run-1")
        assert history is not None
        result = await Agent(TestModel()).run("go on", message_history=history)
        assert len(result.all_messages()) >= 5

    with Store.open(lasting_url) as store:
        asyncio.run(after(store))


def test_what_failed_is_tried_again(store_url: str) -> None:
    calls: list[str] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls.append("model")
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("flaky", {})])
        return ModelResponse(parts=[TextPart("done")])

    async def work(store: AnyStore) -> None:
        durability: LedgerDurability[None] = LedgerDurability(store)
        agent = Agent(FunctionModel(answer), name="a", capabilities=[durability])

        @agent.tool_plain
        def flaky() -> str:
            calls.append("tool")
            execution = current_execution()
            keys.append("" if execution is None else execution.key)
            if len(keys) == 1:
                raise OSError("no network")
            return "ok"

        keys: list[str] = []
        with pytest.raises(OSError, match="no network"):
            async with durability.task("t"):
                await agent.run("go")
        async with durability.task("t") as task:
            assert (await agent.run("go")).output == "done"
        assert task.replayed == 1
        assert calls == ["model", "tool", "tool", "model"]
        assert keys[0] == keys[1] != ""
        # Outside of a task nothing is written down.
        assert (await agent.run("go")).output == "done"
        assert keys[2] == ""

    on_store(store_url, "blocking", work)


def test_approvals_inside_a_task(store_url: str, colour: str) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("pay", {"eur": 1}, tool_call_id="c1")])
        return ModelResponse(parts=[TextPart("paid")])

    async def work(store: AnyStore) -> None:
        durability: LedgerDurability[None] = LedgerDurability(store)
        agent = Agent(
            FunctionModel(answer),
            name="a",
            output_type=[str, DeferredToolRequests],
            capabilities=[durability],
        )
        paid = []

        @agent.tool_plain(requires_approval=True)
        def pay(eur: int) -> str:
            paid.append(eur)
            return "ok"

        async def go() -> Any:
            async with durability.task("t"):
                asked = await agent.run("pay it")
                assert isinstance(asked.output, DeferredToolRequests)
                return await agent.run(
                    conversation=asked.conversation,
                    deferred_tool_results=DeferredToolResults(approvals={"c1": True}),
                )

        assert (await go()).output == "paid"
        assert (await go()).output == "paid"
        assert paid == [1]

    on_store(store_url, colour, work)


def test_streams_and_parallel_tools(store_url: str) -> None:
    async def work(store: AnyStore) -> None:
        durability: LedgerDurability[None] = LedgerDurability(
            store, tool_order="parallel_ordered_events"
        )
        agent = Agent(TestModel(), name="a", capabilities=[durability])
        made: list[str] = []

        @agent.tool_plain
        async def slow(n: int) -> str:
            await asyncio.sleep(0.01)
            made.append("slow")
            return "s"

        @agent.tool_plain
        async def quick(n: int) -> str:
            made.append("quick")
            return "q"

        for _ in range(2):
            async with durability.task("t"), agent.iter("go") as run:
                async for _node in run:
                    pass
            assert run.result is not None
            assert "slow" in run.result.output
        assert sorted(made) == ["quick", "slow"]

    on_store(store_url, "async", work)


def test_events_are_handled_once(store_url: str) -> None:
    async def work(store: AnyStore) -> None:
        seen: list[str] = []

        async def handle(ctx: Any, events: Any) -> None:
            async for event in events:
                seen.append(event.event_kind)

        durability: LedgerDurability[None] = LedgerDurability(store, event_stream_handler=handle)
        agent = Agent(TestModel(custom_output_text="a b"), name="a", capabilities=[durability])
        for _ in range(2):
            async with durability.task("t"):
                assert (await agent.run("go")).output == "a b"
        assert seen.count("final_result") == 1

    on_store(store_url, "blocking", work)


def test_outside_of_a_task_nothing_changes(adapter_store: Store) -> None:
    """Tools run at once, as they do without it; inside they wait for each other."""

    async def most_at_once(durability: LedgerDurability[None], task: str | None) -> int:
        agent = Agent(TestModel(), name="a", capabilities=[durability])
        running: set[str] = set()
        most = 0

        async def act(name: str) -> str:
            nonlocal most
            running.add(name)
            most = max(most, len(running))
            await asyncio.sleep(0.05)
            running.discard(name)
            return name

        @agent.tool_plain
        async def first() -> str:
            return await act("first")

        @agent.tool_plain
        async def second() -> str:
            return await act("second")

        if task is None:
            await agent.run("go")
        else:
            async with durability.task(task):
                await agent.run("go")
        return most

    assert asyncio.run(most_at_once(LedgerDurability(adapter_store), None)) == 2
    assert asyncio.run(most_at_once(LedgerDurability(adapter_store), "t")) == 1


def test_tenants_and_bad_input(adapter_store: Store, tmp_path: Path) -> None:
    log = tmp_path / "log"
    assert asyncio.run(dying.durable(adapter_store, log, "")) == "done"
    other = adapter_store.for_tenant("other")
    assert asyncio.run(dying.durable(other, log, "")) == "done"
    assert log.read_text().split("\n")[:-1] == WHOLE * 2

    async def enter(name: Any) -> None:
        async with LedgerDurability(adapter_store).task(name):
            pass

    with pytest.raises(InvalidValue, match="session"):
        asyncio.run(enter(""))
    with pytest.raises(UserError, match="name"):
        Agent(TestModel(), capabilities=[LedgerDurability(adapter_store)])


def test_two_workers_and_a_lease(adapter_store: Store) -> None:
    """What a living worker has under way is not unknown, and nobody else takes it over."""

    async def go() -> None:
        durability: LedgerDurability[None] = LedgerDurability(adapter_store)
        agent = Agent(TestModel(), name="a", capabilities=[durability])
        started = asyncio.Event()

        @agent.tool_plain
        async def endless() -> str:
            started.set()
            await asyncio.sleep(60)
            return ""

        adapter_store.sessions.ensure("t")
        lease = adapter_store.leases.take("t", ttl_s=60)
        assert lease is not None

        async def first() -> None:
            async with durability.task("t", lease=lease):
                await agent.run("go")

        running = asyncio.create_task(first())
        await started.wait()
        (begun,) = adapter_store.executions.unresolved(session="t")
        assert begun.status == "started"
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        adapter_store.leases.release(lease)
        (left,) = adapter_store.executions.unresolved(session="t")
        assert left.status == "unknown"

    asyncio.run(go())


def test_two_workers_without_a_lease(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both look before either begins: one acts, the other is told that it cannot know."""
    made: list[int] = []

    async def act() -> str:
        made.append(1)
        await asyncio.sleep(0.05)
        return "done"

    async def work() -> object:
        async with LedgerDurability(adapter_store).task("t") as task:
            return await task.execute("pay", act, repeatable=False)

    async def go() -> list[Any]:
        return list(await asyncio.gather(work(), work(), work(), return_exceptions=True))

    monkeypatch.setattr(adapter_store.executions, "get", lambda id: None)
    answers = asyncio.run(go())
    assert made == [1]
    assert answers.count("done") == 1
    assert sum(isinstance(one, ExecutionUnresolved) for one in answers) == 2
    # Who comes later has the outcome, whatever was looked at before.
    assert asyncio.run(work()) == "done"
    assert made == [1]


def test_two_workers_try_again_what_failed(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both see that it failed: one acts, the other is told that it cannot know."""
    made: list[str] = []

    async def fail() -> str:
        raise OSError("no network")

    async def act() -> str:
        made.append("paid")
        await asyncio.sleep(0.05)
        return "done"

    async def work(body: Any) -> object:
        async with LedgerDurability(adapter_store).task("t") as task:
            return await task.execute("pay", body, repeatable=False)

    async def go() -> list[Any]:
        with pytest.raises(OSError, match="no network"):
            await work(fail)
        (failed,) = adapter_store.executions.list(session="t")
        monkeypatch.setattr(adapter_store.executions, "get", lambda id: failed)
        return list(await asyncio.gather(work(act), work(act), return_exceptions=True))

    answers = asyncio.run(go())
    assert made == ["paid"]
    assert answers.count("done") == 1
    assert sum(isinstance(one, ExecutionUnresolved) for one in answers) == 1


def _die(url: str, log: Path, where: str, what: str) -> None:
    script = Path(dying.__file__)
    done = subprocess.run(
        [sys.executable, str(script), url, str(log), where, what],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == -9, done.stderr
