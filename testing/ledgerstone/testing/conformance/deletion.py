"""How a session ends: hidden and brought back, or removed for good, and what its id may do then."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledgerstone import Session, Store, user
from ledgerstone.errors import (
    IncarnationMoved,
    RevisionMoved,
    SessionDeleted,
    SessionRetired,
)
from ledgerstone.records.turns import TurnCommitted
from ledgerstone.testing.bed import Bed

__all__ = ["TestSoftDelete", "TestPurge"]


def make(store: Store, name: str = "s") -> None:
    """A session with something in every corner."""
    store.sessions.create(id=name, user="ada", document={"config": {"k": 1}})
    with store.turns.begin(name, id="t1", run_id="r1") as turn:
        first = turn.user("hello")
        turn.assistant("hi")
        turn.run("running", agent="guide")
        turn.state(step=1)
        turn.use("m-1", {"input": 3, "output": 4})
    store.nodes.annotate(name, first.id, {"note": "kept"})
    store.branches.create(name, "other", at=first.id)


class TestSoftDelete:
    """`delete` hides, `restore` brings back."""

    @pytest.mark.promise(10, 12)
    def test_a_deleted_session_can_be_read_by_id_and_says_when(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s", title="kept")
        backend.clock.advance(7)
        assert backend.store.sessions.delete("s") is True
        gone = backend.store.sessions.get("s")
        assert gone is not None
        assert (gone.title, gone.deleted_us) == ("kept", backend.clock.now_us())

    @pytest.mark.promise(12)
    def test_deleting_what_is_not_there_succeeds(self, backend: Bed) -> None:
        assert backend.store.sessions.delete("nobody") is False
        backend.store.sessions.create(id="s")
        backend.store.sessions.delete("s")
        first = backend.store.sessions.get("s")
        backend.clock.advance(7)
        assert backend.store.sessions.delete("s") is False
        assert backend.store.sessions.get("s") == first

    @pytest.mark.promise(12)
    def test_the_messages_of_a_deleted_session_stay(self, backend: Bed) -> None:
        make(backend.store)
        backend.store.sessions.delete("s")
        assert [m.text for m in backend.store.messages.history("s")] == ["hello", "hi"]

    @pytest.mark.promise(12, 13)
    def test_a_deleted_session_is_in_no_list_unless_asked_for(self, backend: Bed) -> None:
        for name in ("a", "b"):
            backend.store.sessions.create(id=name)
        backend.store.sessions.delete("a")
        assert [s.id for s in backend.store.sessions.list()] == ["b"]
        assert [s.id for s in backend.store.sessions.iter()] == ["b"]
        assert backend.store.sessions.count() == 1
        assert {s.id for s in backend.store.sessions.list(deleted=True)} == {"a", "b"}
        assert backend.store.sessions.count(deleted=True) == 2

    @pytest.mark.promise(12)
    def test_every_write_to_a_deleted_session_is_refused(self, backend: Bed) -> None:
        make(backend.store)
        backend.store.sessions.delete("s")
        store = backend.store
        writes: list[Callable[[], object]] = [
            lambda: store.messages.append("s", user("more")),
            lambda: store.messages.replace("s", [user("other")]),
            lambda: store.messages.pop("s"),
            lambda: store.messages.clear("s"),
            lambda: store.sessions.update("s", title="new"),
            lambda: store.sessions.put(Session(id="s")),
            lambda: store.nodes.annotate("s", "n", {"k": 1}),
            lambda: store.leases.take("s", owner="w"),
        ]
        for write in writes:
            with pytest.raises(SessionDeleted) as refused:
                write()
            assert refused.value.session == "s"
        assert [m.text for m in store.messages.history("s")] == ["hello", "hi"]

    @pytest.mark.promise(12)
    def test_restore_undoes_a_delete(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        before = backend.store.sessions.get("s")
        backend.store.sessions.delete("s")
        assert backend.store.sessions.restore("s") is True
        assert backend.store.sessions.get("s") == before
        assert [s.id for s in backend.store.sessions.list()] == ["s"]
        assert backend.store.messages.append("s", user("again"))[0].seq == 1

    @pytest.mark.promise(12)
    def test_restoring_what_is_not_deleted_does_nothing(self, backend: Bed) -> None:
        assert backend.store.sessions.restore("nobody") is False
        backend.store.sessions.create(id="s")
        assert backend.store.sessions.restore("s") is False

    @pytest.mark.promise(12)
    def test_delete_and_restore_move_neither_revision_nor_time(self, backend: Bed) -> None:
        make(backend.store)
        before = backend.store.sessions.head("s")
        backend.clock.advance(5)
        backend.store.sessions.delete("s")
        backend.store.sessions.restore("s")
        assert backend.store.sessions.head("s") == before

    @pytest.mark.promise(27)
    def test_a_session_exists_between_its_creation_and_its_removal(self, backend: Bed) -> None:
        exists = backend.store.sessions.exists
        assert exists("s") is False
        backend.store.sessions.create(id="s")
        assert exists("s") is True
        backend.store.sessions.delete("s")
        assert exists("s") is False
        backend.store.sessions.restore("s")
        assert exists("s") is True
        backend.store.sessions.purge("s")
        assert exists("s") is False


class TestPurge:
    """`purge` removes, and leaves a stub that keeps the id honest."""

    @pytest.mark.promise(4, 24, 30)
    def test_nothing_of_a_purged_session_can_be_read(self, backend: Bed) -> None:
        make(backend.store)
        store = backend.store
        assert store.sessions.purge("s").existed is True
        assert store.sessions.get("s") is None
        assert store.sessions.head("s") is None
        assert store.sessions.document("s") is None
        assert store.sessions.picker("s") is None
        assert store.messages.history("s") == []
        assert store.messages.list("s").items == []
        assert store.messages.count("s") == 0
        assert list(store.nodes.iter("s")) == []
        assert store.turns.get("s", "t1") is None
        assert store.runs.get("r1") is None
        assert store.leases.get("s") is None

    @pytest.mark.promise(4, 24, 30)
    def test_a_purged_session_is_in_no_list(self, backend: Bed) -> None:
        make(backend.store)
        backend.store.sessions.create(id="other")
        backend.store.sessions.purge("s")
        assert [s.id for s in backend.store.sessions.list(deleted=True)] == ["other"]
        assert backend.store.sessions.count(deleted=True) == 1

    @pytest.mark.promise(4, 24, 30)
    def test_a_purge_touches_no_other_session(self, backend: Bed) -> None:
        make(backend.store, "s")
        backend.store.sessions.copy("s", "twin")
        backend.store.sessions.purge("s")
        assert [m.text for m in backend.store.messages.history("twin")] == ["hello", "hi"]
        document = backend.store.sessions.document("twin")
        assert document is not None
        assert document["config"]["k"] == 1
        assert backend.store.admin.verify().ok

    @pytest.mark.promise(4, 24, 30)
    def test_purging_what_is_not_there_succeeds(self, backend: Bed) -> None:
        assert backend.store.sessions.purge("nobody").existed is False
        backend.store.sessions.create(id="s")
        backend.store.sessions.purge("s")
        assert backend.store.sessions.purge("s").existed is False

    @pytest.mark.promise(24)
    def test_the_receipt_says_what_was_removed(self, backend: Bed) -> None:
        make(backend.store)
        head = backend.store.sessions.head("s")
        assert head is not None
        receipt = backend.store.sessions.purge("s")
        assert (receipt.session, receipt.existed, receipt.retired) == ("s", True, False)
        assert (receipt.incarnation, receipt.link) == (1, head.link)
        assert sum(receipt.removed.values()) > 0

    @pytest.mark.promise(4)
    def test_runs_stay_when_the_caller_wants_to_keep_them(self, backend: Bed) -> None:
        make(backend.store)
        run = backend.store.runs.get("r1")
        assert run is not None
        backend.store.sessions.purge("s", keep_runs=True)
        assert backend.store.runs.get("r1") == run
        assert backend.store.messages.history("s") == []

    @pytest.mark.promise(24, 30)
    def test_a_deleted_session_can_be_purged(self, backend: Bed) -> None:
        make(backend.store)
        backend.store.sessions.delete("s")
        assert backend.store.sessions.purge("s").existed is True
        assert backend.store.sessions.get("s") is None

    @pytest.mark.promise(24)
    def test_a_purge_at_another_revision_is_refused(self, backend: Bed) -> None:
        make(backend.store)
        head = backend.store.sessions.head("s")
        assert head is not None
        with pytest.raises(RevisionMoved):
            backend.store.sessions.purge("s", expected_revision=head.revision - 1)
        assert backend.store.sessions.get("s") is not None
        assert backend.store.sessions.purge("s", expected_revision=head.revision).existed

    @pytest.mark.promise(24)
    def test_a_purge_of_another_life_is_refused(self, backend: Bed) -> None:
        store = backend.store
        make(store)
        assert store.sessions.purge("s", expected_incarnation=1).existed
        make(store)
        revision = backend.revision("s")
        with backend.unchanged("s"), pytest.raises(IncarnationMoved):
            store.sessions.purge("s", expected_revision=revision, expected_incarnation=1)
        assert store.sessions.purge("s", expected_incarnation=2).existed

    @pytest.mark.promise(24, 106)
    def test_a_turn_for_another_life_is_refused(self, backend: Bed) -> None:
        """At the same revision: without the incarnation nobody would see the difference."""
        store = backend.store
        late = []
        for life in (1, 2):
            made = store.sessions.create(id="s")
            assert made.incarnation == life
            store.messages.append("s", user(f"life {life}"))
            turn = store.turns.begin("s", expected_revision=1, expected_incarnation=life)
            turn.user("seen")
            late.append(turn)
            if life == 1:
                store.sessions.purge("s")
        with backend.unchanged("s"), pytest.raises(IncarnationMoved) as caught:
            late[0].commit()
        assert (caught.value.expected, caught.value.actual, caught.value.session) == (1, 2, "s")
        assert isinstance(caught.value, RevisionMoved)
        assert late[1].commit().revision == 2
        late[1].user("and again")
        assert late[1].commit().revision == 3

    @pytest.mark.promise(24, 106)
    def test_a_turn_for_a_life_that_is_over_does_not_begin_the_next(self, backend: Bed) -> None:
        store = backend.store
        make(store)
        store.sessions.purge("s")
        turn = store.turns.begin("s", expected_incarnation=1, create=True)
        turn.user("late")
        with pytest.raises(IncarnationMoved) as caught:
            turn.commit()
        assert (caught.value.expected, caught.value.actual) == (1, 0)
        assert store.sessions.get("s") is None

    @pytest.mark.promise(24, 106)
    def test_a_turn_may_insist_on_making_its_session(self, backend: Bed) -> None:
        store = backend.store

        def made(id: str) -> TurnCommitted:
            turn = store.turns.begin("s", id=id, expected_incarnation=0, create=True)
            turn.user("first")
            return turn.commit()

        store.sessions.create(id="s")
        with pytest.raises(IncarnationMoved):
            made("t1")
        assert store.sessions.head("s") is None
        store.sessions.purge("s")
        assert made("t2").revision == 1
        assert made("t2").replayed
        with backend.unchanged("s"), pytest.raises(IncarnationMoved):
            made("t3")
        turn = store.turns.begin("other", expected_incarnation=0, create=True)
        for text in ("first", "second"):
            turn.user(text)
            turn.commit()
        assert backend.texts("other") == ["first", "second"]

    @pytest.mark.promise(24, 27)
    def test_a_purged_id_may_be_used_again_and_starts_empty(self, backend: Bed) -> None:
        make(backend.store)
        backend.store.sessions.purge("s")
        again = backend.store.sessions.create(id="s")
        assert again.incarnation == 2
        assert backend.store.sessions.head("s") is None
        assert backend.store.sessions.document("s") is None
        assert backend.store.messages.append("s", user("new"))[0].seq == 1
        assert [m.text for m in backend.store.messages.history("s")] == ["new"]
        assert backend.store.branches.list("s")[1:] == []

    @pytest.mark.promise(24, 124)
    def test_fences_go_on_rising_over_a_purge(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        old = backend.store.leases.take("s", owner="w1", ttl_s=60)
        assert old is not None
        assert backend.store.sessions.purge("s").fence == old.fence
        backend.store.sessions.create(id="s")
        new = backend.store.leases.take("s", owner="w1", ttl_s=60)
        assert new is not None
        assert new.fence > old.fence

    @pytest.mark.promise(24)
    def test_every_life_of_an_id_has_its_own_number(self, backend: Bed) -> None:
        for life in (1, 2, 3):
            assert backend.store.sessions.create(id="s").incarnation == life
            assert backend.store.sessions.purge("s").incarnation == life
            if backend.persistent:
                backend.reopen()

    @pytest.mark.promise(24)
    def test_a_retired_id_is_never_used_again(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        assert backend.store.sessions.purge("s", retire=True).retired is True
        store = backend.reopen()
        for write in (
            lambda: store.sessions.create(id="s"),
            lambda: store.sessions.ensure("s"),
            lambda: store.messages.append("s", user("x"), create=True),
        ):
            with pytest.raises(SessionRetired) as refused:
                write()
            assert refused.value.session == "s"
        assert store.sessions.get("s") is None

    @pytest.mark.promise(24)
    def test_an_id_can_be_retired_before_it_was_used_and_after_a_purge(self, backend: Bed) -> None:
        backend.store.sessions.purge("never", retire=True)
        with pytest.raises(SessionRetired):
            backend.store.sessions.create(id="never")
        backend.store.sessions.create(id="s")
        backend.store.sessions.purge("s")
        backend.store.sessions.purge("s", retire=True)
        with pytest.raises(SessionRetired):
            backend.store.sessions.create(id="s")
