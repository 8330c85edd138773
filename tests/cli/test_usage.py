"""`ledgerstone usage`."""

from __future__ import annotations

from pathlib import Path

import pytest

from ledgerstone import Cost, ManualClock, Store, Usage
from ledgerstone.cli.usage import bar, money
from tests.cli.conftest import Cli

DAY_S = 86_400
START_US = 1_763_251_200_000_000  # 2025-11-16


@pytest.fixture
def used(tmp_path: Path) -> Path:
    """Two days; ada's session used two models, and a child of it one of them."""
    path, clock = tmp_path / "agent.db", ManualClock(START_US)
    with Store.open(path, clock=clock, prices={"big": {"input": "3", "output": "15"}}) as store:
        store.sessions.create(id="trip", user="ada")
        store.sessions.create(id="kid", user="bob", parent="trip")
        store.usage.record("trip", "big", Usage(1_000_000, 100_000))
        clock.advance(DAY_S)
        store.usage.record("trip", "own", Usage(500, 10))
        store.usage.record("kid", "big", Usage(100_000, 0))
        store.usage.budget(session="trip", cost=Cost(9_000_000_000), id="cap")
        store.usage.budget(user="bob", tokens=1000, period="day", id="daily")
    return path


def test_a_line_for_each_model_and_their_sum(cli: Cli, used: Path) -> None:
    done = cli("usage", "--store", used)
    assert done.code == 0
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["MODEL", "CALLS", "INPUT", "OUTPUT", "TOKENS", "COST", "UNPRICED"]
    assert lines[1] == ["big", "2", "1,100,000", "100,000", "1,200,000", "4.80", "USD"]
    assert lines[2] == ["own", "1", "500", "10", "510", "-", "1"]
    assert lines[3][:6] == ["all", "3", "1,100,500", "100,010", "1,200,510", "4.80"]


def test_bars_show_money_only_when_all_of_it_is_known(cli: Cli, used: Path) -> None:
    done = cli("usage", "--store", used)
    assert "tokens\nbig  ██████████████████████████████ 1,200,000\nown  ▏ 510\n" in done.out
    done = cli("usage", "--store", used, "--by", "day,session", "--session", "trip")
    assert "tokens" in done.out
    done = cli("usage", "--store", used, "--by", "day", "--until", "2025-11-17")
    assert "█" not in done.out.partition("\nBUDGET")[0]


def test_groups_ranges_users_and_children(cli: Cli, used: Path) -> None:
    def shown(*arguments: str) -> list[dict[str, str]]:
        done = cli("usage", "--store", used, "--json", *arguments)
        return [one["by"] for one in done.json["usage"]]

    assert shown("--by", "day,model") == [
        {"day": "2025-11-16", "model": "big"},
        {"day": "2025-11-17", "model": "big"},
        {"day": "2025-11-17", "model": "own"},
    ]
    assert shown("--by", "session", "--user", "bob") == [{"session": "kid"}]
    assert shown("--by", "session", "--session", "trip") == [{"session": "trip"}]
    assert len(shown("--by", "session", "--session", "trip", "--children")) == 2
    assert shown("--since", "2025-11-17", "--user", "ada") == [{"model": "own"}]
    assert shown("--until", "2025-11-16T00:00:00+00:00") == []


def test_budgets_stand_below(cli: Cli, used: Path) -> None:
    done = cli("usage", "--store", used)
    _, _, below = done.out.partition("\nBUDGET")
    cap, daily = below.splitlines()[1:]
    assert cap.split()[:5] == ["cap", "session", "trip", "total", "refuse_next"]
    assert cap.split()[5:11] == ["9.00", "USD", "4.50", "USD", "4.50", "USD"]
    assert "50%" in cap
    assert daily.split()[:4] == ["daily", "user", "bob", "day"]
    only = cli("usage", "--store", used, "--session", "trip", "--json").json["budgets"]
    assert [one["budget"]["id"] for one in only] == ["cap"]
    assert only[0]["spent_nano"] == 4_500_000_000


def test_a_store_without_usage(cli: Cli, store: Path) -> None:
    assert cli("usage", "--store", store).out == "nothing was used\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--by", "colour"], "by"),
        (["--since", "yesterday"], "--since"),
        (["--session", "nowhere"], "no session 'nowhere' here"),
        (["--children"], "--session"),
    ],
)
def test_what_can_not_be_shown(cli: Cli, used: Path, arguments: list[str], said: str) -> None:
    done = cli("usage", *arguments, "--store", used)
    assert (done.code, done.out) == (2, "")
    assert said in done.err


def test_amounts_of_every_size() -> None:
    assert money(Cost(1_500_000_000)) == "1.50 USD"
    assert money(Cost(-25, "EUR")) == "-0.000000025 EUR"
    assert money(Cost(1_234_567_890_000)) == "1,234.5679 USD"
    assert (bar(0, 10, 8), bar(1, 10**9, 8), bar(10, 10, 8)) == ("", "▏", "████████")
