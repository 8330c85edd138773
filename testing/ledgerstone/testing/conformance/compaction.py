"""Compaction: a request and a summary, linked to the one before."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone import assistant, user
from ledgerstone.errors import (
    BranchNotFound,
    InvalidValue,
    MessageNotFound,
    RevisionMoved,
    SessionNotFound,
)
from ledgerstone.testing.bed import Bed


class TestCompaction:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.messages.append(
            "s", user("one", id="m1"), assistant("two", id="m2"), user("three", id="m3"),
            create=True,
        )  # fmt: skip
        return "s"

    @pytest.mark.promise(148)
    def test_a_compaction_is_a_request_and_a_summary_in_one_commit(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        request, summary = store.messages.compact(session, "All was said.", tail_start="m3")
        assert backend.revision(session) == 2
        assert (request.role, request.body.is_compaction) == ("user", True)
        assert (summary.role, summary.body.is_summary) == ("assistant", True)
        assert summary.text == "All was said."
        assert [m.id for m in store.messages.last(session, 2)] == [request.id, summary.id]

    @pytest.mark.promise(148, 149)
    def test_the_request_remembers_where_the_tail_starts(self, backend: Bed, session: str) -> None:
        request, _ = backend.store.messages.compact(session, "All.", tail_start="m3")
        backend.reopen()
        stored = backend.store.messages.get(request.id, session=session)
        assert stored is not None
        assert stored.body.compaction is not None
        assert stored.body.compaction.tail_start_id == "m3"
        assert stored.body.compaction.previous_compaction_id is None

    @pytest.mark.promise(149)
    def test_the_summary_text_is_kept_with_the_compaction(self, backend: Bed, session: str) -> None:
        _, summary = backend.store.messages.compact(session, "All.", tail_start="m3")
        assert summary.body.compaction is not None
        assert summary.body.compaction.summary_text == "All."

    @pytest.mark.promise(149, 150)
    def test_a_second_compaction_names_the_first_and_is_the_latest(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        first, _ = store.messages.compact(session, "one", tail_start="m3")
        assert store.messages.latest_compaction(session) == first
        second, _ = store.messages.compact(session, "two", tail_start=first.id)
        assert second.body.compaction is not None
        assert second.body.compaction.previous_compaction_id == first.id
        latest = store.messages.latest_compaction(session)
        assert latest is not None
        assert latest.id == second.id

    @pytest.mark.promise(150)
    def test_without_a_compaction_there_is_no_latest_one(self, backend: Bed, session: str) -> None:
        assert backend.store.messages.latest_compaction(session) is None
        assert backend.store.messages.latest_compaction("nowhere") is None

    @pytest.mark.promise(148)
    def test_a_compaction_that_is_refused_leaves_neither_message(
        self, backend: Bed, session: str
    ) -> None:
        with backend.unchanged(session), pytest.raises(RevisionMoved):
            backend.store.messages.compact(
                session, "All.", tail_start=None, expected_revision=backend.revision(session) + 1
            )

    @pytest.mark.promise(149)
    @pytest.mark.parametrize("start", ["nowhere", "x", "gone"])
    def test_the_tail_starts_at_a_message_of_the_branch(
        self, backend: Bed, session: str, start: str
    ) -> None:
        messages = backend.store.messages
        backend.store.branches.create(session, "side", at="m1")
        messages.append(session, user("elsewhere", id="x"), branch="side")
        messages.append(session, user("not for long", id="gone"))
        messages.delete("gone", session=session)
        with backend.unchanged(session), pytest.raises(MessageNotFound) as caught:
            messages.compact(session, "All.", tail_start=start)
        assert caught.value.id == start
        if start == "x":
            messages.compact(session, "All.", tail_start=start, branch="side")

    @pytest.mark.promise(148)
    def test_where_nothing_can_be_compacted(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        with pytest.raises(SessionNotFound):
            messages.compact("nowhere", "All.", tail_start="m1")
        with backend.unchanged(session), pytest.raises(BranchNotFound):
            messages.compact(session, "All.", tail_start="m1", branch="nowhere")

    @pytest.mark.promise(149)
    @pytest.mark.parametrize("field", ["is_summary", "compaction", "parts", "colour"])
    def test_the_fields_that_make_it_a_summary_are_not_given(
        self, backend: Bed, session: str, field: str
    ) -> None:
        fields: dict[str, Any] = {field: None}
        with backend.unchanged(session), pytest.raises(InvalidValue) as caught:
            backend.store.messages.compact(session, "All.", tail_start=None, **fields)
        assert caught.value.field == field

    @pytest.mark.promise(149, 150)
    def test_a_long_chain_of_compactions_is_linked(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        made = [messages.compact(session, f"{n}", tail_start=None)[0] for n in range(5)]
        backend.reopen()
        found, link = [], backend.store.messages.latest_compaction(session)
        while link is not None and link.body.compaction is not None:
            found.append(link.id)
            before = link.body.compaction.previous_compaction_id
            link = None if before is None else backend.store.messages.get(before, session=session)
        assert found == [one.id for one in reversed(made)]

    @pytest.mark.promise(148, 149, 153)
    def test_inside_a_turn_with_a_run_that_reads_the_summary(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        first, _ = store.messages.compact(session, "one", tail_start="m3")
        context = store.messages.context(session)
        with store.turns.begin(session, run_id="r") as turn:
            request, summary = turn.compact("two", tail_start=None, previous=context)
            turn.run("running", input={"session": session, "compacted_snapshot": summary.id})
        assert backend.revision(session) == 3
        backend.reopen()
        run = backend.store.runs.get("r")
        found = backend.store.messages.context(session)
        assert run is not None
        assert run.input is not None
        assert run.input.compacted_snapshot == found.snapshot == summary.id
        assert found.compaction is not None
        assert found.compaction.id == request.id
        assert found.compaction.body.compaction is not None
        assert found.compaction.body.compaction.previous_compaction_id == first.id
        assert found.compaction.run_id == "r"

    @pytest.mark.promise(151)
    def test_a_message_can_be_marked_as_a_summary(self, backend: Bed, session: str) -> None:
        backend.store.messages.amend("m2", session=session, is_summary=True)
        backend.reopen()
        stored = backend.store.messages.get("m2", session=session)
        assert stored is not None
        assert (stored.body.is_summary, stored.text) == (True, "two")

    @pytest.mark.promise(151)
    def test_marking_a_message_that_is_not_there_is_an_error(
        self, backend: Bed, session: str
    ) -> None:
        with backend.unchanged(session), pytest.raises(MessageNotFound) as caught:
            backend.store.messages.amend("nowhere", session=session, is_summary=True)
        assert caught.value.id == "nowhere"
