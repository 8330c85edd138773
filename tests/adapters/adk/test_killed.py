"""Kill -9 in the middle of a loop: no turn is lost, and no tool runs twice unnoticed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from google.adk.agents import LlmAgent
from google.adk.runners import Runner
from google.genai import types

from ledgerstone import Store
from ledgerstone.adapters.adk import LedgerSessionService, store_id
from tests.adapters.adk.killed import tools
from tests.adapters.adk.scripted import KEY, Scripted, asks, calls, run, says, texts

pytestmark = pytest.mark.crash

ROOT = Path(__file__).parents[3]


def pending(events: list[Any]) -> list[types.FunctionCall]:
    """Calls that nobody answered: their tools may have run."""
    answered = {one.id for event in events for one in event.get_function_responses()}
    called = [one for event in events for one in event.get_function_calls()]
    return [one for one in called if one.id not in answered]


def die(url: str, log: Path, when: str) -> list[str]:
    """Run the agent until it is killed; the ids of the events that its caller was given."""
    child = subprocess.run(
        [sys.executable, "-m", "tests.adapters.adk.killed", url, str(log), when],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert child.returncode == -9, child.stderr
    return child.stdout.split()


@pytest.mark.parametrize("dies", ["before", "after"])
def test_killed_in_a_tool(lasting_url: str, tmp_path: Path, dies: str) -> None:
    log = tmp_path / "tools.txt"
    seen = die(lasting_url, log, dies)
    with Store.open(lasting_url) as store:
        service = LedgerSessionService(store)

        async def resume() -> None:
            session = await service.get_session(**KEY, session_id="s")
            assert session is not None
            kept = [one.id for one in session.events]
            assert [id for id in seen if id not in kept] == []
            assert session.state == {"trip": "new"}
            assert texts(session.events)[0] == "Book Oslo"
            assert "Pay it" in texts(session.events)
            # The call is in the history and its answer is not: that is how it is noticed.
            (open_call,) = pending(session.events)
            assert (open_call.name, open_call.args) == ("pay", {"eur": 120})
            ran = log.read_text().splitlines()
            assert ran == (["book Oslo", "pay 120"] if dies == "after" else ["book Oslo"])

            # A person looked: what happened is written down, or the tool is asked for again.
            model = Scripted(script=[says("Done.")])
            if dies == "before":
                model.script.insert(0, calls(("pay", {"eur": 120})))
            agent = LlmAgent(name="guide", model=model, tools=tools(log, "never"))
            runner = Runner(app_name=KEY["app_name"], agent=agent, session_service=service)
            outcome = {"paid": 120} if dies == "after" else {"error": "the process died"}
            answer = types.FunctionResponse(id=open_call.id, name="pay", response=outcome)
            message = types.Content(role="user", parts=[types.Part(function_response=answer)])
            loop = runner.run_async(user_id=KEY["user_id"], session_id="s", new_message=message)
            async for _ in loop:
                pass
            session = await service.get_session(**KEY, session_id="s")
            assert session is not None
            assert pending(session.events) == []
            assert texts(session.events)[-1] == "Done."

        run(resume())
        assert log.read_text().splitlines() == ["book Oslo", "pay 120"]
        assert store.admin.verify().ok
        roles = [one.role for one in store.messages.last(store_id(**KEY, session_id="s"))]
        assert roles.count("user") >= 2


def test_killed_between_two_turns(lasting_url: str, tmp_path: Path) -> None:
    """What was answered is there for whoever opens the store next, and the conversation goes on."""
    seen = die(lasting_url, tmp_path / "tools.txt", "between")
    with Store.open(lasting_url) as store:
        service = LedgerSessionService(store)

        async def resume() -> None:
            session = await service.get_session(**KEY, session_id="s")
            assert session is not None
            # The first is what the user said; it is not told to the caller of the loop.
            assert [one.id for one in session.events[1:]] == seen
            assert pending(session.events) == []
            agent = LlmAgent(name="guide", model=Scripted(script=[says("It is.")]))
            runner = Runner(app_name=KEY["app_name"], agent=agent, session_service=service)
            said = asks("Is it booked?")
            async for _ in runner.run_async(user_id="ada", session_id="s", new_message=said):
                pass
            session = await service.get_session(**KEY, session_id="s")
            assert session is not None
            assert texts(session.events)[-3:] == ["Booked.", "Is it booked?", "It is."]

        run(resume())
        assert store.admin.verify().ok


@pytest.mark.parametrize("count", [3, 8, 15])
def test_killed_while_appending(lasting_url: str, count: int) -> None:
    """All layers of the state changed with the last event, or none of them did."""
    with Store.open(lasting_url) as store:
        made = LedgerSessionService(store).create_session(**KEY, session_id="s", state={"n": 0})
        run(made)
    command = [sys.executable, "-m", "tests.adapters.adk.racing", lasting_url, "it", "1000000"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            told = [int(next(child.stdout)) for _ in range(count)]
        finally:
            child.kill()
        told += [int(line) for line in child.stdout]
    with Store.open(lasting_url) as store:
        session = run(LedgerSessionService(store).get_session(**KEY, session_id="s"))
        assert session is not None
        kept = len(session.events)
        # Of one event the process may not have lived to tell.
        assert kept in (told[-1], told[-1] + 1)
        assert texts(session.events) == [f"it {n}" for n in range(kept)]
        assert session.state == {"n": kept, "user:it": kept - 1, "app:it": kept - 1}
        assert store.admin.verify().ok
