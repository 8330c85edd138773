"""Traces and reports: lists beside a session, saved whole or added to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ledgerstone import Check, Report, TraceEvent, trace_of, user
from ledgerstone.commands.evidence import AppendEvidence
from ledgerstone.errors import AlreadyExists, Corrupt, InvalidValue, SessionDeleted
from ledgerstone.testing.bed import Bed

__all__ = ["TestTraces", "TestReports", "TestEvidence"]

EVENTS = [
    TraceEvent(kind="tool_execution", name="grep", duration_ms=12, output_bytes=340),
    TraceEvent(
        kind="program_execution",
        name="make",
        success=False,
        exit_code=2,
        metadata_keys=["cwd", "env"],
        artifact_uris=["artifact:1", "log:2"],
        details={"stderr": "no rule", "deep": [1, 2.5, None, {"é": "\ud83d"}]},
        run_id="r1",
        at_us=1_700_000_000_000_000,
    ),
]
REPORTS = [
    Report(subject="build", checks=[Check(id="c1", status="passed", kind="test")]),
    Report(
        subject="docs",
        checks=[
            Check(
                id="c2",
                description="links",
                status="needs_review",
                required=True,
                suggested_tools=["lychee"],
                evidence_uris=["artifact:9"],
                residual_risk="two hosts were down",
            )
        ],
        residual_risks=["stale cache"],
        effect_digest="ab" * 32,
    ),
]
SAVED: dict[str, list[Any]] = {"traces": EVENTS, "reports": REPORTS}
BOTH = pytest.mark.parametrize("name", SAVED)


def lists(backend: Bed, name: str) -> Any:
    """store.traces or store.reports."""
    return getattr(backend.store, name)


class TestTraces:
    """Events in order, found by kind, name or run."""

    @pytest.mark.promise(180)
    def test_what_is_saved_is_loaded_equal(self, backend: Bed) -> None:
        traces = backend.store.traces
        assert traces.load("s") is None
        assert traces.save("s", EVENTS) == 2
        assert traces.load("s") == EVENTS

    @pytest.mark.promise(180)
    def test_keys_are_kept_sorted_and_uris_once(self, backend: Bed) -> None:
        given = {"kind": "k", "name": "n", "metadata_keys": ["b", "a"]}
        backend.store.traces.append("s", {**given, "artifact_uris": ["z", "a", "z"]})
        (found,) = backend.store.traces.load("s") or []
        assert found == TraceEvent(
            kind="k", name="n", metadata_keys=["a", "b"], artifact_uris=["a", "z"]
        )

    @pytest.mark.promise(180)
    def test_events_are_found_by_kind_name_run_and_place(self, backend: Bed) -> None:
        traces = backend.store.traces
        for run in ("r1", "r2"):
            traces.append("s", *(TraceEvent(kind=k, name=f"n-{k}", run_id=run) for k in "ab"))
        entries = traces.list("s")
        assert [entry.n for entry in entries] == [1, 2, 3, 4]
        assert {entry.created_us for entry in entries} == {backend.clock.now_us()}
        assert [entry.n for entry in traces.list("s", kind="a")] == [1, 3]
        assert [entry.n for entry in traces.list("s", name="n-b", run_id="r2")] == [4]
        assert [entry.n for entry in traces.iter("s", after=2)] == [3, 4]
        assert list(traces.iter("s", kind="c")) == list(traces.iter("nowhere")) == []

    def test_long_lists_are_read_to_their_end(self, backend: Bed) -> None:
        events = [TraceEvent(kind="k", name=f"{n % 3}") for n in range(1205)]
        traces = backend.store.traces
        assert traces.append("s", *events) == 1205
        assert [entry.n for entry in traces.iter("s")] == list(range(1, 1206))
        assert len(traces.list("s", name="2")) == 401
        assert traces.load("s") == events

    def test_uris_of_artifacts_are_collected_however_deep(self) -> None:
        event = trace_of(
            "shell",
            success=True,
            output="häl",
            metadata={"cwd": "/", "artifact": {"artifact_uri": "log:1"}},
            details=[{"artifact_uris": ["b:2", {"x": "b:3"}], "see": ["artifact:9", "no:1"]}],
        )
        assert event.artifact_uris == ["artifact:9", "b:2", "log:1"]
        assert (event.metadata_keys, event.output_bytes) == (["artifact", "cwd"], 4)
        assert (event.kind, event.name, event.success) == ("tool_execution", "shell", True)

    def test_an_event_of_a_turn_is_of_its_run(self, backend: Bed) -> None:
        with backend.store.turns.begin("s", run_id="r1", create=True) as turn:
            turn.run("running")
            assert turn.trace({"kind": "k", "name": "mine"}).run_id == "r1"
            turn.trace(TraceEvent(kind="k", name="other", run_id="r2"))
        found = backend.store.traces.list("s")
        assert [(entry.event.name, entry.event.run_id) for entry in found] == [
            ("mine", "r1"),
            ("other", "r2"),
        ]


class TestReports:
    """Reports, and the status that follows from their checks."""

    @pytest.mark.promise(181)
    def test_what_is_saved_is_loaded_equal(self, backend: Bed) -> None:
        reports = backend.store.reports
        assert reports.load("s") is None
        assert reports.save("s", REPORTS) == 2
        assert reports.load("s") == REPORTS

    @pytest.mark.promise(181)
    @pytest.mark.parametrize(
        ("checks", "risks", "status"),
        [
            ([], [], "skipped"),
            ([], ["a risk"], "needs_review"),
            ([("passed", True)], [], "passed"),
            ([("passed", True)], ["a risk"], "needs_review"),
            ([("passed", True), ("skipped", False)], [], "passed"),
            ([("passed", True), ("skipped", True)], [], "needs_review"),
            ([("needs_review", True), ("passed", False)], [], "needs_review"),
            ([("failed", False), ("needs_review", True)], ["a risk"], "failed"),
        ],
    )
    def test_the_status_follows_from_the_checks(
        self, backend: Bed, checks: list[Any], risks: list[str], status: str
    ) -> None:
        made = [
            {"id": f"c{n}", "status": state, "required": required}
            for n, (state, required) in enumerate(checks)
        ]
        backend.store.reports.append(
            "s",
            {"subject": "x", "checks": made, "residual_risks": risks},
            Report(subject="x", checks=[Check(**one) for one in made], residual_risks=risks),
        )
        found = backend.store.reports.load("s") or []
        assert [report.status for report in found] == [status, status]

    @pytest.mark.promise(181)
    def test_a_status_that_is_given_stays(self, backend: Bed) -> None:
        given = {"subject": "x", "status": "passed", "checks": [{"id": "c", "status": "failed"}]}
        backend.store.reports.append("s", given, Report(subject="y", status="failed"))
        found = backend.store.reports.load("s") or []
        assert [report.status for report in found] == ["passed", "failed"]

    @pytest.mark.promise(181)
    def test_reports_are_found_by_subject_status_and_place(self, backend: Bed) -> None:
        reports = backend.store.reports
        reports.save("s", [*REPORTS, *REPORTS])
        assert [entry.n for entry in reports.list("s", subject="docs")] == [2, 4]
        assert [entry.n for entry in reports.list("s", status="passed", after=1)] == [3]
        assert [entry.report for entry in reports.iter("s", after=2)] == REPORTS


class TestEvidence:
    """What both lists have in common."""

    @BOTH
    @pytest.mark.promise(180, 181)
    def test_saving_replaces_the_list(self, backend: Bed, name: str) -> None:
        both, (first, second) = lists(backend, name), SAVED[name]
        both.append("s", first, first, second)
        assert both.save("s", [second]) == 1
        assert both.load("s") == [second]
        assert both.append("s", first) == 2
        assert both.load("s") == [second, first]

    @BOTH
    @pytest.mark.promise(180, 181)
    def test_an_empty_list_is_a_list(self, backend: Bed, name: str) -> None:
        both = lists(backend, name)
        assert both.save("s", []) == 0
        assert both.load("s") == []
        assert both.delete("s") == 0
        assert both.load("s") is None

    @BOTH
    @pytest.mark.promise(182)
    def test_no_session_is_needed(self, backend: Bed, name: str) -> None:
        both = lists(backend, name)
        both.save("never made", SAVED[name])
        assert backend.store.sessions.get("never made") is None
        assert backend.store.sessions.count() == 0
        assert both.load("never made") == SAVED[name]

    @BOTH
    @pytest.mark.promise(30, 182)
    def test_they_go_with_their_session(self, backend: Bed, name: str) -> None:
        both = lists(backend, name)
        for session in ("s", "other"):
            backend.store.messages.append(session, user("hi"), create=True)
            both.save(session, SAVED[name])
        backend.store.sessions.purge("s")
        assert both.load("s") is None
        assert both.load("other") == SAVED[name]
        backend.store.sessions.purge("s")

    @BOTH
    @pytest.mark.promise(182)
    def test_deleting_is_as_if_none_had_been_saved(self, backend: Bed, name: str) -> None:
        both = lists(backend, name)
        both.save("s", SAVED[name])
        assert both.delete("s") == 2
        assert both.load("s") is None
        assert both.delete("s") == 0
        assert both.append("s", SAVED[name][0]) == 1

    @BOTH
    @pytest.mark.promise(183)
    def test_a_refused_save_changes_nothing(self, backend: Bed, name: str) -> None:
        both = lists(backend, name)
        both.save("s", SAVED[name])
        for write in (both.save, lambda s, items: both.append(s, *items)):
            with pytest.raises(InvalidValue):
                write("s", [SAVED[name][0], {"nonsense": 1}])
        assert both.load("s") == SAVED[name]

    @BOTH
    @pytest.mark.promise(183)
    def test_they_come_with_their_turn_or_not_at_all(self, backend: Bed, name: str) -> None:
        store, first = backend.store, SAVED[name][0]
        store.messages.append("s", user("one", id="m1"), create=True)

        def commit(message: str, turn_id: str) -> bool:
            turn = store.turns.begin("s", id=turn_id)
            turn.user("more", id=message)
            turn.trace(first) if name == "traces" else turn.report(first)
            return turn.commit().replayed

        with backend.unchanged("s"), pytest.raises(AlreadyExists):
            commit("m1", "t1")
        assert lists(backend, name).load("s") is None
        assert [commit("m2", "t2"), commit("m2", "t2")] == [False, True]
        assert lists(backend, name).load("s") == [first]
        assert store.admin.verify().defects == []

    @BOTH
    def test_the_last_append_may_be_repeated(self, backend: Bed, name: str) -> None:
        both, (first, second) = lists(backend, name), SAVED[name]
        for _ in range(2):
            assert both.append("s", first, second, key="k1") == 2
        assert both.append("s", second, key="k1") == 3, "other content is another append"
        assert both.append("s", first, key="k2") == 4
        assert both.append("s", first, key="k2") == 4
        assert both.append("s", first) == 5
        assert both.append("s", first, key="k2") == 6, "only the last one is remembered"
        assert both.save("s", []) == 0
        assert both.append("s", first, key="k2") == 1

    @BOTH
    @pytest.mark.promise(180, 181)
    def test_they_survive_a_reopening(self, backend: Bed, name: str) -> None:
        lists(backend, name).save("s", SAVED[name])
        lists(backend, name).append("s", SAVED[name][0], key="k")
        lists(backend, name).save("empty", [])
        backend.reopen()
        assert lists(backend, name).load("s") == [*SAVED[name], SAVED[name][0]]
        assert lists(backend, name).append("s", SAVED[name][0], key="k") == 3
        assert lists(backend, name).load("empty") == []
        assert backend.store.admin.verify().defects == []

    @BOTH
    def test_a_deleted_session_takes_no_more_but_shows_what_it_has(
        self, backend: Bed, name: str
    ) -> None:
        both, document = lists(backend, name), SAVED[name][0]
        backend.store.messages.append("s", user("hi"), create=True)
        both.save("s", [document])
        backend.store.sessions.delete("s")
        writes: list[Callable[[], object]] = [
            lambda: both.append("s", document),
            lambda: both.save("s", []),
            lambda: both.delete("s"),
        ]
        for write in writes:
            with pytest.raises(SessionDeleted):
                write()
        assert both.load("s") == [document]
        backend.store.sessions.restore("s")
        assert both.append("s", document) == 2

    @BOTH
    def test_another_tenant_has_its_own(self, backend: Bed, name: str) -> None:
        theirs = getattr(backend.open("theirs"), name)
        lists(backend, name).save("s", SAVED[name])
        assert theirs.load("s") is None
        assert theirs.list("s") == []
        assert theirs.delete("s") == 0
        theirs.append("s", SAVED[name][1])
        assert lists(backend, name).load("s") == SAVED[name]
        assert theirs.load("s") == [SAVED[name][1]]

    def test_the_two_lists_do_not_mix(self, backend: Bed) -> None:
        backend.store.traces.save("s", EVENTS)
        assert backend.store.reports.load("s") is None
        backend.store.reports.save("s", REPORTS)
        assert backend.store.traces.delete("s") == 2
        assert backend.store.reports.load("s") == REPORTS

    @BOTH
    @pytest.mark.promise(194)
    @pytest.mark.parametrize("body", [b"", b"[]", b'{"kind":', b'{"subject":7,"kind":7,"name":7}'])
    def test_what_does_not_decode_is_named(self, backend: Bed, name: str, body: bytes) -> None:
        kind: Any = name[:-1]
        backend.write(AppendEvidence(tenant="default", session="s", kind=kind, bodies=(body,)))
        with pytest.raises(Corrupt) as caught:
            lists(backend, name).load("s")
        assert caught.value.key == f"s/{kind}/1"
