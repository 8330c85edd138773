"""Attachments that are used outside of a turn."""

from __future__ import annotations

from typing import Any

import pytest

from ledgerstone.errors import InvalidValue
from ledgerstone.testing.bed import Bed

__all__ = ["TestAttachmentCommits"]


@pytest.mark.promise(218)
class TestAttachmentCommits:
    """`attachments.commit(session, ids)`."""

    def test_it_stamps_those_of_the_session_and_no_others(self, backend: Bed) -> None:
        attachments = backend.store.attachments
        backend.open(None).for_tenant("other").attachments.intent("s", "a1", "file:one")
        for session, id in (("s", "a1"), ("s", "a2"), ("s", "a3"), ("t", "a1")):
            attachments.intent(session, id, "file:one")
        backend.clock.advance(5)
        made = attachments.commit("s", ["a2", "a1"])
        assert [one.id for one in made] == ["a2", "a1"]
        assert {one.committed_us for one in made} == {backend.clock.now_us()}
        attachments = backend.reopen().attachments
        stamped = {one.id: one.committed_us is not None for one in attachments.list("s")}
        assert stamped == {"a1": True, "a2": True, "a3": False}
        assert [one.committed_us for one in attachments.list("t")] == [None]
        theirs = backend.open(None).for_tenant("other").attachments.get("s", "a1")
        assert theirs is not None
        assert theirs.committed_us is None

    def test_the_first_stamp_stays(self, backend: Bed) -> None:
        attachments = backend.store.attachments
        first = attachments.intent("s", "a1", "file:one")
        attachments.intent("s", "a2", "file:two")
        (stamped,) = attachments.commit("s", [first])
        backend.clock.advance(5)
        both = attachments.commit("s", ["a1", "a2", "a1"])
        assert [one.id for one in both] == ["a1", "a2"]
        assert both[0] == stamped
        assert both[1].committed_us == backend.clock.now_us()
        with backend.store.turns.begin("s", create=True) as turn:
            turn.attach("a1")
        assert attachments.get("s", "a1") == stamped
        assert attachments.intent("s", "a1", "file:other") == stamped

    def test_unknown_ones_are_left_out(self, backend: Bed) -> None:
        attachments = backend.store.attachments
        attachments.intent("s", "a1", "file:one")
        assert [one.id for one in attachments.commit("s", ["no", "a1"])] == ["a1"]
        assert attachments.commit("s", ["no"]) == attachments.commit("nobody", ["a1"]) == []
        assert attachments.get("s", "no") is None

    def test_no_ids_do_nothing(self, backend: Bed) -> None:
        assert backend.store.attachments.commit("s", []) == []

    def test_no_sweep_forgets_them(self, backend: Bed) -> None:
        attachments = backend.store.attachments
        for id in ("kept", "swept"):
            attachments.intent("s", id, "file:one")
        attachments.commit("s", ["kept"])
        backend.clock.advance(5)
        assert [one.id for one in attachments.uncommitted(before=backend.clock.now_us())] == [
            "swept"
        ]
        assert attachments.sweep(older_than_s=1) == 1
        assert [one.id for one in attachments.list("s")] == ["kept"]

    def test_no_session_is_needed_and_none_moves(self, backend: Bed) -> None:
        store = backend.store
        store.attachments.intent("never", "a1", "file:one")
        assert len(store.attachments.commit("never", ["a1"])) == 1
        assert store.sessions.get("never") is None
        store.sessions.create(id="s")
        made = store.attachments.put("s", b"bytes")
        store.attachments.commit("s", [made.id])
        assert backend.revision("s") == 0
        store.admin.gc(older_than_s=0)
        assert store.blobs.get(made.id) == b"bytes"
        assert store.admin.verify().ok

    def test_anything_else_is_refused(self, backend: Bed) -> None:
        wrong: list[Any] = [b"a1", [""], [None], [5]]
        for ids in wrong:
            with pytest.raises(InvalidValue):
                backend.store.attachments.commit("s", ids)
