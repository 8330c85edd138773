"""Durable execution of agents: every model request and tool call is an execution of a session.

    durability = LedgerDurability(store)
    agent = Agent("openai:gpt-5", name="analyst", capabilities=[durability])
    async with durability.task("report-7"):
        result = await agent.run("...")

A task that is begun again, after a crash or an error, gets what finished before from the ledger
and goes on from there. A tool call that was under way when the process died is never made again by
itself: nobody knows whether it happened, and ExecutionUnresolved says so.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from pydantic_ai.agent import EventStreamHandler
from pydantic_ai.capabilities import WrapRunHandler
from pydantic_ai.durable_exec import (
    JSON_CODEC,
    BaseDurabilityCapability,
    CapabilityOperationId,
    DurabilityEngineSpec,
    DurableOperationId,
    JournalCallableOperationBackend,
    RoleBasedOperationConfig,
    ToolsetCallToolId,
)
from pydantic_ai.models import Model
from pydantic_ai.run import AgentRunResult
from pydantic_ai.tools import AgentDepsT, RunContext

from ledgerstone import ids
from ledgerstone.adapters.pydantic_ai.sessions import APP
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, of, runs_async
from ledgerstone.errors import ExecutionUnresolved, LedgerstoneError, Misuse
from ledgerstone.records.executions import Execution
from ledgerstone.records.leases import AnyLease

ERROR_CHARS_MAX = 4096
ToolOrder = Literal["sequential", "parallel_ordered_events"]
"""How tools of one response run; a free order could number repeated calls otherwise on resume."""

_NO_CONFIG = RoleBasedOperationConfig[None](model=None, event=None, capability=None, tool=None)


@dataclass
class Task:
    """One stretch of durable work: operations are numbered in the order they are reached."""

    store: AnyStore
    runner: StoreRunner
    session: str
    lease: AnyLease | None
    repeat_unknown: bool
    reached: Counter[str] = field(default_factory=Counter)
    replayed: int = 0
    """How many operations were answered from the ledger."""

    async def execute(
        self, name: str, body: Callable[[], Awaitable[object]], *, repeatable: bool
    ) -> object:
        """The outcome that is known, or that of the body, which is written down before and after.

        ExecutionUnresolved when it was begun before and nobody knows how it ended.
        """
        self.reached[name] += 1
        call = f"{name}#{self.reached[name]}"
        begun = await self.runner.run_async(self._begin(name, call, repeatable))
        if begun.status == "succeeded":
            self.replayed += 1
            return begun.result
        token = _EXECUTION.set(begun)
        try:
            result = await body()
        except Exception as error:
            told = f"{type(error).__name__}: {error}"[:ERROR_CHARS_MAX]
            # The error of the operation is the one that helps; unwritten, it is unresolved.
            with suppress(LedgerstoneError):
                await self.runner.run_async(self._finish(begun.id, error=told))
            raise
        finally:
            _EXECUTION.reset(token)
        await self.runner.run_async(self._finish(begun.id, result=result))
        return result

    async def _begin(self, name: str, call: str, repeatable: bool) -> Execution:
        id = ids.derive("pydantic-ai", "operation", self.session, call)
        known = await of(self.store.executions.get(id))
        if known is None:
            known = await of(
                self.store.executions.start(
                    self.session,
                    id=id,
                    call_id=call if len(call) <= ids.ID_CHARS_MAX else id,
                    tool=name,
                    arguments={"operation": call},
                    lease=self.lease,
                    once=True,
                )
            )
            if not known.resolved:
                return known
        if known.status == "succeeded":
            return known
        if known.status != "failed" and not (repeatable or self.repeat_unknown):
            raise ExecutionUnresolved(known.id, known.call_id)
        again = await of(self.store.executions.retry(id, lease=self.lease))
        if again.attempts != known.attempts + 1 and not repeatable:
            # Somebody else began it again at the same moment.
            raise ExecutionUnresolved(again.id, again.call_id)
        return again

    async def _finish(self, id: str, **outcome: Any) -> None:
        await of(self.store.executions.finish(id, lease=self.lease, **outcome))


_TASK: ContextVar[Task | None] = ContextVar("ledgerstone_pydantic_ai_task", default=None)
_EXECUTION: ContextVar[Execution | None] = ContextVar("ledgerstone_execution", default=None)


def current_execution() -> Execution | None:
    """The execution that this code runs in; its `key` is an idempotency key for the tool."""
    return _EXECUTION.get()


class LedgerOperationBackend(JournalCallableOperationBackend[None]):
    """Runs each operation as one execution of the current task."""

    def __init__(self, *, agent_name: str, default_model_id: str | None) -> None:
        super().__init__(
            agent_name=agent_name, default_model_id=default_model_id, config=_NO_CONFIG
        )

    async def execute(
        self,
        *,
        operation_id: DurableOperationId,
        name: str,
        body: Callable[[], Awaitable[object]],
        cache_key: tuple[object, ...],
        config: None,
    ) -> object:
        """One named operation; what acts on the world is not repeated by itself."""
        task = _TASK.get()
        if task is None:
            raise Misuse("a durable operation needs a task: async with durability.task(...)")
        acts = isinstance(operation_id, ToolsetCallToolId | CapabilityOperationId)
        return await task.execute(name, body, repeatable=not acts)


class LedgerDurability(BaseDurabilityCapability[AgentDepsT]):
    """Makes an agent durable inside `task`; outside of one it changes nothing."""

    engine_spec: ClassVar[DurabilityEngineSpec] = DurabilityEngineSpec(
        engine_name="Ledgerstone",
        durable_unit_noun="execution",
        durable_container_noun="task",
        codec=JSON_CODEC,
        wrapped_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
        toolset_lifecycles={
            "function": "enter-always",
            "mcp": "enter-in-durable-unit",
            "dynamic": "enter-never",
        },
        unsupported_runtime_toolset_kinds=frozenset({"function", "mcp", "dynamic"}),
    )

    def __init__(
        self,
        store: AnyStore,
        *,
        models: Mapping[str, Model] | None = None,
        event_stream_handler: EventStreamHandler[AgentDepsT] | None = None,
        name: str | None = None,
        tool_order: ToolOrder = "sequential",
    ) -> None:
        super().__init__(models=models, event_stream_handler=event_stream_handler, name=name)
        self._runner = StoreRunner(store)
        self._store = store
        self._tool_order: ToolOrder = tool_order

    @property
    def in_durable_context(self) -> bool:
        return _TASK.get() is not None

    def get_durable_operation_backend(self) -> LedgerOperationBackend:
        return LedgerOperationBackend(agent_name=self.name, default_model_id=self.default_model_id)

    async def wrap_run(
        self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler
    ) -> AgentRunResult[Any]:
        """Inside a task, tools run in an order that is the same on resume."""
        if not self.in_durable_context:
            return await handler()
        agent = self.agent
        assert agent is not None
        with agent.parallel_tool_call_execution_mode(self._tool_order):
            return await handler()

    @asynccontextmanager
    async def task(
        self, session: str, *, lease: AnyLease | None = None, repeat_unknown: bool = False
    ) -> AsyncIterator[Task]:
        """Durable work in a session, which is made when it is missing; begin it again to go on.

        `repeat_unknown`: somebody looked, and what was under way at a crash may be done again,
        under the same key. With a lease, the ledger also knows whether another worker still lives.
        """
        name = ids.check_id(session, "session")
        await self._ensure(name)
        task = Task(self._store, self._runner, name, lease, repeat_unknown)
        token = _TASK.set(task)
        try:
            yield task
        finally:
            _TASK.reset(token)

    @runs_async
    async def _ensure(self, session: str) -> None:
        await of(self._store.sessions.ensure(session, app=APP))

    @runs_async
    async def unknown(self, session: str) -> list[Execution]:
        """What was begun in a task and has no outcome."""
        found: list[Execution] = await of(self._store.executions.unresolved(session=session))
        return found
