"""The turn hash: what makes a repeated turn the same turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Opaque, Usage, tool_call, user
from ledgerstone.errors import TurnConflict
from ledgerstone.testing.bed import Bed

Fill = Callable[[Any], object]


def _plain(turn: Any) -> object:
    return turn.assistant("hello", metadata={"a": 1})


SAME: dict[str, Fill] = {
    "the same": _plain,
    "a given message id": lambda t: t.assistant("hello", metadata={"a": 1}, id="mine"),
    "a given time": lambda t: t.assistant("hello", metadata={"a": 1}, created_us=5),
}
OTHER: dict[str, Fill] = {
    "text": lambda t: t.assistant("hello!", metadata={"a": 1}),
    "role": lambda t: t.user("hello", metadata={"a": 1}),
    "metadata": lambda t: t.assistant("hello", metadata={"a": 2}),
    "one more part": lambda t: t.assistant(["hello", ""], metadata={"a": 1}),
    "two messages": lambda t: (_plain(t), _plain(t)),
    "one more node": lambda t: (_plain(t), t.node("event", 1)),
    "state": lambda t: (_plain(t), t.state(a=1)),
    "usage": lambda t: (_plain(t), t.use("m", Usage(1, 1))),
    "a value": lambda t: (_plain(t), t.value(b"x")),
    "a note": lambda t: (_plain(t), t.note("m1", "k", 1)),
    "a run": lambda t: (_plain(t), t.run("running")),
    "config": lambda t: (_plain(t), t.head(config={"a": 1})),
    "frames": lambda t: (_plain(t), t.head(frames=[], current_frame="f")),
    "a checkpoint": lambda t: (_plain(t), t.checkpoint(turn_state={"n": 1})),
    "a tombstone": lambda t: (_plain(t), t.tombstone("m1")),
    "an amendment": lambda t: (_plain(t), t.amend("m1", is_summary=True)),
    "an attachment": lambda t: (_plain(t), t.attach("a1")),
    "a trace": lambda t: (_plain(t), t.trace({"kind": "k", "name": "n"})),
    "a report": lambda t: (_plain(t), t.report({"subject": "x"})),
    "an artifact": lambda t: (_plain(t), t.artifact("a", "0" * 64)),
}


# Two turns that say the same kind of thing with other content: each pair must be told apart.
PAIRS: dict[str, tuple[Fill, Fill]] = {
    "state": (lambda t: t.state(a=1), lambda t: t.state(a=2)),
    "a key of state": (lambda t: t.state(a=1), lambda t: t.state(b=1)),
    "no state": (lambda t: t.state(a=None), lambda t: t.state(b=None)),
    "usage": (lambda t: t.use("m", Usage(1)), lambda t: t.use("m", Usage(2))),
    "model": (lambda t: t.use("m", Usage(1)), lambda t: t.use("n", Usage(1))),
    "source": (lambda t: t.use("m", Usage(1)), lambda t: t.use("m", Usage(1), source="x")),
    "value": (lambda t: t.value(b"x"), lambda t: t.value(b"y")),
    "note": (lambda t: t.note("m1", "k", 1), lambda t: t.note("m1", "k", 2)),
    "note's key": (lambda t: t.note("m1", "k", 1), lambda t: t.note("m1", "l", 1)),
    "note's node": (lambda t: t.note("m1", "k", 1), lambda t: t.note("m2", "k", 1)),
    "trace": (
        lambda t: t.trace({"kind": "k", "name": "n"}),
        lambda t: t.trace({"kind": "k", "name": "n", "success": False}),
    ),
    "report": (
        lambda t: t.report({"subject": "x"}),
        lambda t: t.report({"subject": "x", "status": "passed"}),
    ),
    "run's status": (lambda t: t.run("created"), lambda t: t.run("done")),
    "run's steps": (lambda t: t.run("running", steps=1), lambda t: t.run("running", steps=2)),
    "config": (lambda t: t.head(config=1), lambda t: t.head(config=2)),
    "frames": (lambda t: t.head(frames=[1]), lambda t: t.head(frames=[2])),
    "config or frames": (
        lambda t: t.head(config={"current": "", "frames": []}),
        lambda t: t.head(frames=[], current_frame=""),
    ),
    "checkpoint": (
        lambda t: t.checkpoint(turn_state={"n": 1}),
        lambda t: t.checkpoint(turn_state={"n": 2}),
    ),
    "tombstone": (lambda t: t.tombstone("m1"), lambda t: t.tombstone("m2")),
    "amendment": (
        lambda t: t.amend("m1", metadata={"a": 1}),
        lambda t: t.amend("m1", metadata={"a": 2}),
    ),
    "amended message": (
        lambda t: t.amend("m1", is_summary=True),
        lambda t: t.amend("m2", is_summary=True),
    ),
    "attachment": (lambda t: t.attach("a1"), lambda t: t.attach("a2")),
    "kind": (lambda t: t.node("a", 1), lambda t: t.node("b", 1)),
    "body": (lambda t: t.node("a", 1), lambda t: t.node("a", 2)),
    "label": (lambda t: t.node("a", 1, label="x"), lambda t: t.node("a", 1, label="y")),
    "meta": (lambda t: t.node("a", 1, meta={"k": 1}), lambda t: t.node("a", 1, meta={"k": 2})),
    "values": (
        lambda t: t.node("a", 1, values=["0" * 64]),
        lambda t: t.node("a", 1, values=["1" * 64]),
    ),
    "format": (lambda t: t.node("a", Opaque("f", b"1")), lambda t: t.node("a", Opaque("g", b"1"))),
    "opaque or not": (lambda t: t.node("a", Opaque("f", b"1")), lambda t: t.node("a", 1)),
    "borders of fields": (
        lambda t: t.node("ab", 1, label="c"),
        lambda t: t.node("a", 1, label="bc"),
    ),
    "order": (
        lambda t: (t.user("a"), t.user("b")),
        lambda t: (t.user("b"), t.user("a")),
    ),
}


class TestTheTurnHash:
    """Contract D26: everything that was said counts, nothing of the envelope does."""

    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.messages.append("s", user("hi", id="m1"), create=True)
        return "s"

    @pytest.mark.promise(112)
    @pytest.mark.parametrize("name", SAME)
    def test_ids_and_times_do_not_count(self, backend: Bed, session: str, name: str) -> None:
        with backend.store.turns.begin(session, id="t") as turn:
            _plain(turn)
        with backend.unchanged(session):
            again = backend.store.turns.begin(session, id="t")
            SAME[name](again)
            assert again.commit().replayed

    @pytest.mark.promise(112)
    @pytest.mark.parametrize("name", OTHER)
    def test_everything_else_counts(self, backend: Bed, session: str, name: str) -> None:
        with backend.store.turns.begin(session, id="t") as turn:
            _plain(turn)
        other = backend.store.turns.begin(session, id="t")
        OTHER[name](other)
        with backend.unchanged(session), pytest.raises(TurnConflict):
            other.commit()

    @pytest.mark.promise(112)
    @pytest.mark.parametrize("name", PAIRS)
    def test_other_content_of_the_same_kind_counts(
        self, backend: Bed, session: str, name: str
    ) -> None:
        first, second = PAIRS[name]
        backend.store.messages.append(session, user("more", id="m2"))
        turn = backend.store.turns.begin(session, id="t", run_id="r1")
        first(turn)
        turn.commit()
        same = backend.store.turns.begin(session, id="t", run_id="r1")
        first(same)
        with backend.unchanged(session):
            assert same.commit().replayed
        other = backend.store.turns.begin(session, id="t", run_id="r1")
        second(other)
        with backend.unchanged(session), pytest.raises(TurnConflict):
            other.commit()

    @pytest.mark.promise(112)
    def test_the_branch_counts(self, backend: Bed, session: str) -> None:
        backend.store.branches.create(session, "side", at="m1")
        with backend.store.turns.begin(session, id="t") as turn:
            turn.user("hello")
        other = backend.store.turns.begin(session, id="t", branch="side")
        other.user("hello")
        with backend.unchanged(session), pytest.raises(TurnConflict):
            other.commit()

    @pytest.mark.promise(112)
    @pytest.mark.parametrize("name", ["id", "timestamp", "node_id"])
    def test_arguments_named_like_an_envelope_count(
        self, backend: Bed, session: str, name: str
    ) -> None:
        def commit(value: int) -> None:
            with backend.store.turns.begin(session, id="t") as turn:
                turn.assistant([tool_call("pay", {name: value}, id="c1")])

        commit(1)
        commit(1)
        with backend.unchanged(session), pytest.raises(TurnConflict):
            commit(2)
