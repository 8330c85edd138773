"""Workers in processes of their own: woken by others, ended by signals, killed in the middle."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ledgerstone import Store

WORKER = Path(__file__).with_name("worker_process.py")
WAIT_S = 20.0


@contextmanager
def worker(path: Path, grace_s: float, work_s: float) -> Iterator[subprocess.Popen[str]]:
    """A worker that begins to work."""
    command = [sys.executable, str(WORKER), str(path), str(grace_s), str(work_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        try:
            assert said(child) == "ready"
            yield child
        finally:
            child.kill()


def said(child: subprocess.Popen[str]) -> str:
    assert child.stdout is not None
    return child.stdout.readline().strip()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.db") as opened:
        opened.sessions.ensure("s")
        yield opened


def test_an_idle_worker_is_woken_by_another_process(tmp_path: Path, store: Store) -> None:
    with worker(tmp_path / "store.db", 5, 0) as child:
        time.sleep(0.5)
        began = time.monotonic()
        store.work.enqueue("s", "x")
        assert [said(child), said(child)] == ["taken", "done"]
        assert time.monotonic() - began < 5
        child.send_signal(signal.SIGTERM)
        assert said(child) == "ended"
        assert child.wait(WAIT_S) == 0
    assert [one.text for one in store.messages.history("s")] == ["did x"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_the_handler_finish(tmp_path: Path, store: Store, number: int) -> None:
    with worker(tmp_path / "store.db", 20, 0.5) as child:
        store.work.enqueue("s", "x")
        assert said(child) == "taken"
        child.send_signal(number)
        store.work.enqueue("s", "nobody's")
        assert [said(child), said(child)] == ["done", "ended"]
        assert child.wait(WAIT_S) == 0
    assert [one.text for one in store.messages.history("s")] == ["did x"]
    assert [batch.payloads for batch in store.work.list("s")] == [["nobody's"]]


def test_a_signal_with_little_time_hands_the_work_back(tmp_path: Path, store: Store) -> None:
    with worker(tmp_path / "store.db", 0.1, 60) as child:
        store.work.enqueue("s", "x")
        assert said(child) == "taken"
        child.send_signal(signal.SIGTERM)
        assert [said(child), said(child)] == ["abandoned", "ended"]
        assert child.wait(WAIT_S) == 0
    batch = store.work.list("s")[0]
    assert (batch.attempts, batch.claim) == (0, None)
    assert store.leases.get("s") is None
    assert store.messages.history("s") == []


def test_a_second_signal_does_not_wait(tmp_path: Path, store: Store) -> None:
    with worker(tmp_path / "store.db", 60, 60) as child:
        store.work.enqueue("s", "x")
        assert said(child) == "taken"
        for _ in range(2):
            child.send_signal(signal.SIGINT)
            time.sleep(0.1)
        assert [said(child), said(child)] == ["abandoned", "ended"]
    assert store.work.list("s")[0].attempts == 0


def test_what_a_killed_worker_had_is_taken_again(tmp_path: Path, store: Store) -> None:
    with worker(tmp_path / "store.db", 60, 60) as child:
        store.work.enqueue("s", "x")
        assert said(child) == "taken"
        child.kill()
        child.wait(WAIT_S)
    assert store.leases.break_("s", by="ops", reason="killed")
    with worker(tmp_path / "store.db", 5, 0) as child:
        assert [said(child), said(child)] == ["taken", "done"]
    assert [one.text for one in store.messages.history("s")] == ["did x"]
