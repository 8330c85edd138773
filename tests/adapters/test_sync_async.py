"""One copy of an adapter's work, for callers and stores of either colour."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ledgerstone import AsyncStore, Store, user
from ledgerstone.adapters import versions
from ledgerstone.adapters.sync_async import AnyStore, StoreRunner, each, of
from ledgerstone.adapters.versions import require
from ledgerstone.errors import InvalidValue, Misuse, NotSupported
from tests.adapters.conftest import opened


async def work(store: AnyStore) -> list[str]:
    """What an adapter does: a call, and an iteration."""
    await of(store.messages.append("s", user("a"), user("b"), create=True))
    return [message.text async for message in each(store.messages.iter("s"))]


def test_blocking_caller(adapter_store: Store) -> None:
    assert StoreRunner(adapter_store).run_sync(work(adapter_store)) == ["a", "b"]


def test_async_caller(store_url: str, colour: str) -> None:
    async def go() -> None:
        async with opened(store_url, colour) as store:
            assert await StoreRunner(store).run_async(work(store)) == ["a", "b"]

    asyncio.run(go())


def test_blocking_caller_in_a_thread_beside_the_loop(store_url: str) -> None:
    async def go() -> None:
        async with AsyncStore.open(store_url) as store:
            runner = StoreRunner(store)
            assert await asyncio.to_thread(lambda: runner.run_sync(work(store))) == ["a", "b"]
            with pytest.raises(Misuse, match="event loop in another thread"):
                runner.run_sync(work(store))

    asyncio.run(go())


def test_cancelled_before_a_thread_was_free() -> None:
    """What never ran is closed: a coroutine that nobody awaited would be told as a mistake."""

    async def go(store: Store) -> None:
        free = threading.Event()
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(1))
        busy = asyncio.ensure_future(asyncio.to_thread(free.wait, 10))
        asked = work(store)
        waiting = asyncio.ensure_future(StoreRunner(store).run_async(asked))
        await asyncio.sleep(0.01)
        waiting.cancel()
        await asyncio.wait([waiting])
        assert inspect.getcoroutinestate(asked) == inspect.CORO_CLOSED
        free.set()
        await busy

    with Store.open("memory://") as store:
        asyncio.run(go(store))
        assert store.sessions.count() == 0


def test_not_a_store() -> None:
    with pytest.raises(InvalidValue, match="an open store"):
        StoreRunner("agent.db")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name", ["adk", "agent_framework", "langgraph", "openai_agents", "pydantic_ai"]
)
def test_a_newer_framework_warns_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = importlib.import_module(f"ledgerstone.adapters.{name}")
    monkeypatch.setattr(versions, "version", lambda package: "99.1")
    monkeypatch.setattr(versions, "_warned", set())
    monkeypatch.delenv(versions.SWITCH, raising=False)
    with pytest.warns(versions.UntestedVersionWarning, match=r"99\.1 is newer .*UNTESTED=refuse"):
        importlib.reload(adapter)
    # Warnings are errors here: a second one would raise.
    importlib.reload(adapter)
    monkeypatch.setenv(versions.SWITCH, "refuse")
    with pytest.raises(NotSupported, match=r"99\.1 \(.* is tested\)"):
        importlib.reload(adapter)
    monkeypatch.setattr(versions, "_warned", set())
    monkeypatch.setenv(versions.SWITCH, "allow")
    importlib.reload(adapter)
    monkeypatch.setenv(versions.SWITCH, "maybe")
    with pytest.raises(InvalidValue, match="warn, refuse or allow"):
        importlib.reload(adapter)


def test_extras_leave_newer_frameworks_to_the_warning() -> None:
    """An upper bound there would make pip refuse what is only warned of."""
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    extras = tomllib.loads(text)["project"]["optional-dependencies"]
    assert [one for extra in extras.values() for one in extra if "<" in one] == []


def test_versions() -> None:
    require("msgspec", (0, 1), (9,), "x")
    with pytest.raises(NotSupported, match=r"msgspec .* \(9 up to, not including, 10 is tested"):
        require("msgspec", (9,), (10,), "x")
    with pytest.raises(NotSupported, match=r'nothing-here is not installed; pip install "ledger'):
        require("nothing-here", (1,), (2,), "x")
