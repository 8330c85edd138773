"""Whether an answer waits for the disk, and whether a store goes on after a flush that failed.

lose_a_flush       one flush fails and forgets its data, for every flush of the play
unflushed          acknowledgements whose log was not flushed, from what a disk wrote down
traced             the same of a real process on a real file, from what strace saw
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path
from random import Random

import msgspec

from ledgerstone.engines.sqlite.backend import open_sqlite
from ledgerstone.testing.faults.commits import commit_of
from ledgerstone.testing.faults.disk import Fault, Operation
from ledgerstone.testing.faults.storage import Stage, Tally, examine, lived, survivor

STRACE = "strace"
TRACE_WAIT_S = 120.0
ACK = "ledgerstone acknowledged"
LOG = "-wal"
STORE = "new/folder/store.db"
_MADE = re.compile(r'mkdir\("(?P<path>[^"]*)", \d+\) += 0')
_CALL = re.compile(r"(?P<call>\w+)\((?P<file>\d+(?:<[^>]*>)?)(?P<rest>.*)\)\s+= (?P<answer>-?\d+)")


def lose_a_flush(
    stage: Stage, random: Random, *, seeds: int, points: Iterable[int] | None = None
) -> Tally:
    """Let the n-th flush fail once, for every n; all commands after it are sent all the same.

    The store must stand as it said, both as the process left it and after a power cut that takes
    what the failed flush forgot. No command that was sent after it may be acknowledged.
    """
    tally = Tally()
    for at in points or count(1):
        with lived(stage, stage.make_disk(Fault("sync", at, "once"))) as life:
            if not life.disk.fired:
                break
            tally.points += 1
            tally.add(life.told)
            found = life.told.violations + late_answers(life.disk.log, stage.vital)
            for _ in range(seeds):
                found += survivor(stage, life, random.randrange(2**32), go_on=False)
                tally.images += 1
            found += examine(stage, life.folder, life.told)
            tally.violations += [f"{life.disk.fired}: {one}" for one in found]
    return tally


def late_answers(log: Iterable[Operation | str], vital: str = "") -> list[str]:
    """Commands that were sent after a flush had failed, and acknowledged.

    Only files whose name ends in `vital` count: a snapshot may fail, it is a cache.
    """
    failed, sent_since, late = False, False, 0
    for line in log:
        if isinstance(line, Operation):
            lost = line.kind == "sync" and not line.good and line.file.endswith(vital)
            failed = failed or lost
        elif line == "sent":
            sent_since = failed
        elif sent_since:
            late += 1
    return [f"poison: {late} commands were acknowledged after a failed flush"] if late else []


class Audit(msgspec.Struct):
    """How many acknowledgements were looked at, and which of them came too early."""

    acked: int = 0
    flushes: int = 0
    early: list[str] = []


def unflushed(log: Iterable[Operation | str], ending: str = LOG) -> Audit:
    """Every acknowledgement of a write, with the log's last write before it and its flush.

    The log is every file whose name has this ending. Of commands that were sent together one may
    be acknowledged while the writer is already at its next task: for them a flush of what was
    written since they were sent is enough.
    """
    audit, lines = Audit(), list(log)
    starts = [n for n, line in enumerate(lines) if line == "sent"]
    for first, beyond in zip([0, *starts], [*starts, len(lines)], strict=True):
        _look(audit, lines[first:beyond], ending)
    return audit


def _look(audit: Audit, lines: list[Operation | str], ending: str) -> None:
    """What happened from one sending to the next."""
    alone = sum(line == "acked" for line in lines) == 1
    dirty = wrote = flushed = False
    for line in lines:
        if isinstance(line, Operation):
            if not line.file.endswith(ending) or not line.good:
                continue
            if line.kind == "write":
                dirty = wrote = True
            elif line.kind == "sync":
                dirty, flushed = False, wrote
                audit.flushes += 1
        elif line != "sent" and wrote:
            audit.acked += 1
            if dirty if alone else not flushed:
                audit.early.append(f"acknowledgement {audit.acked} came before the flush")


def can_trace() -> bool:
    """Whether this machine has strace and lets us use it."""
    if shutil.which(STRACE) is None:
        return False
    tried = subprocess.run(
        [STRACE, "-e", "trace=none", sys.executable, "-c", ""], capture_output=True, check=False
    )
    return tried.returncode == 0


def traced(folder: Path, commits: int, durability: str) -> str:
    """Commit so often in a process of its own; answers its system calls, as strace tells them."""
    trace = folder / "trace"
    code = f"from {__name__} import commit_aloud; commit_aloud(*__import__('sys').argv[1:])"
    child = [sys.executable, "-c", code, str(folder / STORE), str(commits), durability]
    calls = "trace=mkdir,write,pwrite64,fsync,fdatasync"
    subprocess.run(
        [STRACE, "-f", "-y", "-s", "64", "-e", calls, "-o", str(trace), *child],
        check=True,
        stderr=subprocess.DEVNULL,
        timeout=TRACE_WAIT_S,
    )
    return trace.read_text("utf-8", "replace")


def unnamed(trace: str) -> Audit:
    """Each folder that was made must be flushed into the one above it before the first answer."""
    audit, waiting = Audit(), {}
    for line in trace.splitlines():
        made = _MADE.search(line)
        if made is not None:
            waiting[made["path"]] = str(Path(made["path"]).parent)
            audit.acked += 1
        elif "sync(" in line:
            audit.flushes += 1
            waiting = {path: up for path, up in waiting.items() if f"<{up}>" not in line}
        elif ACK in line:
            break
    audit.early = [f"{path} was never flushed into {up}" for path, up in waiting.items()]
    return audit


def as_log(trace: str) -> Iterator[Operation | str]:
    """The system calls as a disk would have written them down."""
    yield "sent"
    for line in trace.splitlines():
        call = _CALL.search(line)
        if call is None:
            continue
        name = call["file"].partition("<")[2].rstrip(">")
        good = int(call["answer"]) >= 0
        if call["call"] in ("fsync", "fdatasync"):
            yield Operation("sync", name, good)
        elif ACK in call["rest"]:
            yield "acked"
            yield "sent"
        else:
            yield Operation("write", name, good)


def commit_aloud(path: str, commits: str, durability: str) -> None:
    """The traced child: say after each answer that it came."""
    backend = open_sqlite(path, durability=durability)
    for n in range(int(commits)):
        backend.write(commit_of("traced", f"t{n}", "hello", "again"))
        os.write(2, f"{ACK} {n}\n".encode())
    backend.close()
