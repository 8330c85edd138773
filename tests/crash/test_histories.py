"""The judge of histories: a true one passes, and each single lie about it is found by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest
from msgspec.structs import replace

from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import (
    Acked,
    Event,
    Found,
    Granted,
    History,
    Planned,
    Verdict,
    decode_event,
    encode_event,
    judge,
    read_back,
)
from ledgerstone.testing.scoreboard import Scoreboard

pytestmark = pytest.mark.faults

TURNS = {"t1": ("t1.0", "t1.1"), "t2": ("t2.0",), "t3": ("t3.0", "t3.1", "t3.2")}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """A session with three turns; the third was never acknowledged."""
    path = tmp_path_factory.mktemp("histories") / "store.db"
    with closing(open_sqlite(str(path))) as backend:
        for turn, nodes in TURNS.items():
            backend.write(commit_of("s", turn, *("x" for _ in nodes)))
        return read_back(backend, TENANT, "s")


def events() -> list[Event]:
    said: list[Event] = [Granted("s", 1), Granted("s", 4)]
    for revision, (turn, nodes) in enumerate(TURNS.items(), start=1):
        said.append(Planned("s", turn, nodes))
        if turn != "t3":
            said.append(Acked("s", turn, revision, nodes))
    return [*said, Planned("s", "t4", ("t4.0",)), Planned("other", "t9", ("t9.0",))]


def judged(found: Found, said: list[Event]) -> Verdict:
    history = History()
    for event in said:
        history.add(decode_event(encode_event(event)))
    return judge(history, found)


def test_a_true_history_passes(found: Found, scoreboard: Scoreboard) -> None:
    with scoreboard.line("the judge of histories: a true one passes", "sqlite") as line:
        verdict = judged(found, events())
        line.n, line.violations = verdict.turns, verdict.violations
        assert (verdict.turns, verdict.acked, verdict.unacked) == (3, 2, 1)


STORED: dict[str, tuple[str, Callable[[Found], Found]]] = {
    "a turn is gone": (
        "lost",
        lambda one: replace(one, turns=one.turns[1:], nodes=one.nodes[2:], revision=2),
    ),
    "a node is gone": ("half", lambda one: replace(one, nodes=one.nodes[1:])),
    "a node of an unanswered turn is gone": (
        "half",
        lambda one: replace(one, nodes=one.nodes[:-1]),
    ),
    "a turn without its nodes": ("half", lambda one: replace(one, nodes=one.nodes[:3])),
    "nodes without their turn": ("half", lambda one: replace(one, turns=one.turns[:2])),
    "a turn twice": ("doubled", lambda one: replace(one, turns=[*one.turns, one.turns[0]])),
    "a node twice": ("doubled", lambda one: replace(one, nodes=[*one.nodes, one.nodes[0]])),
    "an unknown node": ("strange", lambda one: replace(one, nodes=[*one.nodes, "x"])),
    "a head that is behind": ("strange", lambda one: replace(one, revision=2)),
    "a draft that outlived its turn": ("strange", lambda one: replace(one, drafts=["t1.0"])),
    "another revision": (
        "lost",
        lambda one: replace(one, turns=[replace(turn, revision=9) for turn in one.turns]),
    ),
}


def test_control_a_store_that_shows_something_else_is_found(
    found: Found, scoreboard: Scoreboard
) -> None:
    title = "the judge of histories, the store shows something else"
    with scoreboard.line(title, "sqlite", control=True) as line:
        for name, (kind, lie) in STORED.items():
            verdict = judged(lie(found), events())
            assert getattr(verdict, kind), name
            named = [text for text in verdict.violations if text.startswith(f"{kind}: ")]
            assert named, name
            line.n += 1
            line.violations += named[:1]


SAID: dict[str, tuple[str, Event]] = {
    "an answer for a turn that is not there": ("lost", Acked("s", "t4", 4, ("t4.0",))),
    "an answer with another revision": ("lost", Acked("s", "t2", 3, ("t2.0",))),
    "an answer with another node": ("lost", Acked("s", "t2", 2, ("t2.0", "t2.1"))),
    "a fence that comes again": ("strange", Granted("s", 4)),
    "a fence that falls": ("strange", Granted("s", 3)),
    "a larger plan": ("half", Planned("s", "t1", ("t1.0", "t1.1", "t1.2"))),
}


def test_control_a_history_that_says_something_else_is_found(
    found: Found, scoreboard: Scoreboard
) -> None:
    title = "the judge of histories, the history says something else"
    with scoreboard.line(title, "sqlite", control=True) as line:
        for name, (kind, lie) in SAID.items():
            named = getattr(judged(found, [*events(), lie]), kind)
            assert named, name
            line.n += 1
            line.violations += named[:1]
        unplanned = [event for event in events() if getattr(event, "turn", "") != "t2"]
        strange = judged(found, unplanned).strange
        assert strange
        line.n += 1
        line.violations += strange[:1]


def test_verdicts_add_up_without_repeating_themselves() -> None:
    total = Verdict()
    for _ in range(2):
        total.add(Verdict(lost=["a"], half=["b"]))
    assert total.violations == ["lost: a", "half: b"]
