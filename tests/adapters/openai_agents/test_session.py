"""The four methods of the session protocol, and what goes beyond them."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from agents.memory.session import Session as Protocol
from agents.memory.session import _session_accepts_wrapper
from msgspec.structs import replace

from ledgerstone import Store, assistant, formats, tool_call, tool_result, user
from ledgerstone.adapters import openai_agents
from ledgerstone.adapters.openai_agents import LedgerSession
from ledgerstone.adapters.sync_async import AnyStore, of
from ledgerstone.errors import (
    AlreadyExists,
    BranchNotFound,
    InvalidValue,
    LeaseHeld,
    NotSupported,
    SessionDeleted,
)
from ledgerstone.records.executions import Execution
from ledgerstone.records.messages import Message
from ledgerstone.records.parts import Image
from tests.adapters.conftest import decided_by_the_adapter, opened

ASK = {"role": "user", "content": "Oslo?"}
SAY = {"role": "assistant", "content": [{"type": "output_text", "text": "9:40"}], "type": "message"}
CALL = {"type": "function_call", "call_id": "c1", "name": "find", "arguments": '{"to": "Oslo"}'}
DONE = {"type": "function_call_output", "call_id": "c1", "output": "9:40"}

Work = Callable[[AnyStore], Awaitable[None]]


@pytest.fixture
def run(store_url: str, colour: str) -> Callable[[Work], None]:
    """Runs work over a store of each kind and colour."""

    def go(work: Work) -> None:
        async def main() -> None:
            async with opened(store_url, colour) as store:
                await work(store)

        asyncio.run(main())

    return go


def test_it_fits_the_protocol(adapter_store: Store) -> None:
    session = LedgerSession(adapter_store, "s")
    assert isinstance(session, Protocol)
    assert _session_accepts_wrapper(session)
    assert session.session_settings is not None


def test_items_come_back_as_they_were(run: Callable[[Work], None]) -> None:
    async def work(store: AnyStore) -> None:
        session = LedgerSession(store, "s", user="ada", title="Trip")
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.clear_session()
        await session.add_items([])
        assert await of(store.sessions.get("s")) is None
        await session.add_items([ASK, CALL], wrapper=None)
        await session.add_items([DONE, SAY])
        assert await session.get_items() == [ASK, CALL, DONE, SAY]
        assert await session.get_items(2) == [DONE, SAY]
        assert await session.get_items(limit=0) == []
        assert await session.get_items(99) == [ASK, CALL, DONE, SAY]
        assert [list(one) for one in await session.get_items()] == [
            list(one) for one in (ASK, CALL, DONE, SAY)
        ]
        assert await session.pop_item() == SAY
        assert await session.get_items() == [ASK, CALL, DONE]
        made = await of(store.sessions.get("s"))
        assert made is not None
        assert (made.user, made.title) == ("ada", "Trip")
        found = await of(store.messages.last("s", 3))
        assert [one.role for one in found] == ["user", "assistant", "tool"]
        assert found[1].tool_calls[0].arguments == {"to": "Oslo"}

    run(work)


def test_a_limit_of_the_settings(adapter_store: Store) -> None:
    async def work() -> None:
        session = LedgerSession(adapter_store, "s", session_settings={"limit": 1})
        await session.add_items([ASK, SAY])
        assert await session.get_items() == [SAY]
        assert await session.get_items(2) == [ASK, SAY]

    asyncio.run(work())


@pytest.mark.parametrize(
    ("items", "path"),
    [
        ("text", "items"),
        ([ASK, "text"], r"items\[1\]"),
        ([ASK, {"role": "user", "content": [{"type": "x", "data": b"1"}]}], r"items\[1\].*data"),
        ([{"role": "user", "content": "a", "at": {"n": float("nan")}}], r"items\[0\].*n"),
        ([{"role": "user", "content": "a", "at": object()}], r"items\[0\].*at"),
        ([{"role": "user", "content": "a", "at": {1: 2}}], r"items\[0\].*at"),
    ],
)
def test_what_can_not_be_stored_is_named(adapter_store: Store, items: Any, path: str) -> None:
    session = LedgerSession(adapter_store, "s")
    with pytest.raises(InvalidValue, match=path):
        asyncio.run(session.add_items(items))
    assert asyncio.run(session.get_items()) == []


@decided_by_the_adapter
@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"session_id": ""}, "session"),
        ({"session_id": "s", "branch": ""}, "branch"),
        ({"session_id": "s", "on_clear": "burn"}, "on_clear"),
        ({"session_id": "s", "session_settings": {"limitt": 1}}, "'limitt'; known are limit"),
        ({"session_id": "s", "session_settings": {1: 1}}, "unknown setting 1"),
        ({"session_id": "s", "session_settings": {"limit": "many"}}, "session_settings"),
        ({"session_id": "s", "session_settings": 1}, "session_settings"),
    ],
)
def test_bad_options(adapter_store: Store, options: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidValue, match=field):
        LedgerSession(adapter_store, **options)


def test_a_session_without_a_user_gets_one_with_the_first_write(
    run: Callable[[Work], None],
) -> None:
    async def work(store: AnyStore) -> None:
        await of(store.sessions.create(id="s", title="Trip", app="a", metadata={"k": 1}))
        await of(store.messages.append("s", user("Oslo?")))
        before = await of(store.sessions.get("s"))
        session = LedgerSession(store, "s", user="ada", title="other")
        assert len(await session.get_items()) == 1
        assert await of(store.sessions.get("s")) == before, "reading writes nothing"
        await session.add_items([SAY])
        made = await of(store.sessions.get("s"))
        assert before is not None
        assert made is not None
        assert made == replace(before, user="ada", updated_us=made.updated_us)
        assert made.updated_us >= before.updated_us
        assert len(await session.get_items()) == 2
        assert [one.id for one in (await of(store.sessions.list(user="ada"))).items] == ["s"]
        await LedgerSession(store, "s").add_items([ASK])
        again = await of(store.sessions.get("s"))
        assert again is not None
        assert again.user == "ada"

    run(work)


def test_the_session_of_another_user_is_refused(run: Callable[[Work], None]) -> None:
    async def work(store: AnyStore) -> None:
        await LedgerSession(store, "s", user="ada").add_items([ASK])
        before = await of(store.sessions.head("s"))
        other = LedgerSession(store, "s", user="bob")
        for call in (
            other.get_items,
            lambda: other.get_items(1),
            lambda: other.add_items([SAY]),
            other.pop_item,
            other.clear_session,
            other.branches,
            other.recover,
            lambda: other.create_branch("b"),
            lambda: other.branch("main").get_items(),
            lambda: other._atomic_replace_items([SAY]),
            lambda: other._get_compaction_snapshot(1),
        ):
            with pytest.raises(InvalidValue, match="invalid user: session 's' belongs to another"):
                await call()
        assert await of(store.sessions.head("s")) == before
        assert await LedgerSession(store, "s", user="ada").get_items() == [ASK]
        waiting = [LedgerSession(store, "new", user=name) for name in ("ada", "bob")]
        assert [await one.get_items() for one in waiting] == [[], []]
        await waiting[0].add_items([ASK])
        with pytest.raises(InvalidValue, match="belongs to another"):
            await waiting[1].add_items([SAY])

    run(work)


def test_not_a_store() -> None:
    with pytest.raises(InvalidValue, match="an open store"):
        LedgerSession("agent.db", "s")  # type: ignore[arg-type]


def test_an_older_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ledgerstone.adapters.versions.version", lambda name: "0.19.9")
    with pytest.raises(NotSupported, match=r"openai-agents 0\.19\.9 .*is tested"):
        importlib.reload(openai_agents)


def test_another_tenant_sees_nothing(run: Callable[[Work], None]) -> None:
    async def work(store: AnyStore) -> None:
        ours, theirs = LedgerSession(store, "s"), LedgerSession(store.for_tenant("other"), "s")
        await ours.add_items([ASK])
        assert await theirs.get_items() == []
        assert await theirs.pop_item() is None
        assert await theirs.branches() == []
        await theirs.clear_session()
        await theirs.add_items([SAY])
        assert await ours.get_items() == [ASK]
        assert await theirs.get_items() == [SAY]

    run(work)


def test_two_writers_lose_nothing(run: Callable[[Work], None]) -> None:
    async def work(store: AnyStore) -> None:
        one, two = LedgerSession(store, "s"), LedgerSession(store, "s")

        async def write(session: LedgerSession, name: str) -> None:
            for n in range(10):
                await session.add_items(
                    [{"role": "user", "content": f"{name}{n}{half}"} for half in "ab"]
                )

        await asyncio.gather(write(one, "x"), write(two, "y"))
        said = [item["content"] for item in await one.get_items()]
        assert sorted(said) == sorted(f"{w}{n}{h}" for w in "xy" for n in range(10) for h in "ab")
        assert all(a[:-1] == b[:-1] for a, b in zip(said[::2], said[1::2], strict=True))
        popped = await asyncio.gather(*(s.pop_item() for s in (one, two) for _ in range(5)))
        assert sorted(item["content"] for item in popped if item) == sorted(said[-10:])

    run(work)


def test_a_lease_fences(adapter_store: Store) -> None:
    lease = adapter_store.leases.take("s", owner="worker") if _made(adapter_store) else None
    assert lease is not None
    with pytest.raises(LeaseHeld):
        asyncio.run(LedgerSession(adapter_store, "s").add_items([ASK]))
    with pytest.raises(LeaseHeld):
        asyncio.run(LedgerSession(adapter_store, "s", on_clear="purge").clear_session())
    owner = LedgerSession(adapter_store, "s", lease=lease)
    asyncio.run(owner.add_items([ASK, SAY]))
    assert asyncio.run(owner.pop_item()) == SAY
    assert asyncio.run(owner.get_items()) == [ASK]


def _made(store: Store) -> bool:
    return store.sessions.create(id="s") is not None


def test_clear_hides_or_removes(run: Callable[[Work], None]) -> None:
    async def work(store: AnyStore) -> None:
        session = LedgerSession(store, "s", user="ada")
        await session.add_items([ASK, SAY])
        await session.clear_session()
        assert await session.get_items() == []
        assert (await of(store.sessions.get("s"))) is not None
        await session.add_items([DONE])
        assert await session.get_items() == [DONE]
        purging = LedgerSession(store, "s", on_clear="purge")
        await LedgerSession(store, "nobody", on_clear="purge").clear_session()
        await purging.clear_session()
        assert await of(store.sessions.get("s")) is None
        await purging.add_items([ASK])
        assert await purging.get_items() == [ASK]
        await of(store.sessions.delete("s"))
        with pytest.raises(SessionDeleted):
            await session.add_items([ASK])

    run(work)


def test_messages_of_other_origins_are_items(run: Callable[[Work], None]) -> None:
    async def work(store: AnyStore) -> None:
        both = assistant(["I look.", tool_call("find", {"to": "Oslo"}, id="c1")])
        await of(
            store.messages.append("s", user("Oslo?"), both, tool_result("c1", "9:40"), create=True)
        )
        session = LedgerSession(store, "s")
        items = await session.get_items()
        kinds = [item.get("type", item.get("role")) for item in items]
        assert kinds == ["user", "assistant", "function_call", "function_call_output"]
        assert await session.get_items(3) == items[1:]
        assert await session.get_items(1) == items[3:]
        assert await session.pop_item() == items[3]
        # Of a message that is two items, one goes and the other stays.
        assert await session.pop_item() == items[2]
        assert await session.get_items() == items[:2]
        assert await session.pop_item() == items[1]
        assert await session.pop_item() == items[0]
        assert await session.pop_item() is None

    run(work)


def asked(text: str) -> Message:
    """A request as Pydantic AI keeps it, with the system prompt in each."""
    said = [
        {"part_kind": "system-prompt", "content": "Be brief."},
        {"part_kind": "user-prompt", "content": text},
    ]
    return formats.keep("pydantic-ai", {"kind": "request", "parts": said})


def test_what_was_said_before_does_not_come_back(run: Callable[[Work], None]) -> None:
    """Alone, the second request would be two items."""

    async def work(store: AnyStore) -> None:
        await of(
            store.messages.append("s", asked("One"), assistant("1"), asked("Two"), create=True)
        )
        session = LedgerSession(store, "s")
        items = await session.get_items()
        assert [item["role"] for item in items] == ["system", "user", "assistant", "user"]
        for limit in range(1, 6):
            assert await session.get_items(limit) == items[-limit:]
        assert (await session._get_compaction_snapshot(1)).items == items[-1:]
        other = await session.create_branch("other", items=3)
        assert await other.get_items() == items[:3]
        snapshot = await session._get_compaction_snapshot(9)
        assert snapshot.items == items
        assert await session.pop_item() == items[3]
        assert await session.get_items() == items[:3]
        assert await session.pop_item() == items[2]
        assert await session.pop_item() == items[1]
        assert await session.get_items() == items[:1]

    run(work)


def test_bytes_that_others_keep_as_blobs(run: Callable[[Work], None]) -> None:
    """A model gets the picture, not the name that the store has for it."""

    async def work(store: AnyStore) -> None:
        blob = await of(store.blobs.put(b"\x89PNG", media_type="image/png"))
        seen = user(["Look", Image(blob=blob.ref, media_type="image/png")])
        await of(store.messages.append("s", seen, assistant("I see"), create=True))
        session = LedgerSession(store, "s")
        items = await session.get_items()
        assert items[0]["content"][1]["image_url"] == "data:image/png;base64,iVBORw=="
        assert items == await of(store.session("s").as_openai())
        for _ in range(2):
            assert await session.get_items() == items
        assert await session.get_items(2) == items
        assert (await session._get_compaction_snapshot(9)).items == items
        await session.pop_item()
        assert await session.pop_item() == items[0]

    run(work)


def test_branches(run: Callable[[Work], None]) -> None:
    async def work(store: AnyStore) -> None:
        session = LedgerSession(store, "s")
        await session.add_items([ASK, CALL, DONE, SAY])
        short = await session.create_branch("short", items=1)
        same = await session.create_branch("same")
        fewer = await same.create_branch("fewer", items=-1)
        empty = await session.create_branch("empty", items=0)
        assert await short.get_items() == [ASK]
        assert await same.get_items() == [ASK, CALL, DONE, SAY]
        assert await fewer.get_items() == [ASK, CALL, DONE]
        assert await empty.get_items() == []
        await short.add_items([SAY])
        await same.clear_session()
        assert await session.branch("short").get_items() == [ASK, SAY]
        assert await session.branch("same").get_items() == []
        assert await session.get_items() == [ASK, CALL, DONE, SAY]
        assert await session.branches() == ["main", "empty", "fewer", "same", "short"]
        assert short.branch_name == "short"
        assert short.branch("main").branch_name == "main"
        with pytest.raises(AlreadyExists):
            await session.create_branch("short")
        with pytest.raises(BranchNotFound):
            await session.branch("nowhere").add_items([ASK])
        assert await session.branch("nowhere").get_items() == []
        with pytest.raises(InvalidValue, match="5 of 4"):
            await session.create_branch("far", items=5)

    run(work)


def test_a_cancelled_write_has_ended_when_the_cancellation_arrives(
    run: Callable[[Work], None],
) -> None:
    async def work(store: AnyStore) -> None:
        session = LedgerSession(store, "s")
        await session.add_items([ASK])
        task = asyncio.ensure_future(session.add_items([SAY, DONE]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        first = await session.get_items()
        # The result of a guarded call has its id beforehand, and only once.
        made = Execution(id="e", session="s", call_id="c1", tool="find", message_id="m")
        session._tracker.outputs["c1"] = made
        task = asyncio.ensure_future(session.add_items([CALL, DONE]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while await session.get_items() != first:
            await session.pop_item()
        await session.add_items([CALL, DONE])
        assert await session.get_items() == [*first, CALL, DONE]
        for _ in range(2):
            await session.pop_item()
        await asyncio.sleep(0.05)
        assert await session.get_items() == first
        assert first in ([ASK], [ASK, SAY, DONE])

    run(work)
