"""The machine and the storm on PostgreSQL: every answer is the model's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ledgerstone.clock import ManualClock
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.on_loop import OnLoop
from ledgerstone.testing.servers.places import Places
from ledgerstone.testing.wrappers import Reopening
from tests.machine.kept_rules import at_keeping
from tests.machine.machine import Make
from tests.machine.sparse import SparsePlaces
from tests.machine.test_machine import EXAMPLES, Narrowing, run
from tests.machine.test_storm import STEPS, rage
from tests.machine.ticket_rules import at_tickets
from tests.machine.work_rules import at_work
from tests.postgres_beds import open_store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

# Each example is thousands of round trips.
FEWER = 3
NARROWED: dict[str, Narrowing | None] = {
    "everything": None,
    "work": at_work,
    "tickets": at_tickets,
    "keeping": at_keeping,
}


def local(open_one: Callable[[], Backend]) -> Backend:
    return open_one()


WAYS: dict[str, Callable[[Callable[[], Backend]], Backend]] = {
    "blocking": local,
    "async": lambda open_one: OnLoop(open_one()),
    "reopened": Reopening,
}


@pytest.fixture(params=WAYS)
def subject(request: pytest.FixtureRequest, postgres_places: Places) -> Make:
    """An empty store for each example."""

    def make(clock: ManualClock) -> Backend:
        url = postgres_places.emptied()
        return WAYS[request.param](lambda: open_store(url, clock))

    return make


@pytest.mark.parametrize("narrow", NARROWED)
def test_postgres_answers_like_the_model(subject: Make, narrow: str, seed: int) -> None:
    examples = max(1, EXAMPLES // FEWER // (1 if narrow == "everything" else 3))
    run(subject, seed, examples, narrow=NARROWED[narrow], kind=SparsePlaces)


def test_postgres_stands_the_storm(subject: Make, seed: int) -> None:
    rage(subject, seed, STEPS // FEWER)
