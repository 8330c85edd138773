"""`ledgerstone executions`: tool calls without an outcome; and what `doctor` counts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from ledgerstone import Store
from ledgerstone.cli import doctor
from ledgerstone.errors import ExecutionUnresolved
from tests.cli.conftest import ESCAPE, Cli

CALL: dict[str, Any] = {"call_id": "c1", "tool": "pay", "arguments": {"eur": 120, "to": ESCAPE}}


class Crash(Exception):
    pass


def leave(store: Store, session: str, id: str) -> None:
    """A call whose worker is gone."""
    with store.leases.hold(session, owner="dead") as lease:
        store.executions.start(lease, id=id, **CALL)


def park(store: Store, session: str, batch: str) -> None:
    """A worker takes the work, meets the call, and puts the work aside."""
    store.work.enqueue(session, 1, id=batch, max_attempts=1)
    with store.work.hold() as (lease, claim):
        with pytest.raises(ExecutionUnresolved) as met:
            store.executions.start(lease, **CALL)
        store.work.park(claim, waiting_for=met.value)


@pytest.fixture(params=["sqlite", "file"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Session "trip": parked work, a call of unknown outcome, and a call that is going on."""
    found = str(tmp_path / "a.db") if request.param == "sqlite" else f"file://{tmp_path}/a"
    with Store.open(found) as store:
        store.sessions.create(id="busy")
        running = store.leases.take("busy", owner="ann", ttl_s=3600)
        assert running is not None
        store.executions.start(running, id="e-live", **CALL)
        store.sessions.create(id="trip")
        leave(store, "trip", "e-lost")
        park(store, "trip", "w1")
    return found


class TestListing:
    def test_those_that_need_a_decision_come_first(self, cli: Cli, url: str) -> None:
        done = cli("executions", "--store", url)
        assert (done.code, done.err) == (0, "")
        lines = done.out.splitlines()
        assert [line.split()[0] for line in lines[1:3]] == ["e-lost", "e-live"]
        assert "unknown" in lines[1]
        assert "started" in lines[2]
        assert "finish, fail or retry" in lines[3]
        assert "\x1b" not in done.out

    def test_as_json(self, cli: Cli, url: str) -> None:
        found = cli("executions", "--store", url, "--json", "--limit", 1).json
        assert found["total"] == 2
        assert [(one["id"], one["status"]) for one in found["executions"]] == [
            ("e-lost", "unknown")
        ]

    def test_of_a_session_and_of_nobody(self, cli: Cli, url: str) -> None:
        assert "e-lost" not in cli("executions", "--store", url, "--session", "busy").out
        assert "no session 'x'" in cli("executions", "--store", url, "--session", "x").err
        other = cli("executions", "--store", url, "--tenant", "red")
        assert (other.code, other.out) == (0, "no tool call waits for its outcome\n")

    def test_show_names_the_key_and_the_parked_work(self, cli: Cli, url: str) -> None:
        done = cli("executions", "show", "e-lost", "--store", url)
        facts = {line.split()[0]: line for line in done.out.splitlines()}
        assert facts["status"].split()[1] == "unknown"
        assert facts["parked"].split()[1] == "w1"
        assert len(facts["key"].split()) == 2
        assert "\x1b" not in done.out
        found = cli("executions", "--store", url, "show", "e-lost", "--json").json
        assert (found["execution"]["id"], found["parked"]) == ("e-lost", ["w1"])

    @pytest.mark.parametrize(
        "words", [["show", "e"], ["retry", "e", "--yes"], ["fail", "e", "--error", "x", "--yes"]]
    )
    def test_one_that_is_not_there(self, cli: Cli, url: str, words: list[str]) -> None:
        done = cli("executions", *words, "--store", url)
        assert done.code == 2
        assert "no execution 'e' here" in done.err


class TestDeciding:
    @pytest.mark.parametrize(
        ("words", "status", "value"),
        [
            (["finish", "e-lost", "--result", '{"receipt": 7}'], "succeeded", {"receipt": 7}),
            (["finish", "e-lost", "--result", "null"], "succeeded", None),
            (["fail", "e-lost", "--error", "no such bank"], "failed", "no such bank"),
            (["retry", "e-lost"], "pending", None),
        ],
        ids=["result", "null", "error", "retry"],
    )
    def test_the_parked_work_goes_on(
        self, cli: Cli, url: str, words: list[str], status: str, value: object
    ) -> None:
        done = cli("executions", *words, "--store", url, "--yes")
        assert (done.code, done.err) == (0, "")
        assert "1 batch can go on" in done.out
        with Store.open(url) as store:
            found = store.executions.get("e-lost")
            assert found is not None
            assert found.status == status
            assert (found.error if status == "failed" else found.result) == value
            with store.work.hold() as (_, claim):
                assert [batch.id for batch in claim.batches] == ["w1"]

    def test_as_json(self, cli: Cli, url: str) -> None:
        words = ["finish", "e-lost", "--result", "1", "--json", "--yes"]
        assert cli("executions", *words, "--store", url).json["status"] == "succeeded"

    def test_nobody_is_asked_without_a_terminal(self, cli: Cli, url: str) -> None:
        done = cli("executions", "retry", "e-lost", "--store", url)
        assert done.code == 2
        assert "--yes" in done.err
        assert "unknown" in cli("executions", "show", "e-lost", "--store", url).out

    def test_a_call_that_is_going_on_is_left_to_its_worker(self, cli: Cli, url: str) -> None:
        for words in (["retry", "e-live"], ["fail", "e-live", "--error", "x"]):
            done = cli("executions", *words, "--store", url, "--yes")
            assert done.code == 2
            assert "is running" in done.err
        assert "started" in cli("executions", "show", "e-live", "--store", url).out

    def test_an_outcome_is_not_replaced(self, cli: Cli, url: str) -> None:
        assert (
            cli("executions", "finish", "e-lost", "--result", 1, "--store", url, "--yes").code == 0
        )
        for words in (["retry", "e-lost"], ["fail", "e-lost", "--error", "x"]):
            done = cli("executions", *words, "--store", url, "--yes")
            assert done.code == 2
            assert "executions show ID" in done.err

    @pytest.mark.parametrize("text", ["", "done", "{", "NaN"])
    def test_a_result_that_is_no_json(self, cli: Cli, url: str, text: str) -> None:
        done = cli("executions", "finish", "e-lost", "--result", text, "--store", url, "--yes")
        assert done.code == 2
        assert "--result" in done.err


def bury(store: Store, _: str) -> None:
    store.work.enqueue("s", 1, id="w1")
    with store.work.hold() as (_lease, claim):
        store.work.fail(claim, "broke", bury=True)


def draft(store: Store, _: str) -> None:
    with suppress(Crash), store.turns.begin("s").draft(id="d") as one:
        one.write("x" * 10_000)
        raise Crash


def queue(store: Store, _: str) -> None:
    store.work.enqueue("s", 1, id="w1")


def lose(store: Store, _: str) -> None:
    leave(store, "s", "e1")


def unleased(store: Store, _: str) -> None:
    store.executions.start("s", id="e1", **CALL)


def parked(store: Store, _: str) -> None:
    leave(store, "s", "e1")
    park(store, "s", "w1")


TROUBLES: dict[str, tuple[Callable[[Store, str], None], dict[str, int], str]] = {
    "stuck": (queue, {"stuck": 1}, "ledgerstone work --stuck"),
    "dead": (bury, {"dead": 1}, "ledgerstone work --dead"),
    "parked": (parked, {"parked": 1, "unknown": 1}, "ledgerstone executions"),
    "unknown": (lose, {"unknown": 1}, "ledgerstone executions"),
    "unleased": (unleased, {"unknown": 1}, "ledgerstone executions"),
    "drafts": (draft, {"drafts": 1}, "ledgerstone show SESSION"),
}


@pytest.mark.parametrize("tenant", ["default", "red"])
@pytest.mark.parametrize("kind", ["sqlite", "file"])
@pytest.mark.parametrize("name", TROUBLES)
class TestDoctor:
    @pytest.fixture
    def sick(self, tmp_path: Path, kind: str, name: str, tenant: str) -> str:
        url = str(tmp_path / "a.db") if kind == "sqlite" else f"file://{tmp_path}/a"
        with Store.open(url) as store:
            store.for_tenant("calm").sessions.create(id="s")
            one = store.for_tenant(tenant)
            one.sessions.create(id="s")
            TROUBLES[name][0](one, "s")
        return url

    def test_it_is_counted_in_any_tenant_and_strict_fails(
        self, cli: Cli, sick: str, name: str, tenant: str
    ) -> None:
        _, counts, step = TROUBLES[name]
        words = ["doctor", "--store", sick, "--older-than", "0s"]
        done = cli(*words, "--json")
        assert done.code == 0
        assert {key: n for key, n in done.json["waiting"].items() if n} == counts
        assert list(done.json["waiting_of_tenants"]) == [tenant]
        plain = cli(*words)
        assert plain.code == 0
        assert step in plain.out
        assert "nothing to do" not in plain.out
        assert ("--tenant red" in plain.out) is (tenant == "red")
        assert cli(*words, "--strict").code == 1
        assert cli(*words, "--strict", "--json").code == 1
        assert cli(*words, "--strict", "--tenant", "calm").code == 0


class TestStrict:
    def test_what_is_young_or_deleted_does_not_count(self, cli: Cli, tmp_path: Path) -> None:
        path = tmp_path / "a.db"
        with Store.open(path) as store:
            store.sessions.create(id="s")
            for make in (queue, unleased, draft):
                make(store, "s")
            store.sessions.create(id="gone")
            leave(store, "gone", "e2")
            store.sessions.delete("gone")
        done = cli("doctor", "--store", path, "--strict")
        assert (done.code, done.err) == (0, "")
        assert "nothing to do" in done.out

    def test_a_warning_fails_it(self, cli: Cli, tmp_path: Path) -> None:
        url = f"file://{tmp_path}/a"
        with Store.open(url) as store:
            store.sessions.create(id="s")
        (journal,) = [one for one in (tmp_path / "a").rglob("*") if one.suffix == ".jsonl"]
        with journal.open("ab") as stream:
            stream.write(b'{"torn')
        done = cli("doctor", "--store", url)
        assert done.code == 0
        assert "warning: " in done.out
        assert cli("doctor", "--store", url, "--strict").code == 1

    def test_what_was_not_counted_to_the_end_is_said(
        self, cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "a.db"
        words = ["doctor", "--store", path, "--older-than", "0s"]
        with Store.open(path) as store:
            store.sessions.create(id="older")
            store.sessions.create(id="s")
            draft(store, "s")
        assert cli(*words, "--json").json["at_least"] == []
        monkeypatch.setattr(doctor, "SESSIONS_MAX", 1)
        assert cli(*words, "--json").json["at_least"] == ["drafts"]
        assert "1 or more" in cli(*words).out
        assert "at least 1 old draft" in cli(*words).out
