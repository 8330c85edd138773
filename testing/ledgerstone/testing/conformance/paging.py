"""Reading messages: the newest, a page, a range, one by id, those of one run."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import assistant, user
from ledgerstone.errors import InvalidValue
from ledgerstone.records.messages import Message
from ledgerstone.records.sessions import Page, SeqRange
from ledgerstone.testing.bed import Bed

__all__ = ["TestReading", "TestPages", "TestRanges", "TestByRun"]

LONG = 230
"""More messages than the largest page holds."""


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def start(backend: Bed, count: int, session: str = "s") -> list[Message]:
    """A session with messages "1" to `count`."""
    said = [user(str(n)) for n in range(1, count + 1)]
    return backend.store.messages.append(session, *said, create=True)


class TestReading:
    """Complete reads, and one message by its id."""

    @pytest.mark.promise(45, 70)
    def test_a_history_is_never_cut(self, backend: Bed) -> None:
        start(backend, LONG)
        wanted = [str(n) for n in range(1, LONG + 1)]
        assert texts(backend.store.messages.history("s")) == wanted
        assert [m.text for m in backend.store.messages.iter("s")] == wanted
        assert texts(backend.store.messages.last("s", LONG + 5)) == wanted

    @pytest.mark.promise(45)
    def test_the_newest_messages_come_oldest_first(self, backend: Bed) -> None:
        start(backend, 9)
        assert texts(backend.store.messages.last("s", 3)) == ["7", "8", "9"]
        assert texts(backend.store.messages.last("s", 1)) == ["9"]
        assert len(backend.store.messages.last("s")) == 9

    @pytest.mark.promise(45)
    def test_the_newest_messages_are_counted_without_the_deleted_ones(self, backend: Bed) -> None:
        made = start(backend, 6)
        for message in made[3:5]:
            backend.store.messages.delete(message.id, session="s")
        assert texts(backend.store.messages.last("s", 3)) == ["2", "3", "6"]

    @pytest.mark.promise(45)
    def test_the_default_of_last_is_fifty(self, backend: Bed) -> None:
        start(backend, 60)
        assert texts(backend.store.messages.last("s")) == [str(n) for n in range(11, 61)]

    @pytest.mark.promise(45)
    @pytest.mark.parametrize("n", [0, -1, 1.5, "3", None])
    def test_last_wants_a_positive_count(self, backend: Bed, n: Any) -> None:
        start(backend, 2)
        with pytest.raises(InvalidValue):
            backend.store.messages.last("s", n)

    @pytest.mark.promise(45)
    def test_a_history_may_start_behind_a_position(self, backend: Bed) -> None:
        start(backend, 5)
        assert texts(backend.store.messages.history("s", after_seq=3)) == ["4", "5"]
        assert backend.store.messages.history("s", after_seq=5) == []

    @pytest.mark.promise(45)
    def test_a_history_may_end_at_any_message(self, backend: Bed) -> None:
        made = start(backend, 5)
        assert texts(backend.store.messages.history("s", at=made[2].id)) == ["1", "2", "3"]
        assert texts(backend.store.messages.last("s", 2, at=made[2].id)) == ["2", "3"]

    @pytest.mark.promise(45, 53, 70)
    def test_an_unknown_session_reads_as_empty(self, backend: Bed) -> None:
        messages = backend.store.messages
        assert messages.history("nobody") == []
        assert messages.last("nobody", 3) == []
        assert list(messages.iter("nobody")) == []
        assert messages.range("nobody", 1, 9) == []
        page = messages.list("nobody", total=True)
        assert (page.items, page.has_more, page.total) == ([], False, 0)

    @pytest.mark.promise(52)
    def test_one_message_by_its_id(self, backend: Bed) -> None:
        made = start(backend, 3)
        assert backend.store.messages.get(made[1].id, session="s") == made[1]
        assert backend.store.messages.get(made[1].id) == made[1]
        assert backend.store.messages.get("nobody", session="s") is None
        assert backend.store.messages.get(made[1].id, session="t") is None

    @pytest.mark.promise(52)
    def test_a_record_is_accepted_for_its_id(self, backend: Bed) -> None:
        for session in ("s", "t"):
            backend.store.messages.append(session, user(session, id="m1"), create=True)
        for message in backend.store.messages.history("t"):
            assert backend.store.messages.get(message) == message
            assert backend.store.messages.get("m1") != message

    @pytest.mark.promise(52, 59)
    def test_a_node_of_another_kind_is_no_message(self, backend: Bed) -> None:
        start(backend, 1)
        with backend.store.turns.begin("s") as turn:
            turn.node("plugin.event", {"a": 1}, id="n1")
        assert backend.store.messages.get("n1", session="s") is None
        assert texts(backend.store.messages.history("s")) == ["1"]
        assert backend.store.messages.count("s") == 1


class TestPages:
    """Pages from either end, by offset or cursor."""

    @pytest.mark.promise(45)
    @pytest.mark.parametrize(("limit", "wanted"), [(1000, 200), (7, 7)])
    def test_a_page_tells_the_limit_that_was_applied(
        self, backend: Bed, limit: int, wanted: int
    ) -> None:
        start(backend, LONG)
        store = backend.store
        page = store.messages.list("s", limit=limit)
        assert (page.limit, len(page), page.has_more) == (wanted, wanted, True)
        pages: list[Page[Any]] = [
            store.messages.list("s", limit=limit, cursor=page.cursor),
            store.messages.list("nowhere", limit=limit),
            store.sessions.list(limit=limit),
            store.runs.list(limit=limit),
            store.tickets.list(limit=limit),
            store.tickets.inbox(limit=limit),
            store.work.dead(limit=limit),
        ]
        assert [one.limit for one in pages] == [wanted] * len(pages)

    @pytest.mark.promise(55, 71)
    def test_a_page_starts_at_the_first_message_and_has_fifty(self, backend: Bed) -> None:
        start(backend, 51)
        page = backend.store.messages.list("s")
        assert texts(page.items) == [str(n) for n in range(1, 51)]
        assert (page.has_more, page.total) == (True, None)

    @pytest.mark.promise(70, 71)
    def test_the_offset_comes_before_the_limit(self, backend: Bed) -> None:
        start(backend, 7)
        page = backend.store.messages.list("s", offset=2, limit=3, total=True)
        assert (texts(page.items), page.has_more, page.total) == (["3", "4", "5"], True, 7)
        end = backend.store.messages.list("s", offset=5, limit=3)
        assert (texts(end.items), end.has_more) == (["6", "7"], False)
        assert backend.store.messages.list("s", offset=99).items == []

    @pytest.mark.promise(71)
    def test_a_page_can_be_read_from_the_newest_end(self, backend: Bed) -> None:
        start(backend, 5)
        page = backend.store.messages.list("s", order="-seq", limit=2)
        assert (texts(page.items), page.has_more) == (["5", "4"], True)
        more = backend.store.messages.list("s", order="-seq", limit=2, offset=2)
        assert texts(more.items) == ["3", "2"]

    @pytest.mark.promise(71)
    @pytest.mark.parametrize("order", ["seq", "-seq"])
    @pytest.mark.parametrize("limit", [1, 2, 3, 7])
    def test_a_cursor_walks_through_everything_once(
        self, backend: Bed, order: str, limit: int
    ) -> None:
        start(backend, 6)
        wanted = [str(n) for n in range(1, 7)]
        if order == "-seq":
            wanted.reverse()
        assert walk(backend, order=order, limit=limit) == wanted

    @pytest.mark.promise(71)
    @pytest.mark.parametrize("order", ["seq", "-seq"])
    def test_a_cursor_walks_a_path_that_was_rewound(self, backend: Bed, order: str) -> None:
        start(backend, 4)
        backend.store.messages.pop("s", 3)
        backend.store.messages.append("s", *map(user, "abc"))
        wanted = ["1", "a", "b", "c"] if order == "seq" else ["c", "b", "a", "1"]
        assert walk(backend, order=order, limit=1) == wanted
        assert walk(backend, order=order, limit=3) == wanted

    @pytest.mark.promise(71)
    def test_a_cursor_survives_appends(self, backend: Bed) -> None:
        start(backend, 4)
        up = backend.store.messages.list("s", limit=2)
        down = backend.store.messages.list("s", order="-seq", limit=2)
        backend.store.messages.append("s", user("5"))
        rest_up = backend.store.messages.list("s", cursor=up.cursor)
        rest_down = backend.store.messages.list("s", order="-seq", cursor=down.cursor)
        assert texts(rest_up.items) == ["3", "4", "5"]
        assert texts(rest_down.items) == ["2", "1"]

    @pytest.mark.promise(71)
    def test_a_cursor_survives_the_deletion_of_its_message(self, backend: Bed) -> None:
        start(backend, 4)
        page = backend.store.messages.list("s", limit=2)
        backend.store.messages.delete(page.items[-1].id, session="s")
        rest = backend.store.messages.list("s", cursor=page.cursor)
        assert texts(rest.items) == ["3", "4"]

    @pytest.mark.promise(71)
    def test_a_cursor_survives_a_restart(self, backend: Bed) -> None:
        start(backend, 3)
        cursor = backend.store.messages.list("s", limit=1).cursor
        store = backend.reopen()
        assert texts(store.messages.list("s", cursor=cursor).items) == ["2", "3"]

    @pytest.mark.promise(71)
    def test_a_cursor_of_an_earlier_life_of_the_session_is_refused(self, backend: Bed) -> None:
        start(backend, 3)
        cursor = backend.store.messages.list("s", limit=1).cursor
        backend.store.sessions.purge("s")
        start(backend, 3)
        with pytest.raises(InvalidValue) as refused:
            backend.store.messages.list("s", cursor=cursor)
        assert refused.value.field == "cursor"

    @pytest.mark.promise(71)
    def test_a_foreign_cursor_is_refused(self, backend: Bed) -> None:
        start(backend, 3)
        start(backend, 3, session="t")
        other_order = backend.store.messages.list("s", order="-seq", limit=1).cursor
        other_session = backend.store.messages.list("t", limit=1).cursor
        for cursor in ("", "garbage", other_order, other_session):
            with pytest.raises(InvalidValue) as refused:
                backend.store.messages.list("s", cursor=cursor)
            assert refused.value.field == "cursor"

    @pytest.mark.promise(71)
    def test_a_damaged_cursor_is_refused(self, backend: Bed) -> None:
        start(backend, 3)
        cursor = backend.store.messages.list("s", limit=1).cursor
        assert cursor is not None
        for n in range(len(cursor)):
            other = "A" if cursor[n] != "A" else "Q"
            for damaged in (cursor[:n] + other + cursor[n + 1 :], cursor[:n]):
                with pytest.raises(InvalidValue):
                    backend.store.messages.list("s", cursor=damaged)

    @pytest.mark.promise(71)
    @pytest.mark.parametrize("limit", [0, -3, 2.0, "2"])
    def test_a_limit_that_is_no_positive_integer_is_refused(self, backend: Bed, limit: Any) -> None:
        start(backend, 1)
        with pytest.raises(InvalidValue) as refused:
            backend.store.messages.list("s", limit=limit)
        assert refused.value.field == "limit"

    @pytest.mark.promise(71)
    def test_a_limit_above_two_hundred_is_clamped_and_says_so(self, backend: Bed) -> None:
        start(backend, 201)
        page = backend.store.messages.list("s", limit=5000)
        assert (len(page), page.has_more) == (200, True)

    @pytest.mark.promise(62, 71)
    def test_deleted_messages_do_not_count_for_pages(self, backend: Bed) -> None:
        made = start(backend, 5)
        for message in made[:2]:
            backend.store.messages.delete(message.id, session="s")
        page = backend.store.messages.list("s", limit=2, offset=1, total=True)
        assert (texts(page.items), page.has_more, page.total) == (["4", "5"], False, 3)
        whole = backend.store.messages.list("s", deleted=True, limit=2, total=True)
        assert (texts(whole.items), whole.has_more, whole.total) == (["1", "2"], True, 5)


class TestRanges:
    """By inclusive position."""

    @pytest.mark.promise(53)
    def test_a_range_includes_both_ends(self, backend: Bed) -> None:
        start(backend, 6)
        read = backend.store.messages.range
        assert texts(read("s", 2, 4)) == ["2", "3", "4"]
        assert texts(read("s", 3, 3)) == ["3"]
        assert texts(read("s", 1, 6)) == ["1", "2", "3", "4", "5", "6"]

    @pytest.mark.promise(53)
    def test_a_range_that_reaches_beyond_gives_the_overlap(self, backend: Bed) -> None:
        start(backend, 3)
        assert texts(backend.store.messages.range("s", 2, 99)) == ["2", "3"]
        assert backend.store.messages.range("s", 4, 99) == []

    @pytest.mark.promise(53)
    def test_a_range_follows_the_path_that_is_shown_now(self, backend: Bed) -> None:
        start(backend, 4)
        backend.store.messages.pop("s", 2)
        backend.store.messages.append("s", assistant("new 3"))
        assert texts(backend.store.messages.range("s", 2, 4)) == ["2", "new 3"]

    @pytest.mark.promise(54)
    @pytest.mark.parametrize(("first", "last"), [(0, 3), (-1, 3), (3, 2), (1.0, 2), ("1", 2)])
    def test_a_range_that_is_none_is_refused(self, backend: Bed, first: Any, last: Any) -> None:
        start(backend, 3)
        with pytest.raises(InvalidValue):
            SeqRange(first, last)
        with pytest.raises(InvalidValue):
            backend.store.messages.range("s", first, last)

    @pytest.mark.promise(54)
    def test_the_length_of_a_range(self, backend: Bed) -> None:
        assert len(SeqRange(2, 4)) == 3
        start(backend, 5)
        assert len(backend.store.messages.range("s", 2, 4)) == len(SeqRange(2, 4))


class TestByRun:
    """What one run wrote."""

    @pytest.mark.promise(63)
    def test_the_messages_of_a_run_in_order(self, backend: Bed) -> None:
        append = backend.store.messages.append
        append("s", user("a1"), create=True, run_id="a")
        append("s", user("b1"), user("b2"), run_id="b")
        append("s", user("none"))
        append("s", user("a2"), run_id="a")
        assert texts(backend.store.messages.list("s", run_id="a").items) == ["a1", "a2"]
        assert texts(backend.store.messages.list("s", run_id="b").items) == ["b1", "b2"]
        assert backend.store.messages.list("s", run_id="nobody").items == []

    @pytest.mark.promise(63)
    def test_deleted_messages_of_a_run_are_found_too(self, backend: Bed) -> None:
        made = backend.store.messages.append("s", user("1"), user("2"), create=True, run_id="a")
        backend.store.messages.delete(made[0].id, session="s")
        listed = backend.store.messages.list
        assert texts(listed("s", run_id="a").items) == ["2"]
        assert texts(listed("s", run_id="a", deleted=True).items) == ["1", "2"]

    @pytest.mark.promise(63)
    def test_what_a_run_wrote_stays_its_own_when_the_path_leaves_it(self, backend: Bed) -> None:
        backend.store.messages.append("s", user("1"), user("2"), create=True, run_id="a")
        backend.store.messages.pop("s", 1)
        assert texts(backend.store.messages.list("s", run_id="a").items) == ["1", "2"]

    @pytest.mark.promise(63, 71)
    def test_the_messages_of_a_run_come_in_pages(self, backend: Bed) -> None:
        said = [user(str(n)) for n in range(1, 6)]
        backend.store.messages.append("s", *said, create=True, run_id="a")
        page = backend.store.messages.list("s", run_id="a", limit=2, total=True)
        assert (texts(page.items), page.has_more, page.total) == (["1", "2"], True, 5)
        assert walk(backend, run_id="a", limit=2) == ["1", "2", "3", "4", "5"]

    @pytest.mark.promise(63, 71)
    @pytest.mark.parametrize("order", ["seq", "-seq"])
    def test_the_pages_of_a_run_that_was_rewound(self, backend: Bed, order: str) -> None:
        messages = backend.store.messages
        messages.append("s", *map(user, "123"), create=True, run_id="a")
        messages.pop("s", 2)
        messages.append("s", *map(user, "45"), run_id="a")
        wanted = list("12345") if order == "seq" else list("54321")
        assert walk(backend, order=order, run_id="a", limit=2) == wanted


def walk(backend: Bed, **options: Any) -> list[str]:
    """All texts, page after page."""
    found: list[str] = []
    cursor = None
    for _ in range(100):
        page = backend.store.messages.list("s", cursor=cursor, **options)
        found += texts(page.items)
        if not page.has_more:
            return found
        cursor = page.cursor
    raise AssertionError("the pages never end")
