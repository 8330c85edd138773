"""Checkpoints: a whole list with its run, and the state of a turn as content-addressed values."""

from __future__ import annotations

import hashlib

import pytest

from ledgerstone import Usage, assistant, user
from ledgerstone.commands.blobs import GetAttachment, RecordIntent
from ledgerstone.commands.nodes import GetValues
from ledgerstone.commands.work import ListWork
from ledgerstone.errors import ClaimLost, IllegalTransition, SchemaTooNew, SchemaTooOld
from ledgerstone.records.runs import Run
from ledgerstone.records.state import CHECKPOINT_SCHEMA, check_schema
from ledgerstone.records.work import Claim
from ledgerstone.testing.bed import Bed


class TestCheckpointingAList:
    @pytest.mark.promise(101, 102)
    def test_the_list_and_the_run_appear_together(self, backend: Bed) -> None:
        store = backend.store
        now_us = backend.clock.now_us()
        run = Run(id="r1", session="s", agent="scribe", status="running")
        store.turns.checkpoint("s", [user("one"), assistant("two")], run)
        assert backend.texts("s") == ["one", "two"]
        stored = store.runs.get("r1")
        assert stored is not None
        assert (stored.session, stored.agent, stored.status) == ("s", "scribe", "running")
        session = store.sessions.get("s")
        assert session is not None
        assert session.created_us == now_us
        assert backend.revision("s") == 1

    @pytest.mark.promise(101)
    def test_a_refused_run_keeps_the_old_list(self, backend: Bed) -> None:
        store = backend.store
        store.turns.checkpoint("s", [user("old")], Run(id="r1", session="s", status="done"))
        with backend.unchanged("s"), pytest.raises(IllegalTransition) as caught:
            store.turns.checkpoint("s", [user("new")], Run(id="r1", session="s"))
        assert (caught.value.run, caught.value.old, caught.value.new) == ("r1", "done", "running")

    @pytest.mark.promise(103)
    def test_a_second_checkpoint_overwrites_both(self, backend: Bed) -> None:
        store = backend.store
        store.turns.checkpoint("s", [user("one"), user("two")], Run(id="r1", session="s"))
        store.turns.checkpoint(
            "s", [user("one"), user("zwei")], Run(id="r1", session="s", status="done", steps=3)
        )
        assert backend.texts("s") == ["one", "zwei"]
        stored = store.runs.get("r1")
        assert stored is not None
        assert (stored.status, stored.steps) == ("done", 3)

    @pytest.mark.promise(102)
    def test_the_session_is_made_once_and_updated_each_time(self, backend: Bed) -> None:
        store = backend.store
        run = Run(id="r1", session="s")
        store.turns.checkpoint("s", [user("one")], run)
        first = store.sessions.get("s")
        backend.clock.advance(10)
        store.turns.checkpoint("s", [user("two")], run)
        second = store.sessions.get("s")
        assert first is not None
        assert second is not None
        assert second.created_us == first.created_us
        assert second.updated_us == backend.clock.now_us() > first.updated_us

    @pytest.mark.promise(3, 102)
    @pytest.mark.parametrize(
        ("status", "active", "opened"),
        [("created", None, "r1"), ("running", "r1", "r1"), ("waiting", None, "r1")],
    )
    def test_the_session_points_at_its_run(
        self, backend: Bed, status: str, active: str | None, opened: str | None
    ) -> None:
        store = backend.store
        if status == "waiting":
            store.turns.checkpoint("s", [user("x")], Run(id="r1", session="s"))
        run = Run(id="r1", session="s", status=status)  # type: ignore[arg-type]
        store.turns.checkpoint("s", [user("x")], run)
        session = store.sessions.get("s")
        assert session is not None
        assert (session.active_run, session.open_run) == (active, opened)
        assert session.latest_run == "r1"

    @pytest.mark.promise(102)
    def test_a_finished_run_clears_only_its_own_pointers(self, backend: Bed) -> None:
        store = backend.store
        store.turns.checkpoint("s", [user("x")], Run(id="r1", session="s"))
        store.turns.checkpoint("s", [user("y")], Run(id="r2", session="s", status="done"))
        session = store.sessions.get("s")
        assert session is not None
        assert (session.active_run, session.open_run, session.latest_run) == ("r1", "r1", "r2")
        store.turns.checkpoint("s", [user("z")], Run(id="r1", session="s", status="done"))
        session = store.sessions.get("s")
        assert session is not None
        assert (session.active_run, session.open_run, session.latest_run) == (None, None, "r1")


class TestTurnState:
    @pytest.mark.promise(104, 115)
    def test_a_commit_answers_the_reference_and_the_manifest(self, backend: Bed) -> None:
        turn = backend.store.turns.begin("s", create=True)
        manifest = turn.checkpoint(turn_state={"n": 1}, tool_state={"tools": []}, execution=b"\x00")
        done = turn.commit()
        assert done.checkpoint == manifest
        assert done.checkpoint_ref
        head = backend.store.sessions.head("s")
        assert head is not None
        assert head.checkpoint == done.checkpoint_ref

    @pytest.mark.promise(81, 115)
    def test_a_checkpoint_comes_back_hydrated(self, backend: Bed) -> None:
        with backend.store.turns.begin("s", create=True) as turn:
            turn.checkpoint(
                turn_state={"turn_index": 3},
                tool_state={"generation": 2, "tools": {"pay": {}}},
                plugins={"todo": {"state": [1]}},
                plugins_revision=7,
                execution=bytes(range(256)),
            )
        backend.reopen()
        loaded = backend.store.sessions.load("s")
        assert loaded is not None
        checkpoint = loaded.checkpoint
        assert checkpoint is not None
        assert checkpoint.turn_state == {"turn_index": 3}
        assert checkpoint.tool_state == {"generation": 2, "tools": {"pay": {}}}
        assert (checkpoint.plugins, checkpoint.plugins_revision) == ({"todo": {"state": [1]}}, 7)
        assert checkpoint.execution == bytes(range(256))

    @pytest.mark.promise(115)
    def test_an_absent_value_keeps_the_given_reference(self, backend: Bed) -> None:
        store = backend.store
        with store.turns.begin("s", create=True) as turn:
            first = turn.checkpoint(tool_state={"tools": [1]}, execution=b"old")
        with store.turns.begin("s") as turn:
            second = turn.checkpoint(tool_state_ref=first.tool_state, execution=b"new")
        assert second.tool_state == first.tool_state
        loaded = store.sessions.load("s")
        assert loaded is not None
        assert loaded.checkpoint is not None
        assert loaded.checkpoint.tool_state == {"tools": [1]}
        assert loaded.checkpoint.execution == b"new"

    @pytest.mark.promise(115, 178)
    def test_values_are_named_by_their_content_and_kept_once(self, backend: Bed) -> None:
        data = b"the same bytes"
        with backend.store.turns.begin("s", create=True) as turn:
            first = turn.value(data)
        with backend.store.turns.begin("s") as turn:
            second = turn.value(data)
            turn.state(n=1)
        assert first == second == hashlib.sha256(data).hexdigest()
        found = backend.ask(GetValues(tenant="default", session="s", digests=(first, "0" * 64)))
        assert found == {first: data}
        assert backend.store.admin.verify("s").values == 1

    @pytest.mark.promise(115)
    def test_vacuum_keeps_what_the_head_refers_to(self, backend: Bed) -> None:
        store = backend.store
        with store.turns.begin("s", create=True) as turn:
            old = turn.checkpoint(execution=b"old")
        with store.turns.begin("s") as turn:
            new = turn.checkpoint(execution=b"new")
        assert old.execution is not None
        assert new.execution is not None
        assert store.admin.vacuum("s").values == 2
        found = backend.ask(
            GetValues(tenant="default", session="s", digests=(old.execution, new.execution))
        )
        assert found == {new.execution: b"new"}
        assert store.admin.verify("s").defects == []


class TestHeadMeta:
    @pytest.mark.promise(81, 86, 89)
    def test_config_and_frames_are_stored_whole_with_the_commit(self, backend: Bed) -> None:
        frames = [{"frame_id": "f1", "status": "superseded"}, {"frame_id": "f2", "reason": "x"}]
        with backend.store.turns.begin("s", create=True) as turn:
            turn.user("hi", id="m1")
            turn.head(config={"provider_id": "p", "model": "m"}, frames=frames, current_frame="f2")
        backend.reopen()
        head = backend.store.sessions.head("s")
        assert head is not None
        assert (head.frames, head.current_frame) == (frames, "f2")
        assert head.config == {"provider_id": "p", "model": "m"}
        assert (head.revision, head.leaf, head.nodes) == (1, "m1", 1)

    @pytest.mark.promise(86)
    def test_later_frames_replace_the_list(self, backend: Bed) -> None:
        for name in ("f1", "f2"):
            with backend.store.turns.begin("s", create=True) as turn:
                turn.head(frames=[{"frame_id": name}], current_frame=name)
        head = backend.store.sessions.head("s")
        assert head is not None
        assert (head.frames, head.current_frame) == ([{"frame_id": "f2"}], "f2")

    @pytest.mark.promise(86)
    def test_a_commit_without_frames_keeps_them(self, backend: Bed) -> None:
        with backend.store.turns.begin("s", create=True) as turn:
            turn.head(config={"a": 1}, frames=[{"frame_id": "f1"}], current_frame="f1")
        backend.store.messages.append("s", user("hi"))
        head = backend.store.sessions.head("s")
        assert head is not None
        assert (head.current_frame, head.config) == ("f1", {"a": 1})

    @pytest.mark.promise(81, 89, 116)
    def test_usage_adds_up_per_source_and_model(self, backend: Bed) -> None:
        store = backend.store
        for n in (1, 2):
            with store.turns.begin("s", create=True) as turn:
                turn.use("m-1", Usage(input=10 * n, output=n, cached_input=5))
                turn.use("m-2", Usage(input=1))
                turn.use("m-1", Usage(input=100), source="tool")
        backend.reopen()
        head = backend.store.sessions.head("s")
        assert head is not None
        lines = [(e.source, e.model, e.usage.input, e.usage.output) for e in head.ledger]
        assert lines == [("", "m-1", 30, 3), ("", "m-2", 2, 0), ("tool", "m-1", 200, 0)]
        assert head.ledger[0].usage.cached_input == 10
        assert head.ledger[0].usage.total_tokens == 33

    @pytest.mark.promise(116)
    def test_a_line_that_was_corrected_to_nothing_is_not_shown(self, backend: Bed) -> None:
        for usage in (Usage(input=5, output=1), Usage(input=-5, output=-1)):
            with backend.store.turns.begin("s", create=True) as turn:
                turn.use("m", usage, correction=usage.input < 0)
        head = backend.store.sessions.head("s")
        assert head is not None
        assert head.ledger == []

    @pytest.mark.promise(116)
    def test_a_repeated_turn_is_not_counted_twice(self, backend: Bed) -> None:
        for _ in range(2):
            with backend.store.turns.begin("s", id="t", create=True) as turn:
                turn.use("m", Usage(input=5))
        head = backend.store.sessions.head("s")
        assert head is not None
        assert [entry.usage.input for entry in head.ledger] == [5]


class TestEverythingInOneCommit:
    @pytest.fixture
    def busy(self, backend: Bed) -> str:
        """A session with a queued batch, an attachment intent and a message."""
        backend.store.messages.append("s", user("go", id="m1"), create=True)
        backend.store.work.enqueue("s", {"n": 1}, id="w1")
        backend.write(RecordIntent(tenant="default", session="s", id="a1", uri="file:a"))
        return "s"

    @pytest.mark.promise(113, 145, 176)
    def test_claims_attachments_usage_and_the_lease_settle_together(
        self, backend: Bed, busy: str
    ) -> None:
        store = backend.store
        lease = store.leases.take(busy, owner="ann")
        assert lease is not None
        claim = store.work.claim(lease)
        assert claim is not None
        turn = store.turns.begin(lease)
        turn.assistant("done")
        turn.complete(claim)
        turn.attach("a1")
        turn.use("m", Usage(input=1))
        turn.commit(release=True)
        assert backend.ask(ListWork(tenant="default", session=busy)) == []
        attachment = backend.ask(GetAttachment(tenant="default", session=busy, id="a1"))
        assert attachment is not None
        assert attachment.committed_us is not None
        head = store.sessions.head(busy)
        assert head is not None
        assert (head.revision, head.lease, head.messages) == (2, None, 2)
        assert len(head.ledger) == 1

    @pytest.mark.promise(114, 145, 199)
    def test_a_claim_that_is_not_ours_rejects_the_whole_commit(
        self, backend: Bed, busy: str
    ) -> None:
        store = backend.store
        lease = store.leases.take(busy, owner="ann")
        assert lease is not None
        turn = store.turns.begin(lease, id="t")
        turn.assistant("done")
        turn.attach("a1")
        claim = Claim(
            session=busy,
            id="nobody's claim",
            owner="ann",
            token="t",
            fence=lease.fence,
            claimed_us=0,
            expires_us=0,
            batches=[],
        )
        turn.complete(claim)
        with backend.unchanged(busy), pytest.raises(ClaimLost) as caught:
            turn.commit(release=True)
        assert (caught.value.session, caught.value.claim) == (busy, "nobody's claim")
        assert store.turns.get(busy, "t") is None
        assert store.leases.get(busy) == lease
        attachment = backend.ask(GetAttachment(tenant="default", session=busy, id="a1"))
        assert attachment is not None
        assert attachment.committed_us is None

    @pytest.mark.promise(114, 145)
    def test_a_claim_of_an_older_fence_is_lost(self, backend: Bed, busy: str) -> None:
        store = backend.store
        old = store.leases.take(busy, owner="ann", ttl_s=10)
        assert old is not None
        claim = store.work.claim(old)
        assert claim is not None
        backend.clock.advance(11)
        new = store.leases.take(busy, owner="bob")
        assert new is not None
        turn = store.turns.begin(new)
        turn.complete(claim)
        turn.assistant("stolen")
        with backend.unchanged(busy), pytest.raises(ClaimLost):
            turn.commit()


class TestRecordVersions:
    @pytest.mark.promise(119, 199)
    def test_a_record_of_another_version_is_refused_by_name(self) -> None:
        check_schema("checkpoint", CHECKPOINT_SCHEMA, CHECKPOINT_SCHEMA)
        with pytest.raises(SchemaTooNew) as newer:
            check_schema("checkpoint", CHECKPOINT_SCHEMA + 1, CHECKPOINT_SCHEMA)
        assert (newer.value.kind, newer.value.actual) == ("checkpoint", CHECKPOINT_SCHEMA + 1)
        assert newer.value.expected == CHECKPOINT_SCHEMA
        with pytest.raises(SchemaTooOld):
            check_schema("checkpoint", CHECKPOINT_SCHEMA - 1, CHECKPOINT_SCHEMA)
