"""`ledgerstone restored` asks the person at the terminal, before it opens anything."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ledgerstone import Store, user
from tests.cli.test_reading import contents

PROGRAM = "import sys; from ledgerstone.cli.app import run; sys.exit(run(sys.argv[1:]))"
KILLED = """
import os, signal, sys
from ledgerstone import Store, user
store = Store.open(sys.argv[1])
for text in ("one", "two"):
    store.messages.append("trip", user(text), create=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def at_a_terminal(answer: str, *words: str) -> tuple[int, str]:
    """Run the program with a terminal of its own, and type the answer."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *words], stdin=theirs, stdout=theirs, stderr=theirs
    ) as process:
        os.close(theirs)
        os.write(ours, answer.encode())
        said = b""
        while piece := _read(ours):
            said += piece
    os.close(ours)
    return process.returncode, said.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 4096)
    except OSError:  # How a terminal says that the other side is gone.
        return b""


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """A store with a lease that somebody holds."""
    path = tmp_path / "agent.db"
    with Store.open(path) as store:
        store.messages.append("trip", user("hello"), create=True)
        assert store.leases.take("trip", owner="ann", ttl_s=3600) is not None
    return path


@pytest.fixture
def without_log(tmp_path: Path) -> Path:
    """A store that misses its log after a kill."""
    path = tmp_path / "agent.db"
    done = subprocess.run([sys.executable, "-c", KILLED, path], timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL
    (tmp_path / "agent.db-wal").unlink()
    return path


def is_held(path: Path) -> bool:
    with Store.open(path, read_only=True) as store:
        head = store.sessions.head("trip")
        assert head is not None
        return head.lease is not None


@pytest.mark.parametrize("answer", ["n\n", "\n"], ids=["no", "nothing"])
def test_a_no_changes_nothing(held: Path, answer: str) -> None:
    before = contents(held.parent)
    code, said = at_a_terminal(answer, "restored", "--store", str(held))
    assert code == 2
    assert "End all leases of" in said
    assert "nothing was done" in said
    assert contents(held.parent) == before
    assert is_held(held)


def test_a_yes_ends_the_leases(held: Path) -> None:
    code, said = at_a_terminal("y\n", "restored", "--store", str(held))
    assert code == 0
    assert "fences lifted: 1 session of 1 tenant" in said
    assert not is_held(held)


def test_with_yes_nobody_is_asked(held: Path) -> None:
    code, said = at_a_terminal("", "restored", "--store", str(held), "--yes")
    assert code == 0
    assert "?" not in said
    assert not is_held(held)


def test_a_no_to_a_loss_gives_up_nothing(without_log: Path) -> None:
    before = contents(without_log.parent)
    words = ["restored", "--store", str(without_log), "--accept-loss"]
    code, said = at_a_terminal("n\n", *words)
    assert code == 2
    assert "give up" in said
    assert contents(without_log.parent) == before
    piped = subprocess.run(
        [sys.executable, "-c", PROGRAM, *words], input=b"", capture_output=True, check=False
    )
    assert piped.returncode == 2
    assert b"--yes" in piped.stderr
    assert contents(without_log.parent) == before


@pytest.mark.parametrize(("answer", "more"), [("y\n", []), ("", ["--yes"])], ids=["y", "--yes"])
def test_a_loss_that_was_accepted(without_log: Path, answer: str, more: list[str]) -> None:
    words = ["restored", "--store", str(without_log)]
    code, said = at_a_terminal("y\n", *words)
    assert code != 0, said
    code, said = at_a_terminal(answer, *words, "--accept-loss", *more)
    assert code == 0, said
    with Store.open(without_log) as store:
        assert store.admin.verify().ok
