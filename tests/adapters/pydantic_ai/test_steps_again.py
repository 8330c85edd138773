"""Steps when things happen twice: runs told again, sessions that went, writers at one time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    UserPromptPart,
)
from pydantic_ai_harness.step_persistence import (
    ContinuableSnapshot,
    RunRecord,
    StepEvent,
    ToolEffectRecord,
)

from ledgerstone import Store
from ledgerstone.adapters.pydantic_ai import LedgerStepStore, step_records
from tests.adapters.pydantic_ai.samples import same


class Killed(BaseException):
    """Nobody handles it, as nobody handles the end of a process."""


def turn(text: str) -> list[ModelMessage]:
    return [ModelRequest(parts=[UserPromptPart(text)]), ModelResponse(parts=[TextPart(text)])]


def snapshot(messages: list[ModelMessage], key: str | None = None) -> ContinuableSnapshot:
    return ContinuableSnapshot(
        run_id="r", step_index=1, messages=messages, conversation_id="c", idempotency_key=key
    )


def event(n: int) -> StepEvent:
    return StepEvent(run_id="r", kind="tool_call_started", step_index=n, conversation_id="c")


def test_a_run_that_is_told_again(adapter_store: Store) -> None:
    """What became of it stays, and what is told now counts."""
    steps = LedgerStepStore(adapter_store)

    async def go() -> None:
        await steps.register_run(RunRecord(run_id="r", conversation_id="c"))
        failed = StepEvent(
            run_id="r", kind="run_failed", step_index=1, conversation_id="c", error="no network"
        )
        await steps.append_event(failed)
        before = adapter_store.runs.get("r")
        await steps.register_run(RunRecord(run_id="r", conversation_id="c", agent_name="a"))
        after = adapter_store.runs.get("r")
        assert before is not None
        assert after is not None
        assert after.termination is not None
        assert after.termination.value == "no network"
        assert (after.status, after.termination) == (before.status, before.termination)
        assert (before.agent, after.agent) == ("", "a")

    asyncio.run(go())


def test_a_session_that_was_purged(adapter_store: Store) -> None:
    """A run that goes on after its conversation was deleted begins it anew, whole."""
    steps = LedgerStepStore(adapter_store)
    begun, more = turn("a"), turn("b")

    async def go() -> None:
        await steps.save_snapshot(snapshot(begun))
        adapter_store.sessions.purge("c")
        await steps.append_event(event(1))
        adapter_store.sessions.purge("c")
        await steps.save_snapshot(snapshot(begun + more))
        adapter_store.sessions.purge("c")
        effect = ToolEffectRecord(tool_call_id="x", tool_name="t", run_id="r", status="started")
        await steps.record_tool_effect(effect)
        await steps.save_snapshot(snapshot(begun + more))
        found = await LedgerStepStore(adapter_store).latest_snapshot(run_id="r")
        assert found is not None
        assert same(found.messages, begun + more)

    asyncio.run(go())


def test_another_life_at_the_same_revision(adapter_store: Store) -> None:
    """What is remembered of the first life is not taken for what stands in the second."""
    here, elsewhere = LedgerStepStore(adapter_store), LedgerStepStore(adapter_store)
    begun, more = turn("a"), turn("b")

    async def go() -> None:
        await here.save_snapshot(snapshot(begun))
        first = adapter_store.sessions.head("c")
        adapter_store.sessions.purge("c")
        await elsewhere.save_snapshot(snapshot([]))
        second = adapter_store.sessions.head("c")
        assert first is not None
        assert second is not None
        assert first.revision == second.revision
        await here.save_snapshot(snapshot(begun + more))
        found = await LedgerStepStore(adapter_store).latest_snapshot(run_id="r")
        assert found is not None
        assert same(found.messages, begun + more)

    asyncio.run(go())
    assert adapter_store.messages.count("c") == 4


def test_killed_between_the_node_and_the_run(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning of a run is two commits; whoever comes next makes up for the second."""

    def dies(run: object) -> None:
        raise Killed

    async def go() -> None:
        ended = StepEvent(run_id="r", kind="run_completed", step_index=1, conversation_id="c")
        await LedgerStepStore(adapter_store).append_event(ended)

    with monkeypatch.context() as patched:
        patched.setattr(adapter_store.runs, "put", dies)
        with pytest.raises(Killed):
            asyncio.run(go())
    assert adapter_store.runs.get("r") is None
    asyncio.run(go())
    run = adapter_store.runs.get("r")
    assert run is not None
    assert run.status == "done"


def test_a_history_beside_the_branch_is_read_once(
    adapter_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot does not cost a reading of all that was said before it."""
    steps = LedgerStepStore(adapter_store, branch=None)
    messages = turn("a")
    read, asks = adapter_store.read, []

    def counted(*queries: Any) -> Any:
        asks.append(queries)
        return read(*queries)

    async def go() -> None:
        nonlocal messages
        await LedgerStepStore(adapter_store).save_snapshot(snapshot(messages))
        monkeypatch.setattr(adapter_store, "read", counted)
        for n in range(10):
            messages = [*messages, *turn(str(n))]
            await steps.save_snapshot(snapshot(messages))
        found = await LedgerStepStore(adapter_store).latest_snapshot(run_id="r")
        assert found is not None
        assert same(found.messages, messages)

    asyncio.run(go())
    assert len(asks) == 1
    assert adapter_store.messages.count("c") == 2


def test_one_key_saved_by_many(adapter_store: Store) -> None:
    messages = turn("a")

    async def go() -> None:
        first = LedgerStepStore(adapter_store)
        await first.register_run(RunRecord(run_id="r", conversation_id="c"))
        stores = [LedgerStepStore(adapter_store) for _ in range(6)]
        await asyncio.gather(*(one.save_snapshot(snapshot(messages, "key")) for one in stores))
        await asyncio.gather(*(one.save_snapshot(snapshot(messages, "1:x")) for one in stores))
        assert len(await first.list_snapshots(run_id="r")) == 2

    asyncio.run(go())


def test_events_of_one_moment(adapter_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes whose clocks say the same: neither takes the place of the other."""
    monkeypatch.setattr(step_records, "wall_ns", lambda: 5)

    async def go() -> None:
        for n in range(3):
            monkeypatch.setattr(step_records, "_last_order", 0)
            await LedgerStepStore(adapter_store).append_event(event(n))
        assert len(await LedgerStepStore(adapter_store).list_events(run_id="r")) == 3

    asyncio.run(go())


def test_many_events_and_calls(adapter_store: Store) -> None:
    steps = LedgerStepStore(adapter_store)

    async def go() -> None:
        await asyncio.gather(*(steps.append_event(event(n)) for n in range(300)))
        assert len(await steps.list_events(run_id="r")) == 300
        for n in range(120):
            await steps.record_tool_effect(
                ToolEffectRecord(tool_call_id=f"c{n}", tool_name="t", run_id="r", status="started")
            )
        assert len(await steps.list_unresolved_tool_effects(run_id="r")) == 120

    asyncio.run(go())


def test_calls_whose_names_look_alike(adapter_store: Store) -> None:
    """Of two runs, or one that looks like the second attempt of another."""
    steps = LedgerStepStore(adapter_store)
    told = [("a", "b:c"), ("a:b", "c"), ("a", "x"), ("a", "x"), ("a", "x#2")]

    async def go() -> None:
        for run in ("a", "a:b"):
            await steps.register_run(RunRecord(run_id=run, conversation_id="talk"))
        for n, (run, call) in enumerate(told):
            record = ToolEffectRecord(
                run_id=run, tool_call_id=call, tool_name=f"t{n}", status="started"
            )
            await steps.record_tool_effect(record)
        for run, call, tool in (("a", "b:c", "t0"), ("a", "x", "t3"), ("a:b", "c", "t1")):
            found = await steps.get_tool_effect(run_id=run, tool_call_id=call)
            assert found is not None
            assert (found.run_id, found.tool_call_id, found.tool_name) == (run, call, tool)
        left = await steps.list_unresolved_tool_effects(run_id="a")
        assert {one.tool_name for one in left} == {"t0", "t3", "t4"}

    asyncio.run(go())
    told_anew = [one for one in adapter_store.executions.list(session="talk") if one.resolved]
    assert [one.tool for one in told_anew] == ["t2"]
