"""Lists and trees of runs, and what a parent hears when its child is done."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import user
from ledgerstone.errors import Fenced, InvalidValue
from ledgerstone.ids import derive
from ledgerstone.records.runs import Run, RunTree
from ledgerstone.testing.bed import Bed

TOLD = {
    "wake": "child_run",
    "run": "child",
    "parent_run": "parent",
    "child_session": "kid",
    "status": "done",
}


def names(runs: Any) -> list[str]:
    return [run.id for run in runs]


class TestRunLists:
    @pytest.fixture(autouse=True)
    def _runs(self, backend: Bed) -> None:
        """Two sessions: r5 r4 r3 in "a", created in this order, and r2 r1 in "b"."""
        store = backend.store
        for id in ("a", "b"):
            store.sessions.create(id=id)
        for n, session in ((5, "a"), (2, "b"), (4, "a"), (1, "b"), (3, "a")):
            backend.clock.advance(1)
            status = "done" if n in (2, 4) else "running"
            store.runs.create(
                session, id=f"r{n}", status=status, parent_run="r5" if n < 3 else None
            )

    @pytest.mark.promise(93)
    def test_in_the_order_they_were_created(self, backend: Bed) -> None:
        backend.store.runs.update("r5", steps=1)
        assert names(backend.store.runs.list()) == ["r5", "r2", "r4", "r1", "r3"]

    @pytest.mark.promise(93)
    def test_ids_decide_among_those_of_one_moment(self, backend: Bed) -> None:
        store = backend.store
        for id in ("z", "x", "y"):
            store.runs.put(Run(id=id, session="a", created_us=5))
        assert names(store.runs.list())[:3] == ["x", "y", "z"]
        page = store.runs.list(limit=2)
        assert names(store.runs.list(limit=2, cursor=page.cursor)) == ["z", "r5"]

    @pytest.mark.promise(93)
    def test_all_filters_must_fit(self, backend: Bed) -> None:
        store = backend.store
        assert names(store.runs.list(session="a")) == ["r5", "r4", "r3"]
        assert names(store.runs.list(status="done")) == ["r2", "r4"]
        assert names(store.runs.list(session="b", status="running")) == ["r1"]
        assert names(store.runs.list(parent_run="r5")) == ["r2", "r1"]
        assert names(store.runs.list(parent_run="r5", status="done", session="a")) == []
        assert names(store.runs.list(status="waiting")) == []
        assert names(store.runs.list(session="nowhere")) == []

    @pytest.mark.promise(93)
    def test_a_page_and_the_total_before_paging(self, backend: Bed) -> None:
        page = backend.store.runs.list(limit=2, offset=1, total=True)
        assert (names(page), page.total, page.has_more) == (["r2", "r4"], 5, True)
        last = backend.store.runs.list(limit=2, offset=3, total=True)
        assert (names(last), last.total, last.has_more, last.cursor) == (
            ["r1", "r3"],
            5,
            False,
            None,
        )
        beyond = backend.store.runs.list(offset=9, total=True)
        assert (names(beyond), beyond.total, beyond.has_more) == ([], 5, False)
        some = backend.store.runs.list(session="a", status="running", limit=1, total=True)
        assert (names(some), some.total) == (["r5"], 2)
        assert backend.store.runs.list().total is None

    @pytest.mark.promise(93)
    def test_limits(self, backend: Bed) -> None:
        for limit in (0, -1):
            with pytest.raises(InvalidValue) as caught:
                backend.store.runs.list(limit=limit)
            assert caught.value.field == "limit"
        for n in range(200):
            backend.store.runs.put(Run(id=f"more{n:03}", session="b"))
        page = backend.store.runs.list(limit=1000)
        assert (len(page.items), page.has_more) == (200, True)
        assert len(backend.store.runs.list().items) == 50
        assert len(names(backend.store.runs.iter())) == 205

    def test_a_cursor_survives_new_runs_and_belongs_to_its_list(self, backend: Bed) -> None:
        store = backend.store
        page = store.runs.list(limit=2)
        store.runs.put(Run(id="early", session="a", created_us=1))
        store.runs.create("a", id="late")
        rest = store.runs.list(cursor=page.cursor)
        assert names(rest) == ["r4", "r1", "r3", "late"]
        others: list[dict[str, Any]] = [{"session": "a"}, {"status": "done"}, {"parent_run": "r5"}]
        for wrong in others:
            with pytest.raises(InvalidValue) as caught:
                store.runs.list(cursor=page.cursor, **wrong)
            assert caught.value.field == "cursor"
        with pytest.raises(InvalidValue):
            store.runs.list(cursor=page.cursor, offset=1)

    def test_every_run_that_fits_one_by_one(self, backend: Bed) -> None:
        assert names(backend.store.runs.iter(session="b")) == ["r2", "r1"]
        assert names(backend.store.runs.iter(status="created")) == []

    def test_runs_of_other_tenants_are_not_there(self, backend: Bed) -> None:
        other = backend.open("red")
        other.sessions.create(id="a")
        other.runs.create("a", id="r5", parent_run="r9")
        assert names(other.runs.list()) == ["r5"]
        assert other.runs.list(total=True).total == 1
        assert names(backend.store.runs.list(parent_run="r9")) == []
        assert other.runs.tree("r1") is None

    def test_runs_of_a_deleted_session_are_shown_and_those_of_a_purged_one_are_not(
        self, backend: Bed
    ) -> None:
        store = backend.store
        store.sessions.delete("a")
        assert len(store.runs.list().items) == 5
        store.sessions.purge("a")
        assert names(store.runs.list(total=True)) == ["r2", "r1"]
        assert store.runs.list(total=True).total == 2
        assert names(store.runs.list(session="a")) == []

    def test_kept_runs_are_shown_where_they_were(self, backend: Bed) -> None:
        store = backend.store
        lists: list[dict[str, Any]] = [{}, {"session": "a"}]
        before = [store.runs.list(**where).items for where in lists]
        store.sessions.purge("a", keep_runs=True)
        backend.reopen()
        store = backend.store
        after = [store.runs.list(**where).items for where in lists]
        assert after == before
        assert store.runs.list(status="running", total=True).total == 3
        page = store.runs.list(limit=3)
        assert names(store.runs.list(cursor=page.cursor)) == ["r1", "r3"]

    def test_a_kept_run_that_lives_again_is_shown_once(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.purge("a", keep_runs=True)
        store.sessions.create(id="a")
        assert store.runs.update("r5", steps=3).incarnation == 2
        assert names(store.runs.list(session="a")) == ["r5", "r4", "r3"]
        assert store.runs.list(total=True).total == 5
        store.sessions.purge("a")
        assert names(store.runs.list(session="a")) == ["r4", "r3"]
        assert store.runs.get("r5") is None


class TestRunTrees:
    @pytest.fixture(autouse=True)
    def _runs(self, backend: Bed) -> None:
        """root has one, two; one has deep; each in a session of its own."""
        for id, parent in (("root", None), ("two", "root"), ("one", "root"), ("deep", "one")):
            backend.clock.advance(1)
            backend.store.sessions.create(id=f"s-{id}")
            backend.store.runs.create(f"s-{id}", id=id, parent_run=parent)

    def shape(self, tree: RunTree | None) -> Any:
        assert tree is not None
        return [tree.run.id, *(self.shape(child) for child in tree.children)]

    def test_a_tree_reaches_over_sessions(self, backend: Bed) -> None:
        tree = backend.store.runs.tree("root")
        assert tree is not None
        assert self.shape(tree) == ["root", ["two"], ["one", ["deep"]]]
        assert names(tree.walk()) == ["root", "two", "one", "deep"]
        assert tree.run == backend.store.runs.get("root")

    def test_a_tree_begins_where_it_is_asked_for(self, backend: Bed) -> None:
        assert self.shape(backend.store.runs.tree("one")) == ["one", ["deep"]]
        assert self.shape(backend.store.runs.tree("deep")) == ["deep"]
        assert backend.store.runs.tree("nowhere") is None

    def test_a_circle_has_an_end(self, backend: Bed) -> None:
        backend.store.runs.update("root", parent_run="deep")
        backend.store.runs.update("two", parent_run="two")
        assert self.shape(backend.store.runs.tree("root")) == ["root", ["one", ["deep"]]]
        assert self.shape(backend.store.runs.tree("deep")) == ["deep", ["root", ["one"]]]
        assert self.shape(backend.store.runs.tree("two")) == ["two"]

    def test_runs_that_outlived_their_session_are_in_it(self, backend: Bed) -> None:
        backend.store.sessions.purge("s-one", keep_runs=True)
        backend.reopen()
        assert self.shape(backend.store.runs.tree("root")) == ["root", ["two"], ["one", ["deep"]]]
        backend.store.sessions.purge("s-deep")
        assert self.shape(backend.store.runs.tree("root")) == ["root", ["two"], ["one"]]

    def test_a_parent_nobody_knows_has_no_tree(self, backend: Bed) -> None:
        backend.store.runs.update("two", parent_run="nowhere")
        assert backend.store.runs.tree("nowhere") is None
        assert self.shape(backend.store.runs.tree("root")) == ["root", ["one", ["deep"]]]

    def test_a_long_chain_is_no_trouble(self, backend: Bed) -> None:
        for n in range(150):
            parent = f"chain{n - 1}" if n else None
            backend.store.runs.put(Run(id=f"chain{n}", session="s-root", parent_run=parent))
        tree = backend.store.runs.tree("chain0")
        assert tree is not None
        assert len(tree.walk()) == 150


class TestChildWakeUps:
    @pytest.fixture(autouse=True)
    def _runs(self, backend: Bed) -> None:
        for id in ("boss", "kid"):
            backend.store.sessions.create(id=id)
        backend.store.runs.create("boss", id="parent")
        backend.store.runs.create("kid", id="child", parent_run="parent")

    def woken(self, backend: Bed, session: str = "boss") -> list[Any]:
        return [one for batch in backend.store.work.list(session) for one in batch.payloads]

    def end_in_a_turn(self, backend: Bed) -> None:
        with backend.store.turns.begin("kid", run_id="child") as turn:
            turn.add(user("found it"))
            turn.run("done")

    def end_by_put(self, backend: Bed) -> None:
        run = Run(id="child", session="kid", parent_run="parent", status="done")
        backend.store.runs.put(run)

    def end_by_update(self, backend: Bed) -> None:
        backend.store.runs.update("child", status="done")

    @pytest.mark.parametrize("how", ["end_in_a_turn", "end_by_put", "end_by_update"])
    def test_a_parent_hears_once_that_its_child_is_done(self, backend: Bed, how: str) -> None:
        assert self.woken(backend) == []
        getattr(self, how)(backend)
        assert self.woken(backend) == [TOLD]
        (batch,) = backend.store.work.list("boss")
        assert (batch.id, batch.queue) == (derive("wake", "child_run", "child"), "default")
        backend.store.runs.update("child", steps=3)
        backend.reopen()
        assert self.woken(backend) == [TOLD]
        assert self.woken(backend, "kid") == []

    def test_a_child_that_is_born_done_tells_it_too(self, backend: Bed) -> None:
        backend.store.runs.create("kid", id="quick", parent_run="parent", status="done")
        assert self.woken(backend) == [{**TOLD, "run": "quick"}]

    def test_a_child_in_the_same_session(self, backend: Bed) -> None:
        with backend.store.turns.begin("boss", run_id="inner") as turn:
            turn.run("done", parent_run="parent")
            turn.enqueue({"next": 1})
        told = {**TOLD, "run": "inner", "child_session": "boss"}
        assert self.woken(backend) == [told, {"next": 1}]
        seqs = [batch.enqueue_seq for batch in backend.store.work.list("boss")]
        assert len(set(seqs)) == 2

    def test_a_turn_said_twice_tells_it_once(self, backend: Bed) -> None:
        for _ in range(2):
            turn = backend.store.turns.begin("kid", run_id="child", id="t1")
            turn.run("done", parent_run="parent")
            turn.commit()
        assert self.woken(backend) == [TOLD]

    def test_a_turn_that_fails_tells_nobody(self, backend: Bed) -> None:
        store = backend.store
        stale = store.leases.take("kid", owner="w1", ttl_s=0)
        assert stale is not None
        assert store.leases.take("kid", owner="w2", ttl_s=60) is not None
        turn = store.turns.begin(stale, run_id="child")
        turn.run("done", parent_run="parent")
        with pytest.raises(Fenced):
            turn.commit()
        assert self.woken(backend) == []

    @pytest.mark.parametrize("why", ["done", "unknown", "deleted", "purged", "kept", "anew"])
    def test_nobody_is_told_who_does_not_wait(self, backend: Bed, why: str) -> None:
        store = backend.store
        if why == "done":
            store.runs.update("parent", status="done")
        elif why == "unknown":
            store.runs.update("child", parent_run="nowhere")
        elif why == "deleted":
            store.sessions.delete("boss")
        else:
            store.sessions.purge("boss", keep_runs=why != "purged")
        if why == "anew":
            store.sessions.create(id="boss")
        self.end_by_update(backend)
        child = store.runs.get("child")
        assert child is not None
        assert child.status == "done"
        assert self.woken(backend) == []
