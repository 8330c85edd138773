"""Sessions that have parents: who may be one, and what becomes of children."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from ledgerstone import Session, Store, user
from ledgerstone.commands.sessions import PurgeSession
from ledgerstone.errors import InvalidValue, SessionHasChildren
from ledgerstone.testing.bed import Bed

__all__ = ["TestChildren", "TestFamilyLists", "TestParents"]


def family(store: Store) -> None:
    """A mother with two children, one of which has a child of its own; and a stranger."""
    store.sessions.create(id="mother")
    for name, parent in (("ann", "mother"), ("bob", "mother"), ("kid", "ann")):
        store.sessions.create(id=name, parent=parent)
    store.sessions.create(id="stranger")
    for name in ("mother", "ann", "bob", "kid", "stranger"):
        store.messages.append(name, user(f"I am {name}"))


def everybody(store: Store) -> dict[str, str | None]:
    """All sessions that are not deleted, with their parents."""
    return {one.id: one.parent for one in store.sessions.iter()}


ALL = {"mother": None, "ann": "mother", "bob": "mother", "kid": "ann", "stranger": None}
VERBS = ("delete", "purge")


@pytest.mark.promise(210)
class TestChildren:
    """`children` of delete and purge: reject, detach or cascade."""

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_session_with_children_is_not_removed_by_default(
        self, backend: Bed, verb: str
    ) -> None:
        family(backend.store)
        for extra in ({}, {"children": "reject"}):
            with backend.unchanged("mother"), pytest.raises(SessionHasChildren) as refused:
                getattr(backend.store.sessions, verb)("mother", **extra)
            assert (refused.value.session, refused.value.children) == ("mother", 2)
            assert "2 others" in str(refused.value)
        assert everybody(backend.store) == ALL

    @pytest.mark.parametrize("verb", VERBS)
    def test_detached_children_stay_and_have_no_parent(self, backend: Bed, verb: str) -> None:
        family(backend.store)
        getattr(backend.store.sessions, verb)("mother", children="detach")
        store = backend.reopen()
        assert everybody(store) == {"ann": None, "bob": None, "kid": "ann", "stranger": None}
        assert backend.texts("ann") == ["I am ann"]
        assert store.admin.verify().ok

    @pytest.mark.parametrize("verb", VERBS)
    def test_a_cascade_takes_all_below_along(self, backend: Bed, verb: str) -> None:
        family(backend.store)
        getattr(backend.store.sessions, verb)("mother", children="cascade")
        store = backend.reopen()
        assert everybody(store) == {"stranger": None}
        assert store.messages.append("stranger", user("alone"))
        assert store.admin.verify().ok

    def test_what_a_deletion_took_along_is_deleted_and_comes_back_one_by_one(
        self, backend: Bed
    ) -> None:
        store = backend.store
        family(store)
        assert store.sessions.delete("mother", children="cascade") is True
        gone = [store.sessions.get(name) for name in ("mother", "ann", "bob", "kid")]
        assert {one.deleted_us for one in gone if one is not None} == {backend.clock.now_us()}
        assert store.sessions.restore("mother") is True
        assert everybody(store) == {"mother": None, "stranger": None}
        assert store.sessions.restore("kid") is True
        assert backend.texts("kid") == ["I am kid"]

    def test_what_a_purge_took_along_is_gone_and_named(self, backend: Bed) -> None:
        store = backend.store
        family(store)
        receipt = store.sessions.purge("mother", children="cascade")
        assert sorted(receipt.children) == ["ann", "bob", "kid"]
        assert receipt.children.index("kid") < receipt.children.index("ann")
        assert receipt.removed["nodes"] == 4
        for name in ("mother", "ann", "bob", "kid"):
            assert store.sessions.get(name) is None
            assert store.messages.history(name) == []
        assert store.sessions.purge("stranger").children == []

    def test_deleted_children_stop_no_deletion_but_a_purge(self, backend: Bed) -> None:
        store = backend.store
        family(store)
        store.sessions.delete("bob")
        with pytest.raises(SessionHasChildren) as refused:
            store.sessions.delete("mother")
        assert refused.value.children == 1
        store.sessions.delete("ann", children="cascade")
        assert store.sessions.delete("mother") is True
        with pytest.raises(SessionHasChildren) as refused:
            store.sessions.purge("mother")
        assert refused.value.children == 2
        assert len(store.sessions.purge("mother", children="cascade").children) == 3

    def test_a_purge_that_was_cut_off_is_gone_on_with(self, backend: Bed) -> None:
        family(backend.store)
        place: Any = {"tenant": "default"}
        cut = backend.write(PurgeSession(id="mother", children="cascade", **place))
        assert everybody(backend.store) == {"stranger": None}
        backend.write(PurgeSession(id=cut.children[0], **place))
        store = backend.reopen()
        again = store.sessions.purge("mother", children="cascade")
        assert (again.existed, again.children) == (False, cut.children[1:])
        assert store.sessions.count(deleted=True) == 1

    def test_who_has_no_children_is_removed_whatever_is_said(self, backend: Bed) -> None:
        store = backend.store
        for children in ("reject", "detach", "cascade"):
            store.sessions.create(id="s")
            assert store.sessions.delete("s", children=children) is True
            assert store.sessions.delete("nobody", children=children) is False
            assert store.sessions.purge("s", children=children).existed is True
            assert store.sessions.purge("nobody", children=children).existed is False

    def test_children_of_another_tenant_do_not_count(self, backend: Bed) -> None:
        other = backend.open(None).for_tenant("other")
        family(other)
        backend.store.sessions.create(id="mother")
        assert backend.store.sessions.delete("mother", children="cascade") is True
        assert everybody(other) == ALL

    def test_anything_else_is_refused(self, backend: Bed) -> None:
        wrong: Any = "adopt"
        for verb in VERBS:
            with pytest.raises(InvalidValue, match="children"):
                getattr(backend.store.sessions, verb)("s", children=wrong)


@pytest.mark.promise(211)
class TestParents:
    """A parent must be there, and not below its child."""

    def test_a_parent_that_is_not_there_is_refused(self, backend: Bed) -> None:
        sessions = backend.store.sessions
        makers: list[Callable[..., object]] = [
            lambda: sessions.create(id="s", parent="nobody"),
            lambda: sessions.ensure("s", parent="nobody"),
            lambda: sessions.get_or_create("ada", parent="nobody"),
            lambda: sessions.put(Session(id="s", parent="nobody")),
        ]
        for make in makers:
            with pytest.raises(InvalidValue, match="nobody") as refused:
                make()
            assert refused.value.field == "parent"
        assert sessions.count() == 0

    def test_nor_may_a_commit_make_a_session_with_such_a_parent(self, backend: Bed) -> None:
        made, store = Session(id="s", parent="nobody"), backend.store
        makers: list[Callable[..., object]] = [
            lambda: store.messages.append("s", user("hello"), create=made),
            lambda: store.messages.append("s", create=made),
            lambda: store.messages.replace("s", [user("hello")], create=made),
            lambda: store.nodes.append("s", {"kind": "event"}, create=made),
            lambda: store.turns.begin("s", create=made).commit(),
        ]
        for make in makers:
            with pytest.raises(InvalidValue, match="nobody"):
                make()
        assert store.sessions.count() == 0
        store.sessions.create(id="nobody")
        store.messages.append("s", user("hello"), create=made)
        assert everybody(store) == {"nobody": None, "s": "nobody"}

    def test_a_deleted_parent_is_refused_and_one_of_another_tenant_is_not_there(
        self, backend: Bed
    ) -> None:
        backend.open(None).for_tenant("other").sessions.create(id="theirs")
        backend.store.sessions.create(id="gone")
        backend.store.sessions.delete("gone")
        for parent in ("gone", "theirs"):
            with pytest.raises(InvalidValue, match=parent):
                backend.store.sessions.create(id="s", parent=parent)

    def test_an_import_may_bring_the_parent_later(self, backend: Bed) -> None:
        sessions = backend.store.sessions
        sessions.create(id="a", parent="p", parent_missing="keep")
        sessions.ensure("b", parent="p", parent_missing="keep")
        sessions.put(Session(id="c", parent="p"), parent_missing="keep")
        sessions.get_or_create("ada", parent="p", parent_missing="keep")
        assert sessions.count(parent="p") == 4
        with pytest.raises(InvalidValue, match="parent_missing"):
            sessions.create(id="d", parent="p", parent_missing="root")

    def test_what_is_there_may_be_made_again_whatever_became_of_its_parent(
        self, backend: Bed
    ) -> None:
        sessions = backend.store.sessions
        made = sessions.create(id="s", parent="p", parent_missing="keep")
        assert sessions.create(id="s", parent="p") == made
        assert sessions.ensure("s", parent="other") == made
        assert sessions.put(Session(id="s", parent="p", title="new")).title == "new"
        assert sessions.put(Session(id="s")).parent is None
        with pytest.raises(InvalidValue, match="'p'"):
            sessions.put(Session(id="s", parent="p"))

    @pytest.mark.parametrize("missing", ["error", "keep"])
    def test_no_circle_is_closed(self, backend: Bed, missing: str) -> None:
        store = backend.store
        family(store)
        for parent in ("mother", "bob", "kid"):
            with backend.unchanged("mother"), pytest.raises(InvalidValue, match="circle"):
                store.sessions.put(Session(id="mother", parent=parent), parent_missing=missing)
        with pytest.raises(InvalidValue, match="circle"):
            store.sessions.create(id="own", parent="own", parent_missing=missing)
        assert store.sessions.put(Session(id="mother", parent="stranger")).parent == "stranger"

    def test_nor_by_a_parent_that_comes_later(self, backend: Bed) -> None:
        sessions = backend.store.sessions
        sessions.create(id="a", parent="b", parent_missing="keep")
        with pytest.raises(InvalidValue, match="circle"):
            sessions.create(id="b", parent="a")
        assert sessions.create(id="b").parent is None


def ids(page: Iterable[Session]) -> list[str]:
    return [one.id for one in page]


@pytest.mark.promise(212)
class TestFamilyLists:
    """`id_prefix`, `root` and `under` of lists."""

    def test_only_those_without_a_parent(self, backend: Bed) -> None:
        sessions = backend.store.sessions
        family(backend.store)
        assert ids(sessions.list(root=True, order="id")) == ["mother", "stranger"]
        assert sessions.count(root=True) == 2
        assert sessions.count(root=False) == 5
        sessions.delete("mother", children="detach")
        assert ids(sessions.list(root=True, order="id")) == ["ann", "bob", "stranger"]
        assert sessions.count(root=True, deleted=True) == 4

    def test_all_below_a_session(self, backend: Bed) -> None:
        sessions = backend.store.sessions
        family(backend.store)
        for order in ("id", "created", "updated"):
            assert sorted(ids(sessions.list(under="mother", order=order))) == ["ann", "bob", "kid"]
        assert ids(sessions.list(under="mother", order="-id")) == ["kid", "bob", "ann"]
        assert ids(sessions.list(under="mother", parent="ann")) == ["kid"]
        assert ids(sessions.list(under="ann")) == ["kid"]
        assert ids(sessions.list(under="kid")) == ids(sessions.list(under="nobody")) == []
        sessions.delete("ann", children="detach")
        assert ids(sessions.list(under="mother")) == ["bob"]
        assert sessions.count(under="mother", deleted=True) == 2

    @pytest.mark.parametrize("order", ["id", "-id", "created", "-created", "updated", "-updated"])
    def test_pages_of_a_family_are_complete(self, backend: Bed, order: str) -> None:
        sessions = backend.store.sessions
        sessions.create(id="top")
        for n in range(12):
            backend.clock.advance(1)
            parent = "top" if n < 2 else f"s{n - 2:02}"
            sessions.create(id=f"s{n:02}", parent=parent, user=f"u{n % 2}")
        assert len(ids(sessions.iter(under="top", order=order))) == 12
        found: list[str] = []
        cursor = None
        while cursor is not None or not found:
            page = sessions.list(under="top", user="u1", order=order, limit=2, cursor=cursor)
            found, cursor = [*found, *ids(page)], page.cursor
        assert sorted(found) == [f"s{n:02}" for n in range(1, 12, 2)]
        assert found == sorted(found, reverse=order.startswith("-"))

    def test_by_how_an_id_begins(self, backend: Bed) -> None:
        sessions = backend.store.sessions
        names = ["a", "a b", "a/", "a/1", "a/10", "a/2", "a0", "a\U0010fffd", "A/1", "b", "é", "éa"]
        for name in names:
            backend.clock.advance(1)
            sessions.create(id=name, user="ada" if name.endswith("1") else None)
        for prefix in (*names, "a/1" + "x" * 250, "\ue000", "\U00010000", " "):
            wanted = sorted(name for name in names if name.startswith(prefix))
            assert ids(sessions.list(id_prefix=prefix, order="id")) == wanted
            assert ids(sessions.list(id_prefix=prefix, order="-id")) == wanted[::-1]
            by_time = [name for name in names if name in wanted]
            assert ids(sessions.list(id_prefix=prefix)) == by_time[::-1]
            assert sessions.count(id_prefix=prefix) == len(wanted)
        assert ids(sessions.list(id_prefix="a", user="ada")) == ["a/1"]

    def test_pages_by_how_an_id_begins(self, backend: Bed) -> None:
        sessions = backend.store.sessions
        for n in range(25):
            sessions.create(id=f"x{n:02}")
            sessions.create(id=f"y{n:02}")
        for order in ("id", "-created"):
            found: list[str] = []
            cursor = None
            while cursor is not None or not found:
                page = sessions.list(id_prefix="x", order=order, limit=10, cursor=cursor)
                found, cursor = [*found, *ids(page)], page.cursor
            assert sorted(found) == [f"x{n:02}" for n in range(25)]
        assert len(ids(sessions.iter(id_prefix="x1"))) == 10

    def test_a_cursor_is_of_one_list(self, backend: Bed) -> None:
        sessions = backend.store.sessions
        family(backend.store)
        filters: list[dict[str, Any]] = [{"root": True}, {"under": "mother"}, {"id_prefix": "m"}]
        page = sessions.list(limit=1)
        assert page.cursor is not None
        for where in filters:
            with pytest.raises(InvalidValue, match="cursor"):
                sessions.list(limit=1, cursor=page.cursor, **where)

    def test_anything_else_is_refused(self, backend: Bed) -> None:
        filters: list[dict[str, Any]] = [{"root": 1}, {"under": ""}, {"id_prefix": ""}]
        for where in filters:
            with pytest.raises(InvalidValue):
                backend.store.sessions.list(**where)
