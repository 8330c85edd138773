"""The processes of a server that a test started: ending them, and not outliving the test."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
from pathlib import Path

# Waits for the end of its input. A word means that all is well; the end of it without a word means
# that the test process is gone, so the server goes as well, with its folder and the one segment of
# shared memory that a killed server leaves behind.
_WATCH = """
read -r word && exit 0
segment=$(sed -n '7s/.* //p' "$2/data/postmaster.pid" 2>/dev/null)
kill -9 "$1" 2>/dev/null
for _ in 1 2 3 4 5; do sleep 0.2; rm -rf -- "$2" 2>/dev/null && break; done
[ -z "$segment" ] || ipcrm -m "$segment" 2>/dev/null
"""


class Watcher:
    """A small process that ends the server when this process dies without doing so."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _WATCH, "watcher", str(pid), str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def dismiss(self) -> None:
        with contextlib.suppress(OSError):
            self._process.communicate(b"done\n", timeout=10.0)


def kill_family(pid: int) -> None:
    """kill -9 of a process and its children; it is stopped first, so that it makes no new ones."""
    send(pid, signal.SIGSTOP)
    for child in children(pid):
        send(child, signal.SIGKILL)
    send(pid, signal.SIGKILL)


def send(pid: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def lives(pid: int) -> bool:
    """Whether a process runs; one that is dead and waits to be asked for its status does not."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return True


def children(pid: int) -> list[int]:
    """The direct children of a process."""
    if Path("/proc/self/stat").exists():
        return [child for child, parent in _from_proc() if parent == pid]
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = (line.split() for line in listing.splitlines())
    return [int(child) for child, parent in pairs if int(parent) == pid]


def _from_proc() -> list[tuple[int, int]]:
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The name in brackets may hold anything, also spaces and brackets.
            after = path.read_text("utf-8", "replace").rpartition(")")[2].split()
            found.append((int(path.parent.name), int(after[1])))
    return found


def forget_segment(data: Path) -> None:
    """What a killed server cannot give back itself: the one segment that guards its folder."""
    with contextlib.suppress(OSError, IndexError):
        line = (data / "postmaster.pid").read_text().splitlines()[6]
        tool = shutil.which("ipcrm")
        if tool:
            subprocess.run([tool, "-m", line.split()[1]], capture_output=True, check=False)
