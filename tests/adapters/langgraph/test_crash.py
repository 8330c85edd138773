"""kill -9 in the middle of a graph, again and again: it goes on, and nothing is lost or hidden."""

from __future__ import annotations

import random
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import HumanMessage

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerSaver
from ledgerstone.testing.faults.processes import PRELOAD, Child
from tests.adapters.langgraph.graphs import programmable, thread
from tests.adapters.langgraph.victim import SESSION, paying, talk, turns
from tests.conftest import Say

KILLS = 5
FIRST_S = 60.0
LIVES_S = (0.0, 0.25)
WORDS = ("h", "q", "t-call-", "a")
ROLES = ["user", "assistant", "tool", "assistant"]


# Importing LangGraph takes seconds: the server that children are forked from does it once.
PRELOAD.append("tests.adapters.langgraph.victim")


def _live_and_die(url: str, journal: Path, durability: str, draw: random.Random) -> list[str]:
    """What a victim said before it was killed, at any moment after its first turn."""
    child = Child(talk, url, journal, durability)
    said: list[str] = []
    try:
        for data in child.hear(FIRST_S):
            said.append(data.decode())
            break
        time.sleep(draw.uniform(*LIVES_S))
    finally:
        said += [data.decode() for data in child.kill()]
    return said


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.parametrize("durability", ["sync", "async"])
def test_no_turn_is_lost_and_no_tool_runs_twice_unnoticed(
    lasting_url: str, tmp_path: Path, durability: str, seed: int, say: Say
) -> None:
    draw, journal = random.Random(seed), tmp_path / "journal"
    said: list[str] = []
    for _ in range(KILLS):
        said += _live_and_die(lasting_url, journal, durability, draw)
    with Store.open(lasting_url) as store:
        state = programmable(LedgerSaver(store)).get_state(thread(SESSION))
        messages = state.values["messages"]
        count = sum(isinstance(one, HumanMessage) for one in messages)
        names = [f"{word}{n}" for n in range(count) for word in WORDS]
        assert [one.id for one in messages] == names[: len(messages)]
        texts = [one.text for one in messages]
        assert [text for text in said if text not in texts] == [], "what was said is there"
        assert store.admin.verify().defects == []
        # get_state also shows writes whose checkpoint is still to come; the session does not.
        stored = LedgerSaver(store).get_tuple(thread(SESSION))
        assert stored is not None
        held = stored.checkpoint["channel_values"].get("messages", [])
        kept = [one.text for one in store.messages.history(SESSION) if one.role == "user"]
        assert kept == [one.text for one in held if isinstance(one, HumanMessage)]
    lines = Counter(journal.read_text().split("\n")[:-1])
    paid = {line: count for line, count in lines.items() if line.startswith("paid")}
    for line, times in paid.items():
        assert times - 1 <= lines[line.replace("paid", "doubt")], "a second run was announced"
    assert len(paid) >= len([one for one in messages if one.type == "tool"])
    place, runs = lasting_url.split(":", maxsplit=1)[0], sum(paid.values())
    done = f"{count} turns, {len(paid)} tools, {runs} runs of them"
    say(f"langgraph killed -9, {place}, {durability}: {KILLS} times, {done}")


class Crash(Exception):
    """What stands for the end of a process."""


def _mortal(saver: LedgerSaver, calls: int) -> LedgerSaver:
    """A saver whose process ends after so many writes: nothing comes after that."""
    left = [calls]

    def limited(method: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            if left[0] <= 0:
                raise Crash
            left[0] -= 1
            return method(*args, **options)

        return call

    for name in ("put", "put_writes"):
        setattr(saver, name, limited(getattr(saver, name)))
    return saver


@pytest.mark.parametrize("durability", ["sync", "async"])
def test_a_crash_between_any_two_calls(tmp_path: Path, durability: Any) -> None:
    for calls in range(1, 20):
        with Store.open("memory://") as store:
            journal = tmp_path / f"journal-{calls}"
            graph = paying(store, journal)
            graph.checkpointer = _mortal(LedgerSaver(store), calls)
            with pytest.raises(Crash):
                turns(graph, 3, durability)
            graph = paying(store, journal)
            turns(graph, 3, durability)
            found = [one.id for one in graph.get_state(thread(SESSION)).values["messages"]]
            names = [f"{word}{n}" for n in range(len(found) // 4) for word in WORDS]
            assert found == names, f"after {calls} calls"
            roles = [one.role for one in store.messages.history(SESSION)]
            assert roles == ROLES * (len(found) // 4)
