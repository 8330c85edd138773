"""Messages: appended, all or none, and replaced at the cost of what is new."""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from ledgerstone import assistant, tool_result, user
from ledgerstone.errors import AlreadyExists, InvalidValue, RevisionMoved, SessionNotFound
from ledgerstone.records.messages import Message
from ledgerstone.records.usage import Cost, Usage
from ledgerstone.testing.bed import Bed

__all__ = ["TestAppend", "TestReplace"]


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def seqs(messages: list[Message]) -> list[int]:
    return [message.seq for message in messages]


def start(backend: Bed, *said: str) -> list[Message]:
    """A session "s" in which a user said this."""
    return backend.store.messages.append("s", *map(user, said), create=True)


class TestAppend:
    """New messages go behind the old ones, all or none."""

    @pytest.mark.promise(45, 49)
    def test_messages_come_back_in_order(self, backend: Bed) -> None:
        start(backend, "one", "two")
        backend.store.messages.append("s", assistant("three"))
        assert texts(backend.store.messages.history("s")) == ["one", "two", "three"]

    @pytest.mark.promise(45)
    def test_a_session_without_a_commit_has_no_head_and_no_messages(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        assert backend.store.sessions.head("s") is None
        assert backend.store.messages.history("s") == []
        start(backend, "one")
        backend.store.messages.clear("s")
        assert backend.store.sessions.head("s") is not None
        assert backend.store.messages.history("s") == []

    @pytest.mark.promise(48, 49)
    def test_an_append_returns_exactly_what_it_added(self, backend: Bed) -> None:
        start(backend, "one", "two")
        added = backend.store.messages.append("s", user("three"), assistant("four"))
        assert (texts(added), seqs(added)) == (["three", "four"], [3, 4])
        assert backend.store.messages.history("s")[2:] == added

    @pytest.mark.promise(48)
    def test_positions_start_at_one_and_have_no_gaps(self, backend: Bed) -> None:
        for n in range(5):
            start(backend, f"{n} a", f"{n} b")
        assert seqs(backend.store.messages.history("s")) == list(range(1, 11))

    @pytest.mark.promise(48)
    def test_a_record_names_session_run_step_and_tool_call(self, backend: Bed) -> None:
        backend.store.messages.append(
            "s",
            assistant("a", step_index=3),
            tool_result("c1", "found", step_index=4, run_id="r2"),
            create=True,
            run_id="r1",
        )
        first, second = backend.store.messages.history("s")
        assert (first.session, first.run_id, first.body.step_index) == ("s", "r1", 3)
        assert (second.run_id, second.body.step_index) == ("r2", 4)
        assert second.body.tool_call_id == "c1"

    @pytest.mark.promise(49)
    def test_an_append_leaves_the_earlier_messages_untouched(self, backend: Bed) -> None:
        before = start(backend, "one", "two")
        backend.clock.advance(10)
        backend.store.messages.append("s", user("three"))
        assert backend.store.messages.history("s")[:2] == before

    @pytest.mark.promise(46, 58, 68)
    def test_an_unknown_session_is_an_error_and_is_not_made(self, backend: Bed) -> None:
        with pytest.raises(SessionNotFound) as missing:
            backend.store.messages.append("nobody", user("hello"))
        assert missing.value.id == "nobody"
        assert backend.store.sessions.get("nobody") is None

    @pytest.mark.promise(46, 49, 58)
    def test_an_unknown_session_is_made_when_the_caller_says_so(self, backend: Bed) -> None:
        (first,) = backend.store.messages.append("new", user("hello"), create=True)
        assert first.seq == 1
        assert backend.store.sessions.get("new") is not None
        (second,) = backend.store.messages.append("new", user("again"), create=True)
        assert second.seq == 2

    @pytest.mark.promise(49, 58)
    def test_dictionaries_of_role_and_content_are_messages_too(self, backend: Bed) -> None:
        backend.store.messages.append(
            "s", {"role": "user", "content": "hi"}, {"role": "ai", "content": "yo"}, create=True
        )
        stored = backend.store.messages.history("s")
        assert [(m.role, m.text) for m in stored] == [("user", "hi"), ("assistant", "yo")]
        assert stored[1].body.origin_role == "ai"

    @pytest.mark.promise(50)
    def test_many_appends_at_once_lose_nothing(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")

        def work(n: int) -> None:
            for step in range(5):
                backend.store.messages.append("s", user(f"{n}.{step}"), user(f"{n}.{step}!"))

        at_once(4, work)
        stored = backend.store.messages.history("s")
        assert seqs(stored) == list(range(1, 41))
        assert len({m.id for m in stored}) == 40
        for n in range(4):
            mine = [m.text for m in stored if m.text.startswith(f"{n}.")]
            assert mine == [f"{n}.{step}{mark}" for step in range(5) for mark in ("", "!")]
        head = backend.store.sessions.head("s")
        assert head is not None
        assert (head.revision, head.messages) == (20, 40)

    @pytest.mark.promise(50)
    def test_the_messages_of_one_append_stay_together(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        at_once(6, lambda n: backend.store.messages.append("s", user(f"{n}a"), user(f"{n}b")))
        stored = texts(backend.store.messages.history("s"))
        assert [a[0] for a in stored[::2]] == [b[0] for b in stored[1::2]]

    @pytest.mark.promise(51)
    def test_a_message_without_an_id_gets_one_for_ever(self, backend: Bed) -> None:
        (made,) = start(backend, "hello")
        assert uuid.UUID(made.id).version == 7
        store = backend.reopen()
        assert [m.id for m in store.messages.history("s")] == [made.id]
        assert [m.id for m in store.messages.last("s")] == [made.id]
        assert store.messages.get(made.id) == made

    @pytest.mark.promise(51, 58)
    def test_an_id_that_is_given_is_kept(self, backend: Bed) -> None:
        (made,) = backend.store.messages.append("s", user("hi", id="mine"), create=True)
        assert made.id == "mine"
        assert backend.store.messages.get("mine", session="s") == made

    @pytest.mark.promise(50, 58)
    def test_the_same_append_again_is_answered_and_not_repeated(self, backend: Bed) -> None:
        first = backend.store.messages.append("s", user("hi", id="m1"), create=True)
        backend.clock.advance(5)
        again = backend.store.messages.append("s", user("hi", id="m1"))
        assert [(m.id, m.seq, m.created_us) for m in again] == [
            (m.id, m.seq, m.created_us) for m in first
        ]
        assert backend.store.messages.count("s") == 1
        head = backend.store.sessions.head("s")
        assert head is not None
        assert head.revision == 1

    @pytest.mark.promise(50, 58)
    def test_equal_messages_are_the_same_one_wherever_they_come_from(self, backend: Bed) -> None:
        made = assistant("hi", id="m1", cost=Cost(5), usage=Usage(1, 2))
        backend.store.messages.append("s", made, create=True)
        travelled = pickle.loads(pickle.dumps(made))
        assert travelled == made
        assert backend.store.messages.append("s", travelled)[0].seq == 1
        assert backend.store.messages.count("s") == 1

    @pytest.mark.promise(50, 58)
    def test_a_taken_id_with_other_content_is_refused_and_nothing_is_written(
        self, backend: Bed
    ) -> None:
        backend.store.messages.append("s", user("hi", id="m1"), create=True)
        with pytest.raises(AlreadyExists) as refused:
            backend.store.messages.append("s", user("new", id="m2"), user("other", id="m1"))
        assert refused.value.id == "m1"
        assert texts(backend.store.messages.history("s")) == ["hi"]

    @pytest.mark.promise(58)
    def test_two_sessions_may_hold_the_same_message_id(self, backend: Bed) -> None:
        for session in ("s", "t"):
            backend.store.messages.append(session, user(session, id="m1"), create=True)
        for session in ("s", "t"):
            found = backend.store.messages.get("m1", session=session)
            assert found is not None
            assert found.text == session

    @pytest.mark.promise(56, 62)
    def test_the_time_of_a_message_is_now_or_as_it_was_given(self, backend: Bed) -> None:
        now_us = backend.clock.now_us()
        backend.store.sessions.create(id="s", title="made before")
        backend.clock.advance(1)
        added = backend.store.messages.append("s", user("now"), user("old", created_us=99))
        assert [m.created_us for m in added] == [now_us + 1_000_000, 99]
        assert texts(backend.store.messages.history("s")) == ["now", "old"]

    @pytest.mark.promise(65)
    def test_a_message_knows_the_one_it_follows(self, backend: Bed) -> None:
        question, answer = backend.store.messages.append(
            "s", user("When?"), assistant("Friday"), create=True
        )
        assert (question.parent, answer.parent) == (None, question.id)
        (more,) = backend.store.messages.append("s", user("Thanks"))
        stored = backend.store.messages.history("s")
        assert [m.parent for m in stored] == [None, question.id, answer.id]
        assert stored[-1] == more

    @pytest.mark.promise(58)
    @pytest.mark.parametrize(
        "bad",
        [
            lambda: {"role": "wizard", "content": "x"},
            lambda: {"content": "x"},
            lambda: {"role": "user", "content": 7},
            lambda: {"role": "user", "content": "x", "colour": "red"},
            lambda: {"role": "user", "content": [{"no": "type"}]},
            lambda: "just text",
            lambda: user("x", metadata={"n": float("nan")}),
            lambda: user("x", id=""),
            lambda: user("x", id="a\nb"),
        ],
    )
    def test_what_is_no_message_is_refused_and_nothing_is_written(
        self, backend: Bed, bad: Callable[[], Any]
    ) -> None:
        start(backend, "one")
        with pytest.raises(InvalidValue):
            backend.store.messages.append("s", user("good"), bad())
        assert texts(backend.store.messages.history("s")) == ["one"]


class TestReplace:
    """Replace the whole list, or its end, at the cost of what is new."""

    @pytest.mark.promise(44)
    def test_replace_swaps_the_whole_list(self, backend: Bed) -> None:
        start(backend, "one", "two", "three")
        done = backend.store.messages.replace("s", [user("a"), assistant("b")])
        assert (done.kept, done.superseded, len(done.added)) == (0, 3, 2)
        stored = backend.store.messages.history("s")
        assert (texts(stored), seqs(stored)) == (["a", "b"], [1, 2])
        assert backend.store.messages.count("s") == 2

    @pytest.mark.promise(44)
    def test_replace_keeps_the_common_beginning(self, backend: Bed) -> None:
        before = start(backend, "one", "two", "three")
        done = backend.store.messages.replace("s", [*before[:2], user("other")])
        assert (done.kept, done.superseded) == (2, 1)
        after = backend.store.messages.history("s")
        assert after[:2] == before[:2]
        assert (texts(after), seqs(after)) == (["one", "two", "other"], [1, 2, 3])

    @pytest.mark.promise(44)
    def test_replacing_with_a_longer_list_only_appends(self, backend: Bed) -> None:
        before = start(backend, "one", "two")
        done = backend.store.messages.replace("s", [*before, user("three")])
        assert (done.kept, done.superseded, texts(done.added)) == (2, 0, ["three"])
        assert backend.store.messages.history("s")[:2] == before

    @pytest.mark.promise(44)
    def test_replacing_with_a_shorter_list_drops_the_end(self, backend: Bed) -> None:
        before = start(backend, "one", "two", "three")
        done = backend.store.messages.replace("s", before[:1])
        assert (done.kept, done.superseded, done.added) == (1, 2, [])
        assert backend.store.messages.history("s") == before[:1]

    @pytest.mark.promise(44)
    def test_replacing_with_the_same_list_changes_nothing(self, backend: Bed) -> None:
        before = start(backend, "one", "two")
        done = backend.store.messages.replace("s", before)
        assert (done.kept, done.superseded, done.added) == (2, 0, [])
        assert backend.store.messages.history("s") == before

    @pytest.mark.promise(44)
    def test_a_base_makes_the_next_replace_follow_the_first(self, backend: Bed) -> None:
        first = backend.store.messages.replace("s", start(backend, "one", "two"))
        kept = backend.store.messages.history("s")
        second = backend.store.messages.replace("s", [*kept, user("three")], base=first.base)
        assert (second.kept, texts(second.added)) == (2, ["three"])
        assert texts(backend.store.messages.history("s")) == ["one", "two", "three"]

    @pytest.mark.promise(44)
    def test_only_what_follows_a_message_can_be_replaced(self, backend: Bed) -> None:
        before = start(backend, "one", "two", "three")
        done = backend.store.messages.replace("s", [user("a"), user("b")], after=before[0].id)
        assert (done.kept, done.superseded, texts(done.added)) == (1, 2, ["a", "b"])
        assert texts(backend.store.messages.history("s")) == ["one", "a", "b"]
        with pytest.raises(InvalidValue):
            backend.store.messages.replace("s", [user("c")], after="nobody")

    @pytest.mark.promise(44)
    def test_a_replace_that_would_change_nothing_still_checks_the_revision(
        self, backend: Bed
    ) -> None:
        before = start(backend, "one", "two")
        with pytest.raises(RevisionMoved):
            backend.store.messages.replace("s", before, expected_revision=7)
        backend.store.messages.replace("s", before, expected_revision=1)
        assert backend.store.messages.history("s") == before

    @pytest.mark.promise(44)
    def test_what_was_replaced_can_still_be_read_by_id(self, backend: Bed) -> None:
        old, _ = start(backend, "one", "two")
        backend.store.messages.replace("s", [user("a")])
        found = backend.store.messages.get(old.id, session="s")
        assert found is not None
        assert found.text == "one"
        assert found.deleted_us is not None

    @pytest.mark.promise(44, 46)
    def test_replacing_in_an_unknown_session_is_an_error(self, backend: Bed) -> None:
        with pytest.raises(SessionNotFound):
            backend.store.messages.replace("nobody", [user("a")])

    @pytest.mark.promise(47)
    def test_clear_removes_all_messages_from_the_list(self, backend: Bed) -> None:
        start(backend, "one", "two")
        assert backend.store.messages.clear("s") == 2
        assert backend.store.messages.history("s") == []
        assert backend.store.messages.count("s") == 0
        assert backend.store.messages.clear("s") == 0
        assert seqs(start(backend, "again")) == [1]

    @pytest.mark.promise(47)
    def test_clearing_an_unknown_session_is_an_error(self, backend: Bed) -> None:
        with pytest.raises(SessionNotFound) as missing:
            backend.store.messages.clear("nobody")
        assert missing.value.id == "nobody"


def at_once(count: int, work: Callable[[int], object]) -> None:
    """Several threads that work at the same time; the first error of any of them."""
    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))
