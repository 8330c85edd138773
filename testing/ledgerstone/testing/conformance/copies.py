"""Fork and copy: a new session with copied rows, the same ids and a fate of its own."""

from __future__ import annotations

from contextlib import suppress

import pytest

from ledgerstone import assistant, user
from ledgerstone.errors import (
    AlreadyExists,
    BranchNotFound,
    InvalidValue,
    SessionDeleted,
    SessionNotFound,
    SessionRetired,
)
from ledgerstone.testing.bed import Bed


class OnATree:
    @pytest.fixture
    def tree(self, backend: Bed) -> str:
        """main: m1 m2 m3 m4; side: m1 m2 d3; m4 is tombstoned; m1 is amended; state {"k": 1}."""
        store = backend.store
        store.messages.append(
            "s",
            user("one", id="m1"),
            assistant("two", id="m2"),
            user("three", id="m3"),
            assistant("four", id="m4"),
            create=True,
        )
        store.branches.create("s", "side", at="m2")
        store.messages.append("s", user("drei", id="d3"), branch="side")
        store.nodes.tombstone("s", ["m4"])
        store.messages.amend("m1", session="s", metadata={"stars": 5})
        with store.turns.begin("s") as turn:
            turn.state(k=1)
        store.nodes.annotate("s", "m2", {"mark": {"by": "ann"}})
        return "s"


class TestForking(OnATree):
    def test_a_fork_has_the_live_path_with_the_same_ids(self, backend: Bed, tree: str) -> None:
        forked = backend.store.sessions.fork(tree, new_id="f")
        assert forked.id == "f"
        made = backend.store.messages.history("f")
        assert [(m.id, m.seq, m.text) for m in made] == [
            ("m1", 1, "one"),
            ("m2", 2, "two"),
            ("m3", 3, "three"),
        ]
        assert [m.session for m in made] == ["f"] * 3
        assert [n.id for n in backend.store.nodes.iter("f", order="ord")] == ["m1", "m2", "m3"]

    def test_a_fork_starts_at_revision_one_without_branches(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.fork(tree, new_id="f")
        head = backend.store.sessions.head("f")
        assert head is not None
        assert (head.revision, head.leaf, head.messages, head.nodes) == (1, "m3", 3, 3)
        assert head.branches == []

    def test_a_fork_at_a_node_ends_there(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.fork(tree, at="m2", new_id="f")
        assert backend.texts("f") == ["one", "two"]

    def test_a_fork_of_a_branch_follows_it(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.fork(tree, branch="side", new_id="f")
        assert backend.texts("f") == ["one", "two", "drei"]

    def test_a_fork_brings_amendments_and_state_but_no_lease(self, backend: Bed, tree: str) -> None:
        backend.store.leases.take(tree, owner="ann")
        backend.store.sessions.fork(tree, new_id="f")
        first = backend.store.messages.get("m1", session="f")
        assert first is not None
        assert (first.metadata, first.version) == ({"stars": 5}, 1)
        versions = backend.store.messages.versions("m1", session="f")
        assert [version.metadata for version in versions] == [{}, {"stars": 5}]
        assert backend.state("f") == {"k": 1}
        assert backend.store.leases.get("f") is None
        backend.store.messages.append("f", user("free to write"))

    def test_a_fork_has_a_fate_of_its_own(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.sessions.fork(tree, new_id="f")
        with backend.unchanged(tree):
            store.messages.append("f", user("new", id="m9"))
            store.nodes.tombstone("f", ["m1"])
        with backend.unchanged("f"):
            store.messages.append(tree, user("elsewhere"))
            store.sessions.purge(tree)
        assert backend.texts("f") == ["two", "three", "new"]

    def test_a_fork_makes_its_own_id_when_none_is_given(self, backend: Bed, tree: str) -> None:
        first, second = (backend.store.sessions.fork(tree) for _ in range(2))
        assert len({first.id, second.id, tree}) == 3

    def test_a_fork_may_belong_to_another_user(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.sessions.create(id="of ada", user="ada", title="T", metadata={"k": 1})
        store.messages.append("of ada", user("hi"))
        same, other = store.sessions.fork("of ada"), store.sessions.fork("of ada", user="bob")
        assert (same.user, other.user) == ("ada", "bob")
        assert (other.title, other.metadata) == ("T", {"k": 1})

    def test_a_fork_verifies(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.fork(tree, new_id="f")
        backend.store.messages.append("f", user("more"))
        assert backend.store.admin.verify("f").defects == []

    def test_a_fork_survives_a_reopening(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.fork(tree, new_id="f")
        backend.reopen()
        assert backend.texts("f") == ["one", "two", "three"]

    def test_what_can_not_be_forked(self, backend: Bed, tree: str) -> None:
        store = backend.store
        with pytest.raises(SessionNotFound):
            store.sessions.fork("nowhere", new_id="f")
        with pytest.raises(InvalidValue):
            store.sessions.fork(tree, at="nowhere", new_id="f")
        with pytest.raises(BranchNotFound):
            store.sessions.fork(tree, branch="nowhere", new_id="f")
        store.sessions.create(id="taken")
        with backend.unchanged("taken"), pytest.raises(AlreadyExists):
            store.sessions.fork(tree, new_id="taken")
        assert store.sessions.get("f") is None

    def test_a_deleted_session_is_not_forked(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.delete(tree)
        with pytest.raises(SessionDeleted):
            backend.store.sessions.fork(tree, new_id="f")

    def test_a_retired_id_can_not_be_the_target(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.create(id="f")
        backend.store.sessions.purge("f", retire=True)
        with pytest.raises(SessionRetired):
            backend.store.sessions.fork(tree, new_id="f")


class TestCopying(OnATree):
    def test_a_copy_has_every_branch_and_note(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.sessions.copy(tree, "c")
        assert backend.texts("c") == ["one", "two", "three"]
        assert backend.texts("c", "side") == ["one", "two", "drei"]
        assert [b.name for b in store.branches.list("c")] == ["main", "side"]
        assert store.nodes.notes("c", ["m2"])["m2"]["mark"].body == {"by": "ann"}
        assert backend.state("c") == {"k": 1}

    def test_a_copy_keeps_positions_and_hidden_nodes_hidden(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.sessions.copy(tree, "c")
        theirs = [(n.id, n.ord, n.seq, n.parent) for n in store.nodes.iter("c", order="ord")]
        ours = [(n.id, n.ord, n.seq, n.parent) for n in store.nodes.iter(tree, order="ord")]
        assert theirs == ours
        assert store.nodes.get("c", "m4") is None

    def test_a_copy_has_one_commit_and_grows_from_there(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.sessions.copy(tree, "c")
        assert backend.revision("c") == 1
        added = store.messages.append("c", user("more"))
        assert (added[0].seq, added[0].parent) == (4, "m3")
        assert backend.revision("c") == 2

    def test_a_copy_takes_no_drafts_and_no_lease(self, backend: Bed, tree: str) -> None:
        store = backend.store
        with suppress(ZeroDivisionError), store.turns.begin(tree).draft() as draft:
            draft.write("half an ans")
            raise ZeroDivisionError
        assert len(store.drafts.list(tree)) == 1
        store.leases.take(tree, owner="ann")
        store.sessions.copy(tree, "c")
        assert store.drafts.list("c") == []
        assert store.leases.get("c") is None

    def test_a_copy_has_a_fate_of_its_own(self, backend: Bed, tree: str) -> None:
        store = backend.store
        store.sessions.copy(tree, "c")
        with backend.unchanged(tree):
            store.branches.delete("c", "side")
            store.messages.clear("c")
        with backend.unchanged("c"):
            store.messages.append(tree, user("elsewhere"))
            store.sessions.purge(tree)

    def test_a_copy_verifies_and_survives_a_reopening(self, backend: Bed, tree: str) -> None:
        backend.store.sessions.copy(tree, "c")
        backend.reopen()
        assert backend.texts("c", "side") == ["one", "two", "drei"]
        assert backend.store.admin.verify("c").defects == []

    def test_the_chain_of_a_copy_names_its_source(self, backend: Bed, tree: str) -> None:
        source = backend.store.sessions.head(tree)
        backend.store.sessions.copy(tree, "c")
        copied = backend.store.sessions.head("c")
        assert source is not None
        assert copied is not None
        assert copied.link not in {"", source.link}
