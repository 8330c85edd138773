"""`ledgerstone runs`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone import Store
from tests.cli.conftest import SECRET, Cli


@pytest.fixture
def runs(store: Path) -> Path:
    """boss started kid in another session; boss waits, kid is done."""
    with Store.open(store) as opened:
        opened.sessions.create(id="side")
        opened.runs.create("trip", id="boss", agent="planner", input=SECRET)
        opened.runs.create("side", id="kid", agent="search", parent_run="boss")
        opened.runs.update("kid", status="done", outcome={"termination": {"type": "natural_end"}})
        opened.runs.update("boss", status="waiting", waiting={"reason": "background_tasks"})
    return store


def test_a_line_for_each_run(cli: Cli, runs: Path) -> None:
    done = cli("runs", "--store", runs)
    header, boss, kid = done.out.splitlines()
    assert done.code == 0
    assert header.split() == [
        "RUN", "SESSION", "AGENT", "STATUS", "CREATED", "UPDATED", "PARENT",
    ]  # fmt: skip
    assert boss.split()[:5] == ["boss", "trip", "planner", "waiting,", "background_tasks"]
    assert kid.split()[:5] == ["kid", "side", "search", "done,", "natural_end"]
    assert kid.split()[-1] == "boss"
    assert SECRET not in done.out


def test_of_one_session_and_one_status(cli: Cli, runs: Path) -> None:
    assert "kid" not in cli("runs", "trip", "--store", runs).out
    assert "boss" not in cli("runs", "--status", "done", "--store", runs).out.replace(" boss\n", "")
    assert cli("runs", "trip", "--status", "done", "--store", runs).out == (
        "no runs of session trip\n"
    )


def test_as_json_with_pages(cli: Cli, runs: Path) -> None:
    first = cli("runs", "--store", runs, "--limit", 1, "--json").json
    assert (first["total"], first["runs"][0]["id"]) == (2, "boss")
    assert first["runs"][0]["input"] == {"data": SECRET}
    second = cli("runs", "--store", runs, "--cursor", first["cursor"], "--json").json
    assert [run["id"] for run in second["runs"]] == ["kid"]
    assert f"--cursor {first['cursor']}" in cli("runs", "--store", runs, "--limit", 1).out


def test_a_tree_over_sessions(cli: Cli, runs: Path) -> None:
    done = cli("runs", "--store", runs, "--tree", "boss")
    assert [line[:6].rstrip() for line in done.out.splitlines()] == ["RUN", "boss", "  kid"]
    tree = cli("runs", "--store", runs, "--tree", "boss", "--json").json["tree"]
    assert (tree["run"]["id"], tree["children"][0]["run"]["id"]) == ("boss", "kid")


def test_a_store_without_runs(cli: Cli, store: Path) -> None:
    done = cli("runs", "--store", store)
    assert (done.code, done.out) == (0, "no runs\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--tree", "nobody"], "no run 'nobody' here"),
        (["nowhere"], "no session 'nowhere' here"),
        (["--status", "sleepy"], "status"),
        (["trip", "--tree", "boss"], "whole tree"),
        (["--limit", "0"], "limit"),
    ],
)
def test_what_can_not_be_shown(cli: Cli, runs: Path, arguments: list[str], said: str) -> None:
    done = cli("runs", *arguments, "--store", runs)
    assert (done.code, done.out) == (2, "")
    assert said in done.err
