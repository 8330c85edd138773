"""A pytest plugin that counts which promises of the contract each backend keeps.

A test names what it proves with `@pytest.mark.promise(44, 45)`. Its backend is the `name` of its
`backend` fixture; a test without that fixture proves its promises for every backend alike.

A promise is kept on a backend when at least one of its tests ran there and none failed. A skipped
test proves nothing and breaks nothing. Results travel in the reports' `user_properties`, since
that is what pytest-xdist carries from its workers to the controller.

    --promises                      print the matrix at the very end, one line per backend last
    --promises-require "1-89,101"   fail the run when one of these is missing
    --promises-backends a,b         the backends that must keep them (otherwise those that ran)
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field

import pytest

PROPERTY = "ledgerstone.promises"
ANY_BACKEND = "any"
NOT_YET_FAILED = (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED)

# The areas of the contract, by letter: name, first and last promise.
AREAS: dict[str, tuple[str, int, int]] = {
    "A": ("sessions", 1, 43),
    "B": ("messages", 44, 74),
    "C": ("graph", 75, 89),
    "D": ("runs", 90, 103),
    "E": ("commit", 104, 120),
    "F": ("lease", 121, 130),
    "G": ("queue", 131, 147),
    "H": ("compaction", 148, 153),
    "I": ("executions, usage", 154, 161),
    "J": ("embeddings", 162, 167),
    "K": ("artifacts, blobs", 168, 179),
    "L": ("traces, reports", 180, 183),
    "M": ("health", 184, 188),
    "N": ("security", 189, 194),
    "O": ("errors", 195, 201),
    "P": ("second round", 202, 220),
    "Q": ("files, openings", 221, 230),
}
PROMISES_TOTAL = 230


@dataclass
class Ledger:
    """What the tests of one run showed: promise numbers that passed and failed, by backend."""

    passed: dict[str, set[int]] = field(default_factory=dict)
    failed: dict[str, set[int]] = field(default_factory=dict)

    def record(self, backend: str, numbers: Iterable[int], *, passed: bool) -> None:
        side = self.passed if passed else self.failed
        side.setdefault(backend, set()).update(numbers)

    def backends(self, also: Iterable[str] = ()) -> list[str]:
        """The columns of the matrix: every backend that ran, and those that were asked for."""
        named = (set(self.passed) | set(self.failed) | set(also)) - {ANY_BACKEND}
        return sorted(named) or [ANY_BACKEND]

    def kept(self, backend: str) -> set[int]:
        labels = {backend, ANY_BACKEND}
        passed = set().union(*(self.passed.get(label, ()) for label in labels))
        failed = set().union(*(self.failed.get(label, ()) for label in labels))
        return passed - failed


class PromisesPlugin:
    """Watches one run. On an xdist worker it only labels reports; the controller counts them."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.ledger = Ledger()
        self.required = parse_numbers(str(config.getoption("--promises-require")))
        self.wanted_backends = _split(str(config.getoption("--promises-backends")))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        strangers = stranger_promises(item)
        if strangers:
            pytest.fail(f"the contract has no promise {strangers}", pytrace=False)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        numbers = promise_numbers(item)
        if numbers:
            report.user_properties.append((PROPERTY, [backend_label(item), *numbers]))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped or hasattr(report, "wasxfail"):
            return
        # A passed setup or teardown proves nothing; a failed one breaks the promise all the same.
        if report.passed and report.when != "call":
            return
        for key, value in report.user_properties:
            if key == PROPERTY and isinstance(value, (list, tuple)):
                backend, *numbers = value
                self.ledger.record(str(backend), map(int, numbers), passed=report.passed)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None, None, None]:
        """Print after everybody else: outermost wrapper, so even the summary line stands above."""
        if _is_xdist_worker(self.config):
            return (yield)
        missing = self.missing_required()
        if missing and session.exitstatus in NOT_YET_FAILED:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        result = yield
        reporter = self.config.pluginmanager.get_plugin("terminalreporter")
        if reporter is not None:
            for line in self.closing_lines(missing):
                reporter.write_line(line)
        return result

    def missing_required(self) -> dict[str, list[int]]:
        backends = self.wanted_backends or self.ledger.backends()
        missing = {name: sorted(self.required - self.ledger.kept(name)) for name in backends}
        return {name: numbers for name, numbers in missing.items() if numbers}

    def closing_lines(self, missing: dict[str, list[int]]) -> Iterator[str]:
        backends = self.ledger.backends(also=self.wanted_backends)
        wants_matrix = bool(self.config.getoption("--promises"))
        if wants_matrix:
            yield from matrix_lines(self.ledger, backends)
        for name, numbers in missing.items():
            yield f"required but missing on {name}: {format_numbers(numbers)}"
        if wants_matrix:
            yield ""
            yield from (
                f"{name} {len(in_contract(self.ledger.kept(name)))}/{PROMISES_TOTAL}"
                for name in backends
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("ledgerstone", "promises of the contract")
    group.addoption("--promises", action="store_true", help="print which promises are kept")
    group.addoption("--promises-require", default="", metavar="RANGES", help="e.g. 1-89,101-130")
    group.addoption("--promises-backends", default="", metavar="NAMES", help="e.g. memory,sqlite")


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "promise(number, ...): promises that the test proves")
    config.pluginmanager.register(PromisesPlugin(config), "ledgerstone-promises")


def promise_numbers(item: pytest.Item) -> list[int]:
    """Every promise of the contract named on the test, its class and its module."""
    return sorted(in_contract(_marked(item)))


def stranger_promises(item: pytest.Item) -> list[object]:
    """What the test calls a promise and the contract does not know: a slip of the pen."""
    known = promise_numbers(item)
    return [name for name in _marked(item) if name not in known]


def _marked(item: pytest.Item) -> list[object]:
    return [number for mark in item.iter_markers("promise") for number in mark.args]


def backend_label(item: pytest.Item) -> str:
    """The backend's name. A test that failed before it had one speaks against every backend."""
    funcargs: dict[str, object] = getattr(item, "funcargs", {})
    if "backend" not in funcargs:
        return ANY_BACKEND
    return str(getattr(funcargs["backend"], "name", funcargs["backend"]))


def parse_numbers(text: str) -> set[int]:
    """Read `1-89,101`, refusing what is not a promise."""
    numbers: set[int] = set()
    for part in _split(text):
        first, _, last = part.partition("-")
        try:
            numbers.update(range(int(first), int(last or first) + 1))
        except ValueError:
            raise pytest.UsageError(f"not a range of promises: {part!r}") from None
    strangers = numbers - in_contract(numbers)
    if strangers:
        raise pytest.UsageError(f"no such promises: {format_numbers(strangers)}")
    return numbers


def format_numbers(numbers: Iterable[int]) -> str:
    """The opposite of `parse_numbers`: runs of numbers become ranges."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)


def in_contract(numbers: Iterable[object]) -> set[int]:
    return {n for n in numbers if isinstance(n, int) and 1 <= n <= PROMISES_TOTAL}


def matrix_lines(ledger: Ledger, backends: list[str]) -> Iterator[str]:
    """The table: a row per area, a column per backend, then the missing numbers per backend."""
    kept = {name: ledger.kept(name) for name in backends}
    width = max(9, *(len(name) for name in backends)) + 2
    yield ""
    yield f"{'promises':<24}" + "".join(f"{name:>{width}}" for name in backends)
    for letter, (title, first, last) in AREAS.items():
        area = set(range(first, last + 1))
        cells = (f"{len(area & kept[name])}/{len(area)}" for name in backends)
        yield f"{letter} {title:<22}" + "".join(f"{cell:>{width}}" for cell in cells)
    yield ""
    for name in backends:
        absent = set(range(1, PROMISES_TOTAL + 1)) - kept[name]
        yield f"missing on {name}: {format_numbers(absent) or 'none'}"


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _is_xdist_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")
