"""A message is stored once: what a thread takes follows its text, turn after turn."""

from __future__ import annotations

import random
import string
import uuid
from itertools import pairwise
from pathlib import Path
from typing import Any

import apsw
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph

from ledgerstone import Store
from ledgerstone.adapters.langgraph import LedgerSaver
from tests.adapters.langgraph.graphs import State, thread
from tests.conftest import Say

TURNS = 200
SIZE = 1000
LETTERS = string.ascii_letters + string.digits + " "
MOST_TIMES_THE_TEXT = 3.0


def words(draw: random.Random, size: int = SIZE) -> str:
    return "".join(draw.choices(LETTERS, k=size))


def conversation(saver: LedgerSaver, draw: random.Random) -> Any:
    """A graph that answers each turn with as much noise as it was told."""

    def bot(state: State) -> dict[str, Any]:
        return {"messages": [AIMessage(words(draw), id=str(uuid.UUID(int=draw.getrandbits(128))))]}

    builder = StateGraph(State)
    builder.add_node("bot", bot)
    builder.add_edge(START, "bot")
    builder.add_edge("bot", END)
    return builder.compile(checkpointer=saver)


def size_of(path: Path) -> int:
    with Store.open(f"sqlite:///{path}"):
        pass
    return sum(
        one.stat().st_size for one in path.parent.iterdir() if one.name.startswith(path.name)
    )


def told(draw: random.Random, form: str) -> Any:
    text = words(draw)
    if form == "message":
        return HumanMessage(text)
    return ("user", text) if form == "pair" else {"role": "user", "content": text}


@pytest.mark.parametrize("form", ["message", "pair", "object"])
def test_a_long_conversation_takes_less_than_three_times_its_text(
    tmp_path: Path, seed: int, form: str, say: Say
) -> None:
    draw = random.Random(seed)
    path = tmp_path / "store.db"
    sizes = []
    with Store.open(f"sqlite:///{path}", durability="process") as store:
        empty = _settled(path)
        graph = conversation(LedgerSaver(store), draw)
        for turn in range(TURNS):
            graph.invoke({"messages": [told(draw, form)]}, thread("t"))
            if turn in (TURNS // 4 - 1, TURNS // 2 - 1, 3 * TURNS // 4 - 1):
                sizes.append(_settled(path))
    sizes.append(size_of(path))
    text = TURNS * 2 * SIZE
    # An empty store has a page for each table; what the conversation takes comes after that.
    times = (sizes[-1] - empty) / text
    steps = [b - a for a, b in pairwise([empty, *sizes])]
    whole = f"{sizes[-1] / text:.2f} with the empty store"
    say(f"langgraph storage, {form}: {times:.2f} times the text, {whole}; quarters {steps}")
    assert times < MOST_TIMES_THE_TEXT
    assert max(steps) < 1.15 * min(steps), "each quarter of the turns takes the same"


def _settled(path: Path) -> int:
    """The size with the log written into the file."""
    connection = apsw.Connection(str(path))
    try:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    finally:
        connection.close()
    return path.stat().st_size
