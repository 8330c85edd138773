"""Lost answers: the error says what became unknown, and how to go on without doing it twice."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import AsyncStore, Store, assistant, user
from ledgerstone.codec import sha256
from ledgerstone.commands import Command
from ledgerstone.commands.turns import FindTurn
from ledgerstone.errors import Fenced, InvalidValue, OutcomeUnknown
from ledgerstone.ports.backend import Backend
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.records.usage import Usage
from ledgerstone.rules.outcomes import SAME
from ledgerstone.testing.bed import Bed
from ledgerstone.testing.wrappers import Wrapper

DATA = b"plan"
REF = sha256(DATA)


class Losing(Wrapper):
    """While it is `armed`, no write is answered: it was performed, or it was not."""

    def __init__(self, inner: Backend, performs: bool) -> None:
        super().__init__(inner)
        self.performs = performs
        self.armed = False

    def write(self, command: Command[Any]) -> Any:
        if not self.armed or isinstance(command, FindTurn):
            return self.inner.write(command)
        if self.performs:
            self.inner.write(command)
        raise OutcomeUnknown("the line went dead")


class Lost:
    """A store whose answers can be lost, and the errors that come of it."""

    def __init__(self, bed: Bed, performs: bool) -> None:
        self.performs = performs
        self._losing = Losing(bed.port, performs)
        self.store = Store(self._losing, clock=bed.clock)
        self.store.sessions.create(id="s")
        self.store.blobs.put(DATA)

    def lose(self, call: Callable[[Store], object]) -> OutcomeUnknown:
        """The error of a call whose answer does not come."""
        self._losing.armed = True
        try:
            with pytest.raises(OutcomeUnknown) as caught:
                call(self.store)
        finally:
            self._losing.armed = False
        return caught.value


COMMITS: dict[str, Callable[[Store], object]] = {
    "append": lambda s: s.messages.append("s", user("new")),
    "replace": lambda s: s.messages.replace("s", [user("other")]),
    "pop": lambda s: s.messages.pop("s"),
    "clear": lambda s: s.messages.clear("s"),
    "amend": lambda s: s.messages.amend("m1", session="s", metadata={"a": 1}),
    "delete": lambda s: s.messages.delete("m1", session="s"),
    "compact": lambda s: s.messages.compact("s", "short", tail_start=None),
    "turns.commit": lambda s: s.turns.commit("s", [user("new")], id="t9"),
    "branches.create": lambda s: s.branches.create("s", "side"),
    "usage.record": lambda s: s.usage.record("s", "m", Usage(1, 1)),
}

Again = Callable[[Store, OutcomeUnknown], object]
OTHERS: dict[str, tuple[Callable[[Store], object], Again, Callable[[Store], object], object]] = {
    "sessions.create": (
        lambda s: s.sessions.create(title="new"),
        lambda s, error: s.sessions.create(id=error.id, title="new"),
        lambda s: s.sessions.count(),
        2,
    ),
    "sessions.update": (
        lambda s: s.sessions.update("s", title="new"),
        lambda s, _: s.sessions.update("s", title="new"),
        lambda s: s.sessions.list().items[0].title,
        "new",
    ),
    "sessions.delete": (
        lambda s: s.sessions.delete("s"),
        lambda s, _: s.sessions.delete("s"),
        lambda s: s.sessions.count(),
        0,
    ),
    "runs.create": (
        lambda s: s.runs.create("s"),
        lambda s, error: s.runs.get(str(error.id)) or s.runs.create("s", id=error.id),
        lambda s: len(s.runs.list()),
        1,
    ),
    "work.enqueue": (
        lambda s: s.work.enqueue("s", {"a": 1}),
        lambda s, error: s.work.enqueue("s", {"a": 1}, id=error.id),
        lambda s: len(s.work.list("s")),
        1,
    ),
    "leases.take": (
        lambda s: s.leases.take("s"),
        lambda s, error: s.leases.take("s", owner=error.id),
        lambda s: [s.leases.get("s") is not None, s.leases.take("s")],
        [True, None],
    ),
    "embeddings.put": (
        lambda s: s.embeddings.put([1.0, 0.0]),
        lambda s, error: s.embeddings.put([1.0, 0.0], id=error.id),
        lambda s: len(list(s.embeddings.iter())),
        1,
    ),
    "executions.start": (
        lambda s: s.executions.start("s", call_id="c", tool="pay", arguments={}),
        lambda s, error: s.executions.start(
            "s", call_id="c", tool="pay", arguments={}, id=error.id
        ),
        lambda s: len(s.executions.list(session="s")),
        1,
    ),
    "artifacts.put": (
        lambda s: s.artifacts.put("plan", blob=REF, session="s"),
        lambda s, error: s.artifacts.put("plan", blob=REF, session="s", id=error.id),
        lambda s: len(s.artifacts.versions("plan", session="s")),
        1,
    ),
    "blobs.put": (
        lambda s: s.blobs.put(b"bytes"),
        lambda s, _: s.blobs.put(b"bytes"),
        lambda s: s.blobs.get(sha256(b"bytes")),
        b"bytes",
    ),
    "memories.put": (
        lambda s: s.memories.put(("a",), "k", 1),
        lambda s, _: s.memories.put(("a",), "k", 1),
        lambda s: [one.value for one in s.memories.search()],
        [1],
    ),
    "usage.budget": (
        lambda s: s.usage.budget(tokens=10, session="s"),
        lambda s, error: s.usage.budget(tokens=10, session="s", id=error.id),
        lambda s: len(s.usage.budgets()),
        1,
    ),
    "traces.append": (
        lambda s: s.traces.append("s", {"kind": "k", "name": "n"}),
        lambda s, _: s.traces.list("s") or s.traces.append("s", {"kind": "k", "name": "n"}),
        lambda s: len(s.traces.list("s")),
        1,
    ),
}


@pytest.mark.promise(230)
class TestLostAnswers:
    @pytest.fixture(params=[True, False], ids=["performed", "not performed"])
    def lost(self, request: pytest.FixtureRequest, backend: Bed) -> Lost:
        return Lost(backend, request.param)

    def test_the_same_messages_appended_again_are_stored_once(self, lost: Lost) -> None:
        said = (user("hi"), assistant("hello"))
        error = lost.lose(lambda s: s.messages.append("s", *said))
        for _ in range(2):
            again = lost.store.messages.append("s", *said)
            assert [one.id for one in again] == [one.id for one in said]
        assert [one.text for one in lost.store.messages.history("s")] == ["hi", "hello"]
        assert (error.session, error.reason) == ("s", "the line went dead")
        assert "the line went dead" in str(error)
        assert "store.turns.outcome(error)" in str(error)

    def test_an_append_that_makes_its_session(self, lost: Lost) -> None:
        said = user("hi")
        error = lost.lose(lambda s: s.messages.append("new", said, create=True))
        found = lost.store.turns.outcome(error)
        assert (found is not None) == lost.performs
        lost.store.messages.append("new", said, create=True)
        assert [one.id for one in lost.store.messages.history("new")] == [said.id]

    def test_what_is_made_twice_is_stored_twice(self, lost: Lost) -> None:
        """An id belongs to an object, not to a text."""
        lost.store.messages.append("s", user("hi"))
        lost.store.messages.append("s", user("hi"))
        assert [one.text for one in lost.store.messages.history("s")] == ["hi", "hi"]

    @pytest.mark.parametrize("name", COMMITS)
    def test_the_outcome_of_a_commit_can_be_asked(self, lost: Lost, name: str) -> None:
        lost.store.messages.append("s", user("one", id="m1"))
        error = lost.lose(COMMITS[name])
        found = lost.store.turns.outcome(error)
        if not lost.performs:
            assert found is None
            assert lost.store.sessions.head("s").revision == 1  # type: ignore[union-attr]
            return
        assert isinstance(found, TurnCommitted)
        assert (found.session, found.turn, found.revision) == ("s", error.turn, 2)
        assert error.session == "s"

    def test_a_turn_is_committed_again(self, lost: Lost) -> None:
        turn = lost.store.turns.begin("s")
        said = turn.user("once")
        error = lost.lose(lambda _: turn.commit())
        assert error.turn == turn.id
        done = turn.commit()
        assert (done.turn, done.revision, done.replayed) == (error.turn, 1, lost.performs)
        assert [one.id for one in lost.store.messages.history("s")] == [said.id]
        found = lost.store.turns.outcome(error)
        assert found is not None
        assert found.revision == 1

    def test_another_handle_and_an_async_one_know_it_too(self, lost: Lost, backend: Bed) -> None:
        error = lost.lose(lambda s: s.messages.append("s", user("hi")))
        found = [backend.open().turns.outcome(error), asyncio.run(_asked(backend, error))]
        assert [one is not None for one in found] == [lost.performs] * 2

    @pytest.mark.parametrize("name", OTHERS)
    def test_every_other_write_is_repeated_safely(self, lost: Lost, name: str) -> None:
        call, again, count, wanted = OTHERS[name]
        error = lost.lose(call)
        assert error.next_step
        assert str(error) == f"{error.reason}; {error.next_step}"
        assert error.turn is None
        again(lost.store, error)
        assert count(lost.store) == wanted

    def test_a_lease_taken_again_is_never_the_one_of_a_former_self(self, lost: Lost) -> None:
        former = lost.store.leases.take("s", owner="pod-0")
        error = lost.lose(lambda s: s.leases.take("s", owner="pod-0"))
        assert "reenter" not in error.next_step
        again = lost.store.leases.take("s", owner=error.id)
        assert again is not None
        assert again == lost.store.leases.get("s")
        with pytest.raises(Fenced):
            lost.store.messages.append("s", user("late"), lease=former)

    def test_a_block_whose_lease_was_lost_is_entered_again(self, lost: Lost) -> None:
        error = lost.lose(lambda s: s.leases.hold("s").__enter__())
        with lost.store.leases.hold("s", owner=error.id, heartbeat=False) as held:
            lost.store.messages.append("s", user("mine"), lease=held)
        assert lost.store.leases.get("s") is None

    @pytest.mark.parametrize("leased", [True, False])
    def test_a_tool_call_whose_begin_was_lost_is_made_once(self, lost: Lost, leased: bool) -> None:
        """The block did not begin, so the tool was not called: the same caller may go on."""
        store = lost.store
        call: dict[str, Any] = {"call_id": "c", "tool": "pay", "arguments": {}}
        where: Any = store.leases.take("s") if leased else "s"
        error = lost.lose(lambda s: s.executions.run(where, **call).__enter__())
        assert "executions.start" in error.next_step
        begun = store.executions.start(where, **call, id=error.id)
        store.executions.finish(begun.id, result=1)
        found = store.executions.list(session="s")
        assert [(one.id, one.status, one.attempts) for one in found] == [(error.id, "succeeded", 1)]

    def test_a_decision_is_made_once(self, lost: Lost) -> None:
        store = lost.store
        store.runs.create("s", id="r")
        asking = store.turns.begin("s", run_id="r")
        ticket = asking.ask("c", tool="pay", arguments={})
        asking.commit()
        error = lost.lose(lambda s: s.tickets.resolve(ticket, "approve", by="me"))
        assert (error.id, error.next_step) == (ticket.id, SAME)
        assert store.tickets.resolve(ticket, "approve", by="me").status == "resolved"
        assert len(store.work.list("s")) == 1

    def test_a_retry_that_is_decided_shows(self, lost: Lost) -> None:
        store = lost.store
        store.executions.start("s", call_id="c", tool="pay", arguments={}, id="e")
        error = lost.lose(lambda s: s.executions.retry("e", later=True))
        assert "pending" in error.next_step
        found = store.executions.get("e")
        assert found is not None
        assert (found.status == "pending") == lost.performs

    def test_asking_for_what_was_no_commit_is_refused(self, lost: Lost) -> None:
        error = lost.lose(lambda s: s.memories.put(("a",), "k", 1))
        with pytest.raises(InvalidValue, match="no commit; repeat the call"):
            lost.store.turns.outcome(error)
        not_one: Any = ValueError("x")
        with pytest.raises(InvalidValue, match="an OutcomeUnknown expected"):
            lost.store.turns.outcome(not_one)


async def _asked(backend: Bed, error: OutcomeUnknown) -> TurnCommitted | None:
    return await AsyncStore(Wrapper(backend.port), clock=backend.clock).turns.outcome(error)
