"""A fork waits for imports of other threads: its child would wait for them forever."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import importlib, os, signal, sys, threading, time
from ledgerstone import lazy_imports
lazy_imports.WAITS_MAX = int(sys.argv[1])
begun = threading.Event()
sys.modules["begun"] = begun
thread = threading.Thread(target=lazy_imports.lazy_import, args=("slow",))
thread.start()
begun.wait()
child = os.fork()
if child == 0:
    signal.alarm(5)
    lazy_imports.lazy_import("slow")
    os._exit(0)
thread.join()
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
SLOW = "import begun, time\nbegun.set()\ntime.sleep(1)\n"


def child_of(folder: Path, waits: int) -> int:
    """How the child ended: 0, or the signal that ended its waiting, below 0."""
    (folder / "slow.py").write_text(SLOW, "utf-8")
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(waits)],
        cwd=folder, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return int(done.stdout)


def test_the_child_of_a_fork_can_import_what_another_thread_was_importing(tmp_path: Path) -> None:
    assert child_of(tmp_path, waits=100) == 0


@pytest.mark.slow
def test_control_without_waiting_the_child_hangs(tmp_path: Path) -> None:
    assert child_of(tmp_path, waits=0) < 0
