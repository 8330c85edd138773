"""What every test may ask for: the seed of its randomness, how often to kill, a line to say."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

pytest_plugins = [
    "ledgerstone.testing.promises",
    "ledgerstone.testing.scoreboard",
    "pytester",
    "tests.postgres_beds",
]

SEED_LIMIT = 2**32
SAID = "said"
"""The property of a test's report that holds its lines."""

Say = Callable[[str], None]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=100, help="kill -9 so often in the crash tests")
    parser.addoption("--seed", type=int, default=None, help="repeat a run with the seed it named")


def pytest_configure(config: pytest.Config) -> None:
    """Choose the seed once. An xdist worker is told the controller's, so that all agree."""
    workerinput: dict[str, object] | None = getattr(config, "workerinput", None)
    if workerinput is not None:
        config.option.seed = workerinput["seed"]
    elif config.option.seed is None:
        config.option.seed = random.randrange(SEED_LIMIT)


def pytest_report_header(config: pytest.Config) -> str:
    return f"seed: {config.option.seed} (repeat with --seed {config.option.seed})"


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: object) -> None:
    """Called by xdist on the controller, for each worker before it starts."""
    config: pytest.Config = node.config  # type: ignore[attr-defined]
    node.workerinput["seed"] = config.option.seed  # type: ignore[attr-defined]


@pytest.fixture(scope="session")
def seed(pytestconfig: pytest.Config) -> int:
    """The one seed of this run; print it, so that a failure can be repeated."""
    value: int = pytestconfig.option.seed
    return value


@pytest.fixture(scope="session")
def kills(pytestconfig: pytest.Config) -> int:
    """How many times a crash test kills its victim."""
    value: int = pytestconfig.option.kills
    return value


@pytest.fixture
def say(request: pytest.FixtureRequest) -> Say:
    """Print a count at the end of the run's report; what a worker prints itself is not seen."""

    def add(line: str) -> None:
        request.node.user_properties.append((SAID, line))

    return add


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = [one for kind in ("passed", "failed") for one in terminalreporter.stats.get(kind, ())]
    said = {line for one in reports for key, line in one.user_properties if key == SAID}
    for line in sorted(said):
        terminalreporter.write_line(line)
