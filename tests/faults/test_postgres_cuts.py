"""Connections cut before, during and after COMMIT: nothing is lost, doubled or half there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import urlsplit

import pytest

from ledgerstone.engines.postgres.backend import open_postgres
from ledgerstone.engines.postgres.drivers.port import ConnectionLost
from ledgerstone.engines.postgres.planned.outcomes import Outcomes
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.postgres_cuts import (
    ANYWHERE,
    COMMIT,
    PLANNED,
    cut_often,
)
from ledgerstone.testing.faults.queue_load import Load, in_threads, prepared
from ledgerstone.testing.on_loop import OnLoop
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from ledgerstone.testing.servers.proxy import Proxy

pytestmark = [pytest.mark.faults, pytest.mark.slow, pytest.mark.timeout(900)]

PLACES = {"planned": PLANNED, "at COMMIT": COMMIT, "anywhere": ANYWHERE}
FACES = ("blocking", "async")
CUT_S = (0.05, 0.3)
LEASE_S = 0.5
GUESSES_MAX = 1_000
"""One cut in twenty comes where a guess is wrong and shows, so a control stops long before."""


@contextmanager
def wired(url: str, face: str) -> Iterator[tuple[Backend, Proxy]]:
    """A store behind a wire that can be cut, used in one of the two colours."""
    parts = urlsplit(url)
    with Proxy(parts.port or 5432, host=parts.hostname or "127.0.0.1") as proxy:
        backend: Backend = open_postgres(proxy.url(url))
        if face == "async":
            backend = OnLoop(backend)
        try:
            yield backend, proxy
        finally:
            backend.close()


def play(
    url: str, face: str, place: str, cuts: int, seed: int, line: Line, *, until_found: bool = False
) -> None:
    with wired(url, face) as (backend, proxy), closing(open_postgres(url)) as straight:
        tally = cut_often(
            backend,
            proxy,
            straight,
            cuts=cuts,
            at=PLACES[place],
            seed=seed,
            until_found=until_found,
        )
    line.n = tally.cuts
    line.violations = tally.violations
    line.note = f"{tally.sent:,} commands, {tally.replayed} replayed, {tally.unknown} unknown"


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("place", PLACES)
def test_a_cut_loses_and_doubles_nothing(
    place: str, face: str, postgres_url: str, seed: int, scoreboard: Scoreboard, scale: Scale
) -> None:
    title = f"connection cut, {place} ({face})"
    with scoreboard.line(title, "postgres", seed) as line:
        play(postgres_url, face, place, scale(30, 1_000), seed, line)


@pytest.mark.parametrize("face", FACES)
def test_a_queue_keeps_its_books(
    face: str,
    postgres_url: str,
    tmp_path: Path,
    seed: int,
    scoreboard: Scoreboard,
    scale: Scale,
) -> None:
    """Everything is cut again and again, whatever is under way: each item is done once."""
    title = f"queue: every item once, in order, connections cut ({face})"
    with (
        scoreboard.line(title, "postgres", seed) as line,
        wired(postgres_url, face) as (backend, proxy),
    ):
        prepared(backend)
        load = Load(items=scale(100, 4_000), seed=seed, ttl_s=LEASE_S)
        with cutting(proxy, seed):
            report = in_threads(backend, tmp_path, load)
        line.n = len(report.books.put)
        line.violations = report.books.violations()
        line.note = f"{proxy.counts.cuts} cuts, {report.books.recovered} recovered"


@contextmanager
def cutting(proxy: Proxy, seed: int) -> Iterator[None]:
    """Cut all connections at random moments."""
    random, over = Random(seed), threading.Event()

    def run() -> None:
        while not over.wait(random.uniform(*CUT_S)):
            proxy.cut()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


# --- negative controls: a resolution that guesses


async def believe(self: Outcomes, *ignored: Any) -> None:
    """It will have been committed."""


async def doubt(self: Outcomes, *ignored: Any) -> None:
    """It will not have been."""
    raise ConnectionLost("no answer")


@pytest.mark.parametrize("guess", [believe, doubt])
def test_control_a_guess_is_found_out(
    guess: Any,
    postgres_url: str,
    seed: int,
    scoreboard: Scoreboard,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Outcomes, "find_out", guess)
    with scoreboard.line(f"cuts, {guess.__name__}", "postgres", seed, control=True) as line:
        play(postgres_url, "blocking", "at COMMIT", GUESSES_MAX, seed, line, until_found=True)
