"""Reads in one round trip answer what the same reads in a transaction do."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ledgerstone import Store
from ledgerstone.backends import postgres_interactive, postgres_reads
from ledgerstone.backends.postgres_many import CHUNK_ROWS, ManyInsert, in_chunks
from ledgerstone.backends.postgres_reads import TAIL_MAX, may_be_brief
from ledgerstone.commands.nodes import ReadMessages
from ledgerstone.sql.catalogue import load


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
    monkeypatch.setattr(postgres_reads, "WHOLE_MAX", 9)
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


def test_which_statements_take_many_rows_at_once() -> None:
    texts = {name: statement.text for name, statement in load("postgres").items()}
    node = ManyInsert.of(texts["insert_node"])
    assert node is not None
    row = tuple(range(14))
    text, columns = node.call([row, (*row[:3], None, *row[4:])])
    assert text.endswith("on conflict do nothing")
    assert columns[3] == [3, None]
    text, columns = node.call([(1, None, *row[2:]), (2, None, *row[2:])])
    assert "select u.c0, null, u.c2" in text
    assert len(columns) == 13
    assert ManyInsert.of(texts["tombstone"]) is None
    document = ManyInsert.of(texts["put_document"])
    assert document is not None
    assert document.fits([(1, "a", b"x"), (1, "b", b"x"), (2, "a", b"x")])
    assert not document.fits([(1, "a", b"x"), (1, "a", b"y")]), "it would meet its own row"
    assert node.fits([row, row])


def test_chunks_are_bounded_and_lose_nothing() -> None:
    rows = [(n, b"x" * 1000) for n in range(3 * CHUNK_ROWS + 7)]
    parts = in_chunks(rows)
    assert [row for part in parts for row in part] == rows
    assert max(len(part) for part in parts) == CHUNK_ROWS
    assert [len(part) for part in in_chunks([(1, b"x" * 9_000_000)] * 3)] == [1, 1, 1]
    assert in_chunks([]) == []
