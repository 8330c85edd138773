"""Callers that go on committing while their server is killed, restarted or replaced.

Half of them are blocking, half async; half of the turns go the planned way, half
the interactive one. A call that fails with an error that says "again" is sent again, the same turn,
until it is answered. What was answered must be there in the end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

import msgspec

from ledgerstone.clock import monotonic_s
from ledgerstone.commands.sessions import CreateSession
from ledgerstone.errors import LedgerstoneError
from ledgerstone.ports.backend import Backend
from ledgerstone.records.sessions import Session
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import Acked, History, Planned, judge, read_back
from ledgerstone.testing.on_loop import OnLoop

CALLERS = 6
SHARED = "shared"
REPEAT_PAUSE_S = 0.05
PROGRESS_WAIT_S = 60.0
JOIN_S = 120.0


class Tally(msgspec.Struct):
    """What the callers met."""

    acked: int = 0
    replayed: int = 0
    again: list[str] = []
    """Errors after which a call was sent again."""
    violations: list[str] = []


class Load:
    """Use it as a block: the callers work until its end."""

    def __init__(self, open_store: Callable[[], Backend], callers: int = CALLERS) -> None:
        self._blocking = open_store()
        self._on_loop = OnLoop(open_store())
        self._history = History()
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.tally = Tally()
        self._callers = callers
        for session in (SHARED, *(f"own {n}" for n in range(callers))):
            made = CreateSession(tenant=TENANT, session=Session(id=session), ensure=True)
            self._blocking.write(made)
        self._threads = [
            threading.Thread(target=self._work, args=(n,), daemon=True) for n in range(callers)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(JOIN_S)
            if thread.is_alive():
                self.tally.violations.append("a caller never came back")
        self._on_loop.close()
        self._blocking.close()

    def wait_for(self, turns: int) -> None:
        """Until so many more turns were answered."""
        wanted, end_s = self.tally.acked + turns, monotonic_s() + PROGRESS_WAIT_S
        while self.tally.acked < wanted and monotonic_s() < end_s:
            time.sleep(0.005)
        if self.tally.acked < wanted:
            self.tally.violations.append(f"only {self.tally.acked} of {wanted} turns were answered")

    def judge(self, backend: Backend) -> list[str]:
        """What is stored against what was answered; all that went wrong."""
        for session in sorted(self._history.planned):
            verdict = judge(self._history, read_back(backend, TENANT, session))
            self.tally.violations += verdict.violations
        return self.tally.violations

    def _work(self, caller: int) -> None:
        backend: Backend = self._on_loop if caller % 2 else self._blocking
        count = 0
        while not self._stop.is_set():
            for session in (f"own {caller}", SHARED):
                count += 1
                self._commit(backend, session, f"{caller}-{count}", create=count % 4 < 2)

    def _commit(self, backend: Backend, session: str, turn: str, *, create: bool) -> None:
        command = commit_of(session, turn, "one", "two", create=create)
        nodes = tuple(node.id for node in command.nodes)
        with self._lock:
            self._history.add(Planned(session, turn, nodes))
        while True:
            try:
                answer = backend.write(command)
                break
            except LedgerstoneError as error:
                if not self._goes_on(turn, error):
                    return
        placed = tuple(place.id for place in answer.placed)
        with self._lock:
            self._history.add(Acked(session, turn, answer.revision, placed))
            self.tally.acked += 1
            self.tally.replayed += answer.replayed

    def _goes_on(self, turn: str, error: LedgerstoneError) -> bool:
        with self._lock:
            if not error.retryable:
                self.tally.violations.append(f"turn {turn} got {type(error).__name__}: {error}")
                return False
            self.tally.again.append(f"{type(error).__name__}: {error}")
        self._stop.wait(REPEAT_PAUSE_S)
        return not self._stop.is_set()
