"""The parent's end of a contender's process."""

from __future__ import annotations

import os
import select
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from bench import wire
from bench.contender import Entry
from bench.wire import Answer, Ask

ANSWER_S = 300.0
LEAVE_S = 30.0
LOG_CHARS = 400
ROOT = Path(__file__).resolve().parent.parent

# Nothing here may call home or look for a service.
QUIET = {
    "AGNO_TELEMETRY": "false",
    "AGNO_LOG_LEVEL": "ERROR",
    "DO_NOT_TRACK": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "LANGSMITH_TRACING": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}


class ContenderFailed(Exception):
    """A contender said no, or its process ended."""


def environment() -> dict[str, str]:
    """Ours, with every telemetry switched off and this package to be found.

    Byte code is kept, as that of an installed package is; otherwise a fresh interpreter would
    compile us again each time, and the peers, which pip has compiled, not.
    """
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    found = {**os.environ, **QUIET, "PYTHONPATH": os.pathsep.join(paths)}
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


class Remote:
    """One contender on one file, in its own process."""

    def __init__(self, entry: Entry, path: Path, seed: int) -> None:
        self.entry = entry
        self.path = path
        self.log = path.with_suffix(f".{os.getpid()}.log")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "bench.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment(),
                bufsize=0,
            )
        self._rest = b""
        self.tell(wire.Start(entry, str(path), seed))

    def ask(self, ask: Ask) -> Answer:
        self.tell(ask)
        return self.hear()

    def tell(self, ask: Ask) -> None:
        """Without waiting: several processes can be set to work at once."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(wire.encode(ask) + b"\n")
        except BrokenPipeError:
            raise ContenderFailed(self._why("its process ended")) from None

    def hear(self, within_s: float = ANSWER_S) -> Answer:
        answer = wire.decode_answer(self._line(within_s))
        if answer.failure is not None:
            raise ContenderFailed(f"{self.entry.title}: {answer.failure}")
        return answer

    def leave(self) -> None:
        """Close the store, then the process; whoever does not listen is killed."""
        try:
            if self.process.poll() is None:
                self.tell(wire.Leave())
                self.process.wait(LEAVE_S)
        except (ContenderFailed, subprocess.TimeoutExpired):
            self.process.kill()
            self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _line(self, within_s: float) -> bytes:
        assert self.process.stdout is not None
        pieces = [self._rest]
        while b"\n" not in pieces[-1]:
            ready, _, _ = select.select([self.process.stdout], [], [], within_s)
            if not ready:
                self.process.kill()
                raise ContenderFailed(self._why(f"no answer within {within_s:.0f} s"))
            piece = os.read(self.process.stdout.fileno(), 1 << 20)
            if not piece:
                raise ContenderFailed(self._why("its process ended"))
            pieces.append(piece)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line

    def _why(self, what: str) -> str:
        said = self.log.read_text(encoding="utf-8", errors="replace").strip()
        return f"{self.entry.title}: {what}; {said[-LOG_CHARS:]}"


def leave_all(remotes: Sequence[Remote]) -> None:
    for remote in remotes:
        remote.leave()
