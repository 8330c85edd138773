"""Compaction: a request and a summary, linked to the one before."""

from __future__ import annotations

import pytest

from ledgerstone import assistant, user
from ledgerstone.errors import MessageNotFound
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
