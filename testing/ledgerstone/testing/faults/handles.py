"""Several handles on one place in one process, while others of them come and go.

POSIX locks belong to a process: whoever closes a descriptor of a file drops all locks that the
process has on it. So the store is written through two handles, read through both, and opened and
closed again and again beside them, while another process writes as well and closes as well.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import closing

import msgspec

from ledgerstone.commands.sessions import GetHead
from ledgerstone.commands.turns import ListTurns
from ledgerstone.ports.backend import Backend
from ledgerstone.testing.faults.commits import TENANT, commit_of
from ledgerstone.testing.faults.histories import read_back
from ledgerstone.testing.faults.processes import Child, Say

WRITERS = 4
READERS = 2
NEIGHBOUR_TURNS = 5
CHILD_WAIT_S = 60.0
SHARED = "shared"
TURNS_MAX = 1_000_000

Make = Callable[[], Backend]


class Busy(msgspec.Struct):
    """What was done meanwhile, and every promise that was broken."""

    acked: list[str] = []
    reads: int = 0
    visits: int = 0
    neighbours: int = 0
    violations: list[str] = []


class Household:
    """One process with two handles and everything that uses them."""

    def __init__(self, make: Make, visit: Callable[[], None], turns: int) -> None:
        self._make = make
        self._visit = visit
        self._turns = turns
        self._handles = [make(), make()]
        self._done = threading.Event()
        self.busy = Busy()

    def run(self) -> Busy:
        """Write, read and visit at the same time; then judge what a new handle finds."""
        self._handles[0].write(commit_of(SHARED, "first", "x"))
        writers = [self._thread(self._write, n) for n in range(WRITERS)]
        others = [self._thread(self._read, n) for n in range(READERS)]
        others += [self._thread(self._open_and_close, 0), self._thread(self._neighbours, 0)]
        for thread in writers:
            thread.join()
        self._done.set()
        for thread in others:
            thread.join()
        for handle in self._handles:
            handle.close()
        self.busy.violations += self._judge()
        return self.busy

    def _thread(self, work: Callable[[int], None], n: int) -> threading.Thread:
        def live() -> None:
            try:
                work(n)
            except Exception as error:
                text = f"{work.__name__} {n}: {type(error).__name__}: {error}"
                self.busy.violations.append(text)

        thread = threading.Thread(target=live, daemon=True)
        thread.start()
        return thread

    def _write(self, n: int) -> None:
        for k in range(self._turns):
            name = f"ours {n}.{k}"
            self._handles[(n + k) % 2].write(commit_of(SHARED, name, "x", "y"))
            self.busy.acked.append(name)

    def _read(self, n: int) -> None:
        """Each read sees whole turns, and never fewer of them than the one before."""
        last = 0
        while not self._done.is_set():
            head, turns = self._handles[n % 2].read(
                [
                    GetHead(tenant=TENANT, id=SHARED),
                    ListTurns(tenant=TENANT, session=SHARED, after_revision=last, limit=TURNS_MAX),
                ]
            )
            if head.revision < last or len(turns) != head.revision - last:
                text = f"reader {n}: {len(turns)} turns up to {head.revision} after {last}"
                self.busy.violations.append(text)
            last = head.revision
            self.busy.reads += 1

    def _open_and_close(self, n: int) -> None:
        while not self._done.is_set():
            self._visit()
            self.busy.visits += 1

    def _neighbours(self, n: int) -> None:
        """Other processes that open the place, write a little and close it, one after the other."""
        while not self._done.is_set():
            child = Child(write_and_close, self._make, self.busy.neighbours)
            try:
                self.busy.acked += [data.decode() for data in child.hear(CHILD_WAIT_S)]
            finally:
                child.kill()
            self.busy.neighbours += 1

    def _judge(self) -> Iterator[str]:
        with closing(self._make()) as backend:
            found = read_back(backend, TENANT, SHARED)
        names = {turn.turn for turn in found.turns}
        for name in self.busy.acked:
            if name not in names:
                yield f"{name} was acknowledged and is not there"
        yield from (f"{defect.kind} {defect.where} {defect.detail}" for defect in found.defects)
        if [turn.revision for turn in found.turns] != list(range(1, found.revision + 1)):
            yield f"{len(found.turns)} turns at revision {found.revision}"


def write_and_close(say: Say, make: Make, number: int) -> None:
    """The life of a neighbour."""
    backend = make()
    for n in range(NEIGHBOUR_TURNS):
        name = f"neighbour {number}.{n}"
        backend.write(commit_of(SHARED, name, "x"))
        say(name.encode())
    backend.close()
