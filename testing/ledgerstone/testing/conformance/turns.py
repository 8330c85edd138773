"""Turns: one commit, all of it or nothing, once however often it is sent."""

from __future__ import annotations

import threading

import pytest

from ledgerstone import Store, assistant, user
from ledgerstone.errors import (
    AlreadyExists,
    LeaseExpired,
    RevisionMoved,
    SessionBindingMismatch,
    SessionDeleted,
    SessionNotFound,
    TurnConflict,
)
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Head
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.testing.bed import Bed


class OnASession:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        """A session at revision 1 with one message, `m1`."""
        backend.store.messages.append("s", user("hi", id="m1"), create=True)
        return "s"


class TestCommitting(OnASession):
    @pytest.mark.promise(104, 105)
    def test_revisions_start_at_one_and_grow_by_exactly_one(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        assert store.sessions.head("s") is None
        for wanted in (1, 2, 3):
            turn = store.turns.begin("s")
            turn.user("hello")
            turn.assistant("hello yourself")
            done = turn.commit()
            assert (done.revision, done.replayed) == (wanted, False)
            assert backend.revision("s") == wanted

    @pytest.mark.promise(104)
    def test_a_commit_answers_where_everything_went(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session, id="t")
        turn.user("a", id="m2")
        turn.node("plugin", {"n": 1}, id="p3")
        turn.assistant("b", id="m4")
        done = turn.commit()
        assert (done.session, done.turn, done.revision, done.leaf) == (session, "t", 2, "m4")
        assert [(p.id, p.ord, p.seq, p.parent) for p in done.placed] == [
            ("m2", 2, 2, "m1"),
            ("p3", 3, 3, "m2"),
            ("m4", 4, 4, "p3"),
        ]
        assert [message.id for message in done.messages] == ["m2", "m4"]
        assert done.messages == backend.store.messages.history(session)[1:]

    @pytest.mark.promise(105)
    def test_what_moves_the_revision_and_what_does_not(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.sessions.update(session, title="new", metadata={"a": 1})
        store.nodes.annotate(session, "m1", {"k": 1})
        lease = store.leases.take(session, owner="ann")
        assert lease is not None
        store.leases.release(lease)
        assert backend.revision(session) == 1
        with store.turns.begin(session) as turn:
            turn.state(k=1)
        assert backend.revision(session) == 2

    @pytest.mark.promise(106, 197)
    def test_another_revision_than_expected_writes_nothing(
        self, backend: Bed, session: str
    ) -> None:
        turn = backend.store.turns.begin(session, expected_revision=0)
        turn.user("too late")
        with backend.unchanged(session), pytest.raises(RevisionMoved) as caught:
            turn.commit()
        assert (caught.value.expected, caught.value.actual) == (0, 1)
        assert caught.value.session == session

    @pytest.mark.promise(106)
    def test_the_expected_revision_commits(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session, expected_revision=1)
        turn.user("in time")
        assert turn.commit().revision == 2

    @pytest.mark.promise(106)
    def test_of_two_that_read_the_same_revision_one_wins(self, backend: Bed, session: str) -> None:
        first, second = (backend.store.turns.begin(session, expected_revision=1) for _ in range(2))
        first.user("first")
        second.user("second")
        first.commit()
        with pytest.raises(RevisionMoved):
            second.commit()
        assert backend.texts(session) == ["hi", "first"]

    @pytest.mark.promise(106)
    def test_without_an_expectation_nothing_is_compared(self, backend: Bed, session: str) -> None:
        turns = [backend.store.turns.begin(session) for _ in range(2)]
        for n, turn in enumerate(turns):
            turn.user(f"turn {n}")
        assert [turn.commit().revision for turn in turns] == [2, 3]

    @pytest.mark.promise(107)
    def test_a_lapsed_lease_is_taken_again_and_the_same_turn_committed(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        lease = store.leases.take(session, owner="ann", ttl_s=10)
        assert lease is not None
        turn = store.turns.begin(lease)
        turn.user("slow")
        backend.clock.advance(11)
        with backend.unchanged(session), pytest.raises(LeaseExpired):
            turn.commit()
        again = store.leases.take(session, owner="ann")
        assert turn.commit(lease=again).revision == 2
        assert backend.texts(session) == ["hi", "slow"]

    def test_a_turn_collects_without_writing(self, backend: Bed, session: str) -> None:
        with backend.unchanged(session):
            turn = backend.store.turns.begin(session)
            turn.user("not yet")
            turn.state(k=1)
            turn.discard()

    def test_a_clean_block_commits_and_a_broken_one_does_not(
        self, backend: Bed, session: str
    ) -> None:
        with backend.store.turns.begin(session) as turn:
            turn.user("kept")
        broken = pytest.raises(ZeroDivisionError)
        with backend.unchanged(session), broken, backend.store.turns.begin(session) as turn:
            turn.user("lost")
            raise ZeroDivisionError
        assert backend.texts(session) == ["hi", "kept"]

    def test_one_object_commits_turn_after_turn(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session)
        turn.user("one")
        first = turn.commit()
        turn.user("two")
        second = turn.commit()
        assert (first.revision, second.revision) == (2, 3)
        assert first.turn != second.turn
        assert backend.texts(session) == ["hi", "one", "two"]

    def test_an_unknown_session_is_refused_unless_it_may_be_made(self, backend: Bed) -> None:
        turn = backend.store.turns.begin("new")
        turn.user("hello")
        with pytest.raises(SessionNotFound):
            turn.commit()
        assert backend.store.sessions.get("new") is None
        with backend.store.turns.begin("new", create=True) as made:
            made.user("hello")
        assert backend.texts("new") == ["hello"]

    def test_a_deleted_session_takes_no_turn(self, backend: Bed, session: str) -> None:
        backend.store.sessions.delete(session)
        turn = backend.store.turns.begin(session)
        turn.user("hello")
        with backend.unchanged(session), pytest.raises(SessionDeleted):
            turn.commit()
        backend.store.sessions.restore(session)
        assert turn.commit().revision == 2

    @pytest.mark.promise(43, 111, 199)
    def test_a_lease_of_another_session_is_no_lease_of_this_one(
        self, backend: Bed, session: str
    ) -> None:
        backend.store.sessions.create(id="other")
        lease = backend.store.leases.take("other", owner="ann")
        turn = backend.store.turns.begin(session)
        turn.user("hello")
        with backend.unchanged(session), pytest.raises(SessionBindingMismatch) as caught:
            turn.commit(lease=lease)
        assert {caught.value.bound, caught.value.other} == {session, "other"}


class TestRepeating(OnASession):
    @pytest.mark.promise(108, 109)
    def test_the_same_turn_again_answers_as_the_first_time(
        self, backend: Bed, session: str
    ) -> None:
        first = _commit(backend.store, session, "t", "hello")
        with backend.unchanged(session):
            again = _commit(backend.store, session, "t", "hello")
        assert (first.replayed, again.replayed) == (False, True)
        assert (again.revision, again.leaf, again.placed) == (
            first.revision,
            first.leaf,
            first.placed,
        )
        assert [message.id for message in again.messages] == [m.id for m in first.messages]

    @pytest.mark.promise(109)
    def test_a_turn_is_known_after_later_turns_and_a_reopening(
        self, backend: Bed, session: str
    ) -> None:
        first = _commit(backend.store, session, "t", "hello")
        _commit(backend.store, session, "u", "later")
        backend.reopen()
        with backend.unchanged(session):
            again = _commit(backend.store, session, "t", "hello")
        assert (again.revision, again.placed) == (first.revision, first.placed)
        assert again.replayed

    @pytest.mark.promise(109)
    def test_a_repetition_needs_neither_lease_nor_revision(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        lease = store.leases.take(session, owner="ann", ttl_s=10)
        assert lease is not None
        turn = store.turns.begin(lease, id="t", expected_revision=1)
        turn.user("hello")
        turn.commit()
        backend.clock.advance(11)
        assert store.leases.take(session, owner="bob") is not None
        late = store.turns.begin(lease, id="t", expected_revision=1)
        late.user("hello")
        with backend.unchanged(session):
            assert late.commit().replayed

    @pytest.mark.promise(109)
    def test_a_repetition_still_releases_the_lease_when_asked(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        lease = store.leases.take(session, owner="ann")
        assert lease is not None
        for release in (False, True):
            assert store.leases.get(session) == lease
            turn = store.turns.begin(lease, id="t")
            turn.user("hello")
            assert turn.commit(release=release).revision == 2
        assert store.leases.get(session) is None
        assert backend.revision(session) == 2

    @pytest.mark.promise(110, 199)
    def test_the_same_turn_id_with_other_content_is_a_conflict(
        self, backend: Bed, session: str
    ) -> None:
        _commit(backend.store, session, "t", "hello")
        with backend.unchanged(session), pytest.raises(TurnConflict) as caught:
            _commit(backend.store, session, "t", "goodbye")
        assert (caught.value.session, caught.value.turn) == (session, "t")

    @pytest.mark.promise(111)
    def test_the_turn_id_of_another_session_means_nothing_here(
        self, backend: Bed, session: str
    ) -> None:
        _commit(backend.store, session, "t", "hello")
        backend.store.sessions.create(id="other")
        done = _commit(backend.store, "other", "t", "something else")
        assert (done.replayed, done.revision) == (False, 1)

    @pytest.mark.promise(108)
    def test_the_answer_of_a_turn_can_be_read_later(self, backend: Bed, session: str) -> None:
        first = _commit(backend.store, session, "t", "hello")
        backend.reopen()
        found = backend.store.turns.get(session, "t")
        assert found is not None
        assert (found.revision, found.leaf, found.placed) == (
            first.revision,
            first.leaf,
            first.placed,
        )
        assert backend.store.turns.get(session, "nowhere") is None
        assert backend.store.turns.get("nowhere", "t") is None

    @pytest.mark.promise(108, 109)
    def test_a_turn_on_a_branch_is_answered_with_its_leaf_again(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        store.branches.create(session, "side", at="m1")
        leaves = []
        for text in ("aside", "aside", "more", "aside"):
            turn = store.turns.begin(session, id=f"t {text}", branch="side")
            turn.user(text, id=f"m {text}")
            leaves.append(turn.commit().leaf)
        assert leaves == ["m aside", "m aside", "m more", "m aside"]
        found = store.turns.get(session, "t aside")
        assert found is not None
        assert (found.leaf, found.placed[0].parent) == ("m aside", "m1")

    @pytest.mark.promise(109)
    def test_a_failed_turn_leaves_no_stamp(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session, id="t")
        turn.user("taken", id="m1")
        with backend.unchanged(session), pytest.raises(AlreadyExists):
            turn.commit()
        assert backend.store.turns.get(session, "t") is None
        assert _commit(backend.store, session, "t", "other").replayed is False

    def test_the_same_append_again_answers_as_the_first_time(
        self, backend: Bed, session: str
    ) -> None:
        first = backend.store.messages.append(session, user("a", id="x"), assistant("b", id="y"))
        with backend.unchanged(session):
            again = backend.store.messages.append(
                session, user("a", id="x"), assistant("b", id="y")
            )
        assert again == first

    def test_an_append_with_a_known_id_and_another_text_is_refused(
        self, backend: Bed, session: str
    ) -> None:
        with backend.unchanged(session), pytest.raises(AlreadyExists) as caught:
            backend.store.messages.append(session, user("hello", id="m1"))
        assert caught.value.id == "m1"


def _commit(store: Store, session: str, id: str, text: str) -> TurnCommitted:
    turn = store.turns.begin(session, id=id)
    turn.user(text)
    return turn.commit()


class TestNothingHalf(OnASession):
    @pytest.mark.promise(113, 120)
    def test_a_reader_never_sees_half_a_turn(self, backend: Bed, session: str) -> None:
        turns, reading = 25, threading.Event()
        seen: list[tuple[Head | None, list[Message]]] = []
        other = backend.open()

        def read() -> None:
            while True:
                head, messages = other.sessions.head(session), other.messages.history(session)
                seen.append((head, messages))
                reading.set()
                if len(messages) == 1 + 2 * turns:
                    return

        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        assert reading.wait(30)
        for n in range(turns):
            with backend.store.turns.begin(session) as turn:
                turn.user(f"question {n}")
                turn.assistant(f"answer {n}")
                turn.state(n=n)
        reader.join(30)
        assert not reader.is_alive()
        for head, messages in seen:
            assert head is not None
            assert head.messages == 1 + 2 * (head.revision - 1)
            assert len(messages) % 2 == 1
