"""`ledgerstone work`: what became of work, its order, interrupting and pruning."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone import Store
from tests.cli.conftest import ESCAPE, SECRET, Cli
from tests.cli.test_work import YEAR_S, rows


@pytest.fixture
def ended(store: Path) -> Path:
    """The session "trip" with one batch done, one cancelled, one dead, and two queued."""
    with Store.open(store) as opened:
        work = opened.work
        work.enqueue("trip", SECRET, id="done-1")
        with work.hold() as (lease, claim), opened.turns.begin(lease) as turn:
            turn.complete(claim)
        work.enqueue("trip", SECRET, id="gone-1")
        work.cancel("trip", "gone-1", reason=f"{ESCAPE} not needed")
        work.enqueue("trip", SECRET, id="dead-1")
        with work.hold() as (_, claim):
            work.fail(claim, "it broke", bury=True)
        work.enqueue("trip", SECRET, id="calm-1", delay_s=YEAR_S)
        work.enqueue("trip", SECRET, id="urgent-1", priority=1, delay_s=YEAR_S)
    return store


@pytest.mark.parametrize(
    ("state", "id"), [("done", "done-1"), ("cancelled", "gone-1"), ("dead", "dead-1")]
)
def test_what_ended_by_state(cli: Cli, ended: Path, state: str, id: str) -> None:
    for words in ([], ["trip"]):
        done = cli("work", *words, "--ended", state, "--store", ended)
        assert (done.code, list(rows(done.out))) == (0, [id])
        assert SECRET not in done.out
        assert "\x1b" not in done.out
    found = cli("work", "--ended", state, "--store", ended, "--json").json
    assert [one["batch"]["id"] for one in found["ended"]] == [id]
    assert (found["ended"][0]["state"], found["ended"][0]["batch"]["payloads"]) == (state, 1)
    assert "no such work" in cli("work", "--ended", "superseded", "--store", ended).out


def test_queued_work_by_priority(cli: Cli, ended: Path) -> None:
    assert list(rows(cli("work", "trip", "--store", ended).out)) == ["calm-1", "urgent-1"]
    done = cli("work", "trip", "--order", "priority", "--store", ended)
    assert list(rows(done.out)) == ["urgent-1", "calm-1"]


def test_an_interruption(cli: Cli, ended: Path) -> None:
    done = cli("work", "interrupt", "trip", "--store", ended)
    assert (done.code, done.err) == (0, "")
    assert "2 batches superseded, 0 still in work; epoch 1" in done.out
    again = cli("work", "interrupt", "trip", "--store", ended, "--json").json
    assert (again["superseded"], again["running"], again["epoch"]) == (0, [], 2)
    assert len(rows(cli("work", "--ended", "superseded", "--store", ended).out)) == 2


def test_pruning(cli: Cli, ended: Path) -> None:
    assert "0 records removed" in cli("work", "prune", "--older-than", "1h", "--store", ended).out
    found = cli("work", "prune", "--older-than", "0s", "--store", ended, "--json").json
    assert found == {"pruned": 3}
    assert "no such work" in cli("work", "--ended", "done", "--store", ended).out
    assert len(rows(cli("work", "trip", "--store", ended).out)) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--ended", "lost"], "is none of done, cancelled, dead, superseded"),
        (["trip", "--order", "age"], "is none of arrival, priority"),
        (["--ended", "done", "--dead"], "two questions"),
        (["prune", "--older-than", "soon"], "is no time"),
        (["trip", "--older-than", "1h"], "work prune --older-than TIME"),
        (["prune", "trip", "--older-than", "1h"], "work prune --older-than TIME"),
        (["interrupt", "nowhere"], "no session 'nowhere'"),
    ],
    ids=str,
)
def test_what_makes_no_sense(cli: Cli, ended: Path, words: list[str], said: str) -> None:
    done = cli("work", *words, "--store", ended)
    assert done.code == 2
    assert said in done.err
