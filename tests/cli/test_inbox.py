"""The inbox: what waits, and deciding it from a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone import Store, tool_call
from tests.cli.conftest import ESCAPE, Cli


@pytest.fixture
def asked(store: Path) -> Path:
    """Two tickets: t1 of ada's session "trip", t2 of a session of nobody."""
    with Store.open(store) as opened:
        opened.sessions.create(id="other")
        for n, session in enumerate(("trip", "other"), start=1):
            turn = opened.turns.begin(session, run_id=f"r{n}")
            turn.assistant([tool_call("pay", {"eur": n, "to": ESCAPE}, id="c1")])
            turn.ask("c1", id=f"t{n}", reason="money", expires_s=3600)
            turn.commit()
    return store


def test_what_waits_oldest_first(cli: Cli, asked: Path) -> None:
    done = cli("inbox", "--store", asked)
    header, first, second = done.out.splitlines()
    assert done.code == 0
    assert header.split() == ["TICKET", "SESSION", "USER", "CALL", "REASON", "ASKED", "EXPIRES"]
    assert first.split()[:4] == ["t1", "trip", "ada", "pay"]
    assert second.split()[:3] == ["t2", "other", "pay"]
    assert '"eur":1' in first
    assert "\x1b" not in done.out


def test_filters_and_pages(cli: Cli, asked: Path) -> None:
    assert "t2" not in cli("inbox", "--store", asked, "--user", "ada").out
    assert "t1" not in cli("inbox", "--store", asked, "--session", "other").out
    page = cli("inbox", "--store", asked, "--limit", 1, "--json").json
    assert (page["total"], [one["id"] for one in page["tickets"]]) == (2, ["t1"])
    rest = cli("inbox", "--store", asked, "--json", "--cursor", page["cursor"]).json
    assert [one["id"] for one in rest["tickets"]] == ["t2"]
    assert f"--cursor {page['cursor']}" in cli("inbox", "--store", asked, "--limit", 1).out


def test_nothing_waits(cli: Cli, store: Path) -> None:
    done = cli("inbox", "--store", store)
    assert (done.code, done.out) == (0, "nothing waits for a decision\n")
    assert cli("inbox", "--store", store, "--json").json == {
        "tickets": [],
        "total": 0,
        "cursor": None,
    }


@pytest.mark.parametrize(("word", "action"), [("approve", "resume"), ("reject", "cancel")])
def test_deciding(cli: Cli, asked: Path, word: str, action: str) -> None:
    done = cli("inbox", word, "t1", "--by", "bob", "--reason", "so it is", "--store", asked)
    assert done.code == 0
    assert done.out.startswith(f"{word.rstrip('e')}ed: pay ")
    assert done.out.endswith("of session trip\n")
    again = cli("inbox", word, "t1", "--by", "bob", "--reason", "so it is", "--store", asked)
    assert again.out == done.out
    with Store.open(asked) as opened:
        ticket = opened.tickets.get("t1")
        assert ticket is not None
        assert ticket.decision is not None
        said = (ticket.decision.action, ticket.decision.by, ticket.decision.reason)
        assert said == (action, "bob", "so it is")
        assert len(opened.work.list("trip")) == 1
    assert "t1" not in cli("inbox", "--store", asked).out


def test_options_before_the_word(
    cli: Cli, asked: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LEDGERSTONE_STORE", str(tmp_path / "elsewhere.db"))
    found = cli("inbox", "--store", asked, "--json", "approve", "t1", "--by", "bob").json
    assert (found["id"], found["status"]) == ("t1", "resolved")


def test_from_the_environment(cli: Cli, asked: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERSTONE_STORE", str(asked))
    assert cli("inbox", "approve", "t1", "--by", "bob").code == 0


def test_of_another_tenant(cli: Cli, asked: Path) -> None:
    assert "nothing waits" in cli("inbox", "--store", asked, "--tenant", "red").out
    done = cli("inbox", "approve", "t1", "--by", "bob", "--store", asked, "--tenant", "red")
    assert done.code == 2
    assert "no ticket 't1' here" in done.err


def test_mistakes(cli: Cli, asked: Path, tmp_path: Path) -> None:
    for arguments, wanted in (
        (("approve", "t1", "--store", asked), "--by"),
        (("approve", "--by", "bob", "--store", asked), "TICKET"),
        (("approve", "t1", "--by", "bob"), "no store"),
        (("approve", "t1", "--by", "bob", "--store", tmp_path / "no.db"), "does not exist"),
        (("approve", "t1", "--by", "", "--store", asked), "invalid by"),
        (("perhaps", "t1"), "perhaps"),
    ):
        done = cli("inbox", *arguments)
        assert (done.code, done.out) == (2, "")
        assert wanted in done.err
        assert len(done.err.splitlines()) == 1


def test_a_ticket_that_is_decided(cli: Cli, asked: Path) -> None:
    cli("inbox", "approve", "t1", "--by", "bob", "--store", asked)
    done = cli("inbox", "reject", "t1", "--by", "eve", "--store", asked)
    assert done.code == 2
    assert "t1 is resolved" in done.err
    assert "`ledgerstone inbox` lists" in done.err


@pytest.mark.parametrize("word", ["approve", "reject"])
def test_both_words_explain_themselves(cli: Cli, word: str) -> None:
    done = cli("inbox", word, "--help")
    assert done.code == 0
    assert f"Example: ledgerstone inbox {word}" in done.out
