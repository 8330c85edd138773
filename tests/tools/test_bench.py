"""The machinery of the bench: that it measures what it says, and says what it measured.

No test here looks at a duration. The run is a tiny one, of floors and Ledgerstone only.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from bench import chart, entries, many, publish, table, wire
from bench.__main__ import NAMES, main, parse
from bench.contender import Entry
from bench.floors import Floor
from bench.machine import describe
from bench.measure import Bar, Row, Series, over, ratios, row
from bench.peers import PEERS
from bench.postgres.peers import PEERS as ON_POSTGRES
from bench.postgres.peers import QUEUES
from bench.remote import ContenderFailed, Remote
from bench.report import Report
from bench.rounds import Rounds
from bench.sizes import TINY
from bench.stand import READ, Stand
from bench.work import Message, Turn, Work
from bench.workloads import resume
from bench.workloads.processes import judge_p99
from ledgerstone import Store

SVG = "{http://www.w3.org/2000/svg}"


# --- bars and rows, of made-up numbers


@pytest.mark.parametrize(
    ("bar", "ratio", "quiet", "verdict"),
    [
        (Bar("at most", 1.3), 1.3, 1.2, "ok"),
        (Bar("at most", 1.3), 1.31, 1.4, "missed"),
        (Bar("at most", 1.3), 1.2, 1.4, "unclear"),
        (Bar("at most", 1.3), 1.4, 1.2, "unclear"),
        (Bar("at least", 0.6), 0.6, 0.7, "ok"),
        (Bar("at least", 0.6), 0.5, 0.59, "missed"),
        (Bar("at least", 0.6), 0.7, 0.5, "unclear"),
    ],
)
def test_a_bar_needs_both_ratios(bar: Bar, ratio: float, quiet: float, verdict: str) -> None:
    assert bar.judge(ratio, quiet) == verdict


def series(*rounds: Sequence[float]) -> Series:
    made = Series()
    for one in rounds:
        made.add(one)
    return made


def test_a_row_is_the_median_of_the_rounds_own_ratios() -> None:
    floor = series([1.0, 1.0], [10.0, 10.0], [1.0, 1.0])
    mine = series([2.0, 2.0], [20.0, 20.0], [3.0, 3.0])
    line = row("W1", "case", "ours", "ms", mine, floor=("floor", floor), bar=Bar("at most", 2))
    assert (line.ratio, line.quiet, line.verdict) == (2.0, 2.0, "ok")
    assert (line.median, line.samples, line.bar) == (3.0, 6, "at most 2x")


def test_a_rate_is_quiet_at_its_highest() -> None:
    floor, mine = series([100.0], [90.0], [10.0]), series([50.0], [45.0], [5.0])
    line = row("W3", "case", "ours", "turns/s", mine, floor=("floor", floor))
    assert (line.ratio, line.quiet, line.verdict) == (0.5, 0.5, None)


def test_the_floor_has_no_ratio_and_its_twin_is_noise() -> None:
    floor, twin = series([1.0]), series([1.1])
    assert row("W1", "case", "floor", "ms", floor, floor=("floor", floor)).ratio is None
    again = row("W1", "case", "again", "ms", twin, floor=("floor", floor), noise=True)
    assert again.verdict == "noise"


def test_only_common_rounds_are_compared() -> None:
    late = Series()
    late.add([6.0], 2)
    floor = series([1.0], [2.0], [3.0])
    assert ratios(late, floor) == [2.0]
    assert over(late, floor).rounds == {2: [2.0]}


@pytest.mark.parametrize(
    ("p99_ms", "floor_ms", "errors", "verdict"),
    [
        (25.0, 7.0, 0, "ok"),
        (26.0, 7.0, 0, "missed"),
        (26.0, 19.0, 0, "unclear"),
        (1.0, 1.0, 1, "missed"),
    ],
)
def test_errors_and_slow_answers(p99_ms: float, floor_ms: float, errors: int, verdict: str) -> None:
    assert judge_p99(p99_ms, floor_ms, errors) == verdict


def test_a_slow_contender_sits_out_but_not_at_once() -> None:
    rounds = Rounds(0.0, least=2, peer_least=2, allowance_s=1.0)
    rounds.spend("slow", 5.0)
    assert not rounds.sits_out("slow")
    rounds.spend("slow", 5.0)
    assert rounds.sits_out("slow")
    assert not rounds.sits_out("other")
    assert list(rounds) == [0, 1]


# --- the run


@pytest.mark.slow
def test_a_tiny_run_of_everything(
    tmp_path: Path, seed: int, capsys: pytest.CaptureFixture[str]
) -> None:
    """Everything but the peers and the adapters, as JSON, written into a page."""
    page = tmp_path / "page.md"
    marks = [
        f"{publish.BEGIN}\nold\n{publish.END}",
        f"{publish.POSTGRES_BEGIN}\nold\n{publish.POSTGRES_END}",
    ]
    page.write_text("\n".join(["before", *marks, "after\n"]), encoding="utf-8")
    options = ["--tiny", "--no-peers", "--json", "--seed", str(seed), "--dir", str(tmp_path)]
    options += ["--only", "sqlite,postgres"]
    assert main([*options, "--write", str(page)]) == 0
    report = msgspec.json.decode(capsys.readouterr().out, type=Report)
    assert (report.seed, report.kind, report.failures) == (seed, "tiny", [])
    check_rows(report)
    check_noise(report)
    check_page(report, page)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "page-postgres.svg",
        "page.md",
        "page.svg",
    ]


def check_rows(report: Report) -> None:
    names = {name for name in NAMES if not name.startswith("A")}
    assert {line.workload for line in report.rows} == names == set(report.took_s)
    judged = {line.workload for line in report.rows if line.bar is not None}
    assert judged == names
    for line in report.rows:
        assert line.samples > 0, line
        assert line.median > 0, line
        assert (line.ratio is None) == (line.floor is None), line
        assert (line.bar is None) or line.verdict in ("ok", "missed", "unclear"), line


def check_noise(report: Report) -> None:
    assert report.noise is not None
    assert any("(A/A)" in remark for remark in report.remarks())
    twins = {line.workload for line in report.rows if line.verdict == "noise"}
    assert twins == {"W1", "W2", "W3", "W4", "W11", "P1", "P2", "P3", "P4", "P5", "P11"}


def check_page(report: Report, page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old" not in text
    for half in (report.on_sqlite(), report.on_postgres()):
        lines = table.markdown(half.rows).splitlines()
        assert "\n".join(lines) in text
        assert len(lines) == len(half.rows) + 2
        assert len({line.count("|") for line in lines}) == 1
    for picture in (page.with_suffix(".svg"), page.with_name("page-postgres.svg")):
        assert ElementTree.parse(picture).getroot().tag == f"{SVG}svg"


# --- the line of sessions that have work


def test_a_line_is_served_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "line.db"
    many.build_line(path, 7)
    with Store.open(str(path)) as store:
        served = []
        while (taken := store.work.take()) is not None:
            served.append(taken.lease.session)
        assert store.work.take(queue=many.LATER) is None
    assert served[0] == many.first_in_line(7)
    assert served[1:] != sorted(served[1:]), "in an order of its own"
    assert sorted(served) == [*(f"many-{n:08d}" for n in range(1, 8)), many.TEMPLATE]


def test_what_was_served_has_work_again(tmp_path: Path) -> None:
    path = tmp_path / "line.db"
    many.build_line(path, 3)
    remote = Remote(entries.OURS, path, 7)
    try:
        remote.hear()
        assert len(remote.ask(wire.Timed("serve", [], 6, "requeue")).samples_ms) == 6
    finally:
        remote.leave()
    with Store.open(str(path)) as store:
        heads = [store.sessions.head(f"many-{n:08d}") for n in (1, 2, 3)]
        assert all(head is not None and head.revision for head in heads), "each had its turn"
        assert all(len(store.work.list(f"many-{n:08d}")) == 2 for n in (1, 2, 3))


# --- the chart and the page


def made_up(directory: Path) -> Report:
    def line(workload: str, contender: str, unit: str, ratio: float) -> Row:
        return Row(
            workload=workload,
            case="a <case> & more",
            contender=contender,
            unit=unit,
            median=ratio,
            p10=ratio,
            p90=ratio,
            samples=3,
            floor="floor",
            ratio=ratio,
        )

    return Report(
        seed=1,
        kind="tiny",
        payload_bytes=1.0,
        machine=describe(directory),
        rows=[
            line("W1", "ours, blocking", "ms", 2.0),
            line("W1", "agno SqliteDb", "ms", 10.0),
            line("W3", "ours, async", "turns/s", 0.25),
        ],
    )


def test_the_chart_is_a_document_that_speaks(tmp_path: Path) -> None:
    root = ElementTree.fromstring(chart.draw(made_up(tmp_path)))
    assert root.findtext(f"{SVG}title") == chart.TITLE
    words = root.findtext(f"{SVG}desc") or ""
    assert "ours, blocking 2.00" in words
    assert "ours, async 4.00" in words, "a rate of a quarter costs four times as much"
    told = [title.text for title in root.iter(f"{SVG}title")][1:]
    assert len(told) == 3


def test_an_error_message_does_not_break_the_table(tmp_path: Path) -> None:
    bad = msgspec.structs.replace(made_up(tmp_path).rows[0], note="no such table\n[SQL: a | b]")
    lines = table.markdown([bad]).splitlines()
    assert len(lines) == 3
    assert lines[2].count("|") == lines[0].count("|")


def test_the_chart_puts_costs_in_order(tmp_path: Path) -> None:
    axis = chart.Axis(chart.charted(made_up(tmp_path).rows))
    places = [axis.x(cost) for cost in (1.0, 2.0, 4.0, 10.0)]
    assert places == sorted(places)
    assert chart.LEFT < places[0] < places[-1] < chart.WIDTH


def test_every_peer_has_a_colour() -> None:
    assert {entry.title for entry in (*PEERS, *ON_POSTGRES, *QUEUES)} < set(chart.STYLES)


def test_a_half_leaves_the_other_alone(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    marks = f"{publish.BEGIN}\nold\n{publish.END}\n"
    page.write_text(f"{marks}{publish.POSTGRES_BEGIN}\nkept\n{publish.POSTGRES_END}\n")
    publish.write(made_up(tmp_path), page)
    text = page.read_text(encoding="utf-8")
    assert "old" not in text
    assert f"{publish.POSTGRES_BEGIN}\nkept\n{publish.POSTGRES_END}" in text
    assert not (tmp_path / "page-postgres.svg").exists()


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match=publish.BEGIN):
        publish.between("no marks", "new")


# --- what is asked wrongly


def test_an_unknown_workload_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        parse(["--only", "W1,W99"])
    assert stop.value.code == 2
    said = capsys.readouterr().err
    assert "'W99' is none of W1, W2" in said


def test_only_keeps_the_order_of_the_workloads() -> None:
    assert parse(["--only", "rss, w2"]).only == ["W2", "RSS"]


def test_a_half_can_be_asked_for() -> None:
    chosen = parse(["--only", "postgres,w3"]).only
    assert chosen == ["W3", *(name for name in NAMES if name.startswith("P"))]


# --- controls: contenders that cheat or break are found out


class Forgetful(Floor):
    """Loads all messages but one, and would win."""

    def load(self, number: int) -> list[Message]:
        return super().load(number)[1:]

    def commit(self, number: int, turn: Turn) -> None:
        raise RuntimeError("the disk is full")


FORGETFUL = Entry(key="forgetful", title="forgetful", kind="peer", opener=f"{__name__}:Forgetful")


def test_a_contender_that_leaves_something_out_is_dropped(tmp_path: Path) -> None:
    stand = Stand(tmp_path, 7, TINY, with_peers=False)
    try:
        stand.remotes[FORGETFUL.key] = stand.start(FORGETFUL, "forgetful")
        stand.remotes[FORGETFUL.key].ask(wire.Fill([(READ, 5)]))
        rounds = Rounds(0.0)
        ask = wire.Timed("load", [READ], 1)
        assert resume.read(stand, rounds, FORGETFUL, "all", ask, 20) == []
        assert FORGETFUL.key not in stand.remotes
        assert stand.notes == ["forgetful left out: forgetful loaded 19, not 20"]
    finally:
        stand.close()


def test_errors_under_load_are_counted(tmp_path: Path) -> None:
    remote = Remote(FORGETFUL, tmp_path / "forgetful.db", 7)
    try:
        remote.hear()
        remote.ask(wire.Create([1, 2]))
        answer = remote.ask(wire.Together([1, 2], 3))
        assert (answer.count, answer.errors) == (0, ["RuntimeError: the disk is full"] * 6)
        with pytest.raises(ContenderFailed, match="forgetful: RuntimeError: the disk is full"):
            remote.ask(wire.Commits([1]))
    finally:
        remote.leave()


def test_a_floor_that_fails_ends_the_bench(tmp_path: Path) -> None:
    stand = Stand(tmp_path, 7, TINY, with_peers=False)
    with pytest.raises(ContenderFailed, match="gone"):
        stand.drop(entries.FLOOR, ContenderFailed("gone"))


def test_a_contender_that_cannot_start_says_why(tmp_path: Path) -> None:
    broken = Entry(key="broken", title="broken", kind="peer", opener="bench.nowhere:open")
    stand = Stand(tmp_path, 7, TINY, with_peers=False)
    with pytest.raises(ContenderFailed, match="broken: ModuleNotFoundError"):
        stand.start(broken, "broken")


def test_the_same_seed_makes_the_same_turns() -> None:
    assert Work(3).turns == Work(3).turns
    assert Work(3).turns != Work(4).turns
