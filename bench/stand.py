"""The stand: every contender on its own file of the same history, each in its own process."""

from __future__ import annotations

import importlib.util
import shutil
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from bench import entries, peers, wire
from bench.contender import Entry, History
from bench.machine import Machine
from bench.remote import ContenderFailed, Remote, leave_all
from bench.sizes import Sizes
from bench.work import Work

# Many shallow sessions and some deep ones: the lone commits of a run then add little to each.
SHALLOW_FROM = 1
DEEP_FROM = 101
READ = 201
BUSY_FROM = 301
FRESH_FROM = 10_000

SQLITE_WAL = 2
WRITE_VERSION_BYTE = 18


class Stand:
    known_peers: tuple[Entry, ...] = peers.PEERS
    ours: Entry = entries.OURS

    def __init__(self, directory: Path, seed: int, sizes: Sizes, *, with_peers: bool) -> None:
        self.directory = directory
        self.seed = seed
        self.sizes = sizes
        self.with_peers = with_peers
        self.work = Work(seed)
        self.notes: list[str] = []
        self.remotes: dict[str, Remote] = {}
        self.bytes_per_turn: dict[str, float] = {}
        self.has_ours = installed(self.ours)
        if not self.has_ours:
            self.notes.append("the floors only: ledgerstone is not installed")
        self.peers = list(self._installed_peers()) if with_peers else []
        self._fresh = FRESH_FROM
        self._given = 0
        self._built = False
        self.building = False

    # --- who is there

    @property
    def peers_there(self) -> list[Entry]:
        """The peers that started and have not failed since."""
        return [entry for entry in self.peers if entry.key in self.remotes]

    def has_deep(self, entry: Entry) -> bool:
        """In a quick run the slow peers have no deep sessions: filling them takes too long."""
        return entry.kind != "peer" or not entry.slow or self.sizes.slow_peers_deep

    def drop(self, entry: Entry, error: Exception) -> None:
        """Go on without a peer that failed, and say so; without a floor there is no bench."""
        if entry.kind != "peer":
            raise error
        self.notes.append(f"{entry.title} left out: {error}")
        remote = self.remotes.pop(entry.key, None)
        if remote is not None:
            remote.leave()

    # --- the sessions

    @property
    def busy(self) -> list[int]:
        return list(range(BUSY_FROM, BUSY_FROM + self.sizes.busy))

    def fresh(self, count: int) -> list[int]:
        """Numbers of sessions that nobody has yet."""
        self._fresh += count
        return list(range(self._fresh - count, self._fresh))

    def numbers(self, entry: Entry, depth: int, count: int) -> list[int]:
        """Sessions that hold `depth` turns, the next ones in turn."""
        pool = [number for number, held in self.histories(entry) if held == depth]
        pool = [number for number in pool if number != READ]
        self._given += count
        return [pool[place % len(pool)] for place in range(self._given - count, self._given)]

    def histories(self, entry: Entry) -> list[History]:
        sizes = self.sizes
        shallow, deep = sizes.shallow, range(DEEP_FROM, DEEP_FROM + sizes.deep)
        if entry.kind == "peer":
            shallow, deep = sizes.peer_shallow, deep[:1]
        found = [(SHALLOW_FROM + place, sizes.shallow_depth) for place in range(shallow)]
        if self.has_deep(entry):
            found += [(number, sizes.deep_depth) for number in (*deep, READ)]
        return [*found, *((number, 0) for number in self.busy)]

    # --- building

    def build(self) -> None:
        """Fill every file, once; floors and faces of one kind get copies of the same file."""
        if self._built:
            return
        self._built = self.building = True
        self.say("building the histories")
        start = time.monotonic()
        bases = [entries.FLOOR, *([entries.OURS_ASYNC] if self.has_ours else [])]
        filled = self._fill({entry: f"{entry.key}-base" for entry in bases})
        leave_all(list(filled.values()))
        for entry in bases:
            self._weigh(entry, f"{entry.key}-base")
        floors = (entries.FLOOR, entries.FLOOR_AGAIN, entries.GROUP, entries.GROUP_AGAIN)
        self._start_copies(floors, "floor-base")
        if self.has_ours:
            self._start_copies((entries.OURS, entries.OURS_ASYNC), "ours-async-base")
        for entry, remote in self._fill({entry: entry.key for entry in self.peers}).items():
            self.remotes[entry.key] = remote
            self._weigh(entry, entry.key)
        self.building = False
        self.notes.append(f"histories built in {time.monotonic() - start:.0f} s")

    def start(self, entry: Entry, name: str) -> Remote:
        """A further process on a file of this name; whoever starts it lets it leave."""
        return self.start_all([(entry, name)])[0]

    def start_all(self, wanted: Sequence[tuple[Entry, str]]) -> list[Remote]:
        """Several at once: an interpreter takes its time to start."""
        remotes = [Remote(entry, self.path(name), self.seed) for entry, name in wanted]
        try:
            for remote in remotes:
                remote.hear()
        except BaseException:
            leave_all(remotes)
            raise
        return remotes

    def close(self) -> None:
        leave_all(list(self.remotes.values()))
        self.remotes.clear()

    def path(self, name: str) -> Path:
        return self.directory / f"{name}.db"

    def size_bytes(self, name: str) -> int:
        """Everything the store keeps on disk under this name, its log and side files too."""
        return sum(path.stat().st_size for path in self.directory.glob(f"{name}.db*"))

    def journal(self, name: str) -> str:
        """The journal mode that the file itself names."""
        with self.path(name).open("rb") as file:
            header = file.read(WRITE_VERSION_BYTE + 1)
        return "WAL" if header[WRITE_VERSION_BYTE] == SQLITE_WAL else "rollback journal"

    def peer_notes(self, machine: Machine) -> dict[str, str]:
        """How each peer keeps its file, and what it does not write."""
        synchronous = f"{machine.standard_synchronous} (the default)"
        return {
            entry.title: f"{self.journal(entry.key)}, synchronous={synchronous}; {entry.note}"
            for entry in self.peers_there
        }

    def copy(self, source: str, target: str) -> Path:
        for path in self.directory.glob(f"{source}.db*"):
            shutil.copyfile(path, self.directory / path.name.replace(source, target, 1))
        return self.path(target)

    def say(self, what: str) -> None:
        print(f"{what} ...", file=sys.stderr, flush=True)

    def _fill(self, wanted: dict[Entry, str]) -> dict[Entry, Remote]:
        """Fill files side by side, each in its process, which is left open on a closed file."""
        remotes = {
            entry: Remote(entry, self.path(name), self.seed) for entry, name in wanted.items()
        }
        for ask in (None, "fill", "reopen"):
            for entry, remote in list(remotes.items()):
                try:
                    if ask == "fill":
                        remote.tell(wire.Fill(self.histories(entry)))
                    elif ask == "reopen":
                        remote.tell(wire.Reopen())
                except ContenderFailed as error:
                    self._lose(remotes, entry, error)
            for entry, remote in list(remotes.items()):
                try:
                    remote.hear()
                except ContenderFailed as error:
                    self._lose(remotes, entry, error)
            if ask is None:
                self._opened([wanted[entry] for entry in remotes])
        return remotes

    def _opened(self, names: Sequence[str]) -> None:
        """Stores of these names were just made and hold nothing yet."""

    def _lose(self, remotes: dict[Entry, Remote], entry: Entry, error: ContenderFailed) -> None:
        remotes.pop(entry).leave()
        self.drop(entry, error)

    def _weigh(self, entry: Entry, name: str) -> None:
        turns = sum(depth for _, depth in self.histories(entry))
        self.bytes_per_turn[entry.key] = self.size_bytes(name) / turns

    def _start_copies(self, wanted: Sequence[Entry], base: str) -> None:
        for entry in wanted:
            self.copy(base, entry.key)
        for remote in self.start_all([(entry, entry.key) for entry in wanted]):
            self.remotes[remote.entry.key] = remote

    def _installed_peers(self) -> Iterable[Entry]:
        missing = [entry.title for entry in self.known_peers if not installed(entry)]
        if missing:
            self.notes.append(f"not installed, left out (`make bench` does): {', '.join(missing)}")
        return [entry for entry in self.known_peers if installed(entry)]


def installed(entry: Entry) -> bool:
    try:
        return not entry.needs or importlib.util.find_spec(entry.needs) is not None
    except ModuleNotFoundError:
        return False
