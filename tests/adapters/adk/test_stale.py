"""Who may append: an object that has seen the newest commit of this very session, nobody else."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.runners import Runner
from google.adk.sessions.session import Session

from ledgerstone import Store
from ledgerstone.adapters.adk import LedgerSessionService, store_id
from ledgerstone.errors import Fenced, LeaseHeld
from tests.adapters.adk.scripted import KEY, Scripted, asks, event, run, says, served, texts

ROOT = Path(__file__).parents[3]
HERE: dict[str, Any] = {**KEY, "session_id": "s"}


async def listed(service: LedgerSessionService) -> Session:
    (found,) = (await service.list_sessions(**KEY)).sessions
    return found


async def stored(service: LedgerSessionService) -> Session:
    found = await service.get_session(**HERE)
    assert found is not None
    return found


def test_deleted_and_made_again(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        old = await service.create_session(**HERE)
        await service.append_event(old, event("of the old one"))
        of_list = await listed(service)
        await service.delete_session(**HERE)
        new = await service.create_session(**HERE)
        await service.append_event(new, event("of the new one"))
        # Both stand at the same revision: only the incarnation can tell.
        for late in (old, of_list):
            with pytest.raises(StaleSessionError, match="reload"):
                await service.append_event(late, event("no", state={"app:x": 1}))
        got = await stored(service)
        assert texts(got.events) == ["of the new one"]
        assert got.state == {}
        await service.append_event(new, event("more"))

    served(store_url, colour, work)


def test_an_object_of_a_list(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**HERE, state={"n": 0})
        await service.append_event(made, event("one"))
        seen, other = await listed(service), await listed(service)
        await service.append_event(seen, event("two"))
        await service.append_event(seen, event("three"))
        for stale in (made, other):
            with pytest.raises(StaleSessionError, match="reload"):
                await service.append_event(stale, event("no"))
        assert texts((await stored(service)).events) == ["one", "two", "three"]

    served(store_url, colour, work)


def test_a_session_that_has_no_commit_yet(adapter_store: Store) -> None:
    id = store_id(**HERE)
    adapter_store.sessions.create(id=id, user="ada", app="trips", title="theirs")
    service = LedgerSessionService(adapter_store)

    async def work() -> None:
        with pytest.raises(AlreadyExistsError, match="s already exists"):
            await service.create_session(**HERE, state={"n": 1, "user:n": 1})
        assert (await stored(service)).state == {}
        await service.append_event(Session(**KEY, id="s"), event("first"))
        assert texts((await stored(service)).events) == ["first"]

    run(work())


def test_a_lost_lease_beside_its_successor(adapter_store: Store) -> None:
    """One service for both: the first holder must not write under the lease of the second."""
    service = LedgerSessionService(adapter_store)
    id = store_id(**HERE)
    made = run(service.create_session(**HERE))
    lost = adapter_store.leases.take(id)
    assert lost is not None
    adapter_store.leases.release(lost)
    current = adapter_store.leases.take(id)
    assert current is not None

    async def first(taken: asyncio.Event, tried: asyncio.Event) -> None:
        with service.under(lost):
            await taken.wait()
            with pytest.raises(Fenced):
                await service.append_event(made, event("late"))
        tried.set()

    async def second(taken: asyncio.Event, tried: asyncio.Event) -> None:
        with service.under(current):
            taken.set()
            await tried.wait()
            # The other one has left its block by now.
            await asyncio.create_task(service.append_event(made, event("held")))

    async def both() -> None:
        taken, tried = asyncio.Event(), asyncio.Event()
        await asyncio.gather(first(taken, tried), second(taken, tried))
        assert texts((await stored(service)).events) == ["held"]

    run(both())


def test_a_blocking_runner_under_a_lease(adapter_store: Store) -> None:
    service = LedgerSessionService(adapter_store)
    run(service.create_session(**HERE))
    lease = adapter_store.leases.take(store_id(**HERE))
    assert lease is not None
    agent = LlmAgent(name="guide", model=Scripted(script=[says("Hello")]))
    runner = Runner(app_name=KEY["app_name"], agent=agent, session_service=service)
    question: dict[str, Any] = {"user_id": "ada", "session_id": "s", "new_message": asks("Hi")}
    with pytest.raises(LeaseHeld):
        list(runner.run(**question))
    with service.under(lease):
        list(runner.run(**question))
    assert texts(run(stored(service)).events) == ["Hi", "Hello"]


def test_cancelled_and_sent_again(store_url: str, colour: str) -> None:
    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**HERE)
        for n in range(20):
            one = event(str(n), state={"n": n})
            task = asyncio.create_task(service.append_event(made, one.model_copy(deep=True)))
            await asyncio.sleep(n / 4_000)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await service.append_event(made, one)
        got = await stored(service)
        assert texts(got.events) == [str(n) for n in range(20)]
        assert texts(made.events) == texts(got.events)
        assert got.state == made.state == {"n": 19}

    served(store_url, colour, work)


def test_cancelled_and_gone_on(store_url: str, colour: str) -> None:
    """As when one of several agents fails: the others are cancelled, and the invocation goes on."""

    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**HERE)
        for n in range(20):
            one = service.append_event(made, event(f"cancelled {n}", state={f"c{n}": n}))
            task = asyncio.create_task(one)
            await asyncio.sleep(n / 4_000)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await service.append_event(made, event(f"goes on {n}", state={"n": n}))
        got = await stored(service)
        # Stored or not, the object knows it, and has missed nothing.
        assert texts(made.events) == texts(got.events)
        assert got.state == made.state
        assert not service._waiting

    served(store_url, colour, work)


def test_cancelled_again_and_again(store_url: str, colour: str) -> None:
    """As some libraries do it, until a task has ended."""

    async def work(service: LedgerSessionService) -> None:
        made = await service.create_session(**HERE)
        for n in range(10):
            one = service.append_event(made, event(f"cancelled {n}", state={f"c{n}": n}))
            task = asyncio.create_task(one)
            for _ in range(4):
                await asyncio.sleep(0)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            assert task.cancelled()
            await service.append_event(made, event(f"goes on {n}", state={"n": n}))
        got = await stored(service)
        assert texts(made.events) == texts(got.events)
        assert got.state == made.state
        assert not service._waiting

    served(store_url, colour, work)


@pytest.mark.crash
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_two_processes(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if kind == "postgres":
        url: str = request.getfixturevalue("postgres_url")
    else:
        url = f"sqlite:///{tmp_path / 'store.db'}"
    with Store.open(url) as store:
        run(LedgerSessionService(store).create_session(**HERE, state={"n": 0}))
    command = [sys.executable, "-m", "tests.adapters.adk.racing", url]
    children = [
        subprocess.Popen([*command, name, "15"], cwd=ROOT, stdout=subprocess.DEVNULL)
        for name in ("left", "right")
    ]
    try:
        assert [child.wait(timeout=120) for child in children] == [0, 0]
    finally:
        for child in children:
            child.kill()
    with Store.open(url) as store:
        got = run(stored(LedgerSessionService(store)))
        said = texts(got.events)
        for name in ("left", "right"):
            mine = [text for text in said if text.startswith(name)]
            assert mine == [f"{name} {n}" for n in range(15)]
            assert got.state[f"user:{name}"] == got.state[f"app:{name}"] == 14
        assert len(said) == got.state["n"] == 30
        assert store.admin.verify().ok
