"""Sessions: made, read, changed, hidden, brought back and removed for good."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest

from ledgerstone import assistant, user
from ledgerstone.errors import AlreadyExists, InvalidValue, SessionNotFound
from ledgerstone.records.sessions import STATUSES, Cause, Head, Session
from ledgerstone.testing.bed import Bed

__all__ = ["TestSessions"]

T = TypeVar("T")

WHOLE: dict[str, Any] = {
    "user": "ada",
    "app": "travel",
    "title": "Oslo",
    "model": "m-1",
    "cwd": "/somewhere/else",
    "status": "active",
    "metadata": {"priority": 3, "tags": ["a", "b"], "nested": {"deep": None}},
    "parent": "mother",
    "cause": Cause("tool_call", "c1"),
}


def fields_of(session: Session) -> dict[str, Any]:
    return {name: getattr(session, name) for name in WHOLE}


def at_once(count: int, work: Callable[[int], T]) -> list[T]:
    """The answers of several threads that work at the same time."""
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(work, range(count)))


class TestSessions:
    """Create, read, update, put."""

    @pytest.mark.promise(1)
    def test_an_unknown_id_is_none_and_no_error(self, backend: Bed) -> None:
        assert backend.store.sessions.get("nobody") is None
        backend.store.sessions.create(id="s")
        assert backend.store.sessions.get("nobody") is None

    @pytest.mark.promise(1, 9)
    def test_create_returns_what_get_returns(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s", parent_missing="keep", **WHOLE)
        assert made.id == "s"
        assert backend.store.sessions.get("s") == made

    @pytest.mark.promise(3, 8, 40)
    def test_every_field_of_a_session_round_trips(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s", parent_missing="keep", **WHOLE)
        assert fields_of(made) == WHOLE
        backend.reopen()
        again = backend.store.sessions.get("s")
        if backend.persistent:
            assert again == made

    @pytest.mark.promise(8, 17)
    def test_a_new_session_is_empty_and_was_updated_when_it_was_created(self, backend: Bed) -> None:
        now_us = backend.clock.now_us()
        made = backend.store.sessions.create()
        assert (made.created_us, made.updated_us) == (now_us, now_us)
        assert (made.title, made.model, made.metadata, made.deleted_us) == (None,) * 4
        assert (made.tenant, made.user, made.app) == ("default", None, "")
        assert (made.status, made.incarnation) == ("unknown", 1)

    @pytest.mark.promise(17)
    def test_an_id_that_was_not_given_is_a_uuid_of_version_7(self, backend: Bed) -> None:
        first, second = (backend.store.sessions.create().id for _ in range(2))
        assert uuid.UUID(first).version == 7
        assert first < second

    @pytest.mark.promise(9, 17)
    def test_an_id_may_be_given_as_a_uuid(self, backend: Bed) -> None:
        given = uuid.uuid4()
        assert backend.store.sessions.create(id=given).id == str(given)

    @pytest.mark.promise(9, 18)
    def test_a_taken_id_is_refused_and_nothing_changes(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s", title="first")
        with pytest.raises(AlreadyExists) as refused:
            backend.store.sessions.create(id="s", title="second")
        assert refused.value.id == "s"
        assert backend.store.sessions.get("s") == made

    @pytest.mark.promise(9, 18)
    def test_the_same_create_again_is_answered_with_the_stored_session(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s", parent_missing="keep", **WHOLE)
        backend.clock.advance(5)
        assert backend.store.sessions.create(id="s", parent_missing="keep", **WHOLE) == made

    @pytest.mark.promise(9, 18)
    def test_a_deleted_session_still_owns_its_id(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s", title="first")
        backend.store.sessions.delete("s")
        with pytest.raises(AlreadyExists):
            backend.store.sessions.create(id="s", title="second")

    @pytest.mark.promise(15)
    def test_ensure_makes_a_session_once_and_then_returns_it_as_it_is(self, backend: Bed) -> None:
        made = backend.store.sessions.ensure("s", user="ada", title="first")
        backend.clock.advance(5)
        assert backend.store.sessions.ensure("s", user="bob", title="second") == made
        assert (made.user, made.title) == ("ada", "first")

    @pytest.mark.promise(15)
    def test_get_or_create_makes_a_session_only_for_a_user_who_has_none(self, backend: Bed) -> None:
        made = backend.store.sessions.get_or_create("ada", app="travel")
        assert (made.user, made.app) == ("ada", "travel")
        assert backend.store.sessions.get_or_create("ada", app="travel").id == made.id
        assert backend.store.sessions.get_or_create("ada").id != made.id
        assert backend.store.sessions.get_or_create("bob", app="travel").id != made.id

    @pytest.mark.promise(15)
    def test_get_or_create_finds_the_newest_live_session(self, backend: Bed) -> None:
        for name in ("a", "b", "c"):
            backend.store.sessions.create(id=name, user="ada")
            backend.clock.advance(1)
        backend.store.sessions.delete("c")
        assert backend.store.sessions.get_or_create("ada").id == "b"
        backend.store.messages.append("a", user("I am back"))
        assert backend.store.sessions.get_or_create("ada").id == "a"

    @pytest.mark.promise(15)
    def test_get_or_create_prefers_the_first_id_among_equals(self, backend: Bed) -> None:
        for name in ("b", "a", "c"):
            backend.store.sessions.create(id=name, user="ada")
        assert backend.store.sessions.get_or_create("ada").id == "a"

    @pytest.mark.promise(15)
    def test_get_or_create_by_many_at_once_makes_one_session(self, backend: Bed) -> None:
        found = at_once(8, lambda n: backend.store.sessions.get_or_create("ada").id)
        assert len(set(found)) == 1
        assert backend.store.sessions.count(user="ada") == 1

    @pytest.mark.promise(2, 11)
    def test_put_creates_what_is_not_there(self, backend: Bed) -> None:
        given = Session(id="s", created_us=11, updated_us=12, **WHOLE)
        assert backend.store.sessions.put(given, parent_missing="keep") == given
        assert backend.store.sessions.get("s") == given

    @pytest.mark.promise(2, 11)
    def test_put_overwrites_everything_but_the_time_of_creation(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s", parent_missing="keep", **WHOLE)
        backend.store.sessions.put(Session(id="s", title="new", created_us=5, updated_us=77))
        again = backend.store.sessions.get("s")
        assert again is not None
        assert again == Session(id="s", title="new", created_us=made.created_us, updated_us=77)

    @pytest.mark.promise(2, 11)
    def test_put_without_a_time_means_now(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        backend.clock.advance(9)
        assert backend.store.sessions.put(Session(id="s")).updated_us == backend.clock.now_us()

    @pytest.mark.promise(2, 4)
    def test_put_leaves_the_messages_alone(self, backend: Bed) -> None:
        backend.store.messages.append("s", user("hello"), create=True)
        backend.store.sessions.put(Session(id="s", title="new"))
        assert [m.text for m in backend.store.messages.history("s")] == ["hello"]
        head = backend.store.sessions.head("s")
        assert head is not None
        assert head.revision == 1

    @pytest.mark.promise(7, 20)
    def test_update_replaces_the_whole_metadata_and_nothing_else(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s", parent_missing="keep", **WHOLE)
        changed = backend.store.sessions.update("s", metadata={"only": "this"})
        assert changed.metadata == {"only": "this"}
        assert fields_of(changed) == {**WHOLE, "metadata": {"only": "this"}}
        assert changed.created_us == made.created_us

    @pytest.mark.promise(20)
    def test_update_changes_the_model_only_when_it_is_given(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s", parent_missing="keep", **WHOLE)
        changed = backend.store.sessions.update("s", title="Bergen")
        assert fields_of(changed) == {**WHOLE, "title": "Bergen"}
        assert backend.store.sessions.update("s", model="m-2").model == "m-2"

    @pytest.mark.promise(20)
    def test_update_can_set_a_field_to_none(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s", parent_missing="keep", **WHOLE)
        changed = backend.store.sessions.update("s", title=None, metadata=None)
        assert (changed.title, changed.metadata, changed.model) == (None, None, "m-1")

    @pytest.mark.promise(20)
    def test_update_moves_the_time_even_when_the_clock_stands_still(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s")
        once = backend.store.sessions.update("s", title="one")
        twice = backend.store.sessions.update("s", title="two")
        assert made.updated_us < once.updated_us < twice.updated_us
        backend.clock.advance(60)
        later = backend.store.sessions.update("s", title="three")
        assert later.updated_us == backend.clock.now_us()

    @pytest.mark.promise(7, 20)
    def test_updating_an_unknown_session_is_an_error_that_names_it(self, backend: Bed) -> None:
        with pytest.raises(SessionNotFound) as missing:
            backend.store.sessions.update("nobody", metadata={})
        assert missing.value.id == "nobody"
        assert backend.store.sessions.get("nobody") is None

    @pytest.mark.promise(21)
    def test_an_update_never_pretends(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s", title="old")
        answer = backend.store.sessions.update("s", title="new", status="paused")
        assert backend.store.sessions.get("s") == answer
        if backend.persistent:
            backend.reopen()
            assert backend.store.sessions.get("s") == answer

    @pytest.mark.promise(20)
    def test_update_does_not_move_the_revision(self, backend: Bed) -> None:
        backend.store.messages.append("s", user("hello"), create=True)
        backend.store.sessions.update("s", title="new", metadata={"a": 1})
        head = backend.store.sessions.head("s")
        assert head is not None
        assert head.revision == 1

    @pytest.mark.promise(16, 68)
    def test_an_append_makes_the_session_strictly_newer(self, backend: Bed) -> None:
        made = backend.store.sessions.create(id="s")
        backend.store.messages.append("s", user("clock stands still"))
        once = backend.store.sessions.get("s")
        backend.clock.advance(3)
        backend.store.messages.append("s", user("clock moved"))
        twice = backend.store.sessions.get("s")
        assert once is not None
        assert twice is not None
        assert made.updated_us < once.updated_us < twice.updated_us == backend.clock.now_us()
        assert twice.created_us == made.created_us

    @pytest.mark.promise(33)
    def test_the_five_states_of_a_session_round_trip(self, backend: Bed) -> None:
        assert STATUSES == ("unknown", "active", "paused", "completed", "error")
        for status in STATUSES:
            backend.store.sessions.create(id=status, status=status)
            stored = backend.store.sessions.get(status)
            assert stored is not None
            assert stored.status == status

    @pytest.mark.promise(33)
    def test_an_unknown_state_is_refused(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        with pytest.raises(InvalidValue):
            backend.store.sessions.update("s", status="sleeping")
        with pytest.raises(InvalidValue):
            backend.store.sessions.create(id="t", status="sleeping")
        assert backend.store.sessions.get("t") is None

    @pytest.mark.promise(39)
    def test_the_parent_and_the_cause_of_a_session_are_kept(self, backend: Bed) -> None:
        backend.store.sessions.create(id="mother")
        backend.store.sessions.create(id="child", parent="mother", cause=("tool_call", "c1"))
        child = backend.store.sessions.get("child")
        assert child is not None
        assert child.parent == child.parent_session_id == "mother"
        assert child.cause == Cause("tool_call", "c1")

    @pytest.mark.promise(41)
    def test_the_picker_shows_the_first_user_message_and_how_many_there_are(
        self, backend: Bed
    ) -> None:
        backend.store.sessions.create(
            id="s", cwd="/here", parent="m", parent_missing="keep", cause=("turn", "t1")
        )
        backend.store.messages.append(
            "s", assistant("Welcome"), user("Book Oslo"), assistant("When?"), user("Friday")
        )
        picker = backend.store.sessions.picker("s")
        assert picker is not None
        assert (picker.session, picker.cwd, picker.parent) == ("s", "/here", "m")
        assert picker.cause == Cause("turn", "t1")
        assert (picker.first_user_message, picker.user_messages) == ("Book Oslo", 2)

    @pytest.mark.promise(41)
    def test_the_picker_of_an_empty_or_unknown_session(self, backend: Bed) -> None:
        assert backend.store.sessions.picker("nobody") is None
        backend.store.sessions.create(id="s")
        picker = backend.store.sessions.picker("s")
        assert picker is not None
        assert (picker.first_user_message, picker.user_messages) == (None, 0)

    @pytest.mark.promise(41)
    def test_the_picker_follows_deletes_and_rewinds(self, backend: Bed) -> None:
        messages = backend.store.messages
        first, _, _ = messages.append("s", user("one"), user("two"), user("three"), create=True)
        messages.delete(first.id, session="s")
        picker = backend.store.sessions.picker("s")
        assert picker is not None
        assert (picker.first_user_message, picker.user_messages) == ("two", 2)
        messages.pop("s", 1)
        picker = backend.store.sessions.picker("s")
        assert picker is not None
        assert (picker.first_user_message, picker.user_messages) == ("two", 1)

    @pytest.mark.promise(42)
    def test_a_head_without_a_session_id_is_that_of_root(self, backend: Bed) -> None:
        assert Head().session == "root"
        backend.store.messages.append("root", user("hello"), create=True)
        head = backend.store.sessions.head("root")
        assert head is not None
        assert head.session == "root"
