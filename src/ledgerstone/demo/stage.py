"""The director: starts the workers, kills the first one, revives it, and lets nothing linger."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

import msgspec

from ledgerstone import Store
from ledgerstone.clock import monotonic_s
from ledgerstone.demo.audit import Acknowledged, Audit, audit
from ledgerstone.demo.worker import Orders
from ledgerstone.records.leases import Lease
from ledgerstone.records.tickets import Ticket

LEASE_TTL_S = 1.5
APPROVER = "ada"
LIMIT_S = 30.0
"""The demo takes a few seconds; a worker that hangs is ended after this."""


class Pace(NamedTuple):
    """How long a worker rests before a step, and after a token of an answer.

    A draft is kept four times a second, so half an answer has to take longer than that.
    """

    step_s: float
    token_s: float


class Report(msgspec.Struct, frozen=True):
    """One line of a worker; which fields it has depends on the event."""

    event: str
    text: str = ""
    kind: str = ""
    tool: str = ""
    data: Any = None
    turn: str = ""
    revision: int = 0
    messages: tuple[str, ...] = ()
    lease: Lease | None = None
    ticket: str = ""
    fence: int = 0
    left_s: float = 0.0
    yours: int = 0
    current: int = 0


class Killed(NamedTuple):
    """The end of the first worker: the process, and the lease it died with."""

    worker: Worker
    lease: Lease
    at_s: float


class Takeover(NamedTuple):
    """The second worker, the lease it got, and how long after the kill."""

    worker: Worker
    lease: Lease
    after_s: float


class Left(NamedTuple):
    """What a killed worker left on the disk."""

    turns: int
    draft: str
    lease: Lease | None


class Show(NamedTuple):
    """Whom the director tells what happens; each is called as it happens."""

    started: Callable[[str, int], None]
    said: Callable[[str, Report, int], None]
    killed: Callable[[str, int, str], None]
    found: Callable[[Left], None]
    approved: Callable[[Ticket], None]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the demo proved, as `--json` prints it."""

    acknowledged: int
    lost: int
    doubled: int
    ok: bool
    session: str
    store: str | None
    killed_pid: int
    killed_by: str
    draft_characters: int
    draft_kept: bool
    fences: tuple[int, int]
    takeover_s: float
    fenced: bool
    approved_by: str
    payments: int
    finished: bool
    drafts_left: int
    unexpected: int
    defects: list[str]
    seconds: float


class StageError(Exception):
    """A worker did not do what the script says; the text is its last words."""


class Worker:
    """A child process of the demo; it is ended by its pid and by nothing else."""

    def __init__(self, name: str, orders: Orders) -> None:
        self.name = name
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ledgerstone.demo.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # A Ctrl-C in the terminal is for the director, who then ends the workers itself.
            start_new_session=True,
        )
        self.tell(msgspec.json.encode(orders))

    @property
    def pid(self) -> int:
        return self.process.pid

    def tell(self, line: bytes) -> None:
        """Send one line; a worker that is gone already shows in its reports."""
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.write(line + b"\n")
            self.process.stdin.flush()

    def reports(self) -> Iterator[Report]:
        """What it says, until it ends; StageError when it ends by an error of its own."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            yield msgspec.json.decode(line, type=Report)
        if self.process.wait() not in (0, -signal.SIGKILL):
            assert self.process.stderr is not None
            words = self.process.stderr.read().decode(errors="replace").strip()
            raise StageError(f"{self.name} failed: {words.splitlines()[-1] if words else '?'}")

    def kill(self) -> None:
        """kill -9: no handler runs, no buffer is flushed."""
        if self.process.poll() is None:
            os.kill(self.pid, signal.SIGKILL)
            self.process.wait()

    def close(self) -> None:
        self.kill()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                # A line for a worker that was killed may still wait in this pipe's buffer.
                with suppress(BrokenPipeError):
                    pipe.close()


class Stage:
    """One performance on one session of one store."""

    def __init__(self, url: str, tenant: str, session: str, pace: Pace, show: Show) -> None:
        self._orders = Orders(url, tenant, session, pace.step_s, pace.token_s, LEASE_TTL_S)
        self._show = show
        self._workers: list[Worker] = []
        self._turns: list[Acknowledged] = []
        self._fenced = False

    def play(self) -> Summary:
        """All acts and the count at the end; StageError when a worker fails."""
        begun_s = monotonic_s()
        watchdog = threading.Timer(LIMIT_S, self._end_workers)
        watchdog.daemon = True
        watchdog.start()
        orders = self._orders
        try:
            with Store.open(orders.store, tenant=orders.tenant) as store:
                store.sessions.create(id=orders.session, title="A weekend in Oslo", app="demo")
                killed = self._first_act(store)
                left = self._look(store)
                takeover = self._second_act(killed.at_s)
                self._third_act(killed.lease)
                takeover.worker.tell(b"go on")
                self._follow(takeover.worker, until="finished")
                found = audit(store, orders.session, self._turns)
        finally:
            watchdog.cancel()
            self._end_workers(close=True)
        return self._summary(found, killed, left, takeover, monotonic_s() - begun_s)

    def _first_act(self, store: Store) -> Killed:
        """A worker talks, asks before it pays, and is killed half way through an answer."""
        worker = self._start("worker 1", stall=True)
        lease, text, killed_s = None, "", 0.0
        for report in self._reports(worker):
            lease, text = report.lease or lease, report.text or text
            if report.event == "asks":
                self._approve(store)
            if report.event == "half":
                # What it reported before it died is read on: an acknowledged turn counts.
                worker.kill()
                killed_s = monotonic_s()
                self._show.killed(worker.name, worker.pid, text)
        if lease is None or not killed_s:
            raise StageError("worker 1 ended before it could be killed")
        return Killed(worker, lease, killed_s)

    def _approve(self, store: Store) -> None:
        """A person looks into the inbox and says yes; the worker is woken by that."""
        session = self._orders.session
        for ticket in store.tickets.inbox(session=session).items:
            store.tickets.resolve(ticket, "approve", by=APPROVER, queue=session)
            self._show.approved(ticket)

    def _look(self, store: Store) -> Left:
        """What is on the disk right after the kill."""
        recovery = store.sessions.recovery(self._orders.session)
        assert recovery is not None
        draft = recovery.drafts[0].text if recovery.drafts else ""
        left = Left(recovery.revision, draft, recovery.lease)
        self._show.found(left)
        return left

    def _second_act(self, killed_s: float) -> Takeover:
        """Another worker waits until the dead one's lease ran out, and cleans up after it."""
        worker = self._start("worker 2", gate=True)
        lease, after_s = None, 0.0
        for report in self._reports(worker):
            if report.lease is not None:
                lease, after_s = report.lease, monotonic_s() - killed_s
            if report.event == "ready" and lease is not None:
                return Takeover(worker, lease, after_s)
        raise StageError("worker 2 did not take the session over")

    def _third_act(self, old: Lease) -> None:
        """The dead one is back, sure that the session is still its own."""
        for report in self._reports(self._start("worker 1", lease=old)):
            self._fenced = self._fenced or report.event == "fenced"

    def _start(self, name: str, **orders: Any) -> Worker:
        worker = Worker(name, msgspec.structs.replace(self._orders, **orders))
        self._workers.append(worker)
        self._show.started(name + (", revived" if "lease" in orders else ""), worker.pid)
        return worker

    def _reports(self, worker: Worker) -> Iterator[Report]:
        for report in worker.reports():
            if report.event == "turn":
                self._turns.append(Acknowledged(report.turn, report.messages))
            self._show.said(worker.name, report, len(self._turns))
            yield report

    def _follow(self, worker: Worker, *, until: str) -> None:
        if not any(report.event == until for report in self._reports(worker)):
            raise StageError(f"{worker.name} stopped before it was {until}")

    def _end_workers(self, close: bool = False) -> None:
        for worker in self._workers:
            if close:
                worker.close()
            else:
                worker.kill()

    def _summary(
        self,
        found: Audit,
        killed: Killed,
        left: Left,
        takeover: Takeover,
        seconds: float,
    ) -> Summary:
        return Summary(
            acknowledged=found.acknowledged,
            lost=found.lost,
            doubled=found.doubled,
            ok=found.ok and self._fenced,
            session=self._orders.session,
            store=self._orders.store,
            killed_pid=killed.worker.pid,
            killed_by=signal.Signals(-killed.worker.process.returncode).name,
            draft_characters=len(left.draft),
            draft_kept=bool(left.draft),
            fences=(killed.lease.fence, takeover.lease.fence),
            takeover_s=round(takeover.after_s, 3),
            fenced=self._fenced,
            approved_by=found.approved_by,
            payments=found.payments,
            finished=found.finished,
            drafts_left=found.drafts_left,
            unexpected=found.unexpected,
            defects=found.defects,
            seconds=round(seconds, 3),
        )
