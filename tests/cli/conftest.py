"""A command line under test, and a store with something of everything in it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from ledgerstone import Store, assistant, tool_call, tool_result, user
from ledgerstone.cli.app import run

SECRET = "body-canary-93f1"
ESCAPE = "\x1b[31mred\x1b[0m"


class Done(NamedTuple):
    """What a command did: exit code and both outputs."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Done]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Runs a command line in this process, without a store in the environment."""
    monkeypatch.delenv("LEDGERSTONE_STORE", raising=False)

    def call(*arguments: object) -> Done:
        capsys.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return Done(code, captured.out, captured.err)

    return call


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Sessions "trip" (branched, with tombstones), "gone" (deleted), and one of another tenant."""
    path = tmp_path / "agent.db"
    with Store.open(path) as opened:
        make_trip(opened)
        opened.messages.append("gone", user(SECRET), create=True)
        opened.sessions.delete("gone")
        other = opened.for_tenant("red")
        other.messages.append("red-1", user(SECRET), create=True)
    return path


def make_trip(store: Store) -> None:
    """main: m1 m2 m3 m4; cheap leaves at m2; m4 was rewritten once; c4 is deleted."""
    store.sessions.create(id="trip", user="ada", title="Oslo", model="m-1")
    call = tool_call("pay", {"eur": 120}, id="call-1")
    store.messages.append(
        "trip",
        user(f"{SECRET} and {ESCAPE}", id="m1"),
        assistant([call], id="m2", finish_reason="tool_calls"),
        tool_result("call-1", {"ok": True}, id="m3"),
        assistant("first answer", id="old4"),
    )
    store.branches.create("trip", "cheap", at="m2")
    store.messages.append("trip", user("by bus", id="c3"), user("today", id="c4"), branch="cheap")
    kept = store.messages.history("trip")[:3]
    store.messages.replace("trip", [*kept, assistant("second answer", id="m4")])
    store.messages.delete("c4", session="trip")
