"""The bench of the adapters: what it subtracts, compares and throws out, and a tiny run of it."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench import publish, table
from bench.__main__ import main, parse
from bench.adapters import entries
from bench.adapters.field import LEAST_MS, check, commits, excess, excess_row
from bench.adapters.stand import AdapterStand
from bench.adapters.users import EACH, user_of
from bench.adapters.workloads import WORKLOADS
from bench.adapters.workloads.disk import disk_rows, stops
from bench.contender import Entry
from bench.floors import Floor
from bench.measure import Bar, Row, Series
from bench.remote import ContenderFailed
from bench.report import Report
from bench.sizes import FULL, TINY
from bench.stand import READ

BAR = Bar("at most", 0.2)
NOTE = "500,000 B of it when it was empty"
STOCK, OURS = entries.SAVER, entries.LEDGER_SAVERS[False, False]


def series(*rounds: list[float]) -> Series:
    made = Series()
    for one in rounds:
        made.add(one)
    return made


# --- what is left of a loop, of made-up numbers


def test_the_loop_is_taken_away_round_by_round() -> None:
    left = excess(series([7.0, 9.0], [17.0]), series([5.0], [15.0]))
    assert left.rounds == {0: [2.0, 4.0], 1: [2.0]}


def test_a_round_without_the_loop_does_not_count() -> None:
    late = Series()
    late.add([9.0], 3)
    assert excess(late, series([5.0])).rounds == {}


def test_noise_leaves_something() -> None:
    assert excess(series([4.0]), series([5.0])).samples == [LEAST_MS]


@pytest.mark.parametrize(
    ("mine", "verdict", "note"),
    [(7.0, "ok", "5.0 times as fast"), (8.0, "missed", "3.3 times as fast"), (25.0, "missed", "")],
)
def test_what_is_left_is_compared(mine: float, verdict: str, note: str) -> None:
    peer, least = series([15.0], [15.0]), series([5.0], [5.0])
    line = excess_row(
        "A1", "case", OURS, series([mine], [mine]), least, peer=(STOCK, peer), bar=BAR
    )
    assert line.ratio == line.quiet == pytest.approx((mine - 5) / 10)
    assert (line.verdict, line.note, line.floor) == (verdict, note, STOCK.title)
    assert line.median == mine - 5


def test_without_a_peer_there_is_nothing_to_judge() -> None:
    line = excess_row("A1", "case", OURS, series([7.0]), series([5.0]), bar=BAR)
    assert (line.median, line.ratio, line.bar, line.verdict) == (2.0, None, None, None)


def test_growth_is_what_the_turns_in_between_added() -> None:
    at = stops(200)
    assert at == [0, 25, 50, 75, 100, 125, 150, 175, 200]
    sizes = {turns: 500_000 + 1000 * turns for turns in at} | {200: 725_000}
    whole, added, early, late = disk_rows("SQLite", entries.CHATS[1], sizes)
    assert (whole.ratio, whole.verdict, whole.note) == (1.8125, "ok", NOTE)
    assert (added.median, added.verdict) == (225_000, "ok")
    assert (early.median, late.median, late.ratio, late.verdict) == (1000, 2000, 2.0, "missed")


# --- the sessions


def test_everybody_gets_the_same_sessions_in_a_round(tmp_path: Path) -> None:
    stand = AdapterStand(tmp_path, 7, FULL, with_peers=False)
    asked = [commits(stand, STOCK, number).numbers for number in range(4)]
    assert asked == [commits(stand, OURS, number).numbers for number in range(4)]
    assert sorted(one for numbers in asked for one in numbers) == list(range(1, 17))
    assert commits(stand, OURS, 4).numbers == asked[0]
    assert (READ, FULL.shallow_depth) in stand.histories(OURS)


def test_a_user_has_as_many_sessions_however_many_there_are() -> None:
    for count in (100, 1000):
        users = [user_of(number) for number in range(count)]
        assert users.count("ada") == EACH
        assert len(set(users)) == count // EACH


class Forgetful(Floor):
    """Loads all messages but one, and would win."""

    def load(self, number: int) -> list[object]:  # type: ignore[override]
        return list(super().load(number)[1:])


def test_a_contender_that_leaves_something_out_is_dropped(tmp_path: Path) -> None:
    entry = Entry(key="forgetful", title="forgetful", kind="peer", opener=f"{__name__}:Forgetful")
    stand = AdapterStand(tmp_path, 7, TINY, with_peers=True)
    try:
        assert stand.filled([entry]) == [entry]
        answer = stand.remotes[entry.key].ask(commits(stand, entry, 0))
        check(stand, [entry], {("turn", entry.key): Series(answer.samples_ms)}, "turn")
        assert entry.key not in stand.remotes
        assert stand.notes == ["forgetful left out: forgetful loaded 67, not 68"]
    finally:
        stand.close()


def test_ours_that_fails_ends_the_workload(tmp_path: Path) -> None:
    stand = AdapterStand(tmp_path, 7, TINY, with_peers=True)
    with pytest.raises(ContenderFailed, match="gone"):
        stand.drop(OURS, ContenderFailed("gone"))


def test_without_peers_only_ours_and_the_loops_are_there(tmp_path: Path) -> None:
    stand = AdapterStand(tmp_path, 7, TINY, with_peers=False)
    there = stand.there([entries.OBJECTS, STOCK, OURS])
    assert there == [entries.OBJECTS, OURS]


def test_every_contender_is_somebody_else() -> None:
    found = [one for one in vars(entries).values() if isinstance(one, Entry)]
    found += [*entries.LEDGER_SAVERS.values(), *entries.PG_LEDGER_SAVERS.values()]
    found += [*entries.CHATS, *entries.PG_CHATS]
    assert len({one.key for one in found}) == len(found)
    assert all(one.note for one in found if one.kind == "peer")


# --- the run


def test_the_adapters_can_be_asked_for() -> None:
    assert parse(["--only", "adapters"]).only == list(WORKLOADS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "only", ["A2,A5", pytest.param("adapters", marks=pytest.mark.nightly)], ids=["two", "all"]
)
def test_a_tiny_run_of_the_adapters(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str], only: str
) -> None:
    """Ours and the frameworks' loops, without the frameworks' own persistence."""
    names = set(parse(["--only", only]).only)
    page = tmp_path / "page.md"
    kept = f"{publish.BEGIN}\nkept\n{publish.END}"
    marks = f"{publish.ADAPTERS_BEGIN}\nreplaced\n{publish.ADAPTERS_END}"
    page.write_text(f"{kept}\n{marks}\nafter\n", encoding="utf-8")
    options = ["--tiny", "--no-peers", "--json", "--seed", str(seed), "--dir", str(tmp_path)]
    assert main([*options, "--only", only, "--write", str(page)]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=Report)
    assert report.failures == []
    assert {line.workload for line in report.rows} == names == set(report.took_s)
    assert {line.workload for line in report.rows if line.bar} == {"A2", "A4"} & names
    noise = {line.workload for line in report.rows if line.verdict == "noise"}
    assert noise == {"A1", "A3", "A4", "A5"} & names
    check_backends(report.rows, names)
    text = page.read_text(encoding="utf-8")
    assert kept in text
    assert table.markdown(report.of_adapters().rows) in text
    assert "replaced" not in text
    assert [path.name for path in tmp_path.iterdir()] == ["page.md"], "no chart, nothing left"


def check_backends(rows: list[Row], names: set[str]) -> None:
    """Every workload was done on both, and nothing took no time."""
    for backend in ("SQLite", "PostgreSQL"):
        assert {line.workload for line in rows if backend in line.case} == names
    assert all(line.median > 0 and line.samples > 0 for line in rows)
