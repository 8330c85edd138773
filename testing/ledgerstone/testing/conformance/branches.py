"""Branches: named leaves that share the session's nodes; pop, clear and replace move them."""

from __future__ import annotations

import pytest

from ledgerstone import assistant, user
from ledgerstone.errors import AlreadyExists, BranchNotFound, InvalidValue, LeafMoved
from ledgerstone.testing.bed import Bed


class OnAPath:
    @pytest.fixture
    def path(self, backend: Bed) -> str:
        """A session whose main shows m1 to m4."""
        backend.store.messages.append(
            "s",
            user("one", id="m1"),
            assistant("two", id="m2"),
            user("three", id="m3"),
            assistant("four", id="m4"),
            create=True,
        )
        return "s"


class TestBranches(OnAPath):
    def test_a_branch_shows_the_path_to_its_node(self, backend: Bed, path: str) -> None:
        made = backend.store.branches.create(path, "side", at="m2")
        assert (made.name, made.leaf, made.seq) == ("side", "m2", 2)
        assert backend.texts(path, "side") == ["one", "two"]
        assert backend.texts(path) == ["one", "two", "three", "four"]

    def test_a_branch_grows_beside_main(self, backend: Bed, path: str) -> None:
        store = backend.store
        store.branches.create(path, "side", at="m2")
        added = store.messages.append(path, user("drei", id="d3"), branch="side")
        assert (added[0].seq, added[0].parent) == (3, "m2")
        store.messages.append(path, user("five"))
        assert backend.texts(path, "side") == ["one", "two", "drei"]
        assert backend.texts(path) == ["one", "two", "three", "four", "five"]

    def test_main_comes_first_then_the_others_by_name(self, backend: Bed, path: str) -> None:
        store = backend.store
        for name in ("zed", "abc", "Abc"):
            store.branches.create(path, name, at="m1")
        assert [b.name for b in store.branches.list(path)] == ["main", "Abc", "abc", "zed"]
        head = store.sessions.head(path)
        assert head is not None
        assert [b.name for b in head.branches] == ["Abc", "abc", "zed"]

    def test_branches_survive_a_reopening(self, backend: Bed, path: str) -> None:
        backend.store.branches.create(path, "side", at="m2")
        backend.store.messages.append(path, user("drei"), branch="side")
        backend.reopen()
        assert backend.texts(path, "side") == ["one", "two", "drei"]

    def test_a_taken_name_is_refused(self, backend: Bed, path: str) -> None:
        backend.store.branches.create(path, "side", at="m2")
        with backend.unchanged(path), pytest.raises(AlreadyExists) as caught:
            backend.store.branches.create(path, "side", at="m3")
        assert caught.value.id == "side"

    def test_main_can_be_neither_made_nor_deleted(self, backend: Bed, path: str) -> None:
        with backend.unchanged(path), pytest.raises(InvalidValue):
            backend.store.branches.create(path, "main", at="m2")
        with backend.unchanged(path), pytest.raises(InvalidValue):
            backend.store.branches.delete(path, "main")

    @pytest.mark.promise(85)
    def test_a_branch_needs_a_node_that_exists(self, backend: Bed, path: str) -> None:
        with backend.unchanged(path), pytest.raises(InvalidValue):
            backend.store.branches.create(path, "side", at="nowhere")

    def test_creating_moving_and_deleting_each_count_as_one_commit(
        self, backend: Bed, path: str
    ) -> None:
        store = backend.store
        store.branches.create(path, "side", at="m2")
        assert backend.revision(path) == 2
        store.branches.move(path, "side", to="m3")
        assert backend.revision(path) == 3
        assert store.branches.delete(path, "side") is True
        assert backend.revision(path) == 4

    def test_a_deleted_branch_is_gone_and_its_nodes_stay(self, backend: Bed, path: str) -> None:
        store = backend.store
        store.branches.create(path, "side", at="m2")
        store.messages.append(path, user("drei", id="d3"), branch="side")
        assert store.branches.delete(path, "side") is True
        assert [b.name for b in store.branches.list(path)] == ["main"]
        assert store.nodes.get(path, "d3") is not None
        assert store.messages.history(path, branch="side") == []

    def test_deleting_twice_says_that_the_second_did_nothing(self, backend: Bed, path: str) -> None:
        backend.store.branches.create(path, "side", at="m2")
        assert backend.store.branches.delete(path, "side") is True
        with backend.unchanged(path):
            assert backend.store.branches.delete(path, "side") is False

    def test_writing_on_an_unknown_branch_is_refused(self, backend: Bed, path: str) -> None:
        with backend.unchanged(path), pytest.raises(BranchNotFound) as caught:
            backend.store.messages.append(path, user("lost"), branch="side")
        assert caught.value.id == "side"

    @pytest.mark.promise(200)
    def test_reading_an_unknown_branch_is_empty(self, backend: Bed, path: str) -> None:
        store = backend.store
        assert store.messages.history(path, branch="side") == []
        assert store.messages.count(path, branch="side") == 0
        assert store.nodes.path(path, branch="side") == []

    def test_a_tombstoned_leaf_stands_at_its_nearest_live_ancestor(
        self, backend: Bed, path: str
    ) -> None:
        store = backend.store
        store.branches.create(path, "side", at="m3")
        store.nodes.tombstone(path, ["m3"])
        assert backend.texts(path, "side") == ["one", "two"]
        added = store.messages.append(path, user("drei"), branch="side")
        assert (added[0].parent, added[0].seq) == ("m2", 3)

    def test_a_diff_names_the_last_common_node_and_both_rests(
        self, backend: Bed, path: str
    ) -> None:
        store = backend.store
        store.branches.create(path, "a", at="m2")
        store.branches.create(path, "b", at="m2")
        store.messages.append(path, user("x", id="a3"), user("y", id="a4"), branch="a")
        store.messages.append(path, user("z", id="b3"), branch="b")
        diff = store.branches.diff(path, "a", "b")
        assert diff.common == "m2"
        assert [node.id for node in diff.only_a] == ["a3", "a4"]
        assert [node.id for node in diff.only_b] == ["b3"]

    def test_a_diff_of_branches_without_a_common_node(self, backend: Bed, path: str) -> None:
        store = backend.store
        store.branches.create(path, "other", at="m1")
        store.branches.move(path, "other", to=None)
        store.messages.append(path, user("new root", id="r1"), branch="other")
        diff = store.branches.diff(path, "main", "other")
        assert diff.common is None
        assert [node.id for node in diff.only_a] == ["m1", "m2", "m3", "m4"]
        assert [node.id for node in diff.only_b] == ["r1"]

    def test_a_diff_with_an_unknown_branch_is_an_error(self, backend: Bed, path: str) -> None:
        with pytest.raises(BranchNotFound) as caught:
            backend.store.branches.diff(path, "main", "nowhere")
        assert caught.value.id == "nowhere"


class TestMovingABranch(OnAPath):
    @pytest.mark.promise(78, 82)
    def test_moving_main_changes_what_it_shows(self, backend: Bed, path: str) -> None:
        moved = backend.store.branches.move(path, "main", to="m2")
        assert (moved.leaf, moved.seq) == ("m2", 2)
        assert backend.texts(path) == ["one", "two"]
        head = backend.store.sessions.head(path)
        assert head is not None
        assert (head.leaf, head.messages, head.user_messages, head.nodes) == ("m2", 2, 1, 4)

    def test_main_follows_another_branch(self, backend: Bed, path: str) -> None:
        store = backend.store
        store.branches.create(path, "fast", at="m1")
        store.messages.append(path, user("quick", id="f2"), branch="fast")
        assert store.branches.move(path, "main", to="fast").leaf == "f2"
        assert backend.texts(path) == ["one", "quick"]

    def test_a_branch_where_it_was_expected_moves(self, backend: Bed, path: str) -> None:
        backend.store.branches.move(path, "main", to="m1", expected="m4")
        assert backend.texts(path) == ["one"]

    def test_a_branch_that_stands_elsewhere_stays(self, backend: Bed, path: str) -> None:
        with backend.unchanged(path), pytest.raises(LeafMoved) as caught:
            backend.store.branches.move(path, "main", to="m1", expected="m3")
        error = caught.value
        assert (error.branch, error.expected, error.actual) == ("main", "m3", "m4")

    def test_expecting_no_leaf_is_something_else_than_expecting_nothing(
        self, backend: Bed, path: str
    ) -> None:
        with backend.unchanged(path), pytest.raises(LeafMoved) as caught:
            backend.store.branches.move(path, "main", to="m1", expected=None)
        assert (caught.value.expected, caught.value.actual) == (None, "m4")

    @pytest.mark.promise(85)
    def test_a_node_that_does_not_exist_is_no_leaf(self, backend: Bed, path: str) -> None:
        with backend.unchanged(path), pytest.raises(InvalidValue):
            backend.store.branches.move(path, "main", to="nowhere")

    def test_a_tombstoned_node_is_no_leaf(self, backend: Bed, path: str) -> None:
        backend.store.nodes.tombstone(path, ["m2"])
        with backend.unchanged(path), pytest.raises(InvalidValue):
            backend.store.branches.move(path, "main", to="m2")

    def test_an_unknown_branch_does_not_move(self, backend: Bed, path: str) -> None:
        with backend.unchanged(path), pytest.raises(BranchNotFound):
            backend.store.branches.move(path, "side", to="m1")


class TestPopAndClear(OnAPath):
    def test_pop_takes_the_last_message_off_the_path(self, backend: Bed, path: str) -> None:
        popped = backend.store.messages.pop(path)
        assert [message.text for message in popped] == ["four"]
        assert backend.texts(path) == ["one", "two", "three"]
        assert backend.revision(path) == 2

    def test_pop_answers_several_oldest_first(self, backend: Bed, path: str) -> None:
        popped = backend.store.messages.pop(path, 3)
        assert [message.id for message in popped] == ["m2", "m3", "m4"]
        assert backend.texts(path) == ["one"]

    def test_what_was_popped_is_kept_and_the_next_message_takes_its_place(
        self, backend: Bed, path: str
    ) -> None:
        store = backend.store
        store.messages.pop(path)
        assert store.messages.get("m4", session=path) is not None
        added = store.messages.append(path, assistant("vier"))
        assert (added[0].seq, added[0].parent) == (4, "m3")
        assert backend.texts(path) == ["one", "two", "three", "vier"]

    def test_pop_skips_nodes_that_are_no_messages(self, backend: Bed, path: str) -> None:
        with backend.store.turns.begin(path) as turn:
            turn.node("plugin", {"n": 1}, id="p5")
        popped = backend.store.messages.pop(path)
        assert [message.id for message in popped] == ["m4"]
        head = backend.store.sessions.head(path)
        assert head is not None
        assert head.leaf == "m3"

    def test_pop_of_more_than_there_are_empties_the_path(self, backend: Bed, path: str) -> None:
        popped = backend.store.messages.pop(path, 99)
        assert [message.id for message in popped] == ["m1", "m2", "m3", "m4"]
        assert backend.texts(path) == []
        assert backend.store.messages.pop(path) == []

    def test_pop_on_a_branch_leaves_main_alone(self, backend: Bed, path: str) -> None:
        backend.store.branches.create(path, "side", at="m3")
        popped = backend.store.messages.pop(path, branch="side")
        assert [message.id for message in popped] == ["m3"]
        assert backend.texts(path, "side") == ["one", "two"]
        assert backend.texts(path) == ["one", "two", "three", "four"]

    @pytest.mark.parametrize("n", [0, -1, 1.5, "1", None, True])
    def test_pop_wants_a_positive_number(self, backend: Bed, path: str, n: object) -> None:
        with backend.unchanged(path), pytest.raises(InvalidValue):
            backend.store.messages.pop(path, n)  # type: ignore[arg-type]

    def test_clear_empties_the_path_and_says_how_much_it_was(self, backend: Bed, path: str) -> None:
        assert backend.store.messages.clear(path) == 4
        assert backend.texts(path) == []
        head = backend.store.sessions.head(path)
        assert head is not None
        assert (head.leaf, head.messages, head.revision) == (None, 0, 2)

    def test_after_clear_positions_start_at_one_again(self, backend: Bed, path: str) -> None:
        backend.store.messages.clear(path)
        added = backend.store.messages.append(path, user("again"))
        assert (added[0].seq, added[0].parent) == (1, None)


class TestReplacingAPath(OnAPath):
    @pytest.mark.promise(82)
    def test_replace_keeps_the_common_prefix_and_supersedes_the_rest(
        self, backend: Bed, path: str
    ) -> None:
        store = backend.store
        kept = store.messages.history(path)[:2]
        done = store.messages.replace(path, [*kept, user("drei", id="d3")])
        assert (done.kept, done.superseded) == (2, 2)
        assert [message.id for message in done.added] == ["d3"]
        assert backend.texts(path) == ["one", "two", "drei"]
        assert [m.id for m in store.messages.history(path)] == ["m1", "m2", "d3"]
        assert backend.revision(path) == 2

    @pytest.mark.promise(108)
    def test_the_answers_of_replace_and_pop_can_be_read_later(
        self, backend: Bed, path: str
    ) -> None:
        store = backend.store
        store.messages.replace(path, [user("new", id="n1"), user("newer", id="n2")])
        store.messages.pop(path)
        store.nodes.tombstone(path, ["n1", "nowhere"])
        backend.reopen()
        rows = backend.store.turns.list(path, after_revision=1)
        replaced, popped, hidden = (backend.store.turns.get(path, row.turn) for row in rows)
        assert replaced is not None
        assert popped is not None
        assert hidden is not None
        assert (replaced.superseded, replaced.leaf) == (4, "n2")
        assert [place.id for place in replaced.placed] == ["n1", "n2"]
        assert (popped.affected, popped.leaf, popped.superseded) == (("n2",), "n1", 0)
        assert hidden.affected == ("n1",)

    @pytest.mark.promise(77, 82)
    def test_what_was_superseded_is_hidden_from_the_graph(self, backend: Bed, path: str) -> None:
        backend.store.messages.replace(path, [user("new", id="n1")])
        ids = [node.id for node in backend.store.nodes.iter(path, order="ord")]
        assert ids == ["n1"]

    def test_what_another_branch_shows_is_not_superseded(self, backend: Bed, path: str) -> None:
        store = backend.store
        store.branches.create(path, "side", at="m3")
        done = store.messages.replace(path, [user("new", id="n1")])
        assert done.superseded == 4
        assert backend.texts(path) == ["new"]
        assert backend.texts(path, "side") == ["one", "two", "three"]
        assert store.nodes.get(path, "m3") is not None
        assert store.nodes.get(path, "m4") is None

    def test_replace_after_a_message_keeps_everything_up_to_it(
        self, backend: Bed, path: str
    ) -> None:
        done = backend.store.messages.replace(path, [user("drei")], after="m2")
        assert done.superseded == 2
        assert backend.texts(path) == ["one", "two", "drei"]

    def test_replace_after_a_message_of_another_path_is_refused(
        self, backend: Bed, path: str
    ) -> None:
        store = backend.store
        store.branches.create(path, "side", at="m1")
        store.messages.append(path, user("zwei", id="z2"), branch="side")
        with backend.unchanged(path), pytest.raises(InvalidValue):
            store.messages.replace(path, [user("x")], after="z2")

    def test_replace_with_nothing_empties_the_path(self, backend: Bed, path: str) -> None:
        done = backend.store.messages.replace(path, [])
        assert (done.kept, done.superseded, done.added) == (0, 4, [])
        assert backend.texts(path) == []

    def test_replace_where_somebody_else_moved_the_leaf_is_refused(
        self, backend: Bed, path: str
    ) -> None:
        with backend.unchanged(path), pytest.raises(LeafMoved) as caught:
            backend.store.messages.replace(path, [user("x")], expected_leaf="m3")
        assert (caught.value.expected, caught.value.actual) == ("m3", "m4")

    def test_the_base_of_one_replace_serves_the_next(self, backend: Bed, path: str) -> None:
        store = backend.store
        messages = store.messages.history(path)
        first = store.messages.replace(path, [*messages, user("five")])
        second = store.messages.replace(
            path, [*messages, user("five"), user("six")], base=first.base
        )
        assert (second.kept, second.superseded, len(second.added)) == (5, 0, 1)
        assert backend.texts(path) == ["one", "two", "three", "four", "five", "six"]

    def test_a_base_that_somebody_overtook_is_read_anew(self, backend: Bed, path: str) -> None:
        store = backend.store
        messages = store.messages.history(path)
        first = store.messages.replace(path, [*messages, user("five")])
        store.messages.append(path, user("meanwhile"))
        done = store.messages.replace(path, [*messages, user("fünf")], base=first.base)
        assert (done.kept, done.superseded) == (4, 2)
        assert backend.texts(path) == ["one", "two", "three", "four", "fünf"]

    def test_the_base_of_another_list_is_refused(self, backend: Bed, path: str) -> None:
        store = backend.store
        store.branches.create(path, "side", at="m4")
        base = store.messages.replace(path, [user("new")]).base
        with backend.unchanged(path), pytest.raises(InvalidValue) as caught:
            store.messages.replace(path, [user("new")], base=base, branch="side")
        assert caught.value.field == "base"

    def test_an_overtaken_base_with_an_expected_leaf_is_refused(
        self, backend: Bed, path: str
    ) -> None:
        store = backend.store
        messages = store.messages.history(path)
        first = store.messages.replace(path, [*messages, user("five")])
        store.messages.append(path, user("meanwhile"))
        with backend.unchanged(path), pytest.raises(LeafMoved):
            store.messages.replace(path, messages, base=first.base, expected_leaf=first.base.leaf)
