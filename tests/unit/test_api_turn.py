"""Turns: what stays until it is committed, and what a commit does when the answer is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from ledgerstone import (
    AsyncStore,
    Fenced,
    LeaseExpired,
    LedgerstoneError,
    ManualClock,
    OutcomeUnknown,
    RevisionMoved,
    Store,
    TurnConflict,
    Usage,
    tool_call,
    user,
)
from ledgerstone.api_sync.commits import REPEATS_MAX
from ledgerstone.clock import SystemClock
from ledgerstone.commands import Command
from ledgerstone.commands.turns import CommitTurn
from ledgerstone.engines.memory.backend import open_memory
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.wrappers import Wrapper


class Unreliable(Wrapper):
    """Loses the answers of commits: the work is done (or not), the caller is not told."""

    def __init__(self, inner: Backend) -> None:
        super().__init__(inner)
        self.lose = 0
        self.do_it = True
        self.seen: list[CommitTurn] = []

    def write(self, command: Command[Any]) -> Any:
        if not isinstance(command, CommitTurn):
            return self.inner.write(command)
        self.seen.append(command)
        if self.lose == 0:
            return self.inner.write(command)
        self.lose -= 1
        if self.do_it:
            self.inner.write(command)
        raise OutcomeUnknown("no answer came")


@pytest.fixture
def backend() -> Unreliable:
    return Unreliable(open_memory(None, SystemClock()))


@pytest.fixture
def store(backend: Unreliable) -> Iterator[Store]:
    with Store(backend) as store:
        store.sessions.create(id="s")
        yield store


@pytest.mark.parametrize("do_it", [True, False])
def test_a_lost_answer_is_asked_for_again(backend: Unreliable, store: Store, do_it: bool) -> None:
    backend.lose, backend.do_it = REPEATS_MAX, do_it
    turn = store.turns.begin("s")
    turn.user("once")
    done = turn.commit()
    assert (done.revision, done.replayed) == (1, do_it)
    assert [m.text for m in store.messages.history("s")] == ["once"]
    assert len({(c.turn, c.hash) for c in backend.seen}) == 1


def test_repeating_is_bounded_and_the_turn_is_kept(backend: Unreliable, store: Store) -> None:
    backend.lose = 1 + REPEATS_MAX
    turn = store.turns.begin("s")
    turn.user("once")
    wanted = turn.id
    with pytest.raises(OutcomeUnknown):
        turn.commit()
    assert len(backend.seen) == 1 + REPEATS_MAX
    done = turn.commit()
    assert (done.turn, done.replayed, done.revision) == (wanted, True, 1)
    assert done.messages == store.messages.history("s")


def test_an_append_is_repeated_as_well(backend: Unreliable, store: Store) -> None:
    backend.lose = 2
    (made,) = store.messages.append("s", user("once"))
    assert store.messages.history("s") == [made]


def test_content_stays_after_an_error_and_goes_after_a_success(store: Store) -> None:
    turn = store.turns.begin("s", expected_revision=7)
    made = turn.user("kept")
    first = turn.id
    with pytest.raises(RevisionMoved):
        turn.commit()
    turn.expected_revision = 0
    done = turn.commit()
    assert (done.turn, done.messages[0].id) == (first, made.id)
    assert turn.messages == []
    assert turn.id != first
    assert turn.expected_revision == 1
    turn.user("next")
    assert turn.commit().revision == 2


def test_adding_after_a_lost_answer_is_a_conflict_not_a_loss(
    backend: Unreliable, store: Store
) -> None:
    backend.lose = 1 + REPEATS_MAX
    turn = store.turns.begin("s")
    turn.user("one")
    with pytest.raises(OutcomeUnknown):
        turn.commit()
    turn.user("two")
    with pytest.raises(TurnConflict):
        turn.commit()


def test_ids_are_made_once_and_in_order(store: Store, backend: Unreliable) -> None:
    turn = store.turns.begin("s")
    made = [turn.user(str(n)) for n in range(20)]
    turn.run("running")
    ids = [message.id for message in made]
    assert ids == sorted(ids)
    assert len({*ids, turn.id, turn.run_id}) == 22
    done = turn.commit()
    assert [message.id for message in done.messages] == ids
    salts = [node.salt for node in backend.seen[0].nodes]
    assert {len(salt) for salt in salts} == {16}
    assert len(set(salts)) == 20


def test_a_turn_without_a_run_id_gives_one_to_its_run_and_its_messages(store: Store) -> None:
    turn = store.turns.begin("s")
    turn.user("before")
    turn.run("running", agent="a")
    run = turn.run("done", steps=3)
    turn.assistant("after")
    done = turn.commit()
    assert (run.agent, run.status, run.steps) == ("a", "done", 3)
    assert {message.run_id for message in done.messages} == {run.id}
    assert [m.text for m in store.messages.list("s", run_id=run)] == ["before", "after"]
    stored = store.runs.get(run)
    assert stored is not None
    assert (stored.status, stored.steps) == ("done", 3)


def test_everything_a_turn_collects_arrives(store: Store) -> None:
    turn = store.turns.begin("s", run_id="r1")
    digest = turn.value({"big": "value"})
    assert turn.value({"big": "value"}) == digest
    turn.assistant([tool_call("find", {"q": 1}, id="c1")])
    turn.tool("c1", {"found": [1]}, tool_name="find", is_error=True)
    node = turn.node("event", {"x": 1}, label="l", meta={"k": 1}, values=[digest])
    turn.note(node, "mark", "seen")
    turn.state(a=1, b=2)
    turn.state(b=None)
    turn.use("m", {"input": 3, "output": 4}, provider="p", source="tool")
    turn.use("m", Usage(1, 1), source="tool")
    turn.head(config={"provider_id": "p"}, frames=[{"frame_id": "f"}], current_frame="f")
    turn.checkpoint(tool_state={"t": 1}, execution=b"\0x", plugins_revision=2)
    done = turn.commit()
    assert [p.seq for p in done.placed] == [1, 2, 3]
    found = store.nodes.get("s", node, notes=True, resolve=True)
    assert found is not None
    assert (found.label, found.meta, found.run_id) == ("l", {"k": 1}, "r1")
    assert found.resolved == {digest: b'{"big":"value"}'}
    assert found.notes is not None
    assert found.notes["mark"].body == "seen"
    assert store.sessions.state("s") == {"a": 1}
    state = store.sessions.load("s")
    assert state is not None
    assert state.checkpoint is not None
    assert (state.checkpoint.tool_state, state.checkpoint.execution) == ({"t": 1}, b"\0x")
    assert state.policy.provider_id == "p"
    assert [(e.source, e.usage.total_tokens) for e in state.ledger] == [("tool", 9)]
    (part,) = done.messages[1].parts
    assert part.is_error  # type: ignore[union-attr]


def test_an_empty_block_commits_nothing(store: Store) -> None:
    with store.turns.begin("s") as turn:
        pass
    assert store.sessions.head("s") is None
    with turn:
        turn.user("one")
        turn.commit()
    head = store.sessions.head("s")
    assert head is not None
    assert head.revision == 1


def test_create_is_meant_for_the_first_commit_only(store: Store) -> None:
    turn = store.turns.begin("new", create=True)
    turn.user("one")
    turn.commit()
    store.sessions.purge("new")
    turn.user("two")
    with pytest.raises(LedgerstoneError, match="not found"):
        turn.commit()


def test_a_cancelled_commit_can_be_repeated() -> None:
    class Slow(Wrapper):
        """Commits at once, answers late."""

        async def awrite(self, command: Command[Any]) -> Any:
            answer = self.inner.write(command)
            if isinstance(command, CommitTurn):
                await asyncio.sleep(0.05)
            return answer

    async def main() -> None:
        async with AsyncStore(Slow(open_memory(None, SystemClock()))) as store:
            await store.sessions.create(id="s")
            turn = store.turns.begin("s")
            turn.user("once")
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await turn.commit()
            done = await turn.commit()
            assert done.replayed
            assert await store.messages.count("s") == 1

    asyncio.run(main())


class TestHeldLeases:
    @pytest.fixture
    def clock(self) -> ManualClock:
        return ManualClock()

    @pytest.fixture
    def store(self, clock: ManualClock) -> Iterator[Store]:
        with Store.open("memory://", clock=clock) as store:
            store.messages.append("s", user("hi"), create=True)
            yield store

    def test_a_lapsed_one_is_taken_again_when_nobody_wrote(
        self, store: Store, clock: ManualClock
    ) -> None:
        with store.leases.hold("s", heartbeat=False) as held:
            before = held.fence
            turn = store.turns.begin(held)
            turn.user("slow")
            clock.advance(120)
            assert turn.commit().revision == 2
            assert held.fence == before + 1
            clock.advance(120)
            store.messages.append("s", user("again"), lease=held)
            assert held.fence == before + 2
        assert store.leases.get("s") is None

    def test_a_lapsed_one_is_not_when_somebody_wrote(
        self, store: Store, clock: ManualClock
    ) -> None:
        with store.leases.hold("s", heartbeat=False) as held:
            turn = store.turns.begin(held)
            turn.user("slow")
            clock.advance(120)
            store.messages.append("s", user("meanwhile"))
            with pytest.raises(LeaseExpired):
                turn.commit()
            assert store.leases.get("s") is None
            mine = store.leases.take("s")
            assert turn.commit(lease=mine).revision == 3

    def test_a_lapsed_one_is_lost_when_somebody_took_it(
        self, store: Store, clock: ManualClock
    ) -> None:
        with store.leases.hold("s", heartbeat=False) as held:
            turn = store.turns.begin(held)
            turn.user("slow")
            clock.advance(120)
            assert store.leases.take("s", owner="bob") is not None
            with pytest.raises(Fenced):
                turn.commit()

    def test_a_commit_may_give_it_back(self, store: Store) -> None:
        with store.leases.hold("s") as held:
            turn = store.turns.begin(held)
            turn.user("last words")
            turn.commit(release=True)
            assert store.leases.get("s") is None
            other = store.leases.take("s", owner="bob")
        assert store.leases.get("s") == other
