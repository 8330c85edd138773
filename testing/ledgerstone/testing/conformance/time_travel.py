"""Time travel: a session as it was after each of its commits; and the check of its history."""

from __future__ import annotations

import pytest

from ledgerstone import Usage, assistant, user
from ledgerstone.errors import MessageNotFound
from ledgerstone.records.sessions import SessionView
from ledgerstone.testing.bed import Bed


def at(backend: Bed, revision: int, session: str = "s") -> SessionView:
    view = backend.store.sessions.at(session, revision)
    assert view is not None
    return view


def texts(view: SessionView) -> list[str]:
    return [message.text for message in view.messages]


class TestSessionsAt:
    @pytest.fixture
    def history(self, backend: Bed) -> str:
        """Six commits: two appends, a pop, a branch, a replace, a state patch."""
        store = backend.store
        store.messages.append("s", user("one", id="m1"), create=True)
        store.messages.append("s", assistant("two", id="m2"), user("three", id="m3"))
        store.messages.pop("s")
        store.branches.create("s", "side", at="m3")
        store.messages.replace("s", [user("new", id="n1")])
        with store.turns.begin("s") as turn:
            turn.state(mood="good")
        return "s"

    def test_every_revision_shows_what_was_there(self, backend: Bed, history: str) -> None:
        assert [texts(at(backend, revision)) for revision in range(1, 7)] == [
            ["one"],
            ["one", "two", "three"],
            ["one", "two"],
            ["one", "two"],
            ["new"],
            ["new"],
        ]

    def test_the_leaf_is_that_of_its_time(self, backend: Bed, history: str) -> None:
        leaves = [at(backend, revision).leaf for revision in range(1, 7)]
        assert leaves == ["m1", "m3", "m2", "m2", "n1", "n1"]

    def test_the_last_revision_is_the_present(self, backend: Bed, history: str) -> None:
        view = at(backend, 6)
        assert view.messages == backend.store.messages.history(history)
        assert (view.session, view.revision, view.complete) == (history, 6, True)
        assert view.state == backend.state(history) == {"mood": "good"}

    def test_views_survive_a_reopening(self, backend: Bed, history: str) -> None:
        before = [at(backend, revision) for revision in range(1, 7)]
        backend.reopen()
        assert [at(backend, revision) for revision in range(1, 7)] == before

    @pytest.mark.parametrize("revision", [0, 7, 1000])
    def test_a_revision_that_never_was_is_none(
        self, backend: Bed, history: str, revision: int
    ) -> None:
        assert backend.store.sessions.at(history, revision) is None

    def test_an_unknown_session_is_none(self, backend: Bed) -> None:
        assert backend.store.sessions.at("nowhere", 1) is None

    def test_state_is_folded_up_to_the_revision(self, backend: Bed) -> None:
        patches: list[dict[str, object]] = [
            {"a": 1},
            {"b": 2, "a": 3},
            {"a": None},
            {"c": {"d": 0}},
        ]
        for patch in patches:
            with backend.store.turns.begin("s", create=True) as turn:
                turn.state(**patch)
        states = [at(backend, revision).state for revision in range(1, 5)]
        assert states == [{"a": 1}, {"a": 3, "b": 2}, {"b": 2}, {"b": 2, "c": {"d": 0}}]

    def test_a_message_tombstoned_later_is_still_there_before(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("one", id="m1"), user("two", id="m2"), create=True)
        store.nodes.tombstone("s", ["m1"])
        assert texts(at(backend, 1)) == ["one", "two"]
        assert texts(at(backend, 2)) == ["two"]
        assert at(backend, 1).complete

    def test_a_vacuumed_message_is_a_gap_that_is_admitted(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("one", id="m1"), user("two", id="m2"), create=True)
        store.nodes.tombstone("s", ["m1"])
        store.admin.vacuum("s")
        assert (texts(at(backend, 1)), at(backend, 1).complete) == (["two"], False)
        assert (texts(at(backend, 2)), at(backend, 2).complete) == (["two"], True)

    def test_an_amendment_is_shown_from_its_revision_on(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("one", id="m1"), create=True)
        store.messages.amend("m1", session="s", metadata={"v": 1})
        store.messages.amend("m1", session="s", metadata={"v": 2})
        shown = [at(backend, revision).messages[0].metadata for revision in (1, 2, 3)]
        assert shown == [{}, {"v": 1}, {"v": 2}]


class TestAmending:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        backend.store.messages.append(
            "s", user("one", id="m1", metadata={"a": 1}), assistant("two", id="m2"), create=True
        )
        return "s"

    def test_an_amendment_changes_what_is_shown_and_nothing_else(
        self, backend: Bed, session: str
    ) -> None:
        before = backend.store.messages.get("m1", session=session)
        assert before is not None
        amended = backend.store.messages.amend("m1", session=session, is_summary=True)
        assert (amended.body.is_summary, amended.version) == (True, 1)
        assert amended == backend.store.messages.get("m1", session=session)
        assert amended == backend.store.messages.history(session)[0]
        assert (amended.text, amended.metadata) == ("one", {"a": 1})
        assert (amended.seq, amended.created_us) == (before.seq, before.created_us)
        assert amended.updated_us is not None
        assert backend.revision(session) == 2

    def test_amendments_add_up(self, backend: Bed, session: str) -> None:
        backend.store.messages.amend("m1", session=session, is_summary=True)
        last = backend.store.messages.amend("m1", session=session, metadata={"b": 2})
        assert (last.version, last.body.is_summary, last.metadata) == (2, True, {"b": 2})

    def test_versions_are_all_kept_the_original_first(self, backend: Bed, session: str) -> None:
        store = backend.store
        store.messages.amend("m1", session=session, parts="eins")
        store.messages.amend("m1", session=session, parts="uno")
        backend.reopen()
        versions = backend.store.messages.versions("m1", session=session)
        assert [(v.version, v.text) for v in versions] == [(0, "one"), (1, "eins"), (2, "uno")]

    def test_a_message_never_amended_has_one_version(self, backend: Bed, session: str) -> None:
        versions = backend.store.messages.versions("m2", session=session)
        assert [(v.version, v.text) for v in versions] == [(0, "two")]
        assert backend.store.messages.versions("nowhere", session=session) == []

    def test_an_unknown_or_hidden_message_can_not_be_amended(
        self, backend: Bed, session: str
    ) -> None:
        store = backend.store
        with backend.unchanged(session), pytest.raises(MessageNotFound) as caught:
            store.messages.amend("nowhere", session=session, is_summary=True)
        assert caught.value.id == "nowhere"
        store.nodes.tombstone(session, ["m1"])
        with backend.unchanged(session), pytest.raises(MessageNotFound):
            store.messages.amend("m1", session=session, is_summary=True)

    def test_the_chain_covers_amendments(self, backend: Bed, session: str) -> None:
        before = backend.store.sessions.head(session)
        backend.store.messages.amend("m1", session=session, is_summary=True)
        after = backend.store.sessions.head(session)
        assert before is not None
        assert after is not None
        assert after.link != before.link
        assert backend.store.admin.verify(session).defects == []


class TestVerifying:
    def test_a_store_that_did_everything_is_clean(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("one", id="m1"), user("two", id="m2"), create=True)
        store.branches.create("s", "side", at="m1")
        store.messages.append("s", user("zwei"), branch="side")
        for target in ("m1", None, "side", "m2"):
            store.branches.move("s", "main", to=target)
            store.branches.move("s", "side", to=target)
            assert store.admin.verify("s").defects == []
        store.branches.create("s", "gone", at="m1")
        store.branches.delete("s", "gone")
        store.messages.amend("m1", session="s", metadata={"v": 1})
        store.messages.replace("s", [user("new")])
        store.nodes.tombstone("s", ["m1"])
        store.messages.pop("s")
        store.messages.clear("s")
        with store.turns.begin("s") as turn:
            turn.state(k=1, gone=None)
            turn.use("m", Usage(input=1))
            turn.run("running")
            turn.head(config={"a": 1}, frames=[1], current_frame="f")
            digest = turn.value(b"bytes")
            turn.node("plugin", 1, values=[digest])
            turn.checkpoint(turn_state={"n": 1}, execution=b"\x00")
        store.admin.vacuum("s", unreachable=True)
        store.sessions.fork("s", new_id="f")
        store.sessions.copy("s", "c")
        for session in ("s", "f", "c"):
            assert store.admin.verify(session).defects == []
        whole = store.admin.verify()
        assert (whole.sessions, whole.ok) == (3, True)

    def test_verify_says_how_much_it_looked_at(self, backend: Bed) -> None:
        store = backend.store
        store.messages.append("s", user("one"), user("two"), create=True)
        with store.turns.begin("s") as turn:
            turn.value(b"bytes")
        verified = store.admin.verify("s")
        assert (verified.sessions, verified.turns) == (1, 2)
        assert (verified.nodes, verified.values) == (2, 1)

    def test_every_commit_is_linked_to_the_one_before(self, backend: Bed) -> None:
        for n in range(3):
            backend.store.messages.append("s", user(str(n)), create=True)
        rows = backend.store.turns.list("s")
        assert [row.revision for row in rows] == [1, 2, 3]
        assert len({row.link for row in rows}) == 3
        head = backend.store.sessions.head("s")
        assert head is not None
        assert rows[-1].link == head.link

    def test_the_same_words_in_two_sessions_have_different_links(self, backend: Bed) -> None:
        """Commitments are salted: equal content cannot be recognised by its hash."""
        for session in ("a", "b"):
            backend.store.turns.begin(session, create=True)
            backend.store.messages.append(session, user("the same", id="m"), create=True)
        heads = [backend.store.sessions.head(session) for session in ("a", "b")]
        assert heads[0] is not None
        assert heads[1] is not None
        assert heads[0].link != heads[1].link
