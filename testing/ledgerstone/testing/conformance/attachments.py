"""Attachments: an intent before the bytes, stamped by the commit that uses them."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import AlreadyExists
from ledgerstone.testing.bed import Bed


class TestAttachments:
    @pytest.mark.promise(172)
    def test_an_intent_is_recorded_and_uncommitted(self, backend: Bed) -> None:
        made = backend.store.attachments.intent("s", "a1", "file:one")
        assert (made.session, made.id, made.uri) == ("s", "a1", "file:one")
        assert (made.intent_us, made.committed_us) == (backend.clock.now_us(), None)
        assert backend.store.attachments.get("s", "a1") == made

    @pytest.mark.promise(172)
    def test_a_repeated_intent_keeps_the_earliest(self, backend: Bed) -> None:
        first = backend.store.attachments.intent("s", "a1", "file:one")
        backend.clock.advance(5)
        assert backend.store.attachments.intent("s", "a1", "file:two") == first

    @pytest.mark.promise(173, 176)
    def test_a_commit_stamps_the_attachments_of_its_session(self, backend: Bed) -> None:
        store = backend.store
        for session in ("s", "other"):
            store.attachments.intent(session, "a1", "file:one")
        with store.turns.begin("s", create=True) as turn:
            turn.user("see this")
            turn.attach("a1", "unknown")
        stamped, foreign = (store.attachments.get(name, "a1") for name in ("s", "other"))
        assert stamped is not None
        assert foreign is not None
        assert stamped.committed_us == store.messages.last("s", 1)[0].created_us
        assert foreign.committed_us is None
        assert store.attachments.get("s", "unknown") is None

    @pytest.mark.promise(173)
    def test_the_first_stamp_stays(self, backend: Bed) -> None:
        store = backend.store
        store.attachments.intent("s", "a1", "file:one")
        stamps = []
        for _ in range(2):
            with store.turns.begin("s", create=True) as turn:
                turn.attach("a1")
            found = store.attachments.get("s", "a1")
            assert found is not None
            stamps.append(found.committed_us)
            backend.clock.advance(5)
        assert stamps[0] is not None
        assert stamps[0] == stamps[1]

    @pytest.mark.promise(173)
    def test_a_repeated_intent_keeps_the_stamp(self, backend: Bed) -> None:
        store = backend.store
        store.attachments.intent("s", "a1", "file:one")
        with store.turns.begin("s", create=True) as turn:
            turn.attach("a1")
        stamped = store.attachments.get("s", "a1")
        assert store.attachments.intent("s", "a1", "file:two") == stamped

    @pytest.mark.promise(176)
    def test_a_refused_commit_stamps_nothing(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("hi", id="m1"), create=True)
        store.attachments.intent("s", "a1", "file:one")
        turn = store.turns.begin("s")
        turn.user("taken", id="m1")
        turn.attach("a1")
        with pytest.raises(AlreadyExists):
            turn.commit()
        found = store.attachments.get("s", "a1")
        assert found is not None
        assert found.committed_us is None

    @pytest.mark.promise(174)
    def test_uncommitted_ones_are_listed_up_to_the_cutoff_oldest_first(self, backend: Bed) -> None:
        store = backend.store
        times = []
        for name in ("c", "a", "b", "used"):
            times.append(backend.clock.now_us())
            store.attachments.intent("s", name, "file:x")
            backend.clock.advance(1)
        with store.turns.begin("s", create=True) as turn:
            turn.attach("used")

        def listed(before: int) -> list[str]:
            return [found.id for found in store.attachments.uncommitted(before=before)]

        assert listed(backend.clock.now_us()) == ["c", "a", "b"]
        assert listed(times[1]) == ["c", "a"]
        assert listed(times[1] - 1) == ["c"]
        assert listed(times[0] - 1) == []

    @pytest.mark.promise(175)
    def test_forgetting_is_idempotent(self, backend: Bed) -> None:
        store = backend.store
        store.attachments.intent("s", "a1", "file:one")
        assert store.attachments.forget("s", "a1") is True
        assert store.attachments.get("s", "a1") is None
        assert store.attachments.forget("s", "a1") is False
        assert store.attachments.forget("nowhere", "a1") is False

    @pytest.mark.promise(177)
    def test_intents_and_stamps_survive_a_reopening(self, backend: Bed) -> None:
        store = backend.store
        for name in ("a1", "a2"):
            store.attachments.intent("s", name, "file:one")
        with store.turns.begin("s", create=True) as turn:
            turn.attach("a1")
        before = [store.attachments.get("s", name) for name in ("a1", "a2")]
        store = backend.reopen()
        assert [store.attachments.get("s", name) for name in ("a1", "a2")] == before
        assert [a.id for a in store.attachments.uncommitted(before=2**60)] == ["a2"]

    def test_attachments_go_with_their_session(self, backend: Bed) -> None:
        store = backend.store
        store.sessions.create(id="s")
        store.attachments.intent("s", "a1", "file:one")
        store.sessions.purge("s")
        assert store.attachments.get("s", "a1") is None
        assert store.attachments.uncommitted(before=2**60) == []
