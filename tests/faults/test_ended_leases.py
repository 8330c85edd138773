"""Leases that are over by name: of a block that ended, of a worker that was started again."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from ledgerstone import Fenced, LeaseExpired, Store, user
from ledgerstone.intake import checks
from ledgerstone.ports.backend import Backend
from ledgerstone.records.leases import AnyLease
from ledgerstone.testing.scoreboard import Scale, Scoreboard
from tests.faults.places import PLACES, Place, every_place, opened

pytestmark = [pytest.mark.faults, pytest.mark.slow]

OWNER = "pod-0"


def use_what_is_over(backend: Backend, count: int, random: Random) -> Iterator[str]:
    """Write with a lease whose block ended, or that the same owner has taken again since."""
    store = Store(backend)
    store.sessions.create(id="s")
    for number in range(count):
        over: AnyLease
        if random.random() < 0.5:
            with store.leases.hold("s", owner=OWNER, heartbeat=False) as held:
                over, successor = held, None
        else:
            old = store.leases.take("s", owner=OWNER)
            successor = store.leases.take("s", owner=OWNER)
            assert old is not None, "nobody else takes this session"
            over = old
        try:
            store.messages.append("s", user("late"), lease=over)
            yield f"try {number}: written with {over}"
        except (LeaseExpired, Fenced):
            pass
        if store.leases.get("s") != successor:
            yield f"try {number}: {store.leases.get('s')} holds it now, not {successor}"
        if random.random() < 0.5 and successor is not None:
            store.leases.release(successor)


@pytest.mark.promise(107, 204)
@every_place
def test_nothing_is_written_with_what_is_over(
    place: Place, tmp_path: Path, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    title = "a lease whose block ended; an owner of the same name"
    with (
        scoreboard.line(title, place.name, seed) as line,
        opened(place, tmp_path) as backend,
    ):
        line.n = scale(place.few, place.rounds)
        line.violations += use_what_is_over(backend, line.n, Random(seed))


def test_control_a_lease_that_outlives_its_block_is_found(
    tmp_path: Path, seed: int, scoreboard: Scoreboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "not_ended", lambda lease: lease)
    monkeypatch.setattr("ledgerstone.api_sync.grants.not_ended", lambda lease: lease)
    monkeypatch.setattr(
        "ledgerstone.records.leases.Held.ended", property(lambda _: False, lambda *_: None)
    )
    with (
        scoreboard.line("a lease outlives its block", "memory", seed, control=True) as line,
        opened(PLACES["memory"], tmp_path) as backend,
    ):
        line.n = 50
        line.violations += use_what_is_over(backend, line.n, Random(seed))
