"""Two handles on one path in one process, with others that come and go, here and elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from ledgerstone.commands.sessions import GetHead
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.commits import TENANT
from ledgerstone.testing.faults.handles import SHARED, Household
from ledgerstone.testing.faults.sabotage import AcknowledgesEarly
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.backends.places import quick_disk
from tests.faults.places import PLACES

pytestmark = [pytest.mark.faults, pytest.mark.crash]

SQLITE = PLACES["sqlite"]


def visits(make: Callable[[], Backend]) -> Callable[[], None]:
    """Open another handle, look into it, close it."""

    def visit() -> None:
        with closing(make()) as backend:
            backend.read([GetHead(tenant=TENANT, id=SHARED)])

    return visit


def test_handles_that_come_and_go(tmp_path: Path, scoreboard: Scoreboard, scale: Scale) -> None:
    with (
        scoreboard.line("two handles in one process, others come and go", "sqlite") as line,
        quick_disk(tmp_path) as folder,
    ):
        make = SQLITE.at(folder)
        busy = Household(make, visits(make), scale(300, 5_000)).run()
        line.n, line.violations = len(busy.acked), busy.violations
        line.note = (
            f"{busy.reads:,} reads, {busy.visits:,} handles opened and closed, "
            f"{busy.neighbours} other processes"
        )
        assert min(busy.reads, busy.visits, busy.neighbours) > 0


def test_control_a_handle_that_answers_early_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("two handles, AcknowledgesEarly", "sqlite", control=True) as line,
        quick_disk(tmp_path) as folder,
    ):
        make = SQLITE.at(folder)
        busy = Household(partial(early, make), visits(make), 20).run()
        line.n, line.violations = len(busy.acked), busy.violations


def early(make: Callable[[], Backend]) -> Backend:
    return AcknowledgesEarly(make())
