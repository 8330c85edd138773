"""A pytest plugin that keeps the score of the fault tests and writes it down as a table.

A test asks for `scoreboard` and says what it did, on which backend, how often and with what seed:

    def test_kills(scoreboard, scale, seed):
        with scoreboard.line("kill -9 at random moments", "sqlite", seed) as line:
            line.n = scale(100, 2_000)
            line.violations += [str(one) for one in found]

The line fails its test when it names a violation. A negative control is a line of its own and the
other way round: `control=True` fails unless something *was* found. `scale` picks the first number
for `make test` and the second for `make faults`.

    --scale small|full        how much of each harness to run
    --scores FILE             write one JSON line per score
    --scores-table FILE       write the table between the two marks of a Markdown file
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from ledgerstone.clock import monotonic_s

PROPERTY = "ledgerstone.score"
BEGIN, END = "<!-- scores -->", "<!-- /scores -->"
HEADER = "| test | backend | n | violations | seconds | seed |\n|---|---|---|---|---|---|"
SHOWN_MAX = 20

Scale = Callable[[int, int], int]


class Score(msgspec.Struct, frozen=True):
    """One line of the table. A control counts what it found in `violations` and must find some."""

    test: str
    backend: str
    n: int
    violations: int
    seconds: float
    seed: int | None
    control: bool = False
    note: str = ""

    @property
    def good(self) -> bool:
        return self.violations > 0 if self.control else self.violations == 0


class Line:
    """What a test fills in while it runs."""

    def __init__(self) -> None:
        self.n = 0
        self.violations: list[str] = []
        self.note = ""


class Scoreboard:
    """Where one test puts its lines."""

    def __init__(self, item: pytest.Item) -> None:
        self._item = item

    @contextmanager
    def line(
        self, test: str, backend: str, seed: int | None = None, *, control: bool = False
    ) -> Iterator[Line]:
        """Time the block, write its line down, and fail the test when the line is not good."""
        print(f"{test}, {backend}, seed {seed}")
        line, start_s = Line(), monotonic_s()
        yield line
        score = Score(
            test=test,
            backend=backend,
            n=line.n,
            violations=len(line.violations),
            seconds=round(monotonic_s() - start_s, 2),
            seed=seed,
            control=control,
            note=line.note,
        )
        self._item.user_properties.append((PROPERTY, msgspec.to_builtins(score)))
        print(f"{line.n} tried, {score.violations} violations, {score.seconds} s. {line.note}")
        if line.n == 0:
            pytest.fail(f"{test} on {backend} tried nothing", pytrace=False)
        if not score.good and control:
            pytest.fail(f"{test} on {backend}: the sabotage was not noticed", pytrace=False)
        if not score.good:
            shown = "\n".join(line.violations[:SHOWN_MAX])
            pytest.fail(f"{test} on {backend}, seed {seed}:\n{shown}", pytrace=False)


class ScoresPlugin:
    """Collects the scores of all workers and writes them down at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.scores: list[Score] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when != "call":
            return
        for key, value in report.user_properties:
            if key == PROPERTY:
                self.scores.append(msgspec.convert(value, Score))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if hasattr(self.config, "workerinput") or not self.scores:
            return
        ordered = sorted(self.scores, key=lambda one: (one.control, one.test, one.backend))
        lines_file = self.config.getoption("--scores")
        table_file = self.config.getoption("--scores-table")
        if lines_file:
            text = b"".join(msgspec.json.encode(one) + b"\n" for one in ordered)
            Path(lines_file).write_bytes(text)
        if table_file:
            path = Path(table_file)
            path.write_text(with_table(path.read_text("utf-8"), table(ordered)), "utf-8")
        if lines_file or table_file:
            terminalreporter.write_line(table(ordered))
            terminalreporter.write_line(tally(ordered))


def table(scores: list[Score]) -> str:
    """The Markdown table; what a control found is good news and says so."""
    rows = [HEADER]
    for one in scores:
        found = f"{one.violations}"
        if one.control:
            found = "caught" if one.good else "NOT CAUGHT"
        name = f"control: {one.test}" if one.control else one.test
        note = f" ({one.note})" if one.note else ""
        seed = "" if one.seed is None else str(one.seed)
        rows.append(
            f"| {name}{note} | {one.backend} | {one.n:,} | {found} | {one.seconds:.1f} | {seed} |"
        )
    return "\n".join(rows)


def tally(scores: list[Score]) -> str:
    """The last line: what anybody wants to know first."""
    tests = [one for one in scores if not one.control]
    controls = [one for one in scores if one.control]
    return (
        f"{len(tests)} lines, {sum(one.violations for one in tests)} violations; "
        f"{sum(one.good for one in controls)} of {len(controls)} controls caught"
    )


def with_table(text: str, made: str) -> str:
    """The page with the new table between its marks; ValueError when it has no marks."""
    pattern = re.compile(f"{re.escape(BEGIN)}.*{re.escape(END)}", re.DOTALL)
    if not pattern.search(text):
        raise ValueError(f"the page needs {BEGIN} and {END} where the table shall stand")
    return pattern.sub(lambda _: f"{BEGIN}\n{made}\n{END}", text)


@pytest.fixture
def scoreboard(request: pytest.FixtureRequest) -> Scoreboard:
    return Scoreboard(request.node)


@pytest.fixture(scope="session")
def scale(pytestconfig: pytest.Config) -> Scale:
    """`scale(small, full)`: the number that fits this run."""
    full = pytestconfig.getoption("--scale") == "full"
    return lambda small, large: large if full else small


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ledgerstone-faults", "fault tests")
    group.addoption("--scale", choices=("small", "full"), default="small")
    group.addoption("--scores", metavar="FILE", default=None, help="write the scores as JSON lines")
    group.addoption("--scores-table", metavar="FILE", default=None, help="write the table in here")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(ScoresPlugin(config), "ledgerstone-scores")
