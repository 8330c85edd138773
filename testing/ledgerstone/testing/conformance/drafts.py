"""Drafts: an answer that is being streamed is found after its writer died."""

from __future__ import annotations

from contextlib import suppress

import pytest

from ledgerstone import user
from ledgerstone.errors import AlreadyExists
from ledgerstone.records.drafts import DraftRecord
from ledgerstone.testing.bed import Bed

CHUNK = "x" * 3000
"""More than a draft keeps back, so that writing it once is enough to have it stored."""


class Crash(Exception):
    """What a dying worker raises in these tests."""


class OnASession:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.messages.append("s", user("tell me", id="m1"), create=True)
        return "s"

    def die_while_writing(self, backend: Bed, *texts: str, id: str = "d1") -> DraftRecord:
        """Stream some text, crash, and find the draft in the reopened store."""
        turn = backend.store.turns.begin("s")
        with suppress(Crash), turn.draft(id=id, model="m-1") as draft:
            for text in texts:
                draft.write(text)
            raise Crash
        backend.reopen()
        return next(found for found in backend.store.drafts.list("s") if found.id == id)


class TestDrafts(OnASession):
    def test_a_finished_draft_is_a_message_and_no_draft_any_more(
        self, backend: Bed, session: str
    ) -> None:
        with backend.store.turns.begin(session) as turn:
            with turn.draft(model="m-1") as draft:
                draft.write("Once upon ")
                draft.write("a time")
            wanted = draft.id
        last = backend.store.messages.last(session, 1)[0]
        assert (last.id, last.role, last.text) == (wanted, "assistant", "Once upon a time")
        assert last.body.model == "m-1"
        assert backend.store.drafts.list(session) == []

    def test_while_it_grows_it_can_be_seen(self, backend: Bed, session: str) -> None:
        turn = backend.store.turns.begin(session)
        with turn.draft(id="d1") as draft:
            draft.write(CHUNK)
            draft.write(CHUNK)
            found = backend.store.drafts.list(session)
            assert [(d.id, d.text) for d in found] == [("d1", CHUNK + CHUNK)]
        turn.discard()

    def test_a_draft_is_found_after_a_crash_and_a_reopening(
        self, backend: Bed, session: str
    ) -> None:
        found = self.die_while_writing(backend, CHUNK, "the ", "end \ud83d\ude00 \x00 \ud800")
        assert (found.session, found.id, found.role) == (session, "d1", "assistant")
        assert found.text == CHUNK + "the end \U0001f600 \x00 \ud800"
        assert found.fields == {"model": "m-1"}
        assert found.owner
        assert found.created_us <= found.updated_us

    def test_a_draft_names_the_worker_that_holds_the_lease(
        self, backend: Bed, session: str
    ) -> None:
        lease = backend.store.leases.take(session, owner="ann")
        assert lease is not None
        with suppress(Crash), backend.store.turns.begin(lease).draft():
            raise Crash
        assert [draft.owner for draft in backend.store.drafts.list(session)] == ["ann"]

    def test_drafts_change_neither_messages_nor_revision(self, backend: Bed, session: str) -> None:
        self.die_while_writing(backend, "half")
        assert backend.texts(session) == ["tell me"]
        assert backend.revision(session) == 1

    def test_a_draft_can_be_adopted_as_a_message(self, backend: Bed, session: str) -> None:
        found = self.die_while_writing(backend, "half an ans")
        with backend.store.turns.begin(session) as turn:
            turn.adopt(found, finish_reason="interrupted")
        last = backend.store.messages.last(session, 1)[0]
        assert (last.id, last.text) == ("d1", "half an ans")
        assert (last.body.finish_reason, last.body.model) == ("interrupted", "m-1")
        assert backend.store.drafts.list(session) == []

    def test_a_draft_can_be_discarded_once(self, backend: Bed, session: str) -> None:
        found = self.die_while_writing(backend, "half")
        assert backend.store.drafts.discard(found) is True
        assert backend.store.drafts.list(session) == []
        assert backend.store.drafts.discard(found) is False
        assert backend.texts(session) == ["tell me"]

    def test_a_refused_commit_keeps_the_draft(self, backend: Bed, session: str) -> None:
        found = self.die_while_writing(backend, "half")
        turn = backend.store.turns.begin(session)
        turn.adopt(found)
        turn.user("taken", id="m1")
        with backend.unchanged(session), pytest.raises(AlreadyExists):
            turn.commit()
        assert [draft.id for draft in backend.store.drafts.list(session)] == ["d1"]

    def test_several_drafts_are_listed_oldest_first(self, backend: Bed, session: str) -> None:
        for name in ("z", "a", "m"):
            self.die_while_writing(backend, name, id=name)
            backend.clock.advance(1)
        assert [draft.id for draft in backend.store.drafts.list(session)] == ["z", "a", "m"]

    def test_drafts_go_with_their_session(self, backend: Bed, session: str) -> None:
        self.die_while_writing(backend, "half")
        backend.store.sessions.purge(session)
        backend.store.sessions.create(id=session)
        assert backend.store.drafts.list(session) == []

    @pytest.mark.promise(200)
    def test_an_unknown_session_has_no_drafts(self, backend: Bed) -> None:
        assert backend.store.drafts.list("nowhere") == []


class TestRecovery(OnASession):
    def test_a_successor_finds_what_the_dead_worker_left(self, backend: Bed, session: str) -> None:
        store = backend.store
        lease = store.leases.take(session, owner="ann", ttl_s=10)
        assert lease is not None
        turn = store.turns.begin(lease, run_id="r1")
        turn.run("running", agent="scribe")
        turn.assistant("thinking")
        turn.commit()
        with suppress(Crash), turn.draft(id="d1") as draft:
            draft.write("half")
            raise Crash
        backend.clock.advance(11)
        store = backend.reopen()
        found = store.sessions.recovery(session)
        assert found is not None
        assert (found.session, found.revision, found.lease) == (session, 2, None)
        assert [(d.id, d.text) for d in found.drafts] == [("d1", "half")]
        assert found.run is not None
        assert (found.run.id, found.run.status, found.run.agent) == ("r1", "running", "scribe")

    def test_while_somebody_lives_the_lease_is_named(self, backend: Bed, session: str) -> None:
        lease = backend.store.leases.take(session, owner="ann")
        found = backend.store.sessions.recovery(session)
        assert found is not None
        assert found.lease == lease
        assert (found.drafts, found.run) == ([], None)
