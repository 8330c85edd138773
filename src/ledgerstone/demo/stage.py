"""The director: starts the workers, kills the first one, revives it, and lets nothing linger."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import asdict, replace
from rich.console import Console

from ledgerstone import Store
from ledgerstone.clock import monotonic_s
from ledgerstone.demo.audit import Acknowledged, Summary, audit
from ledgerstone.demo.screen import APPROVER, Screen
from ledgerstone.demo.worker import Orders, Report
from ledgerstone.errors import NotSupported
from ledgerstone.ids import new_id
from ledgerstone.records.leases import Lease

LEASE_TTL_S = 1.5
LIMIT_S = 30.0
"""The demo takes a few seconds; a worker that hangs is ended after this."""
LIVE_S = (0.2, 0.05)
"""How long a worker rests before a step and after a token, where somebody reads it."""
PLAIN_S = (0.02, 0.03)
"""Elsewhere. A draft is kept four times a second, so half an answer has to take longer."""
ID_CHARS = 6


class StageError(Exception):
    """A worker did not do what the script says; the text is its last words."""


def run_demo(
    console: Console, *, store: str | None, tenant: str, keep: bool, as_json: bool
) -> Summary:
    """Play it in a temporary directory or in a store of the caller; say whether it went well.

    NotSupported for a store that two processes cannot share; StageError when a worker fails.
    """
    folder = "" if store is not None else tempfile.mkdtemp(prefix="ledgerstone-demo-")
    url = store if store is not None else str(Path(folder) / "agent.db")
    keep = keep or store is not None
    try:
        check_shared(url, tenant)
        out = Console(quiet=True, force_terminal=False) if as_json else console
        # The end of a UUIDv7 is its random part.
        session = f"demo-{new_id()[-ID_CHARS:]}"
        pace = LIVE_S if out.is_terminal else PLAIN_S
        screen = Screen(out)
        summary = Stage(Orders(url, tenant, session, *pace, LEASE_TTL_S), screen).play()
        summary = replace(summary, store=url if keep else None)
        screen.closing(summary)
        if as_json:
            console.print(msgspec.json.encode(summary).decode(), soft_wrap=True, markup=False)
        return summary
    finally:
        if folder and not keep:
            shutil.rmtree(folder, ignore_errors=True)


def check_shared(url: str, tenant: str) -> None:
    """The demo needs two processes on one store."""
    with Store.open(url, tenant=tenant) as opened:
        found = opened.capabilities
    if not (found.multi_process and found.persistent):
        raise NotSupported("the demo, which needs two processes on one store", found.name)


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
        self.pid = self.process.pid
        self.tell(msgspec.json.encode(orders))

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

    def __init__(self, orders: Orders, screen: Screen) -> None:
        self._orders = orders
        self._screen = screen
        self._workers: list[Worker] = []
        self._turns: list[Acknowledged] = []

    def play(self) -> Summary:
        """All acts and the count at the end; StageError when a worker fails."""
        began_s = monotonic_s()
        watchdog = threading.Timer(LIMIT_S, self._kill_workers)
        watchdog.daemon = True
        watchdog.start()
        self._screen.opening(self._orders.store)
        session = self._orders.session
        try:
            with Store.open(self._orders.store, tenant=self._orders.tenant) as store:
                store.sessions.create(id=session, title="A weekend in Oslo", app="demo")
                first, old, killed_s = self._first_act(store)
                left = store.sessions.recovery(session)
                assert left is not None
                self._screen.found(left)
                second, new, taken_s = self._second_act()
                fenced = self._third_act(old)
                second.tell(b"go on")
                if not any(report.event == "finished" for report in self._reports(second)):
                    raise StageError(f"{second.name} stopped before it was finished")
                found = audit(store, session, self._turns)
        finally:
            watchdog.cancel()
            self._screen.still()
            for worker in self._workers:
                worker.close()
        draft = left.drafts[0].text if left.drafts else ""
        return Summary(
            **asdict(found),
            ok=found.ok and fenced,
            session=session,
            store=self._orders.store,
            killed_pid=first.pid,
            killed_by=signal.Signals(-first.process.returncode).name,
            draft_characters=len(draft),
            draft_kept=bool(draft),
            fences=(old.fence, new.fence),
            takeover_s=round(taken_s - killed_s, 3),
            fenced=fenced,
            seconds=round(monotonic_s() - began_s, 3),
        )

    def _first_act(self, store: Store) -> tuple[Worker, Lease, float]:
        """A worker talks, asks before it pays, and is killed half way through an answer.

        Returns it with the lease it died with, and when that was.
        """
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
                self._screen.killed(worker.name, worker.pid, text)
        if lease is None or not killed_s:
            raise StageError("worker 1 ended before it could be killed")
        return worker, lease, killed_s

    def _approve(self, store: Store) -> None:
        """A person looks into the inbox and says yes; the worker is woken by that."""
        session = self._orders.session
        for ticket in store.tickets.inbox(session=session).items:
            store.tickets.resolve(ticket, "approve", by=APPROVER, queue=session)
            self._screen.approved(ticket)

    def _second_act(self) -> tuple[Worker, Lease, float]:
        """Another worker waits until the dead one's lease ran out, and cleans up after it.

        Returns it with the lease it got, and when that was.
        """
        worker = self._start("worker 2", gate=True)
        lease, taken_s = None, 0.0
        for report in self._reports(worker):
            if report.lease is not None:
                lease, taken_s = report.lease, monotonic_s()
            if report.event == "ready" and lease is not None:
                return worker, lease, taken_s
        raise StageError("worker 2 did not take the session over")

    def _third_act(self, old: Lease) -> bool:
        """The dead one is back, sure that the session is still its own; whether it is fenced."""
        reports = list(self._reports(self._start("worker 1", lease=old)))
        return any(report.event == "fenced" for report in reports)

    def _start(self, name: str, **orders: Any) -> Worker:
        worker = Worker(name, replace(self._orders, **orders))
        self._workers.append(worker)
        self._screen.started(name, worker.pid, revived="lease" in orders)
        return worker

    def _reports(self, worker: Worker) -> Iterator[Report]:
        for report in worker.reports():
            if report.event == "turn":
                self._turns.append(Acknowledged(report.turn, report.messages))
            self._screen.said(worker.name, report, len(self._turns))
            yield report

    def _kill_workers(self) -> None:
        for worker in self._workers:
            worker.kill()
