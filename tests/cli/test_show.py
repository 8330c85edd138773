"""`ledgerstone show`: what a session keeps besides its messages, and what it cost."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone import Cost, Store
from ledgerstone.cli.show import money
from tests.cli.conftest import ESCAPE, Cli

PRICES = {"m-1": {"input": 1_000_000_000, "output": 4_000_000_000}}


@pytest.fixture(params=["sqlite", "file"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Session "trip" with usage, two artifacts, two tool calls and two attachments."""
    url = str(tmp_path / "agent.db") if request.param == "sqlite" else f"file://{tmp_path}/agent"
    with Store.open(url, prices=PRICES) as store:
        fill(store)
        store.sessions.create(id="bare")
    return url


def fill(store: Store) -> None:
    store.sessions.create(id="trip")
    used = store.attachments.put("trip", b"photo")
    store.attachments.intent("trip", "later", f"https://example.org/{ESCAPE}")
    plan = store.blobs.put(b"Oslo" * 500, media_type="text/markdown")
    with store.turns.begin("trip") as turn:
        turn.user("Plan it")
        turn.attach(used)
        turn.artifact("plan.md", plan, media_type="text/markdown", tool="editor")
        turn.use("m-1", {"input": 8_000, "output": 500})
        turn.use("m-unknown", {"input": 1, "output": 1})
    store.artifacts.put("plan.md", b"Bergen", session="trip")
    paid = store.executions.start("trip", call_id="c1", tool="pay")
    store.executions.finish(paid.id, result={"receipt": 7}, duration_ms=30)
    lost = store.executions.start("trip", call_id="c2", tool="mail")
    store.executions.finish(lost.id, error="no route", duration_ms=10)


class TestShowKept:
    def test_numbers_in_one_line(self, cli: Cli, place: str) -> None:
        done = cli("show", "trip", "--store", place)
        assert (done.code, done.err) == (0, "")
        said = "2 model calls, 8502 tokens, 0.01 USD + 1 call without a price; "
        tools = "2 tool calls (1 succeeded, 1 failed, 20 ms on average)"
        assert f"calls     {said}{tools}" in done.out

    def test_a_table_for_each(self, cli: Cli, place: str) -> None:
        lines = [
            line.split() for line in cli("show", "trip", "--store", place).out.splitlines() if line
        ]
        assert ["m-1", "1", "8000", "0", "500", "0.01", "USD"] in lines
        assert ["m-unknown", "1", "1", "0", "1", "1", "call", "without", "a", "price"] in lines
        assert ["plan.md", "1", "2.0", "kB", "text/markdown", "editor"] in [
            line[:6] for line in lines
        ]
        assert ["plan.md", "2", "6", "B"] in [line[:4] for line in lines]
        assert ["c1", "pay", "succeeded", "1", "30", "ms"] in [line[:6] for line in lines]
        assert ["c2", "mail", "failed", "1", "10", "ms"] in [line[:6] for line in lines]
        states = {line[1]: line[2] for line in lines if len(line) == 5 and line[2] in STATES}
        assert states["blob"] == "used"
        assert states["https://example.org/\\x1b[31mred\\x1b[0m"] == "intent"

    def test_a_bare_session_is_short(self, cli: Cli, place: str) -> None:
        done = cli("show", "bare", "--store", place)
        assert "calls     0 model calls; 0 tool calls" in done.out
        for word in ("MODEL", "ARTIFACT", "TOOL CALL", "ATTACHMENT"):
            assert word not in done.out

    def test_as_json_there_is_everything(self, cli: Cli, place: str) -> None:
        found = cli("show", "trip", "--store", place, "--json").json
        assert found["stats"]["costs"] == [{"nano": 10_000_000, "currency": "USD"}]
        assert (found["stats"]["unpriced"], found["stats"]["tool_calls_failed"]) == (1, 1)
        assert [one["by"]["model"] for one in found["usage"]] == ["m-1", "m-unknown"]
        assert [one["version"] for one in found["artifacts"]] == [1, 2]
        assert [one["tool"] for one in found["executions"]] == ["pay", "mail"]
        assert found["executions"][0]["result"] == {"receipt": 7}
        assert {one["committed_us"] is None for one in found["attachments"]} == {True, False}
        assert [one["body"]["role"] for one in found["messages"]] == ["user"]

    def test_of_many_the_newest(self, cli: Cli, tmp_path: Path) -> None:
        with Store.open(tmp_path / "s.db") as store:
            store.sessions.create(id="trip")
            for n in range(25):
                store.executions.start("trip", call_id=f"call-{n}", tool="look")
        done = cli("show", "trip", "--store", tmp_path / "s.db")
        assert "... 5 more; --json has all of them" in done.out
        assert "call-24" in done.out
        assert "call-4 " not in done.out


STATES = ("used", "intent")


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0.00 USD"),
        (1, "0.000000001 USD"),
        (10_000_000, "0.01 USD"),
        (1_500_000_000, "1.50 USD"),
        (12_345_678_900, "12.3456789 USD"),
        (-1_500_000_000, "-1.50 USD"),
    ],
)
def test_money(nano: int, text: str) -> None:
    assert money([Cost(nano)]) == text


def test_money_of_several_currencies() -> None:
    assert (
        money([Cost(10**9, "EUR"), Cost(10**9)], 2)
        == "1.00 EUR + 1.00 USD + 2 calls without a price"
    )
    assert money([]) == "nothing"
