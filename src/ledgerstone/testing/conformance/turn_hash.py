"""The turn hash: what makes a repeated turn the same turn."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Usage, tool_call, user
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
