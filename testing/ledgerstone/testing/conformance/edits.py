"""Messages that change: amended in versions, deleted without a hole."""

from __future__ import annotations

import pytest

from ledgerstone import user
from ledgerstone.errors import InvalidValue, MessageNotFound
from ledgerstone.records.messages import Message
from ledgerstone.records.usage import Usage
from ledgerstone.testing.bed import Bed

__all__ = ["TestAmend", "TestMessageDelete"]


def texts(messages: list[Message]) -> list[str]:
    return [message.text for message in messages]


def seqs(messages: list[Message]) -> list[int]:
    return [message.seq for message in messages]


def start(backend: Bed, *said: str) -> list[Message]:
    """A session "s" in which a user said this."""
    return backend.store.messages.append("s", *map(user, said), create=True)


class TestAmend:
    """Visible fields change in versions; what was stored first stays."""

    @pytest.mark.promise(60)
    def test_an_amendment_sets_the_time_of_change_itself(self, backend: Bed) -> None:
        (made,) = start(backend, "hello")
        assert made.updated_us is None
        backend.clock.advance(4)
        changed = backend.store.messages.amend(made.id, session="s", metadata={"seen": True})
        assert changed.updated_us == backend.clock.now_us()
        assert (changed.created_us, changed.seq, changed.text) == (made.created_us, 1, "hello")
        assert changed.metadata == {"seen": True}

    @pytest.mark.promise(60)
    def test_an_amended_message_is_read_everywhere(self, backend: Bed) -> None:
        made, _ = start(backend, "hello", "other")
        with pytest.raises(InvalidValue) as caught:
            backend.store.messages.amend(made.id, session="s", content="new text")
        assert caught.value.field == "content"
        changed = backend.store.messages.amend(made.id, session="s", parts=["new text"])
        assert changed.text == "new text"
        store = backend.reopen()
        assert store.messages.get(made.id) == changed
        assert store.messages.history("s")[0] == changed
        assert store.messages.range("s", 1, 1) == [changed]
        assert store.messages.list("s").items[0] == changed

    @pytest.mark.promise(60)
    def test_amendments_add_up_and_every_version_is_kept(self, backend: Bed) -> None:
        (made,) = start(backend, "hello")
        backend.store.messages.amend(made.id, session="s", metadata={"a": 1})
        last = backend.store.messages.amend(made.id, session="s", is_summary=True)
        assert (last.metadata, last.body.is_summary, last.version) == ({"a": 1}, True, 2)
        versions = backend.store.messages.versions(made.id, session="s")
        assert [v.version for v in versions] == [0, 1, 2]
        assert [v.metadata for v in versions] == [{}, {"a": 1}, {"a": 1}]
        assert [v.body.is_summary for v in versions] == [False, False, True]
        assert backend.store.messages.versions(made.id) == versions
        assert backend.store.messages.versions("nobody") == []

    @pytest.mark.promise(72)
    def test_the_usage_of_a_message_can_be_set_later(self, backend: Bed) -> None:
        (made,) = start(backend, "hello")
        usage = Usage(input=10, output=20)
        assert backend.store.messages.amend(made.id, session="s", usage=usage).usage == usage
        found = backend.store.messages.get(made.id)
        assert found is not None
        assert found.usage == usage

    @pytest.mark.promise(60, 72)
    def test_amending_an_unknown_or_deleted_message_is_an_error(self, backend: Bed) -> None:
        (made,) = start(backend, "hello")
        backend.store.messages.delete(made.id, session="s")
        for gone in ("nobody", made.id):
            with pytest.raises(MessageNotFound) as missing:
                backend.store.messages.amend(gone, session="s", usage=Usage(1, 1))
            assert missing.value.id == gone


class TestMessageDelete:
    """A deleted message is out of sight, not out of reach."""

    @pytest.mark.promise(59, 61)
    def test_a_deleted_message_can_still_be_read_by_id(self, backend: Bed) -> None:
        first, _ = start(backend, "one", "two")
        backend.clock.advance(2)
        assert backend.store.messages.delete(first.id, session="s") is True
        found = backend.store.messages.get(first.id, session="s")
        assert found is not None
        assert (found.text, found.deleted_us) == ("one", backend.clock.now_us())

    @pytest.mark.promise(61)
    def test_deleting_twice_or_what_is_not_there_succeeds(self, backend: Bed) -> None:
        (made,) = start(backend, "one")
        backend.store.messages.delete(made.id, session="s")
        first = backend.store.messages.get(made.id, session="s")
        backend.clock.advance(2)
        assert backend.store.messages.delete(made.id, session="s") is False
        assert backend.store.messages.delete("nobody", session="s") is False
        assert backend.store.messages.get(made.id, session="s") == first

    @pytest.mark.promise(62)
    def test_deleted_messages_are_hidden_unless_asked_for(self, backend: Bed) -> None:
        _, second, _ = start(backend, "one", "two", "three")
        backend.store.messages.delete(second.id, session="s")
        assert texts(backend.store.messages.list("s").items) == ["one", "three"]
        shown = backend.store.messages.list("s", deleted=True).items
        assert texts(shown) == ["one", "two", "three"]
        assert [m.deleted_us is None for m in shown] == [True, False, True]
        assert texts(backend.store.messages.history("s")) == ["one", "three"]

    @pytest.mark.promise(62)
    def test_a_deleted_last_message_is_shown_as_well(self, backend: Bed) -> None:
        _, second = start(backend, "one", "two")
        backend.store.messages.delete(second.id, session="s")
        assert texts(backend.store.messages.list("s").items) == ["one"]
        assert texts(backend.store.messages.list("s", deleted=True).items) == ["one", "two"]

    @pytest.mark.promise(61, 62)
    def test_the_others_keep_their_places_and_the_next_one_goes_behind(self, backend: Bed) -> None:
        first, second, third = start(backend, "one", "two", "three")
        backend.store.messages.delete(second.id, session="s")
        assert seqs(backend.store.messages.history("s")) == [1, 3]
        (fourth,) = backend.store.messages.append("s", user("four"))
        assert (fourth.seq, fourth.parent) == (4, third.id)
        backend.store.messages.delete(fourth.id, session="s")
        backend.store.messages.delete(third.id, session="s")
        (fifth,) = backend.store.messages.append("s", user("five"))
        assert (fifth.seq, fifth.parent) == (2, first.id)

    @pytest.mark.promise(64)
    def test_the_count_leaves_deleted_messages_out(self, backend: Bed) -> None:
        first, *_ = start(backend, "one", "two", "three")
        assert backend.store.messages.count("s") == 3
        backend.store.messages.delete(first.id, session="s")
        assert backend.store.messages.count("s") == 2
        assert backend.store.messages.count("nobody") == 0

    @pytest.mark.promise(64)
    def test_the_count_of_a_branch(self, backend: Bed) -> None:
        made = start(backend, "one", "two", "three")
        backend.store.branches.create("s", "side", at=made[1].id)
        backend.store.messages.append("s", user("drei"), branch="side")
        assert backend.store.messages.count("s", branch="side") == 3
        backend.store.messages.delete(made[0].id, session="s")
        assert backend.store.messages.count("s", branch="side") == 2
        assert backend.store.messages.count("s") == 2
        assert backend.store.messages.count("s", branch="nobody") == 0
