"""Reads in one round trip answer what the same reads in a transaction do."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ledgerstone import Store
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.engines.postgres import brief_reads
from ledgerstone.engines.postgres import interactive as postgres_interactive
from ledgerstone.engines.postgres.brief_reads import TAIL_MAX, may_be_brief


def both_ways(monkeypatch: pytest.MonkeyPatch, read: Any) -> tuple[Any, Any]:
    """What a read answers in one trip and in a transaction."""
    brief = read()
    with monkeypatch.context() as patch:
        patch.setattr(postgres_interactive, "may_be_brief", lambda query: False)
        return brief, read()


def test_the_last_messages_of_sessions_of_all_kinds(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    print(f"seed {seed}")
    dice = random.Random(seed)
    monkeypatch.setattr(brief_reads, "WHOLE_MAX", 9)
    with Store.open(postgres_url) as store:
        for n in range(12):
            session = f"s{n}"
            store.sessions.create(id=session)
            for turn_no in range(dice.randrange(8)):
                run = dice.choice((None, f"{session}-r{turn_no % 3}"))
                with store.turns.begin(session, run_id=run) as turn:
                    for _ in range(dice.randrange(1, 4)):
                        message = turn.user(f"text {dice.random()}")
                    if run is not None:
                        turn.run("running")
                if dice.random() < 0.2:
                    store.messages.delete(message.id, session=session)
                elif dice.random() < 0.2:
                    store.messages.amend(message.id, session=session, metadata={"n": n})
                if dice.random() < 0.1:
                    store.branches.create(session, f"b{turn_no}")
                if dice.random() < 0.1:
                    store.messages.pop(session)
            for count in (1, 2, 5, TAIL_MAX):
                brief, slow = both_ways(
                    monkeypatch, lambda s=session, c=count: store.messages.last(s, c)
                )
                assert brief == slow, (session, count)
            brief, slow = both_ways(monkeypatch, lambda s=session: store.messages.history(s))
            assert brief == slow, session
            assert_same = both_ways(monkeypatch, lambda s=session: store.sessions.get(s))
            assert assert_same[0] == assert_same[1]
        assert both_ways(monkeypatch, lambda: store.messages.last("none", 3)) == ([], [])
        assert both_ways(monkeypatch, lambda: store.sessions.get("none")) == (None, None)


def test_a_brief_read_takes_one_trip(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object) -> None:
        raise AssertionError("a transaction was begun")

    with Store.open(postgres_url) as store:
        with store.turns.begin(store.sessions.create(id="s"), run_id="r") as turn:
            hidden = turn.user("a")
            turn.assistant("b")
            turn.user("c")
            turn.state(k=1)
            turn.run("running")
        store.messages.delete(hidden.id, session="s")
        store.messages.last("s", 1)
        monkeypatch.setattr(postgres_interactive, "_SNAPSHOT", never)
        assert [message.text for message in store.messages.last("s", 1)] == ["c"]
        b, c = store.messages.last("s", 2)
        assert (b.parent, c.parent) == (hidden.id, b.id)
        assert store.messages.history("s") == [b, c]
        assert b.run_id == "r"
        assert store.sessions.get("s") is not None
        assert store.sessions.state("s") == {"k": 1}
        assert store.sessions.states(["none", "s"]) == {"s": {"k": 1}}


def test_only_main_is_brief() -> None:
    query = ReadMessages(tenant="t", session="s", last=TAIL_MAX)
    assert may_be_brief(query)
    assert may_be_brief(ReadMessages(tenant="t", session="s"))
    assert not may_be_brief(ReadMessages(tenant="t", session="s", first=1))
    assert not may_be_brief(ReadMessages(tenant="t", session="s", last=TAIL_MAX + 1))
    assert not may_be_brief(ReadMessages(tenant="t", session="s", last=1, branch="b"))
