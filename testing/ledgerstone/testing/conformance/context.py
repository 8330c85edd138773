"""The context: what of a conversation is sent to the model, and that it fits."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledgerstone import Message, assistant, system, tool_call, tool_result, user
from ledgerstone.errors import InvalidValue
from ledgerstone.records.context import Prune
from ledgerstone.testing.bed import Bed


def ten(message: Message) -> int:
    """Every message takes ten tokens."""
    return 10


def ids(messages: list[Message]) -> list[str]:
    return [message.id for message in messages]


class TestContext:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        """A system message and eight others, m1 to m8."""
        talk = [user, assistant] * 4
        said = [say(f"word {n}", id=f"m{n}") for n, say in enumerate(talk, start=1)]
        backend.store.messages.append("s", system("Be brief.", id="sys"), *said, create=True)
        return "s"

    @pytest.mark.promise(148, 150)
    def test_without_a_compaction_it_is_the_whole_path(self, backend: Bed, session: str) -> None:
        found = backend.store.messages.context(session)
        assert found.messages == backend.store.messages.history(session)
        assert (found.summary, found.compaction, found.snapshot) == (None, None, None)
        assert (found.pruned, found.dropped, found.complete) == ([], 0, True)

    @pytest.mark.promise(148)
    def test_of_a_session_that_is_not_there_it_is_empty(self, backend: Bed) -> None:
        found = backend.store.messages.context("nowhere", budget_tokens=1)
        assert (found.messages, found.tokens, found.complete) == ([], 0, True)

    @pytest.mark.promise(148, 149)
    def test_systems_then_the_summary_then_the_tail(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        request, summary = messages.compact(session, "So far.", tail_start="m7")
        messages.append(session, user("next", id="m9"))
        backend.reopen()
        found = backend.store.messages.context(session)
        assert ids(found.messages) == ["sys", summary.id, "m7", "m8", "m9"]
        assert (found.summary, found.compaction) == (summary, request)
        assert found.snapshot == summary.id

    @pytest.mark.promise(149)
    def test_without_a_tail_it_goes_on_after_the_summary(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        _, summary = messages.compact(session, "So far.", tail_start=None)
        assert ids(messages.context(session).messages) == ["sys", summary.id]
        messages.append(session, user("next", id="m9"))
        assert ids(messages.context(session).messages) == ["sys", summary.id, "m9"]

    @pytest.mark.promise(148, 149)
    def test_a_tail_from_the_start_has_the_systems_once(self, backend: Bed, session: str) -> None:
        _, summary = backend.store.messages.compact(session, "So far.", tail_start="sys")
        found = backend.store.messages.context(session)
        assert sorted(ids(found.messages)) == sorted(
            ["sys", summary.id, *(f"m{n}" for n in range(1, 9))]
        )

    @pytest.mark.promise(150)
    def test_the_second_summary_replaces_the_first(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        messages.compact(session, "one", tail_start="m7")
        messages.append(session, user("nine", id="m9"))
        _, summary = messages.compact(session, "two", tail_start="m8")
        assert ids(messages.context(session).messages) == ["sys", summary.id, "m8", "m9"]

    @pytest.mark.promise(148)
    def test_a_request_without_its_summary_does_not_count(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        _, first = messages.compact(session, "one", tail_start="m7")
        _, second = messages.compact(session, "two", tail_start="m8")
        messages.delete(second.id, session=session)
        found = messages.context(session)
        assert ids(found.messages) == ["sys", first.id, "m7", "m8"]

    @pytest.mark.promise(148)
    def test_the_originals_stay_and_are_readable(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        before = messages.history(session)
        messages.compact(session, "So far.", tail_start=None)
        backend.reopen()
        assert backend.store.messages.history(session)[:-2] == before

    @pytest.mark.promise(149)
    def test_a_start_of_the_tail_that_is_deleted_later(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        _, summary = messages.compact(session, "So far.", tail_start="m6")
        messages.delete("m6", session=session)
        assert ids(messages.context(session).messages) == ["sys", summary.id, "m7", "m8"]

    @pytest.mark.promise(148)
    def test_without_the_system_messages(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        assert ids(messages.context(session, keep_system=False).messages)[0] == "m1"
        _, summary = messages.compact(session, "So far.", tail_start="m8")
        assert ids(messages.context(session, keep_system=False).messages) == [summary.id, "m8"]

    @pytest.mark.promise(148)
    def test_as_it_was_at_an_earlier_message(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        messages.compact(session, "So far.", tail_start="m8")
        assert ids(messages.context(session, at="m2").messages) == ["sys", "m1", "m2"]


class TestContextOfBranches:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        """main: a b c; side: a b x."""
        messages = backend.store.messages
        messages.append("s", *(user(name, id=name) for name in "abc"), create=True)
        backend.store.branches.create("s", "side", at="b")
        messages.append("s", user("x", id="x"), branch="side")
        return "s"

    @pytest.mark.promise(148, 150)
    def test_each_branch_has_its_own_summary(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        _, there = messages.compact(session, "side", tail_start="x", branch="side")
        assert ids(messages.context(session).messages) == ["a", "b", "c"]
        assert ids(messages.context(session, branch="side").messages) == [there.id, "x"]
        _, here = messages.compact(session, "main", tail_start="c")
        assert ids(messages.context(session).messages) == [here.id, "c"]
        assert ids(messages.context(session, branch="side").messages) == [there.id, "x"]

    @pytest.mark.promise(149, 150)
    def test_the_one_before_is_the_one_on_the_branch(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        on_main, _ = messages.compact(session, "main", tail_start="c")
        first, _ = messages.compact(session, "side", tail_start="x", branch="side")
        second, _ = messages.compact(session, "again", tail_start=None)
        assert first.body.compaction is not None
        assert first.body.compaction.previous_compaction_id is None
        assert second.body.compaction is not None
        assert second.body.compaction.previous_compaction_id == on_main.id
        assert messages.latest_compaction(session) == second

    @pytest.mark.promise(150)
    def test_a_branch_from_before_the_compaction_does_not_see_it(
        self, backend: Bed, session: str
    ) -> None:
        messages = backend.store.messages
        messages.compact(session, "main", tail_start=None)
        backend.store.branches.create(session, "old", at="c")
        assert ids(messages.context(session, branch="old").messages) == ["a", "b", "c"]

    @pytest.mark.promise(150)
    def test_after_a_rewind_the_summary_before_counts(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        _, first = messages.compact(session, "one", tail_start=None)
        messages.append(session, user("d", id="d"))
        messages.compact(session, "two", tail_start=None)
        messages.pop(session, 2)
        assert ids(messages.context(session).messages) == [first.id, "d"]
        messages.append(session, user("e", id="e"))
        assert ids(messages.context(session).messages) == [first.id, "d", "e"]

    @pytest.mark.promise(148)
    def test_systems_of_a_path_that_branched(self, backend: Bed) -> None:
        messages = backend.store.messages
        messages.append("t", system("rule", id="r"), user("a", id="t1"), create=True)
        backend.store.branches.create("t", "side", at="r")
        messages.append("t", user("b", id="t2"), branch="side")
        _, summary = messages.compact("t", "so far", tail_start=None, branch="side")
        assert ids(messages.context("t", branch="side").messages) == ["r", summary.id]

    @pytest.mark.promise(148)
    def test_a_fork_has_the_context_of_its_source(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        messages.compact(session, "main", tail_start="c")
        fork = backend.store.sessions.fork(session)
        found = messages.context(fork)
        assert [one.text for one in found.messages] == ["main", "c"]

    @pytest.mark.promise(148)
    def test_a_branch_that_is_not_there_is_empty(self, backend: Bed, session: str) -> None:
        assert backend.store.messages.context(session, branch="nowhere").messages == []


class TestContextBudget:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        """A system message, a question, a call with two results, an answer, a new question."""
        calls = [tool_call("read", {"n": 1}, id="c1"), tool_call("skill", {"n": 2}, id="c2")]
        backend.store.messages.append(
            "s",
            system("rules", id="sys"),
            user("look", id="q1"),
            assistant(parts=calls, id="call"),
            tool_result("c1", "x" * 4000, id="r1"),
            tool_result("c2", "y" * 4000, id="r2"),
            assistant("done", id="a1"),
            user("and now?", id="q2"),
            create=True,
        )
        return "s"

    @pytest.mark.promise(148)
    @pytest.mark.parametrize(
        ("budget", "wanted"),
        [
            (70, ["sys", "q1", "call", "r1", "r2", "a1", "q2"]),
            (60, ["sys", "call", "r1", "r2", "a1", "q2"]),
            (59, ["sys", "a1", "q2"]),
            (30, ["sys", "a1", "q2"]),
            (29, ["sys", "q2"]),
        ],
    )
    def test_calls_are_never_torn_from_their_results(
        self, backend: Bed, session: str, budget: int, wanted: list[str]
    ) -> None:
        found = backend.store.messages.context(session, budget_tokens=budget, count=ten)
        assert ids(found.messages) == wanted
        assert found.tokens == 10 * len(wanted) <= budget
        assert (found.dropped, found.complete) == (7 - len(wanted), len(wanted) == 7)

    @pytest.mark.promise(148)
    def test_what_does_not_fit_says_how_much_is_needed(self, backend: Bed, session: str) -> None:
        with pytest.raises(InvalidValue, match="20 are needed at least, 19 given") as caught:
            backend.store.messages.context(session, budget_tokens=19, count=ten)
        assert caught.value.field == "budget_tokens"

    @pytest.mark.promise(148)
    def test_a_call_that_waits_for_its_results_stays(self, backend: Bed) -> None:
        messages = backend.store.messages
        call = assistant(parts=[tool_call("read", id="c")], id="call")
        messages.append("s", user("a", id="a"), call, tool_result("c", 1, id="r"), create=True)
        found = messages.context("s", budget_tokens=20, count=ten)
        assert ids(found.messages) == ["call", "r"]

    @pytest.mark.promise(148)
    def test_a_call_id_that_is_used_again_holds_nothing_back(self, backend: Bed) -> None:
        messages = backend.store.messages
        for n in range(3):
            call = assistant(parts=[tool_call("read", id="same")], id=f"call{n}")
            messages.append("s", call, tool_result("same", n, id=f"r{n}"), create=True)
        found = messages.context("s", budget_tokens=40, count=ten)
        assert ids(found.messages) == ["call1", "r1", "call2", "r2"]

    @pytest.mark.promise(148, 149)
    def test_the_summary_is_never_dropped(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        _, summary = messages.compact(session, "So far.", tail_start="q1")
        found = messages.context(session, budget_tokens=30, count=ten)
        assert ids(found.messages) == ["sys", summary.id, "q2"]

    @pytest.mark.promise(149)
    def test_results_whose_call_was_summarised_are_not_sent_alone(
        self, backend: Bed, session: str
    ) -> None:
        messages = backend.store.messages
        _, summary = messages.compact(session, "So far.", tail_start="r2")
        found = messages.context(session)
        assert ids(found.messages) == ["sys", summary.id, "a1", "q2"]
        assert found.dropped == 1

    @pytest.mark.promise(148)
    def test_old_outputs_are_replaced_in_the_copy_only(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        before = messages.history(session)
        found = messages.context(session, prune=Prune(protect_tokens=10, min_saved_tokens=900))
        assert found.pruned == ["r1"]
        shown = {one.id: one.parts for one in found.messages}
        assert getattr(shown["r1"][0], "content", None) == "[removed to save context]"
        assert getattr(shown["r1"][0], "call_id", None) == "c1"
        assert getattr(shown["r2"][0], "content", None) == "y" * 4000
        assert (found.dropped, found.complete) == (0, False)
        assert messages.history(session) == before

    @pytest.mark.promise(148)
    @pytest.mark.parametrize(
        "prune",
        [
            Prune(protect_tokens=10, min_saved_tokens=1_001),
            Prune(protect_tokens=1_100, min_saved_tokens=0),
            Prune(protect_tokens=0, min_saved_tokens=0, keep_tools=("skill", "read")),
            True,
            None,
        ],
        ids=["saves too little", "is young", "is kept", "as usual", "not asked for"],
    )
    def test_outputs_that_stay(self, backend: Bed, session: str, prune: Prune | None) -> None:
        found = backend.store.messages.context(session, prune=prune)
        assert (found.pruned, found.complete) == ([], True)

    @pytest.mark.promise(148)
    def test_pruning_comes_before_dropping(self, backend: Bed, session: str) -> None:
        prune = Prune(protect_tokens=0, min_saved_tokens=0, keep_tools=())
        found = backend.store.messages.context(session, budget_tokens=100, prune=prune)
        assert (found.pruned, found.dropped) == (["r1", "r2"], 0)

    @pytest.mark.promise(152)
    @pytest.mark.parametrize(
        ("field", "given"),
        [
            ("budget_tokens", {"budget_tokens": 0}),
            ("budget_tokens", {"budget_tokens": 1.5}),
            ("count", {"count": 3}),
            ("count", {"count": lambda _: -1}),
            ("count", {"count": lambda _: "4"}),
            ("prune", {"prune": {"protect_tokens": 1}}),
            ("prune.protect_tokens", {"prune": Prune(protect_tokens=-1)}),
            ("prune.keep_tools", {"prune": Prune(keep_tools="skill")}),  # type: ignore[arg-type]
            ("keep_system", {"keep_system": 1}),
            ("branch", {"branch": ""}),
            ("at", {"at": 7}),
        ],
    )
    def test_bad_questions_name_the_field(
        self, backend: Bed, session: str, field: str, given: dict[str, object]
    ) -> None:
        context: Callable[..., object] = backend.store.messages.context
        with pytest.raises(InvalidValue) as caught:
            context(session, **given)
        assert caught.value.field == field


class TestShouldCompact:
    @pytest.fixture
    def session(self, backend: Bed) -> str:
        config = {
            "auto_compact": True,
            "auto_compact_threshold": 0.5,
            "max_context_length": 100,
        }
        backend.store.sessions.create(id="s", document={"config": config})
        return "s"

    @pytest.mark.promise(152)
    def test_from_the_threshold_on(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        messages.append(session, *(user("x") for _ in range(4)))
        assert messages.should_compact(session, count=ten) is False
        messages.append(session, user("x"))
        backend.reopen()
        assert backend.store.messages.should_compact(session, count=ten) is True
        backend.store.messages.compact(session, "short", tail_start=None)
        assert backend.store.messages.should_compact(session, count=ten) is False

    @pytest.mark.promise(152)
    def test_by_what_the_provider_counted(self, backend: Bed, session: str) -> None:
        messages = backend.store.messages
        assert messages.should_compact(session, used_tokens=49) is False
        assert messages.should_compact(session, used_tokens=50) is True

    @pytest.mark.promise(152)
    @pytest.mark.parametrize(
        "config",
        [
            {"auto_compact": False, "max_context_length": 10},
            {"auto_compact": True, "max_context_length": 0},
            {"max_context_length": 10},
        ],
    )
    def test_never_when_it_is_off(self, backend: Bed, config: dict[str, object]) -> None:
        backend.store.sessions.create(id="s", document={"config": config})
        assert backend.store.messages.should_compact("s", used_tokens=10**9) is False

    @pytest.mark.promise(34, 152)
    def test_the_threshold_is_four_fifths_unless_said(self, backend: Bed) -> None:
        config = {"auto_compact": True, "max_context_length": 1_000}
        backend.store.sessions.create(id="s", document={"config": config})
        assert backend.store.messages.should_compact("s", used_tokens=799) is False
        assert backend.store.messages.should_compact("s", used_tokens=800) is True

    @pytest.mark.promise(152)
    def test_of_a_session_without_settings(self, backend: Bed) -> None:
        backend.store.sessions.create(id="s")
        assert backend.store.messages.should_compact("s", used_tokens=10**9) is False
        assert backend.store.messages.should_compact("nowhere") is False

    @pytest.mark.promise(152)
    def test_settings_that_make_no_sense(self, backend: Bed) -> None:
        config = {"auto_compact": True, "max_context_length": 9, "auto_compact_threshold": "high"}
        backend.store.sessions.create(id="s", document={"config": config})
        with pytest.raises(InvalidValue) as caught:
            backend.store.messages.should_compact("s", used_tokens=1)
        assert caught.value.field == "config.auto_compact_threshold"
