"""The scoreboard: what counts as good, and what is written down."""

from __future__ import annotations

import msgspec
import pytest

from ledgerstone.testing.scoreboard import BEGIN, END, Score, table, tally, with_table

PLUGIN = ("-p", "ledgerstone.testing.scoreboard", "-p", "no:xdist", "-p", "no:randomly")
LINE = """
    def test_it(scoreboard, scale):
        with scoreboard.line("a fault", "sqlite", 7{control}) as line:
            line.n = {n}
            line.violations += {found}
"""


def run(
    pytester: pytest.Pytester, *options: str, control: str = "", n: str = "3", found: str = "[]"
) -> pytest.RunResult:
    pytester.makepyfile(LINE.format(control=control, n=n, found=found))
    return pytester.runpytest_inprocess(*PLUGIN, *options)


def test_a_line_without_violations_is_good(pytester: pytest.Pytester) -> None:
    run(pytester).assert_outcomes(passed=1)


def test_a_violation_fails_its_test_and_is_shown(pytester: pytest.Pytester) -> None:
    result = run(pytester, found="['turn 5 is lost']")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*a fault on sqlite, seed 7:*", "*turn 5 is lost*"])


def test_a_control_must_find_something(pytester: pytest.Pytester) -> None:
    run(pytester, control=", control=True", found="['x']").assert_outcomes(passed=1)
    result = run(pytester, control=", control=True")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*the sabotage was not noticed*"])


def test_a_line_that_tried_nothing_proves_nothing(pytester: pytest.Pytester) -> None:
    result = run(pytester, n="0")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*tried nothing*"])


def test_scale_picks_the_size(pytester: pytest.Pytester) -> None:
    run(pytester, "--scores=s.jsonl", n="scale(2, 9)").assert_outcomes(passed=1)
    assert read(pytester)[0].n == 2
    run(pytester, "--scores=s.jsonl", "--scale=full", n="scale(2, 9)").assert_outcomes(passed=1)
    assert read(pytester)[0].n == 9


def read(pytester: pytest.Pytester) -> list[Score]:
    lines = (pytester.path / "s.jsonl").read_bytes().splitlines()
    return [msgspec.json.decode(line, type=Score) for line in lines]


def test_the_table_goes_between_its_marks(pytester: pytest.Pytester) -> None:
    page = pytester.path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    result = run(pytester, "--scores-table=page.md")
    result.assert_outcomes(passed=1)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n| test |")
    assert text.endswith(f"{END}\nafter\n")
    assert "| a fault | sqlite | 3 | 0 | 0.0 | 7 |" in text
    assert "old" not in text
    result.stdout.fnmatch_lines(["1 lines, 0 violations; 0 of 0 controls caught"])


def test_a_page_without_marks_is_told() -> None:
    with pytest.raises(ValueError, match="needs <!-- scores -->"):
        with_table("nothing here", "table")


def test_what_a_control_found_is_good_news() -> None:
    caught = Score("lie", "file", 4, 2, 0.5, None, control=True)
    missed = Score("lie", "file", 4, 0, 0.5, None, control=True)
    broken = Score("fault", "file", 1000, 3, 1.25, 1, note="2 lost")
    assert "| control: lie | file | 4 | caught | 0.5 |  |" in table([caught])
    assert "NOT CAUGHT" in table([missed])
    assert "| fault (2 lost) | file | 1,000 | 3 | 1.2 | 1 |" in table([broken])
    assert tally([caught, missed, broken]) == "1 lines, 3 violations; 1 of 2 controls caught"
