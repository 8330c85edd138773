"""Processes that end or are killed in the middle of a run, and those that go on after them."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from ledgerstone import Store
from ledgerstone.errors import TicketClosed
from ledgerstone.testing.faults.processes import PRELOAD, server
from tests.adapters.openai_agents import desk as desk_of

TIMEOUT_S = 60


# Importing the SDK takes seconds: the server that processes are forked from does it once.
PRELOAD.append(desk_of.__name__)


class Desk:
    """Runs the program, one process after the other."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.effects, self.answer = folder / "effects", folder / "answer"
        self.effects.touch()

    def run(self, mode: str, kill: str = "") -> str:
        self.answer.write_text("nothing", "utf-8")
        given = (self.url, str(self.effects), mode, kill, str(self.answer))
        process = server().Process(target=desk_of.entry, args=given)
        process.start()
        process.join(TIMEOUT_S)
        assert process.exitcode == (-signal.SIGKILL if kill else 0), self.answer.read_text("utf-8")
        return self.answer.read_text("utf-8")

    @property
    def done(self) -> list[str]:
        return self.effects.read_text("utf-8").split()

    def decide(self) -> None:
        """Somebody finds out what came of the calls that have no outcome."""
        with Store.open(self.url) as store:
            for one in store.executions.unresolved(session="s"):
                if str(one.arguments["n"]) in self.done:
                    store.executions.finish(one.id, result="it was done")
                else:
                    store.executions.finish(one.id, error="it never happened")

    def check_history(self) -> None:
        """Nothing lost, nothing twice: every call once with its result, and the answer."""
        with Store.open(self.url) as store:
            path = store.messages.history("s")
            calls = [one for message in path for one in message.tool_calls]
            told = [message.body.tool_call_id for message in path if message.role == "tool"]
            assert sorted(one.arguments["n"] for one in calls) == [1, 2, 3]
            assert sorted(told, key=str) == sorted(one.id for one in calls)
            assert path[0].text == "Work."
            assert path[-1].text == "Done."
            assert store.admin.verify("s").ok


@pytest.mark.crash
@pytest.mark.parametrize("kill", ["model:1", "model:2", "model:3"])
def test_killed_between_turns(lasting_url: str, tmp_path: Path, kill: str) -> None:
    desk = Desk(lasting_url, tmp_path)
    desk.run("begin", kill)
    assert desk.run("continue") == "ended"
    assert sorted(desk.done) == ["1", "2", "3"]
    desk.check_history()


@pytest.mark.crash
@pytest.mark.parametrize("kill", ["after:1", "after:2", "after:3"])
def test_killed_after_the_effect(lasting_url: str, tmp_path: Path, kill: str) -> None:
    """Nobody goes on before somebody said what came of it; then nothing is done twice."""
    desk = Desk(lasting_url, tmp_path)
    desk.run("begin", kill)
    effects = desk.done
    for mode in ("continue", "recover"):
        assert desk.run(mode).startswith("CallUnresolved")
    assert desk.done == effects
    desk.decide()
    assert desk.run("continue").startswith("CallsLeft")
    assert desk.done == effects
    assert desk.run("recover") == "ended"
    assert sorted(desk.done) == ["1", "2", "3"]
    desk.check_history()


@pytest.mark.crash
@pytest.mark.parametrize("kill", ["before:1", "before:3"])
def test_killed_before_the_effect(lasting_url: str, tmp_path: Path, kill: str) -> None:
    desk = Desk(lasting_url, tmp_path)
    desk.run("begin", kill)
    assert desk.run("recover").startswith("CallUnresolved")
    desk.decide()
    assert desk.run("recover") == "ended"
    assert sorted(desk.done) == ["1", "2", "3"]
    desk.check_history()


@pytest.mark.crash
def test_approved_the_next_day(lasting_url: str, tmp_path: Path) -> None:
    """Each process runs until it needs a yes, and ends; a person decides in between."""
    desk = Desk(lasting_url, tmp_path)
    said = desk.run("ask")
    for _ in range(5):
        if said == "ended":
            break
        before = desk.done
        word, *tickets = said.split()
        assert word == "asked"
        assert desk.run("resume") == said
        assert desk.done == before
        with Store.open(lasting_url) as store:
            waiting = store.tickets.inbox(session="s").items
            assert {one.id for one in waiting} == set(tickets)
            for ticket in tickets:
                store.tickets.resolve(ticket, "approve", by="ada")
        said = desk.run("resume")
    assert said == "ended"
    assert sorted(desk.done) == ["1", "2", "3"]
    desk.check_history()


@pytest.mark.crash
@pytest.mark.parametrize("kill", ["before:1", "after:1", "model:1"])
def test_killed_after_the_approval(lasting_url: str, tmp_path: Path, kill: str) -> None:
    """The approved call was begun by a process that is gone."""
    desk = Desk(lasting_url, tmp_path)
    _, ticket = desk.run("ask").split()
    with Store.open(lasting_url) as store:
        store.tickets.resolve(ticket, "approve", by="ada")
    desk.run("resume", kill)
    if kill == "model:1":
        # The call has its result, and the turn is stored: the state is a thing of the past.
        assert desk.done == ["1"]
        assert desk.run("resume").startswith("LeafMoved")
        assert desk.run("continue") == "ended"
        assert sorted(desk.done) == ["1", "2", "3"]
        desk.check_history()
        return
    assert desk.run("resume").startswith("CallUnresolved")
    effects = desk.done
    assert effects == (["1"] if kill == "after:1" else [])
    desk.decide()
    assert desk.run("resume").startswith("asked")
    assert desk.done == ["1"]


@pytest.mark.crash
@pytest.mark.parametrize("mode", ["ask", "begin"])
def test_killed_before_the_old_question_is_withdrawn(
    lasting_url: str, tmp_path: Path, mode: str
) -> None:
    """The run that asked was given up, for one that asks anew or for one that ends."""
    desk = Desk(lasting_url, tmp_path)
    _, old = desk.run("ask").split()
    desk.run(mode, "withdraw")
    # Whoever comes next takes the question back, whether he goes on with a state or begins.
    word, *asked = desk.run("resume").split()
    with Store.open(lasting_url) as store:
        waiting = store.tickets.inbox(session="s").items
        assert [one.id for one in waiting] == asked
        assert old not in asked
        with pytest.raises(TicketClosed, match="withdrawn"):
            store.tickets.resolve(old, "approve", by="ada")
        for ticket in asked:
            store.tickets.resolve(ticket, "approve", by="ada")
    assert word == ("asked" if mode == "ask" else "ended")
