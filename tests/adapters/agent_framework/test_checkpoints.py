"""Checkpoints of workflows: a real one that pauses and goes on, values by name, and no pickle."""

from __future__ import annotations

import asyncio
import copy
import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum, Flag
from typing import Any, Never
from uuid import UUID

import pytest
from agent_framework import (
    Agent,
    AgentExecutor,
    AgentExecutorResponse,
    Executor,
    InMemoryCheckpointStorage,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowContext,
    WorkflowEvent,
    WorkflowMessage,
    handler,
    response_handler,
)
from agent_framework.exceptions import WorkflowCheckpointException
from pydantic import BaseModel, field_validator

from ledgerstone import AsyncStore, Store
from ledgerstone.adapters.agent_framework import LedgerCheckpointStorage
from ledgerstone.adapters.agent_framework.values import Types, decode, encode
from ledgerstone.errors import Corrupt, InvalidValue, NotSupported
from tests.adapters.agent_framework.scripted import ScriptedClient, on_store

AnyStore = Store | AsyncStore


@dataclass
class Order:
    item: str
    eur: int
    tags: tuple[str, ...] = ()
    seen: int = field(default=0, init=False)


@dataclass
class Approval:
    order: Order


class Price(BaseModel):
    eur: Decimal
    at: datetime


class Colour(Enum):
    RED = "r"


class Right(Flag):
    READ = 1
    WRITE = 2


@dataclass
class Positive:
    n: int

    def __post_init__(self) -> None:
        if self.n < 1:
            raise ValueError("too small")


TYPES = [Order, Approval, Price, Colour]


class Buyer(Executor):
    @handler
    async def start(self, item: str, ctx: WorkflowContext[Order]) -> None:
        ctx.set_state("last", Price(eur=Decimal("1.5"), at=datetime(2026, 1, 1, tzinfo=UTC)))
        await ctx.send_message(Order(item, 120, ("a", "b")))


class Clerk(Executor):
    @handler
    async def check(self, order: Order, ctx: WorkflowContext[Order]) -> None:
        await ctx.request_info(Approval(order), bool)

    @response_handler
    async def decided(
        self, asked: Approval, answer: bool, ctx: WorkflowContext[Never, str]
    ) -> None:
        await ctx.yield_output(f"{asked.order.item}: {'bought' if answer else 'left'}")


def shop(storage: Any) -> Workflow:
    buyer, clerk = Buyer(id="buyer"), Clerk(id="clerk")
    builder = WorkflowBuilder(
        name="shop", start_executor=buyer, checkpoint_storage=storage, output_from=[clerk]
    )
    return builder.add_edge(buyer, clerk).build()


def test_a_workflow_waits_and_goes_on(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        storage = LedgerCheckpointStorage(store, types=TYPES)
        events = await shop(storage).run("lamp")
        (request,) = events.get_request_info_events()
        assert request.data == Approval(Order("lamp", 120, ("a", "b")))
        # The next day, another process.
        later = LedgerCheckpointStorage(store, types=TYPES)
        latest = await later.get_latest(workflow_name="shop")
        assert latest is not None
        assert latest.pending_request_info_events[request.request_id].response_type is bool
        resumed = shop(later)
        result = await resumed.run(
            checkpoint_id=latest.checkpoint_id, responses={request.request_id: True}
        )
        assert result.get_outputs() == ["lamp: bought"]
        # All checkpoints of one run are one session; another run has its own.
        await shop(storage).run("chair")
        found = await later.list_checkpoints(workflow_name="shop")
        assert len(found) >= 5
        listed = store.sessions.list(app="agent-framework")
        page = listed if not hasattr(listed, "__await__") else await listed
        assert len(page.items) == 2

    on_store(store_url, colour, work)


def test_agents_in_a_workflow(store_url: str) -> None:
    async def work(store: AnyStore) -> None:
        storage = LedgerCheckpointStorage(store)

        def build(*script: Any) -> Workflow:
            writer = AgentExecutor(Agent(ScriptedClient(*script[:1]), name="writer"), id="writer")
            critic = AgentExecutor(Agent(ScriptedClient(*script[1:]), name="critic"), id="critic")
            builder = WorkflowBuilder(
                name="text", start_executor=writer, checkpoint_storage=storage, output_from=[critic]
            )
            return builder.add_edge(writer, critic).build()

        result = await build(["a text"], ["not bad"]).run("write")
        assert result.get_outputs()[-1].text == "not bad"
        # Begin again behind the first agent: it is not asked a second time.
        checkpoints = await storage.list_checkpoints(workflow_name="text")
        middle = next(one for one in checkpoints if "writer" in one.messages)
        (message,) = middle.messages["writer"]
        assert isinstance(message.data, AgentExecutorResponse)
        again = await build([], ["quite good"]).run(checkpoint_id=middle.checkpoint_id)
        assert again.get_outputs()[-1].text == "quite good"

    on_store(store_url, "blocking", work)


def test_values_come_back_as_they_were() -> None:
    order = Order("x", 1, ("t",))
    order.seen = 7
    value = {
        "plain": [1, 2.5, True, None, "s", float("inf")],
        "kinds": (b"\x00\xff", {1, 2}, frozenset({"a"}), timedelta(days=1, seconds=2)),
        "times": [datetime(2026, 1, 2, tzinfo=UTC), Decimal("0.10"), UUID(int=5)],
        "keys": {1: "a", (2, 3): "b", "$": "c", "$value": "d"},
        "order": order,
        "price": Price(eur=Decimal("9.99"), at=datetime(2026, 1, 1, tzinfo=UTC)),
        "colour": Colour.RED,
        "types": [int, Order, list[str], str | None, dict[str, list[Order]]],
        "message": WorkflowMessage(data=order, source_id="a"),
    }
    types = Types(TYPES)
    said = encode(types, value, "v")
    back = decode(types, said)
    assert back == value
    assert back["order"].seen == 7
    assert type(back["kinds"]) is tuple


def test_what_cannot_be_stored_is_named(adapter_store: Store) -> None:
    storage = LedgerCheckpointStorage(adapter_store, types=[Order])

    def save(**fields: Any) -> None:
        asyncio.run(storage.save(WorkflowCheckpoint("w", "hash", **fields)))

    class Unknown:
        pass

    odd: Any = (lambda: 0,)
    for bad, place in (
        ({"state": {"a": {"b": [1, Unknown()]}}}, r"checkpoint\.state\.a\.b\[1\]"),
        ({"state": {"order": Order("x", 1, odd)}}, r"state\.order\.tags\[0\]"),
        ({"state": {"p": Price(eur=Decimal(1), at=datetime.now(UTC))}}, r"Price at .*state\.p"),
        ({"messages": {"x": [WorkflowMessage(Unknown(), "x")]}}, r"messages\.x\[0\]\.data"),
        (
            {"state": {"m": Message("user", ["x"], additional_properties={"k": object()})}},
            r"state\.m\.additional_properties\.k",
        ),
        ({"state": {"e": WorkflowEvent.started()}}, r"started.*state\.e"),
    ):
        with pytest.raises(NotSupported, match=place):
            save(**bad)
    with pytest.raises(InvalidValue, match="checkpoint"):
        asyncio.run(storage.save({"workflow_name": "w"}))  # type: ignore[arg-type]
    assert adapter_store.sessions.count() == 0


def test_what_would_not_come_back_is_named(adapter_store: Store) -> None:
    storage = LedgerCheckpointStorage(adapter_store, types=[Right, Positive])
    changed = Positive(1)
    changed.n = -1
    for bad, place in (
        ({"rights": [Right.READ, Right.READ | Right.WRITE]}, r"checkpoint\.state\.rights\[1\]"),
        ({"deep": {"n": (Positive(2), changed)}}, r"state\.deep\.n\[1\]: .*too small"),
    ):
        with pytest.raises(NotSupported, match=place):
            asyncio.run(storage.save(WorkflowCheckpoint("w", "hash", state=bad)))
    assert adapter_store.sessions.count() == 0


def test_what_would_come_back_as_another_is_named(adapter_store: Store) -> None:
    """Classes that change their values each time they are made."""

    class Gross(BaseModel):
        eur: int

        @field_validator("eur")
        @classmethod
        def taxed(cls, net: int) -> int:
            return net * 2

    @dataclass
    class Counted:
        n: int

        def __post_init__(self) -> None:
            self.n += 1

    storage = LedgerCheckpointStorage(adapter_store, types=[Gross, Counted])
    for bad, place in (
        ({"deep": [Gross(eur=1)]}, r"checkpoint\.state\.deep\[0\]: .*another"),
        ({"n": {"m": Counted(1)}}, r"checkpoint\.state\.n\.m: .*another"),
    ):
        with pytest.raises(NotSupported, match=place):
            asyncio.run(storage.save(WorkflowCheckpoint("w", "hash", state=bad)))
    assert adapter_store.sessions.count() == 0


def test_equal_sets_are_stored_alike() -> None:
    """Their order depends on how they grew, and in another process on its hashes."""
    some, other = set(range(0, 16, 8)), set(range(8, -8, -8))
    assert list(some) != list(other)
    assert encode(Types(), some, "s") == encode(Types(), other, "s")
    assert decode(Types(), encode(Types(), other, "s")) == some


def test_a_stored_class_that_is_not_registered(adapter_store: Store) -> None:
    """Nothing is imported for a name in the store, and nonsense is damage, not a value."""
    rich = LedgerCheckpointStorage(adapter_store, types=TYPES)
    checkpoint = WorkflowCheckpoint("w", "hash", state={"o": Order("x", 1)})
    asyncio.run(rich.save(checkpoint))
    poor = LedgerCheckpointStorage(adapter_store)
    with pytest.raises(NotSupported, match="'Order'"):
        asyncio.run(poor.load(checkpoint.checkpoint_id))
    renamed = LedgerCheckpointStorage(adapter_store, types={"Order": Approval})
    with pytest.raises(Corrupt):
        asyncio.run(renamed.load(checkpoint.checkpoint_id))
    for nonsense in ({"$": "os.system", "v": "true"}, {"$": "data", "n": "Order", "v": []}):
        with pytest.raises((Corrupt, NotSupported, KeyError)):
            decode(Types(TYPES), nonsense)
    with pytest.raises(InvalidValue, match="two classes"):
        Types([Order, type("Order", (Order,), {})])
    with pytest.raises(InvalidValue, match="types"):
        Types([object])


def test_storage_follows_what_changes(adapter_store: Store) -> None:
    """A large state that stays the same is stored once."""
    storage = LedgerCheckpointStorage(adapter_store)
    big = {"text": "x" * 50_000}
    previous = None
    for n in range(20):
        checkpoint = WorkflowCheckpoint(
            "w", "hash", previous_checkpoint_id=previous, state={"big": big, "n": n}
        )
        previous = asyncio.run(storage.save(checkpoint))
    (session,) = adapter_store.sessions.list(app="agent-framework").items
    nodes = list(adapter_store.nodes.iter(session.id, resolve=True))
    assert len(nodes) == 20
    assert len({digest for node in nodes for digest in node.resolved or {}}) == 1
    assert sum(len(str(node.body)) for node in nodes) < 20_000
    assert asyncio.run(storage.load(previous or "")).state["big"] == big


def test_missing_and_foreign(store_url: str, colour: str) -> None:
    async def work(store: AnyStore) -> None:
        storage = LedgerCheckpointStorage(store)
        with pytest.raises(WorkflowCheckpointException, match="No checkpoint found"):
            await storage.load("nothing")
        checkpoint = WorkflowCheckpoint("w", "hash", previous_checkpoint_id="gone")
        await storage.save(checkpoint)
        other = LedgerCheckpointStorage(store.for_tenant("other"))
        with pytest.raises(WorkflowCheckpointException):
            await other.load(checkpoint.checkpoint_id)
        assert await other.list_checkpoints(workflow_name="w") == []
        assert not await other.delete(checkpoint.checkpoint_id)
        assert await storage.load(checkpoint.checkpoint_id) == checkpoint
        assert await storage.delete(checkpoint.checkpoint_id)
        assert not await storage.delete(checkpoint.checkpoint_id)
        await storage.save(checkpoint)
        assert await storage.load(checkpoint.checkpoint_id) == checkpoint

    on_store(store_url, colour, work)


@pytest.mark.parametrize("seed", range(6))
def test_equal_to_the_library_over_random_programs(store_url: str, seed: int) -> None:
    async def work(store: AnyStore) -> None:
        rng = random.Random(seed)
        ours = LedgerCheckpointStorage(store, types=TYPES)
        theirs = InMemoryCheckpointStorage()
        known: list[WorkflowCheckpoint] = []
        for n in range(40):
            await _step(rng, n, ours, theirs, known)
        for name in ("a", "b", "c"):
            assert await ours.list_checkpoints(workflow_name=name) == (
                await theirs.list_checkpoints(workflow_name=name)
            )
            assert await ours.list_checkpoint_ids(workflow_name=name) == (
                await theirs.list_checkpoint_ids(workflow_name=name)
            )
            newest = await ours.get_latest(workflow_name=name)
            assert newest == await theirs.get_latest(workflow_name=name)

    on_store(store_url, "blocking" if seed % 2 else "async", work)


async def _step(
    rng: random.Random, n: int, ours: Any, theirs: Any, known: list[WorkflowCheckpoint]
) -> None:
    word = rng.choice(("save", "save", "again", "load", "delete"))
    calls: tuple[str, Any]
    if word == "save" or not known:
        known.append(_checkpoint(rng, n, known))
        calls = ("save", known[-1])
    elif word == "again":
        old = rng.choice(known)
        changed = copy.deepcopy(old)
        changed.state["n"] = Order("again", n)
        known[known.index(old)] = changed
        calls = ("save", changed)
    else:
        calls = (word, rng.choice(known).checkpoint_id)
    answers: list[Any] = []
    for storage in (ours, theirs):
        try:
            answers.append(await getattr(storage, calls[0])(calls[1]))
        except WorkflowCheckpointException as error:
            answers.append(str(error))
    assert answers[0] == answers[1]
    if word == "delete":
        known[:] = [one for one in known if one.checkpoint_id != calls[1]]


def _checkpoint(rng: random.Random, n: int, known: list[WorkflowCheckpoint]) -> WorkflowCheckpoint:
    name = rng.choice("ab")
    before = [one for one in known if one.workflow_name == name]
    return WorkflowCheckpoint(
        workflow_name=name,
        graph_signature_hash="hash",
        previous_checkpoint_id=rng.choice(before).checkpoint_id if before else None,
        timestamp=(
            datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=rng.randrange(9))
        ).isoformat(),
        messages={"x": [WorkflowMessage(Order("o", n), "x")]} if rng.random() < 0.5 else {},
        state={"n": n, "big": "y" * rng.choice((10, 900)), "_executor_state": {"e": [1] * 300}},
        iteration_count=n,
        metadata={"n": n},
    )
