"""`ledgerstone work`: queued work, its troubles and its dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone import Store
from tests.cli.conftest import ESCAPE, SECRET, Cli

YEAR_S = 365 * 86_400


@pytest.fixture
def busy(store: Path) -> Path:
    """The session "trip" with work in every state, and "calm" with a single batch."""
    with Store.open(store) as opened:
        work = opened.work
        work.enqueue("trip", SECRET, id="dead-1", priority=0)
        with opened.work.hold() as (_, claim):
            work.fail(claim, f"{ESCAPE} it broke", bury=True)
        work.enqueue("trip", SECRET, id="claimed-1", priority=1)
        work.enqueue("trip", SECRET, SECRET, id="ready-1", queue="mail", max_attempts=None)
        work.enqueue("trip", SECRET, id="later-1", delay_s=YEAR_S)
        opened.sessions.create(id="calm")
        work.enqueue("calm", 1, id="calm-1", delay_s=YEAR_S)
        assert work.take(owner="w", ttl_s=600) is not None
    return store


def rows(out: str) -> dict[str, str]:
    return {line.split()[0]: line for line in out.splitlines()[1:]}


class TestQueued:
    def test_a_line_for_each_batch(self, cli: Cli, busy: Path) -> None:
        done = cli("work", "trip", "--store", busy)
        assert done.code == 0
        found = rows(done.out)
        assert list(found) == ["claimed-1", "ready-1", "later-1"]
        assert "claimed, fence" in found["claimed-1"]
        assert "1 of 5" in found["claimed-1"]
        assert found["ready-1"].split()[:5] == ["ready-1", "mail", "128", "2", "0"]
        assert "ready" in found["ready-1"]
        assert "due 20" in found["later-1"]

    def test_as_json(self, cli: Cli, busy: Path) -> None:
        batches = cli("work", "trip", "--store", busy, "--json").json["batches"]
        assert [batch["id"] for batch in batches] == ["claimed-1", "ready-1", "later-1"]
        assert [batch["payloads"] for batch in batches] == [1, 2, 1]

    def test_nothing_to_do(self, cli: Cli, store: Path) -> None:
        assert "nothing is queued" in cli("work", "trip", "--store", store).out
        assert "no work is waiting" in cli("work", "--store", store).out
        assert "no dead letters" in cli("work", "--dead", "--store", store).out

    def test_an_unknown_session(self, cli: Cli, store: Path) -> None:
        done = cli("work", "nowhere", "--store", store)
        assert (done.code, done.out) == (2, "")
        assert "no session 'nowhere'" in done.err

    @pytest.mark.parametrize("words", [[], ["trip"], ["--dead"], ["trip", "--stuck"]], ids=str)
    @pytest.mark.parametrize("extra", [[], ["--json"]], ids=["plain", "json"])
    def test_what_was_said_is_never_printed(
        self, cli: Cli, busy: Path, words: list[str], extra: list[str]
    ) -> None:
        done = cli("work", *words, "--store", busy, *extra)
        assert done.code == 0
        assert SECRET not in done.out
        assert "\x1b" not in done.out

    def test_of_another_tenant(self, cli: Cli, busy: Path) -> None:
        done = cli("work", "--store", busy, "--tenant", "red")
        assert "no work is waiting" in done.out


class TestStuck:
    def test_all_sessions_with_their_first_reason(self, cli: Cli, busy: Path) -> None:
        found = rows(cli("work", "--store", busy).out)
        assert found["trip"].split()[1] == "leased"
        assert found["calm"].split()[1] == "delayed"

    def test_all_reasons_of_one(self, cli: Cli, busy: Path) -> None:
        found = cli("work", "trip", "--stuck", "--store", busy, "--json").json["stuck"]
        reasons = [one["reason"] for one in found]
        assert reasons[:2] == ["leased", "claimed"]
        assert "dead_letters" in reasons


class TestDeadLetters:
    def test_who_died_and_why(self, cli: Cli, busy: Path) -> None:
        found = rows(cli("work", "--dead", "--store", busy).out)
        assert list(found) == ["dead-1"]
        assert "trip" in found["dead-1"]
        assert "\\x1b[31mred\\x1b[0m it broke" in found["dead-1"]
        assert "no dead letters" in cli("work", "calm", "--dead", "--store", busy).out

    def test_pages(self, cli: Cli, busy: Path) -> None:
        with Store.open(busy) as opened:
            opened.sessions.create(id="more")
            opened.work.enqueue("more", 1, id="dead-2", queue="other")
            with opened.work.hold(queue="other") as (_, claim):
                opened.work.fail(claim, "too", bury=True)
        first = cli("work", "--dead", "--limit", 1, "--store", busy, "--json").json
        assert (first["total"], first["dead"][0]["batch"]["id"]) == (2, "dead-1")
        page = cli("work", "--dead", "--limit", 1, "--store", busy).out
        assert f"--cursor {first['cursor']}" in page
        second = cli("work", "--dead", "--cursor", first["cursor"], "--store", busy, "--json").json
        assert [one["batch"]["id"] for one in second["dead"]] == ["dead-2"]

    def test_a_replay(self, cli: Cli, busy: Path) -> None:
        done = cli("work", "replay", "dead-1", "--store", busy)
        assert (done.code, done.err) == (0, "")
        assert "dead-1 is queued again in session trip" in done.out
        assert "dead-1" in rows(cli("work", "trip", "--store", busy).out)
        again = cli("work", "replay", "dead-1", "--store", busy)
        assert again.code == 2
        assert "no dead batch 'dead-1'" in again.err

    def test_a_replay_as_json(self, cli: Cli, busy: Path) -> None:
        found = cli("work", "replay", "dead-1", "--store", busy, "--json").json["replayed"]
        assert (found["id"], found["attempts"], found["payloads"]) == ("dead-1", 0, 1)


def test_questions_that_make_no_sense(cli: Cli, store: Path) -> None:
    assert "two questions" in cli("work", "--dead", "--stuck", "--store", store).err
    assert "work replay BATCH" in cli("work", "trip", "w1", "--store", store).err
    assert cli("work", "--limit", 0, "--store", store).code == 2
