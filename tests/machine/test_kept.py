"""Bytes, evidence, usage and memory under the machine; and that the machine knows everything."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ledgerstone.handlers.all import HANDLERS
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.wrappers import Wrapper
from tests.machine.kept_rules import at_keeping
from tests.machine.kept_sabotage import (
    ComparesTexts,
    ForgetsToTouch,
    NeverRollsOver,
    ReusesAVersion,
    SpendsOverBudget,
)
from tests.machine.machine import Differs
from tests.machine.test_machine import (
    CONTROL_EXAMPLES,
    EXAMPLES,
    file_in,
    file_reopened_in,
    open_memory,
    reopening_in,
    run,
    sqlite_in,
)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def test_memory_keeps_like_the_oracle(seed: int) -> None:
    run(open_memory, seed, 2 * EXAMPLES, narrow=at_keeping)


def test_sqlite_keeps_like_the_oracle(tmp_path: Path, seed: int) -> None:
    run(sqlite_in(tmp_path), seed, EXAMPLES // 2, narrow=at_keeping)


def test_file_keeps_like_the_oracle(tmp_path: Path, seed: int) -> None:
    run(file_in(tmp_path), seed, EXAMPLES // 2, narrow=at_keeping)


@pytest.mark.slow
def test_sqlite_keeps_like_the_oracle_through_reopening(tmp_path: Path, seed: int) -> None:
    run(reopening_in(tmp_path), seed, max(1, EXAMPLES // 10), narrow=at_keeping)


@pytest.mark.slow
def test_file_keeps_like_the_oracle_through_reopening(tmp_path: Path, seed: int) -> None:
    run(file_reopened_in(tmp_path, seed), seed, EXAMPLES // 2, narrow=at_keeping)


LIES = [NeverRollsOver, ReusesAVersion, ComparesTexts, ForgetsToTouch, SpendsOverBudget]


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.__name__)
def test_a_backend_that_lies_about_what_it_keeps_is_caught(
    lie: Callable[[Backend], Wrapper], seed: int
) -> None:
    """The negative control: the same machine over a model that one wrapper falsifies."""
    with pytest.raises(Differs):
        run(
            lambda clock: lie(open_memory(clock)),
            seed,
            CONTROL_EXAMPLES,
            shrink=False,
            narrow=at_keeping,
        )


def test_every_command_and_query_is_drawn() -> None:
    """What no file of the machine ever makes was never compared."""
    made = set(_made_in(Path(__file__).parent))
    known = set(HANDLERS)
    assert {kind.__name__ for kind in known} - made == set()


def _made_in(folder: Path) -> Iterator[str]:
    for path in folder.glob("*.py"):
        if path.name.startswith("test_") or path.name in ("storm.py", "kept_checks.py"):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield node.func.id
