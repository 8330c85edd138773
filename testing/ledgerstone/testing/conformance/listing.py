"""Lists of sessions: filters, orders, pages, cursors, and who may see what."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.clock import to_datetime
from ledgerstone.errors import InvalidValue, SessionNotFound
from ledgerstone.records.sessions import Page, Session
from ledgerstone.testing.bed import Bed

__all__ = ["TestListing", "TestListPages", "TestSeparation"]


def ids(page: Page[Session]) -> list[str]:
    return [session.id for session in page.items]


def make(backend: Bed, *names: str, **fields: Any) -> None:
    """Sessions one second apart, the first one oldest."""
    for name in names:
        backend.clock.advance(1)
        backend.store.sessions.create(id=name, **fields)


class TestListing:
    """Filters and orders."""

    @pytest.mark.promise(28)
    def test_an_empty_store_has_an_empty_list(self, backend: Bed) -> None:
        page = backend.store.sessions.list(total=True)
        assert (page.items, page.has_more, page.cursor, page.total) == ([], False, None, 0)
        assert list(backend.store.sessions.iter()) == []
        assert backend.store.sessions.count() == 0

    @pytest.mark.promise(5, 19)
    def test_the_most_recently_updated_session_comes_first(self, backend: Bed) -> None:
        make(backend, "a", "b", "c")
        assert ids(backend.store.sessions.list()) == ["c", "b", "a"]
        backend.clock.advance(1)
        backend.store.messages.append("a", user("back again"))
        assert ids(backend.store.sessions.list()) == ["a", "c", "b"]
        backend.clock.advance(1)
        backend.store.sessions.update("b", title="touched")
        assert ids(backend.store.sessions.list()) == ["b", "a", "c"]
        assert ids(backend.store.sessions.list(order="updated")) == ["c", "a", "b"]

    @pytest.mark.promise(13)
    def test_the_order_of_creation_does_not_follow_updates(self, backend: Bed) -> None:
        make(backend, "b", "c", "a")
        backend.store.sessions.update("b", title="touched")
        assert ids(backend.store.sessions.list(order="-created")) == ["a", "c", "b"]
        assert ids(backend.store.sessions.list(order="created")) == ["b", "c", "a"]

    @pytest.mark.promise(5, 28)
    def test_ids_can_be_listed_in_their_own_order(self, backend: Bed) -> None:
        make(backend, "b", "c", "a", "B")
        assert ids(backend.store.sessions.list(order="id")) == ["B", "a", "b", "c"]
        assert ids(backend.store.sessions.list(order="-id")) == ["c", "b", "a", "B"]

    @pytest.mark.promise(5, 13)
    @pytest.mark.parametrize("order", ["-updated", "updated", "-created", "created"])
    def test_sessions_of_the_same_moment_are_ordered_by_id(self, backend: Bed, order: str) -> None:
        for name in ("m", "z", "a", "k"):
            backend.store.sessions.create(id=name)
        assert ids(backend.store.sessions.list(order=order)) == ["a", "k", "m", "z"]

    @pytest.mark.promise(5)
    @pytest.mark.parametrize("order", ["title", "", "-", "UPDATED", "updated desc", 3])
    def test_an_order_that_is_none_is_refused(self, backend: Bed, order: Any) -> None:
        with pytest.raises(InvalidValue) as refused:
            backend.store.sessions.list(order=order)
        assert refused.value.field == "order"

    @pytest.mark.promise(13, 14)
    def test_by_user_and_by_app(self, backend: Bed) -> None:
        make(backend, "a1", "a2", user="ada", app="x")
        make(backend, "a3", user="ada", app="y")
        make(backend, "b1", user="bob", app="x")
        make(backend, "n1")
        listed = backend.store.sessions.list
        assert ids(listed(user="ada")) == ["a3", "a2", "a1"]
        assert ids(listed(user="ada", app="x")) == ["a2", "a1"]
        assert ids(listed(app="x")) == ["b1", "a2", "a1"]
        assert ids(listed(app="")) == ["n1"]
        assert ids(listed(user="eve")) == []
        assert ids(listed()) == ["n1", "b1", "a3", "a2", "a1"]

    @pytest.mark.promise(33)
    def test_by_status(self, backend: Bed) -> None:
        make(backend, "a", status="active")
        make(backend, "b", status="paused")
        assert ids(backend.store.sessions.list(status="paused")) == ["b"]
        backend.store.sessions.update("a", status="paused")
        assert ids(backend.store.sessions.list(status="paused")) == ["a", "b"]
        assert ids(backend.store.sessions.list(status="active")) == []

    @pytest.mark.promise(39)
    def test_by_parent(self, backend: Bed) -> None:
        make(backend, "mother")
        make(backend, "c1", "c2", parent="mother")
        make(backend, "other", parent="somebody", parent_missing="keep")
        assert ids(backend.store.sessions.list(parent="mother")) == ["c2", "c1"]

    @pytest.mark.promise(22)
    def test_the_range_of_creation_includes_its_start_and_not_its_end(self, backend: Bed) -> None:
        make(backend, "a", "b", "c", "d")
        times = {s.id: s.created_us for s in backend.store.sessions.iter()}
        listed = backend.store.sessions.list
        both = listed(created_after=times["b"], created_before=times["d"])
        assert ids(both) == ["c", "b"]
        assert ids(listed(created_after=times["d"])) == ["d"]
        assert ids(listed(created_after=times["d"] + 1)) == []
        assert ids(listed(created_before=times["a"])) == []
        assert ids(listed(created_before=times["a"] + 1)) == ["a"]

    @pytest.mark.promise(22)
    def test_times_may_be_given_as_aware_datetimes(self, backend: Bed) -> None:
        make(backend, "a", "b")
        moment = to_datetime(backend.clock.now_us())
        assert ids(backend.store.sessions.list(created_after=moment)) == ["b"]
        with pytest.raises(InvalidValue):
            backend.store.sessions.list(
                created_after=datetime.fromtimestamp(0, UTC).replace(tzinfo=None)
            )

    @pytest.mark.promise(22)
    def test_metadata_equal_to_the_whole_value(self, backend: Bed) -> None:
        make(backend, "a", metadata={"x": 1, "y": [1, 2]})
        make(backend, "b", metadata={"x": 1})
        make(backend, "c")
        listed = backend.store.sessions.list
        assert ids(listed(metadata_equals={"y": [1, 2], "x": 1})) == ["a"]
        assert ids(listed(metadata_equals={"x": 1})) == ["b"]
        assert ids(listed(metadata_equals={"x": 2})) == []
        assert ids(listed(metadata_equals={"x": True})) == []

    @pytest.mark.promise(22)
    def test_metadata_that_contains_what_is_asked_for(self, backend: Bed) -> None:
        make(backend, "a", metadata={"x": 1, "deep": {"p": "q", "r": [1, 2]}})
        make(backend, "b", metadata={"x": 1})
        make(backend, "c", metadata=[1])
        make(backend, "d")
        listed = backend.store.sessions.list
        assert ids(listed(metadata_contains={"x": 1})) == ["b", "a"]
        assert ids(listed(metadata_contains={"deep": {"p": "q"}})) == ["a"]
        assert ids(listed(metadata_contains={"deep": {"r": [1]}})) == []
        assert ids(listed(metadata_contains={"x": True})) == []
        assert ids(listed(metadata_contains={"x": None})) == []

    @pytest.mark.promise(22)
    @pytest.mark.parametrize("key", ["a b", "x') or 1=1 --", "$.x", "", "a" * 65, 'q"'])
    def test_filter_keys_come_from_a_closed_grammar(self, backend: Bed, key: str) -> None:
        with pytest.raises(InvalidValue):
            backend.store.sessions.list(metadata_contains={key: 1})

    @pytest.mark.promise(22)
    def test_a_filter_value_is_data_and_never_code(self, backend: Bed) -> None:
        nasty = "'; drop table sessions; --"
        make(backend, "a", metadata={"x": nasty}, user=nasty)
        listed = backend.store.sessions.list
        assert ids(listed(metadata_contains={"x": nasty})) == ["a"]
        assert ids(listed(metadata_equals={"x": nasty})) == ["a"]
        assert ids(listed(user=nasty)) == ["a"]

    @pytest.mark.promise(13, 22)
    def test_filters_are_all_of_them_together(self, backend: Bed) -> None:
        make(backend, "a", user="ada", status="active", metadata={"x": 1})
        make(backend, "b", user="ada", status="active", metadata={"x": 2})
        make(backend, "c", user="bob", status="active", metadata={"x": 1})
        wanted: dict[str, Any] = {"user": "ada", "status": "active", "metadata_contains": {"x": 1}}
        assert ids(backend.store.sessions.list(**wanted)) == ["a"]
        assert [s.id for s in backend.store.sessions.iter(**wanted)] == ["a"]
        assert backend.store.sessions.count(**wanted) == 1


class TestListPages:
    """Limits, offsets, cursors."""

    @pytest.mark.promise(6)
    def test_five_sessions_in_pages_of_three(self, backend: Bed) -> None:
        make(backend, "a", "b", "c", "d", "e")
        first = backend.store.sessions.list(order="id", limit=3)
        second = backend.store.sessions.list(order="id", limit=3, offset=3)
        assert (ids(first), first.has_more) == (["a", "b", "c"], True)
        assert (ids(second), second.has_more) == (["d", "e"], False)

    @pytest.mark.promise(5)
    def test_an_offset_behind_the_end_gives_nothing(self, backend: Bed) -> None:
        make(backend, "a", "b")
        page = backend.store.sessions.list(offset=2, total=True)
        assert (ids(page), page.has_more, page.total) == ([], False, 2)
        assert ids(backend.store.sessions.list(offset=10_000)) == []

    @pytest.mark.promise(13, 22)
    def test_the_filter_comes_before_the_offset_and_the_offset_before_the_limit(
        self, backend: Bed
    ) -> None:
        for n in range(8):
            make(backend, f"s{n}", user="ada" if n % 2 else "bob")
        page = backend.store.sessions.list(user="ada", order="id", offset=1, limit=2, total=True)
        assert (ids(page), page.has_more, page.total) == (["s3", "s5"], True, 4)

    @pytest.mark.promise(22)
    def test_a_page_has_fifty_items_when_nobody_says_how_many(self, backend: Bed) -> None:
        make(backend, *(f"s{n:03d}" for n in range(51)))
        page = backend.store.sessions.list(order="id")
        assert (len(page), page.has_more, page.total) == (50, True, None)

    @pytest.mark.promise(22)
    def test_a_limit_above_two_hundred_is_clamped_and_says_so(self, backend: Bed) -> None:
        make(backend, *(f"s{n:03d}" for n in range(201)))
        page = backend.store.sessions.list(limit=1000)
        assert (len(page), page.has_more) == (200, True)
        assert len(list(backend.store.sessions.iter())) == 201

    @pytest.mark.promise(22)
    def test_a_full_last_page_knows_that_it_is_the_last(self, backend: Bed) -> None:
        make(backend, "a", "b", "c")
        page = backend.store.sessions.list(limit=3)
        assert (len(page), page.has_more) == (3, False)

    @pytest.mark.promise(23)
    @pytest.mark.parametrize("limit", [0, -1, 1.5, "3", None, True])
    def test_a_limit_that_is_no_positive_integer_is_refused(self, backend: Bed, limit: Any) -> None:
        with pytest.raises(InvalidValue) as refused:
            backend.store.sessions.list(limit=limit)
        assert refused.value.field == "limit"

    @pytest.mark.promise(22)
    @pytest.mark.parametrize("offset", [-1, 0.5, "1", None])
    def test_an_offset_that_is_no_count_is_refused(self, backend: Bed, offset: Any) -> None:
        with pytest.raises(InvalidValue) as refused:
            backend.store.sessions.list(offset=offset)
        assert refused.value.field == "offset"

    @pytest.mark.promise(22)
    @pytest.mark.parametrize("order", ["-updated", "updated", "-created", "created", "id", "-id"])
    def test_a_cursor_walks_through_everything_once(self, backend: Bed, order: str) -> None:
        make(backend, "c", "a", "e")
        for name in ("d", "b"):
            backend.store.sessions.create(id=name)
        whole = ids(backend.store.sessions.list(order=order))
        assert walk(backend, order=order, limit=2) == whole
        assert [s.id for s in backend.store.sessions.iter(order=order)] == whole

    @pytest.mark.promise(5, 19)
    @pytest.mark.parametrize("limit", [1, 2, 3, 50])
    def test_the_order_is_exact_to_the_microsecond(self, backend: Bed, limit: int) -> None:
        times = {"a": 16384, "b": 5, "c": 32768, "d": 16383, "e": 16385, "f": 16384, "g": 32767}
        for name, updated_us in times.items():
            backend.store.sessions.put(Session(id=name, created_us=1, updated_us=updated_us))
        assert "".join(walk(backend, order="updated", limit=limit)) == "bdafegc"
        assert "".join(walk(backend, order="-updated", limit=limit)) == "cgeafdb"
        offsets = (backend.store.sessions.list(offset=n, limit=1) for n in range(len(times)))
        assert "".join(page.items[0].id for page in offsets) == "cgeafdb"

    @pytest.mark.promise(22)
    def test_a_cursor_keeps_its_place_when_sessions_are_added(self, backend: Bed) -> None:
        make(backend, "b", "c", "d", "e")
        first = backend.store.sessions.list(order="-created", limit=2)
        make(backend, "f", "g")
        rest = backend.store.sessions.list(order="-created", cursor=first.cursor)
        assert (ids(first), ids(rest)) == (["e", "d"], ["c", "b"])

    @pytest.mark.promise(22)
    def test_a_cursor_keeps_its_place_when_sessions_are_removed(self, backend: Bed) -> None:
        make(backend, "a", "b", "c", "d")
        first = backend.store.sessions.list(order="created", limit=2)
        backend.store.sessions.purge("a")
        backend.store.sessions.purge("b")
        rest = backend.store.sessions.list(order="created", cursor=first.cursor)
        assert ids(rest) == ["c", "d"]

    @pytest.mark.promise(22)
    def test_the_last_page_has_no_cursor(self, backend: Bed) -> None:
        make(backend, "a", "b", "c")
        first = backend.store.sessions.list(limit=2)
        assert first.cursor
        last = backend.store.sessions.list(limit=2, cursor=first.cursor)
        assert (last.has_more, last.cursor) == (False, None)

    @pytest.mark.promise(22)
    @pytest.mark.parametrize("cursor", ["", "garbage", "AAAA", "eyJ4IjoxfQ", 7, "é\x00"])
    def test_a_foreign_cursor_is_refused(self, backend: Bed, cursor: Any) -> None:
        make(backend, "a")
        with pytest.raises(InvalidValue) as refused:
            backend.store.sessions.list(cursor=cursor)
        assert refused.value.field == "cursor"

    @pytest.mark.promise(22)
    def test_a_cursor_of_another_order_or_another_list_is_refused(self, backend: Bed) -> None:
        make(backend, "a", "b")
        backend.store.messages.append("a", user("1"), user("2"))
        by_id = backend.store.sessions.list(order="id", limit=1).cursor
        messages = backend.store.messages.list("a", limit=1).cursor
        for cursor in (by_id, messages):
            with pytest.raises(InvalidValue):
                backend.store.sessions.list(order="-created", cursor=cursor)

    @pytest.mark.promise(22)
    def test_the_total_ignores_the_page(self, backend: Bed) -> None:
        make(backend, "a", "b", "c", "d")
        first = backend.store.sessions.list(order="id", limit=1, offset=1, total=True)
        assert first.total == 4
        second = backend.store.sessions.list(order="id", limit=1, cursor=first.cursor, total=True)
        assert (ids(second), second.total) == (["c"], 4)


class TestSeparation:
    """Tenants and users never see each other's sessions."""

    @pytest.mark.promise(13, 14, 193)
    def test_a_list_shows_one_tenant_and_one_user(self, backend: Bed) -> None:
        red, blue = (backend.store.for_tenant(name) for name in ("red", "blue"))
        for store in (red, blue):
            for name in ("ada", "bob"):
                store.sessions.create(id=f"{name}-1", user=name)
        red.sessions.create(id="red-only", user="ada")
        assert {s.id for s in red.sessions.list(user="ada")} == {"ada-1", "red-only"}
        assert {s.id for s in blue.sessions.list(user="ada")} == {"ada-1"}
        assert backend.store.sessions.list().items == []
        assert (red.sessions.count(), blue.sessions.count()) == (3, 2)

    @pytest.mark.promise(14, 193)
    def test_the_id_of_another_tenant_looks_absent(self, backend: Bed) -> None:
        red, blue = (backend.store.for_tenant(name) for name in ("red", "blue"))
        (message,) = red.messages.append("s", user("secret"), create=True)
        assert blue.sessions.get("s") is None
        assert blue.sessions.exists("s") is False
        assert blue.sessions.head("s") is None
        assert blue.messages.history("s") == []
        assert blue.messages.get(message.id) is None
        assert blue.messages.get(message.id, session="s") is None
        assert blue.nodes.find(message.id) == []

    @pytest.mark.promise(14)
    def test_no_write_reaches_another_tenant(self, backend: Bed) -> None:
        red, blue = (backend.store.for_tenant(name) for name in ("red", "blue"))
        red.messages.append("s", user("mine"), create=True)
        before = red.sessions.get("s")
        with pytest.raises(SessionNotFound):
            blue.sessions.update("s", title="stolen")
        with pytest.raises(SessionNotFound):
            blue.messages.append("s", user("foreign"))
        assert blue.sessions.delete("s") is False
        assert blue.sessions.purge("s").existed is False
        assert red.sessions.get("s") == before
        assert [m.text for m in red.messages.history("s")] == ["mine"]

    @pytest.mark.promise(14, 193)
    def test_two_tenants_may_use_the_same_id(self, backend: Bed) -> None:
        red, blue = (backend.store.for_tenant(name) for name in ("red", "blue"))
        red.messages.append("s", user("red"), create=True)
        blue.messages.append("s", user("blue"), create=True)
        blue.sessions.purge("s")
        assert [m.text for m in red.messages.history("s")] == ["red"]
        assert blue.messages.history("s") == []

    @pytest.mark.promise(14, 22)
    def test_a_cursor_of_another_tenant_opens_nothing(self, backend: Bed) -> None:
        red, blue = (backend.store.for_tenant(name) for name in ("red", "blue"))
        for name in ("a", "b", "c"):
            red.sessions.create(id=name)
        cursor = red.sessions.list(order="id", limit=1).cursor
        with pytest.raises(InvalidValue):
            blue.sessions.list(order="id", cursor=cursor)


def walk(backend: Bed, **options: Any) -> list[str]:
    """All ids, page after page."""
    found: list[str] = []
    cursor = None
    for _ in range(100):
        page = backend.store.sessions.list(cursor=cursor, **options)
        found += ids(page)
        if not page.has_more:
            return found
        cursor = page.cursor
    raise AssertionError("the pages never end")
