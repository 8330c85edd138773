"""A holder that was stopped past its lease while nobody else wants it goes on as if nothing was.

`hold` takes a lapsed lease again when nothing moved. Its heartbeat and its commit both do so; the
one must not take the other's new grant for a stranger's.
"""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from ledgerstone import Store
from ledgerstone.api_sync import commits, grants
from ledgerstone.clock import monotonic_s
from ledgerstone.errors import LedgerstoneError
from ledgerstone.testing.faults.processes import Child, Say
from ledgerstone.testing.scoreboard import Line, Scale, Scoreboard
from tests.backends.places import quick_disk

pytestmark = [pytest.mark.faults, pytest.mark.crash]

TTL_S = 0.03
WORK_S = 0.15
STOPPED_S = 0.06
WAIT_S = 60.0
CONTROL_STOPS_MAX = 1000


def work_alone(say: Say, path: str, blind: bool) -> None:
    """Hold one session after the other and commit; says how each of them ended.

    `blind`: who is refused does not look whether the newer grant is his own.
    """
    if blind:
        for module in (commits, grants):
            setattr(module, "own_grant", lambda *given: None)  # noqa: B010 (mypy)
    store = Store.open(path)
    for number in range(1_000_000):
        session = store.sessions.create(id=f"s{number}").id
        try:
            with store.leases.hold(session, ttl_s=TTL_S) as held:
                say(b"held")
                end_s = monotonic_s() + WORK_S
                while monotonic_s() < end_s:
                    turn = store.turns.begin(held)
                    turn.user("x")
                    turn.commit()
        except LedgerstoneError as error:
            say(f"{type(error).__name__}: {error}".encode())
            continue
        left = store.leases.get(session)
        say(b"fine" if left is None else f"{left} was not given back".encode())


def test_nobody_is_fenced_by_his_own_heartbeat(
    tmp_path: Path, scoreboard: Scoreboard, scale: Scale
) -> None:
    with (
        scoreboard.line("SIGSTOP past the lease, nobody else wants it", "sqlite") as line,
        quick_disk(tmp_path) as folder,
    ):
        stop_often(folder / "store.db", scale(50, 500), line, blind=False)


def test_control_who_does_not_know_his_own_grant_is_found_out(
    tmp_path: Path, scoreboard: Scoreboard
) -> None:
    with (
        scoreboard.line("SIGSTOP, nobody looks whose grant it is", "sqlite", control=True) as line,
        quick_disk(tmp_path) as folder,
    ):
        stop_often(folder / "store.db", CONTROL_STOPS_MAX, line, blind=True)


def stop_often(path: Path, stops: int, line: Line, *, blind: bool) -> None:
    """Stop a holder again and again; a blind one only until it was found out."""
    child = Child(work_alone, str(path), blind)
    try:
        for line.n in range(1, stops + 1):
            assert next(child.hear(WAIT_S)) == b"held"
            threading.Event().wait(TTL_S / 3)
            os.kill(child.pid, signal.SIGSTOP)
            threading.Event().wait(STOPPED_S)
            os.kill(child.pid, signal.SIGCONT)
            ended = next(child.hear(WAIT_S))
            line.violations += [] if ended == b"fine" else [ended.decode()]
            if blind and line.violations:
                return
    finally:
        child.kill()
